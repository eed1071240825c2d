//! The runner on programs that report as libtest does, well or badly.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::binary::{self, Binary};
use super::events::Events;
use super::pool::{self, Limits, Task};
use super::report::Report;
use super::selection::{Package, Selection};
use super::{Phase, SuiteOptions, exclusive, tasks};

const TWO_AT_ONCE: Limits = Limits {
    binaries: 2,
    tests: 2,
    free_bytes_min: 0,
};

/// A program that prints the lines and ends with the status.
fn program(folder: &Path, name: &str, lines: &[&str], status: u8) -> Task {
    let path = folder.join(name);
    let text = format!(
        "#!/bin/sh\ncat <<'E'\n{}\nE\nexit {status}\n",
        lines.join("\n")
    );
    std::fs::write(&path, text).unwrap();
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
    Task {
        binary: Binary {
            name: format!("suite-test {name}"),
            path,
            folder: folder.to_owned(),
            size: 0,
            selected: None,
        },
        arguments: Vec::new(),
        threads: None,
        outboard: PathBuf::from("outboard"),
        strict: true,
        variables: Vec::new(),
        silence_max: pool::SILENCE_MAX,
    }
}

const STARTED: &str = r#"{"type":"suite","event":"started","test_count":1}"#;
const TEST: &str = r#"{"type":"test","event":"started","name":"a::b"}"#;
const TEST_OK: &str = r#"{"type":"test","name":"a::b","event":"ok","exec_time":1.5}"#;
const TEST_FAILED: &str = r#"{"type":"test","name":"a::b","event":"failed","exec_time":0.5,"stdout":"thread 'a::b' (1) panicked at a.rs:1:5:\nleft: 1\nstack backtrace:\n   0: f\n"}"#;
const OK: &str = r#"{"type":"suite","event":"ok","passed":1,"exec_time":1.5}"#;
const FAILED: &str = r#"{"type":"suite","event":"failed","passed":0,"exec_time":0.5}"#;

fn run(tasks: Vec<Task>) -> Option<String> {
    let mut report = Report::default();
    pool::run(tasks, TWO_AT_ONCE, &mut report).unwrap();
    report.print(Duration::ZERO, Duration::ZERO, 0.0);
    report.failure()
}

#[test]
fn a_binary_that_passes_is_no_failure() {
    let folder = tempfile::tempdir().unwrap();
    let lines = [STARTED, TEST, "text of a child", TEST_OK, OK];
    assert_eq!(run(vec![program(folder.path(), "good", &lines, 0)]), None);
}

/// `cargo xtask test` ended at the first binary with a failure, so the others were never seen.
#[test]
fn a_binary_that_fails_does_not_hide_the_others() {
    let folder = tempfile::tempdir().unwrap();
    let bad = [STARTED, TEST, TEST_FAILED, FAILED];
    let tasks = ["one", "two", "three"]
        .map(|name| program(folder.path(), name, &bad, 101))
        .to_vec();
    let failure = run(tasks).unwrap();
    assert!(failure.starts_with("3 tests failed: "), "{failure}");
    for name in ["one", "two", "three"] {
        let named = format!("suite-test {name} a::b (a.rs:1:5: left: 1)");
        assert!(failure.contains(&named), "{failure}");
    }
}

/// A binary that aborts, or that a signal ends, reports no failed test.
#[test]
fn a_binary_that_ends_before_its_tests_is_a_failure() {
    let folder = tempfile::tempdir().unwrap();
    let early = program(folder.path(), "early", &[STARTED, TEST], 0);
    let failure = |task| run(vec![task]).unwrap();
    let unreported = "it did not report all its tests";
    assert_eq!(
        failure(early),
        format!("1 tests failed: suite-test early ({unreported})")
    );
    let silent = program(folder.path(), "silent", &[], 0);
    assert_eq!(
        failure(silent),
        format!("1 tests failed: suite-test silent ({unreported})")
    );
    let status = program(folder.path(), "status", &[STARTED, TEST, TEST_OK, OK], 1);
    assert_eq!(
        failure(status),
        "1 tests failed: suite-test status (it ended with exit status: 1)"
    );
}

