//! The manual pages under mandoc(1) and man(1), and completions in real bash, zsh and fish.
//!
//! The shells have a folder with our binary first in their PATH, as a user has after the installation, and know nothing
//! else of it but the script that it prints.
#![expect(clippy::unwrap_used, reason = "helpers of tests may panic as tests do")]

use std::path::Path;
use std::process::Command;

use outboard_tests::image::Folder;
use outboard_tests::said::{outboard, program, run};
use outboard_tests::server::Server;
use testkit::requires;

/// A folder with the scripts of all shells.
fn scripts() -> Folder {
    let folder = Folder::new();
    for shell in ["bash", "zsh", "fish"] {
        let script = run(&mut outboard(&["completions", shell])).ok();
        std::fs::write(folder.at(shell), script).unwrap();
    }
    folder
}

/// `shell` with our binary in its PATH.
fn shell(folder: &Folder, shell: &str, args: &[&str]) -> Command {
    let binary = outboard(&[]);
    let ours = Path::new(binary.get_program()).parent().unwrap();
    let path = format!("{}:/usr/bin:/bin", ours.display());
    let mut command = Command::new(shell);
    command
        .args(args)
        .env("PATH", path)
        .env("HOME", folder.path());
    for (name, value) in binary.get_envs() {
        command.env(name, value.unwrap_or_default());
    }
    command
}

/// What bash offers behind `words`, of which the last is not complete.
fn bash(folder: &Folder, words: &str) -> Vec<String> {
    let script = r#"
        source "$1"; shift
        COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMP_TYPE=9
        COMP_LINE="$*"; COMP_POINT=${#COMP_LINE}
        _clap_complete_outboard "$1" "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
        printf '%s\n' "${COMPREPLY[@]}"
    "#;
    let scripts = folder.at("bash");
    let mut args = vec!["--norc", "-c", script, "bash", &scripts];
    args.extend(words.split(' '));
    let printed = run(&mut shell(folder, "bash", &args)).ok();
    printed
        .lines()
        .map(|line| line.trim_end().to_owned())
        .collect()
}

/// What fish offers.
fn fish(folder: &Folder, words: &str) -> Vec<String> {
    let script = format!("source {}; complete -C '{words}'", folder.at("fish"));
    let printed = run(&mut shell(folder, "fish", &["--no-config", "-c", &script])).ok();
    let value = |line: &str| line.split('\t').next().unwrap_or(line).to_owned();
    printed.lines().map(value).collect()
}

#[test]
fn bash_and_fish_complete_commands_options_and_plans() {
    if !requires::all(&[requires::command("bash"), requires::command("fish")]) {
        return;
    }
    let folder = scripts();
    for offered in [bash, fish] {
        assert_eq!(offered(&folder, "outboard det"), ["detach"]);
        assert_eq!(offered(&folder, "outboard lab run qui"), ["quick"]);
        assert_eq!(offered(&folder, "outboard volume snapshot me"), ["merge"]);
        let options = offered(&folder, "outboard attach --mo");
        assert_eq!(options, ["--mount"]);
        let visible = offered(&folder, "outboard att");
        assert_eq!(visible, ["attach"], "not those that outboard starts itself");
    }
}

/// The shell starts the program, which queries the servers that run.
#[test]
fn exports_of_a_running_server_and_the_server_are_offered() {
    if !requires::all(&[requires::command("bash"), requires::command("fish")]) {
        return;
    }
    let folder = scripts();
    for shell in [bash, fish] {
        let mut server = Server::start(&["films=memory(1M)", "music=memory(1M)"]);
        let name = format!("serve-{}", server.process().id());
        let offered = shell(&folder, "outboard export resize fi");
        assert!(offered.contains(&"films".to_owned()), "{offered:?}");
        assert!(!offered.contains(&"music".to_owned()), "{offered:?}");
        let offered = shell(&folder, "outboard export remove fi");
        assert!(offered.contains(&"films".to_owned()), "{offered:?}");
        let offered = shell(&folder, "outboard export list --server ");
        assert!(offered.contains(&name), "{name}: {offered:?}");
        drop(server);
        let offered = shell(&folder, "outboard export resize fi");
        assert!(!offered.contains(&"films".to_owned()), "{offered:?}");
    }
}

/// zsh completes only on a terminal, which its module zpty makes.
#[test]
fn zsh_completes_a_plan_on_a_terminal() {
    if !requires::all(&[requires::command("zsh")]) {
        return;
    }
    let folder = scripts();
    let script = r#"
        zmodload zsh/zpty
        zpty z zsh -f -i
        zpty -w z "PS1=; autoload -U compinit; compinit -u -D; source $1; echo is-''ready"
        zpty -r -m z line '*is-ready*' || exit 3
        zpty -n -w z $'outboard lab run qui\t'
        zpty -r -m z line '*quick*' || exit 4
        zpty -d z
        print "$line"
    "#;
    let source = folder.at("zsh");
    let mut command = shell(&folder, "zsh", &["-f", "-c", script, "zsh", &source]);
    let printed = run(command.env("TERM", "dumb")).ok();
    assert!(printed.contains("quick"), "{printed}");
}

/// Pages without errors and warnings, but for the date that they do not have.
#[test]
fn manual_pages_pass_mandoc_and_are_shown_by_man() {
    if !requires::all(&[requires::command("mandoc"), requires::command("man")]) {
        return;
    }
    let folder = Folder::new();
    // Next to our binary: it adds the pages that are made of guides.
    let ours = outboard(&[]).get_program().to_owned();
    let xtask = Path::new(&ours).with_file_name("xtask");
    let pages = folder.at("man");
    let mut manual = Command::new(xtask);
    manual.args(["manual", &pages, "--binary"]).arg(&ours);
    run(&mut manual).ok();
    let mut names: Vec<String> = ["man1", "man5", "man7"]
        .iter()
        .flat_map(|section| std::fs::read_dir(format!("{pages}/{section}")).unwrap())
        .map(|entry| entry.unwrap().path().display().to_string())
        .collect();
    names.sort();
    assert!(names.len() > 60, "{names:?}");
    let args = ["-T", "lint", "-W", "warning"].into_iter();
    let args: Vec<&str> = args.chain(names.iter().map(String::as_str)).collect();
    let said = program("mandoc", &args);
    let complaints: Vec<&str> = said
        .stdout
        .lines()
        .chain(said.stderr.lines())
        .filter(|line| !line.contains("missing date"))
        .collect();
    assert!(complaints.is_empty(), "{complaints:#?}");
    let shown = |page: &str| {
        let page = format!("{pages}/{page}");
        let mut man = Command::new("man");
        run(man.args(["-l", &page]).env("MANWIDTH", "80")).ok()
    };
    for (page, wanted) in [
        (
            "man1/outboard-serve.1",
            ["outboard-serve - ", "--listen <WHERE>", "SEE ALSO"],
        ),
        (
            "man5/outboard.toml.5",
            ["OUTBOARD.TOML(5)", "on_event", "[[export]]"],
        ),
        (
            "man7/outboard-disks.7",
            ["outboard-disks - ", "throttle(DISK", "SYNTAX"],
        ),
        (
            "man7/outboard-formats.7",
            ["outboard-formats - ", "superblock", "ARRAYS"],
        ),
    ] {
        let shown = shown(page);
        for wanted in wanted {
            assert!(shown.contains(wanted), "{page}, {wanted}: {shown}");
        }
    }
}
