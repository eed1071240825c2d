//! `lab show`, `compare`, `history`, `import`, `export` and `run --resume`: what a user types and reads.
//! What the figures mean is tested in the crate.

use std::fs;
use std::path::Path;

use testkit::requires;

use super::lab::plan;
use super::{answer, failure};

const READ: &str = include_str!("../../../lab/src/fio/fixtures/random-read.json");
const WRITE: &str = include_str!("../../../lab/src/fio/fixtures/sequential-write.json");

/// Two runs of imported files: the same read in both, and a write in the second.
fn imported() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("r.json"), READ).expect("a file");
    fs::write(folder.path().join("w.json"), WRITE).expect("a file");
    for files in [vec!["r.json", "r.json"], vec!["r.json", "w.json"]] {
        let words = [vec!["lab", "import", "--label", "card"], files].concat();
        let told = answer(folder.path(), &words);
        assert!(
            told.contains("imported") && told.contains("random read"),
            "{told}"
        );
    }
    folder
}

fn json(folder: &Path, words: &[&str]) -> serde_json::Value {
    serde_json::from_str(&answer(folder, words)).expect("JSON")
}

#[test]
fn a_plan_is_shown_as_it_was_written_and_can_be_run_from_a_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let shown = answer(folder.path(), &["lab", "show", "quick"]);
    assert_eq!(
        shown.trim_end(),
        include_str!("../../../lab/src/plan/quick.toml").trim_end()
    );
    fs::write(folder.path().join("mine.toml"), &shown).expect("a file");
    let told = answer(
        folder.path(),
        &["lab", "run", "mine.toml", ".", "--dry-run"],
    );
    assert!(told.contains("--rw=randread"), "{told}");
    let (_, told) = failure(folder.path(), &["lab", "show", "slow"]);
    assert!(told.contains("there is no plan named"), "{told}");
}

#[test]
fn a_list_says_what_plans_repeat_and_need() {
    let folder = tempfile::tempdir().expect("a folder");
    let listed = json(folder.path(), &["lab", "list", "--json"]);
    assert_eq!(listed["plans"][0]["needs"][0], "fio");
    let told = answer(folder.path(), &["lab", "list"]);
    assert!(told.contains("REPEATS") && told.contains("NEEDS"), "{told}");
}

#[test]
fn a_plan_with_targets_says_what_it_would_do_in_the_directory_given_and_what_it_would_leave_out() {
    let folder = tempfile::tempdir().expect("a folder");
    let targets = "[[target]]\nname = \"here\"\nkind = \"directory\"\npath = \".\"\n\
                   [[target]]\nname = \"gone\"\nkind = \"directory\"\npath = \"none\"\n";
    fs::write(folder.path().join("p.toml"), plan() + targets).expect("a plan");
    let told = answer(folder.path(), &["lab", "run", "p.toml", ".", "--dry-run"]);
    assert!(told.contains("on 1 target."), "{told}");
    assert!(told.contains("Left out: gone"), "{told}");
    let (_, told) = failure(
        folder.path(),
        &["lab", "run", "p.toml", ".", "--against", "/"],
    );
    assert!(
        told.contains("--against is for plans without targets of their own"),
        "{told}"
    );
    // Nothing is attached or formatted before that is reported.
    fs::write(folder.path().join("disk.img"), [0; 4096]).expect("a file");
    for dry in [&[][..], &["--dry-run"]] {
        let words = [
            "lab",
            "run",
            "p.toml",
            ".",
            "--against",
            "disk.img",
            "--mkfs",
            "ext4",
        ];
        let (status, told) = failure(folder.path(), &[&words[..], dry].concat());
        assert_eq!(status, Some(2), "{told}");
        assert!(told.contains("leave --against away"), "{told}");
    }
    let disk = fs::read(folder.path().join("disk.img")).expect("it is there");
    assert_eq!(disk, [0; 4096]);
}