/// The last lines of a long run are all that some people see of it.
#[test]
fn the_error_names_a_few_failures_and_counts_the_rest() {
    let folder = tempfile::tempdir().unwrap();
    let bad = [STARTED, TEST, TEST_FAILED, FAILED];
    let tasks = (0..7).map(|n| program(folder.path(), &format!("p{n}"), &bad, 101));
    let failure = run(tasks.collect()).unwrap();
    assert_eq!(failure.matches("a::b").count(), 5, "{failure}");
    assert!(failure.ends_with("; 2 more"), "{failure}");
}

#[test]
fn a_program_that_cannot_be_started_is_a_failure() {
    let folder = tempfile::tempdir().unwrap();
    let mut missing = program(folder.path(), "missing", &[], 0);
    missing.binary.path = folder.path().join("nothing");
    assert!(run(vec![missing]).is_some());
}

#[test]
fn events_name_the_tests_that_run() {
    let mut events = Events::default();
    assert_eq!(events.read(STARTED), None);
    assert_eq!(events.read(TEST), None);
    assert_eq!(events.running().collect::<Vec<_>>(), ["a::b"]);
    assert!(!events.is_complete());
    let ended = events.read(TEST_OK).unwrap();
    assert_eq!(
        (ended.took, ended.is_ok),
        (Duration::from_millis(1500), true)
    );
    assert_eq!(events.read(OK), None);
    assert!(events.is_complete());
}

#[test]
fn every_test_runs_with_others_or_exclusively() {
    let strings = |words: &[&str]| Some(words.iter().map(|word| (*word).to_owned()).collect());
    assert_eq!(exclusive::without(&[], None), strings(&[]));
    assert_eq!(exclusive::only(&[], None), None);
    assert_eq!(
        exclusive::without(&["a::", "b"], None),
        strings(&["--skip", "a::", "--skip", "b"])
    );
    assert_eq!(exclusive::only(&["a::", "b"], None), strings(&["a::", "b"]));
    assert_eq!(exclusive::without(&[""], None), None);
    assert_eq!(exclusive::only(&[""], None), strings(&[""]));
}

/// `cargo xtask test NAME` ran nothing where NAME was the last part of an exclusive test's name.
#[test]
fn a_test_that_is_selected_runs_once_wherever_it_belongs() {
    let selected = ["a::one", "x::one"].map(str::to_owned);
    let exact = |test: &str| Some(vec!["--exact".to_owned(), test.to_owned()]);
    assert_eq!(exclusive::only(&["a::"], Some(&selected)), exact("a::one"));
    assert_eq!(
        exclusive::without(&["a::"], Some(&selected)),
        exact("x::one")
    );
    assert_eq!(exclusive::without(&[""], Some(&selected)), None);
    assert_eq!(exclusive::only(&["b::"], Some(&selected)), None);
}

/// An entry without such a binary or test would have no effect and no error.
#[test]
fn exclusive_tests_are_in_the_tree() {
    for (binary, tests) in exclusive::EXCLUSIVE {
        let last = binary.rsplit(' ').next().unwrap();
        assert!(Selection::of(Some(last)).is_ok(), "{binary}");
        for test in tests.iter().filter(|test| !test.is_empty()) {
            let name = test.trim_end_matches("::");
            assert!(Selection::of(Some(name)).is_ok(), "{binary} {test}");
        }
    }
    for tests in exclusive::LIMITED {
        let name = tests.beginning.trim_end_matches("::");
        assert!(Selection::of(Some(name)).is_ok(), "{tests:?}");
    }
}

