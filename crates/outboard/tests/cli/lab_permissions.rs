//! `lab` as a user who may not drop caches, not read every sensor and not write everywhere: what was not
//! possible is reported, and the results are marked.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use testkit::{UNMOUNT_OTHERS, requires};

use super::lab::plan;
use super::{answer, outboard};

/// A user that owns nothing but what is made for it here.
const NOBODY: u32 = 65_534;
const READ: &str = include_str!("../../../lab/src/fio/fixtures/random-read.json");

/// A folder of such a user's, and this program where that user may start it.
struct Ground {
    folder: tempfile::TempDir,
    binary: PathBuf,
}

impl Ground {
    /// None, with the reason printed, where no other user can be used.
    fn new(programs: &[&str]) -> Option<Self> {
        let mut needs = vec![requires::root(), requires::command("setpriv")];
        needs.extend(programs.iter().map(|program| requires::command(program)));
        if !requires::all(&needs) {
            return None;
        }
        let folder = tempfile::tempdir().expect("a folder");
        let own = |path: &Path| chown(path, Some(NOBODY), Some(NOBODY)).expect("we may");
        fs::create_dir(folder.path().join("base")).expect("a folder");
        own(&folder.path().join("base"));
        own(folder.path());
        let built = PathBuf::from(env!("CARGO_BIN_EXE_outboard"));
        let mut ground = Self {
            folder,
            binary: built.clone(),
        };
        // The folder it was built in may be closed to others.
        let starts = ground.as_unprivileged(&["--version"]).output();
        if !starts.is_ok_and(|output| output.status.success()) {
            ground.binary = ground.path().join("outboard");
            fs::copy(built, &ground.binary).expect("there is space for it");
        }
        Some(ground)
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.path().join(name), text).expect("a file");
    }

    /// The program and its arguments, for a command that goes before it.
    fn words(&self, arguments: &[&str]) -> Vec<String> {
        let user = ["--reuid", "--regid"].map(|id| format!("{id}={NOBODY}"));
        let mut words = vec!["setpriv".to_owned()];
        words.extend(user);
        words.push("--clear-groups".to_owned());
        words.push(self.binary.to_string_lossy().into_owned());
        words.extend(arguments.iter().map(|word| (*word).to_owned()));
        words
    }

    fn command(&self, words: &[String]) -> Command {
        let mut command = Command::new(&words[0]);
        let settings = outboard(self.path(), &[]);
        for (name, value) in settings.get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        command.args(&words[1..]).current_dir(self.path());
        command.stdin(Stdio::null());
        command
    }

    fn as_unprivileged(&self, arguments: &[&str]) -> Command {
        self.command(&self.words(arguments))
    }

    fn run(&self, arguments: &[&str]) -> Output {
        self.as_unprivileged(arguments).output().expect("it runs")
    }

    /// Its one line.
    #[track_caller]
    fn refused(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let line = said.lines().last().unwrap_or_default().to_owned();
        assert!(line.starts_with("outboard: "), "{said}");
        line
    }

    fn is_tidy(&self) {
        let left = fs::read_dir(self.path().join("base")).expect("the base");
        assert_eq!(left.count(), 0);
    }
}

fn json(output: &Output) -> Value {
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    serde_json::from_slice(&output.stdout).expect("JSON")
}

/// The texts of findings, each of which is one line.
fn findings(of: &Value) -> Vec<String> {
    let all = of["findings"].as_array().expect("findings");
    let texts = all.iter().map(|one| one["text"].as_str().expect("a text"));
    let texts: Vec<String> = texts.map(str::to_owned).collect();
    assert!(texts.iter().all(|text| !text.contains('\n')), "{texts:?}");
    texts
}

/// The first cell whose test has this name.
fn cell<'a>(run: &'a Value, name: &str) -> &'a Value {
    let tests = run["plan"]["workload"].as_array().expect("tests");
    let at = tests.iter().position(|test| test["name"] == name);
    let mut cells = run["cells"].as_array().expect("cells").iter();
    let found = cells.find(|cell| cell["workload"].as_u64() == at.map(|at| at as u64));
    found.unwrap_or_else(|| panic!("nothing of {name}"))
}

const TAR: &str = "\n[[workload]]\nname = \"tar\"\ntitle = \"tar of a tree\"\ntool = \"tar\"\nbytes_max = \"8M\"\n";