#[test]
fn what_a_disk_on_the_command_line_is_composed_of_is_known_to_the_checks() {
    let needs = ["fio", "mkfs.ext4"].map(requires::command);
    let machine = [requires::root(), requires::fuse(), requires::loop_device()];
    if !requires::all(&[&needs[..], &machine[..]].concat()) {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    for (name, size) in [("a", (32 << 20) + 512), ("b", (32 << 20) - 512)] {
        let file = fs::File::create(folder.path().join(name)).expect("a new file");
        file.set_len(size).expect("a size");
    }
    fs::write(folder.path().join("p.toml"), plan()).expect("a plan");
    let disk = "throttle(linear(a, b), bytes=500M/s)";
    let words = ["lab", "run", "p.toml", disk, "--small", "--mkfs", "ext4"];
    answer(folder.path(), &words);
    let run = json(folder.path(), &["lab", "export"]);
    let findings = run["run"]["findings"].as_array().expect("findings");
    let mut texts = findings.iter().filter_map(|one| one["text"].as_str());
    let off =
        texts.any(|text| text.contains("the segment on b (32.0 MiB from sector 65\u{202f}537 on)"));
    assert!(off, "{findings:?}");
    let ceilings = &run["run"]["manifest"]["targets"][0]["ceilings"];
    let ceilings = ceilings.as_array().expect("ceilings");
    let throttle = |one: &serde_json::Value| one["source"]["kind"] == "throttle";
    let throttle = ceilings.iter().find(|one| throttle(one));
    assert_eq!(throttle.expect("a throttle")["rate"], f64::from(500 << 20));
}

#[test]
fn two_runs_are_compared_where_they_can_be_and_refused_with_the_reason_where_not() {
    let folder = imported();
    let told = answer(folder.path(), &["lab", "compare", "2", "1"]);
    assert!(
        told.contains("too few repeats to compare run 2 with run 1"),
        "{told}"
    );
    assert!(told.contains("Only in run 2"), "{told}");
    let compared = json(folder.path(), &["lab", "compare", "1", "2", "--json"]);
    assert_eq!(compared["tests"].as_array().map(Vec::len), Some(1));
    // The same job at another depth.
    let deep = READ.replace("\"iodepth\" : \"16\"", "\"iodepth\" : \"1\"");
    assert_ne!(deep, READ);
    fs::write(folder.path().join("deep.json"), deep).expect("a file");
    answer(
        folder.path(),
        &["lab", "import", "deep.json", "--label", "card"],
    );
    let output = super::run(folder.path(), &["lab", "compare", "3", "1"]);
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1));
    assert!(
        told.contains("cannot be compared: the jobs differ: depth 1 against 16"),
        "{told}"
    );
    let (_, told) = failure(folder.path(), &["lab", "compare", "1", "9"]);
    assert!(told.contains("there is no run 9"), "{told}");
}

#[test]
fn a_history_has_the_runs_of_a_plan_and_an_export_all_of_them() {
    let folder = imported();
    fs::write(folder.path().join("again.json"), READ).expect("a file");
    answer(
        folder.path(),
        &[
            "lab",
            "import",
            "again.json",
            "again.json",
            "--label",
            "card",
        ],
    );
    let told = answer(folder.path(), &["lab", "history", "imported"]);
    assert!(
        told.contains("on card") && told.contains("against the last"),
        "{told}"
    );
    let histories = json(folder.path(), &["lab", "history", "--json"]);
    let runs: Vec<usize> = histories
        .as_array()
        .expect("a list")
        .iter()
        .map(|one| one["points"].as_array().map_or(0, Vec::len))
        .collect();
    // Runs 1 and 3 have the same jobs; run 2 has another one too.
    assert_eq!(runs, [2, 1, 1]);
    let (_, told) = failure(folder.path(), &["lab", "history", "layers"]);
    assert!(told.contains("no run of layers"), "{told}");
    let csv = answer(folder.path(), &["lab", "export", "--all", "--csv"]);
    assert_eq!(csv.lines().count(), 1 + 6);
    let documents = answer(folder.path(), &["lab", "export", "--all"]);
    assert_eq!(documents.lines().count(), 3);
}

#[test]
fn what_cannot_be_imported_is_named_and_makes_no_run() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("letter"), "dear").expect("a file");
    fs::write(folder.path().join("r.json"), READ).expect("a file");
    let (status, told) = failure(folder.path(), &["lab", "import", "r.json", "letter"]);
    assert_eq!(status, Some(1));
    assert!(
        told.starts_with("outboard: cannot import letter: it is no JSON"),
        "{told}"
    );
    let listed = json(folder.path(), &["lab", "list", "--json"]);
    assert_eq!(listed["runs"].as_array().map(Vec::len), Some(0));
}

#[test]
fn only_a_run_that_did_not_end_goes_on() {
    let folder = imported();
    let (status, told) = failure(folder.path(), &["lab", "run", "--resume=1"]);
    assert_eq!(status, Some(1));
    assert!(
        told.contains("run 1 cannot go on: it was imported"),
        "{told}"
    );
    let (_, told) = failure(folder.path(), &["lab", "run", "--resume=7"]);
    assert!(told.contains("there is no run 7"), "{told}");
    let (_, told) = failure(folder.path(), &["lab", "run"]);
    assert!(told.contains("required"), "{told}");
}

#[test]
fn a_run_of_a_plan_with_targets_measures_each_and_says_what_is_left_out() {
    if !requires::all(&[requires::command("fio")]) {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    for name in ["a", "b"] {
        fs::create_dir(folder.path().join(name)).expect("a folder");
    }
    let target = |name: &str, path: &str| {
        format!("[[target]]\nname = \"{name}\"\nkind = \"directory\"\npath = \"{path}\"\n")
    };
    let targets = [("here", "."), ("a", "a"), ("b", "b"), ("gone", "none")];
    let targets: String = targets
        .iter()
        .map(|(name, path)| target(name, path))
        .collect();
    let text = plan().replace("[data]", "baseline = \"b\"\n[data]") + &targets;
    fs::write(folder.path().join("p.toml"), text).expect("a plan");
    let told = answer(folder.path(), &["lab", "run", "p.toml", "."]);
    assert!(
        told.contains("here with b") && told.contains("a with b"),
        "{told}"
    );
    assert!(told.contains("gone is left out"), "{told}");
    let left: Vec<_> = fs::read_dir(folder.path())
        .expect("the folder")
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter(|name| name.starts_with(".outboard-lab"))
        .collect();
    assert!(left.is_empty(), "{left:?}");
}