#[test]
fn cargo_names_the_binaries() {
    let messages = r#"{"reason":"compiler-artifact","package_id":"path+file:///a/crates/nbd-proto#0.1.0","manifest_path":"/a/crates/nbd-proto/Cargo.toml","target":{"name":"nbd_proto"},"profile":{"test":true},"executable":"/t/nbd_proto-1"}
{"reason":"compiler-artifact","package_id":"path+file:///a/tests#outboard-tests@0.1.0","manifest_path":"/a/tests/Cargo.toml","target":{"name":"guides"},"profile":{"test":true},"executable":"/t/guides-1"}
{"reason":"compiler-artifact","package_id":"path+file:///a/crates/nbd#0.1.0","manifest_path":"/a/crates/nbd/Cargo.toml","target":{"name":"nbd"},"profile":{"test":false},"executable":null}
{"reason":"compiler-artifact","package_id":"path+file:///a/crates/outboard#0.1.0","manifest_path":"/a/crates/outboard/Cargo.toml","target":{"name":"outboard"},"profile":{"test":true},"executable":"/t/deps/outboard-1"}
{"reason":"compiler-artifact","package_id":"path+file:///a/crates/outboard#0.1.0","manifest_path":"/a/crates/outboard/Cargo.toml","target":{"name":"outboard"},"profile":{"test":false},"executable":"/t/outboard"}
{"reason":"build-finished","success":true}"#;
    let outboard = ("outboard".to_owned(), PathBuf::from("/t/outboard"));
    assert_eq!(binary::programs(messages), [outboard].into());
    let names: Vec<(String, PathBuf)> = binary::parse(messages)
        .into_iter()
        .map(|binary| (binary.name, binary.folder))
        .collect();
    assert_eq!(
        names,
        [
            ("nbd-proto".to_owned(), PathBuf::from("/a/crates/nbd-proto")),
            (
                "outboard-tests guides".to_owned(),
                PathBuf::from("/a/tests")
            ),
            ("outboard".to_owned(), PathBuf::from("/a/crates/outboard")),
        ]
    );
}

#[test]
fn a_name_selects_a_package_a_program_or_tests() {
    let folder = tempfile::tempdir().unwrap();
    let members = ["one", "two"].map(|name| {
        let folder = folder.path().join(name);
        std::fs::create_dir_all(folder.join("src/server")).unwrap();
        std::fs::create_dir_all(folder.join("tests")).unwrap();
        let name = name.to_owned();
        Package { name, folder }
    });
    let two = &members[1].folder;
    std::fs::write(
        two.join("src/server/bounds.rs"),
        "async fn a_full_disk() {}\n",
    )
    .unwrap();
    std::fs::write(two.join("tests/cli.rs"), "").unwrap();
    let arguments = |name: &str| {
        let found = Selection::find(name, members.to_vec()).unwrap();
        (found.arguments().join(" "), found.test)
    };
    assert_eq!(arguments("one"), ("--package one".to_owned(), None));
    assert_eq!(
        arguments("cli"),
        ("--package two --test cli".to_owned(), None)
    );
    for test in ["a_full", "server::bounds", "server::bounds::a_full_disk"] {
        assert_eq!(
            arguments(test),
            ("--package two".to_owned(), Some(test.to_owned()))
        );
    }
    assert!(Selection::find("nothing", members.to_vec()).is_err());
    assert_eq!(Selection::default().arguments(), ["--workspace"]);
}

/// The words that the tests of each task are chosen by, and how many of them run at once.
fn chosen(binary: &Binary, phase: Phase) -> Vec<(String, Option<usize>)> {
    let binaries = std::slice::from_ref(binary);
    let options = SuiteOptions::default();
    let tasks = tasks(binaries, Path::new("outboard"), &options, phase);
    let words = tasks.into_iter();
    words
        .map(|task| (task.arguments.join(" "), task.threads))
        .collect()
}

#[test]
fn an_exclusive_test_is_in_the_second_run_only() {
    let folder = tempfile::tempdir().unwrap();
    let mut binary = program(folder.path(), "plain", &[], 0).binary;
    assert_eq!(chosen(&binary, Phase::Shared).len(), 1);
    assert_eq!(chosen(&binary, Phase::Exclusive), []);
    binary.name = "outboard-tests doctor".to_owned();
    assert_eq!(chosen(&binary, Phase::Shared), []);
    assert_eq!(chosen(&binary, Phase::Exclusive).len(), 1);
}

/// They would hold all the threads of their binary.
#[test]
fn limited_tests_run_in_a_program_of_their_own() {
    let folder = tempfile::tempdir().unwrap();
    let mut binary = program(folder.path(), "cli", &[], 0).binary;
    binary.name = "outboard cli".to_owned();
    let all = chosen(&binary, Phase::Shared);
    let [limited, (others, None)] = &all[..] else {
        panic!("{all:?}");
    };
    assert_eq!(*limited, ("lab_plans::".to_owned(), Some(2)));
    assert!(others.ends_with("--skip lab_plans::"), "{others}");
    binary.selected = Some(vec!["lab_plans::one".to_owned()]);
    let one = [("--exact lab_plans::one".to_owned(), Some(2))];
    assert_eq!(chosen(&binary, Phase::Shared), one);
}