/// The interrupts are hidden as a hardened machine hides them, in a mount namespace of its own.
#[test]
fn a_user_that_may_not_drop_caches_gets_figures_with_marks_where_a_cache_may_have_answered() {
    let Some(ground) = Ground::new(&["fio", "tar", "unshare"]) else {
        return;
    };
    // Through the file again and again: sensors are read once a second.
    let text = plan().replace("runtime_ms = 300", "runtime_ms = 2500\ntime_based = true") + TAR;
    ground.write("p.toml", &text);
    let hidden = tempfile::NamedTempFile::new().expect("a file");
    let hide = "mount --bind \"$0\" /proc/interrupts && exec \"$@\"";
    let script = format!("{UNMOUNT_OTHERS}{hide}");
    let mut words: Vec<String> = ["unshare", "--mount", "sh", "-c", &script]
        .map(str::to_owned)
        .to_vec();
    words.push(hidden.path().to_string_lossy().into_owned());
    words.extend(ground.words(&["--json", "lab", "run", "p.toml", "base"]));
    let output = ground.command(&words).output().expect("it runs");
    let told = json(&output);
    let run = &told["run"];
    ground.is_tidy();

    // What could not be done is reported once, of the run.
    let said = findings(run);
    let about = |word: &str| said.iter().filter(|text| text.contains(word)).count();
    assert_eq!(about("page cache cannot be dropped"), 1, "{said:?}");
    assert_eq!(
        about("may not be read by this user: interrupts"),
        1,
        "{said:?}"
    );
    let samples = run["samples"].as_array().expect("samples");
    let of = |sensor: &str| samples.iter().any(|sample| sample["sensor"] == sensor);
    assert!(of("cpu"), "the other sensors are read");
    assert!(!of("interrupts"));

    // Of the test file nothing was in memory, which was looked at.
    let read = cell(run, "seq-read");
    assert!(read["outcome"]["fio"]["bytes"].as_u64() > Some(0), "{read}");
    let evidence = &read["evidence"];
    assert_eq!(evidence["dropped"]["dropped"], "file-only", "{evidence}");
    // That cannot be known of the tree.
    let tar = cell(run, "tar");
    let said = findings(tar);
    let marked = said.iter().any(|text| {
        text.starts_with("the page cache was not dropped") && text.contains("needs root")
    });
    assert!(marked, "{said:?}");

    let table = ground.run(&["lab", "report", "--output", "r.html"]);
    let table = String::from_utf8_lossy(&table.stdout).into_owned();
    for part in ["Note: this machine's page cache cannot", "interrupts"] {
        assert!(table.contains(part), "{part} is not in {table}");
    }
    assert!(ground.path().join("r.html").exists());
}

/// The same by root, who may do all that: no remark is made, so that the test above can fail.
#[test]
fn a_user_that_may_drop_caches_gets_no_remark_about_them() {
    if !requires::all(&[
        requires::root(),
        requires::command("fio"),
        requires::command("tar"),
    ]) {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("p.toml"), plan() + TAR).expect("a plan");
    let told = answer(folder.path(), &["--json", "lab", "run", "p.toml", "."]);
    let told: Value = serde_json::from_str(&told).expect("JSON");
    let run = &told["run"];
    let of_tar = findings(cell(run, "tar"));
    let said = [findings(run), of_tar].concat();
    let about = ["cannot be dropped", "was not dropped", "may not be read"];
    let said: Vec<_> = said
        .iter()
        .filter(|text| about.iter().any(|part| text.contains(part)))
        .collect();
    assert!(said.is_empty(), "{said:?}");
    // What it used itself is known, and is not the machine's.
    let tar = cell(run, "tar");
    let spent = tar["evidence"]["tool_cpu"].as_u64().expect("nanoseconds");
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get) as u64;
    let elapsed = tar["elapsed"].as_u64().expect("nanoseconds");
    assert!(spent <= elapsed * cores, "{spent} in {elapsed}");
}

#[test]
fn what_needs_root_is_left_out_of_a_plan_with_the_reason() {
    let Some(ground) = Ground::new(&["fio"]) else {
        return;
    };
    let output = ground.run(&["lab", "run", "layers", "base", "--dry-run"]);
    assert!(output.status.success(), "{output:?}");
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    let left_out = told.lines().filter(|line| line.contains("Left out: "));
    let reasons = left_out.filter(|line| line.contains("needs root")).count();
    assert!(reasons > 3, "{told}");
    ground.is_tidy();
}

#[test]
fn a_directory_that_may_not_be_written_is_named() {
    let Some(ground) = Ground::new(&["fio"]) else {
        return;
    };
    ground.write("p.toml", &plan());
    let closed = ground.path().join("closed");
    fs::create_dir(&closed).expect("a folder");
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o755)).expect("ours");
    let line = ground.refused(&["lab", "run", "p.toml", "closed"]);
    assert!(
        line.contains("cannot write to closed") && line.contains("you may write to"),
        "{line}"
    );
    assert_eq!(fs::read_dir(&closed).expect("a folder").count(), 0);
}

/// A user that may only read a store can show its runs, and cannot add one.
#[test]
fn a_store_that_may_only_be_read_is_read_and_takes_no_run() {
    let Some(ground) = Ground::new(&[]) else {
        return;
    };
    ground.write("p.toml", &plan());
    ground.write("r.json", READ);
    // Root's.
    let shared = tempfile::tempdir().expect("a folder");
    fs::set_permissions(shared.path(), fs::Permissions::from_mode(0o755)).expect("ours");
    let store = shared.path().join("lab.sqlite");
    let path = store.to_string_lossy();
    let path = path.as_ref();
    for _ in 0..2 {
        answer(ground.path(), &["lab", "import", "r.json", "--store", path]);
    }
    fs::set_permissions(&store, fs::Permissions::from_mode(0o444)).expect("ours");
    let before = fs::read(&store).expect("the store");
    for words in [
        &["list"][..],
        &["history"],
        &["compare", "1", "2"],
        &["export", "--csv"],
        &["report", "--output", "page.html"],
    ] {
        let output = ground.run(&[&["lab"], words, &["--store", path]].concat());
        assert!(output.status.success(), "{words:?}: {output:?}");
    }
    for words in [&["run", "p.toml", "base"][..], &["import", "r.json"]] {
        let line = ground.refused(&[&["lab"], words, &["--store", path]].concat());
        assert!(
            line.contains(path) && line.contains("readonly"),
            "{words:?}: {line}"
        );
    }
    ground.is_tidy();
    assert!(fs::read(&store).expect("the store") == before);
}
