//! `--help` of every command, compared with the files in `help/`.
//!
//! With `OUTBOARD_UPDATE_HELP=1` the files are rewritten.

use std::path::{Path, PathBuf};

use super::{answer, outboard};

/// Those of every build: one with volumes on object stores has [`BUCKET`] besides.
const COMMANDS: &[&[&str]] = &[
    &[],
    &["serve"],
    &["netboot"],
    &["attach"],
    &["detach"],
    &["refresh"],
    &["status"],
    &["reload"],
    &["export"],
    &["export", "list"],
    &["export", "add"],
    &["export", "remove"],
    &["export", "resize"],
    &["client"],
    &["client", "list"],
    &["client", "disconnect"],
    &["client", "overlays"],
    &["client", "drop-overlay"],
    &["array"],
    &["array", "create"],
    &["array", "status"],
    &["array", "add"],
    &["array", "fail"],
    &["array", "remove"],
    &["array", "replace"],
    &["array", "re-add"],
    &["array", "scrub"],
    &["array", "size"],
    &["array", "grow"],
    &["array", "wait"],
    &["array", "stop"],
    &["volume"],
    &["volume", "create"],
    &["volume", "extend"],
    &["volume", "move"],
    &["volume", "reduce"],
    &["volume", "remove"],
    &["volume", "rename"],
    &["volume", "add-disk"],
    &["volume", "remove-disk"],
    &["volume", "snapshot"],
    &["volume", "snapshot", "create"],
    &["volume", "snapshot", "list"],
    &["volume", "snapshot", "merge"],
    &["volume", "snapshot", "remove"],
    &["volume", "snapshot", "extend"],
    &["volume", "status"],
    &["volume", "check"],
    &["volume", "repair"],
    &["completions"],
    &["manual"],
    &["overlay"],
    &["overlay", "status"],
    &["overlay", "commit"],
    &["inspect"],
    &["ls"],
    &["copy"],
    &["disk"],
    &["disk", "create"],
    &["disk", "grow"],
    &["tls"],
    &["tls", "init"],
    &["tls", "client"],
    &["lab"],
    &["lab", "run"],
    &["lab", "list"],
    &["lab", "report"],
    &["lab", "show"],
    &["lab", "compare"],
    &["lab", "history"],
    &["lab", "export"],
    &["lab", "import"],
    &["agent"],
    &["doctor"],
];

/// The commands of volumes on object stores.
const BUCKET: &str = "bucket";

/// The help text of a command, without the line that a build with volumes on object stores adds.
fn help_text(command: &[&str]) -> String {
    let arguments = [command, &["--help"]].concat();
    let text = answer(Path::new("."), &arguments);
    let lines = text.split_inclusive('\n');
    let is_added =
        |line: &&str| cfg!(feature = "bucket") && line.split_whitespace().next() == Some(BUCKET);
    lines.filter(|line| !is_added(line)).collect()
}

fn file(command: &[&str]) -> PathBuf {
    let name = if command.is_empty() {
        "outboard".to_owned()
    } else {
        command.join("-")
    };
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/cli/help")
        .join(format!("{name}.txt"))
}

#[test]
fn every_help_text_is_the_one_that_was_agreed_on() {
    let update = std::env::var_os("OUTBOARD_UPDATE_HELP").is_some();
    for command in COMMANDS {
        let text = help_text(command);
        let file = file(command);
        if update {
            std::fs::write(&file, &text).expect("the sources can be written");
        }
        let agreed = std::fs::read_to_string(&file).unwrap_or_default();
        assert!(
            text == agreed,
            "{command:?} says\n{text}\nbut {} says\n{agreed}\nIf it is meant, run with OUTBOARD_UPDATE_HELP=1",
            file.display()
        );
    }
}

#[test]
fn every_command_that_is_listed_has_a_help_text_here() {
    for command in COMMANDS {
        let text = help_text(command);
        let Some((_, listed)) = text.split_once("\nCommands:\n") else {
            continue;
        };
        let rows = listed.lines().take_while(|line| !line.is_empty());
        for row in rows.filter_map(|row| row.split_whitespace().next()) {
            let path: Vec<&str> = command.iter().chain(&[row]).copied().collect();
            assert!(
                COMMANDS.contains(&path.as_slice()),
                "{path:?} is not compared"
            );
        }
    }
}

#[test]
fn the_version_is_printed() {
    let version = answer(Path::new("."), &["--version"]);
    assert_eq!(
        version,
        concat!("outboard ", env!("CARGO_PKG_VERSION"), "\n")
    );
}

#[test]
fn a_reader_that_went_away_is_no_failure() {
    let mut child = outboard(Path::new("."), &["--help"])
        .stdout(std::process::Stdio::piped())
        .spawn()
        .expect("the binary runs");
    drop(child.stdout.take());
    assert!(child.wait().expect("it is ours").success());
}
