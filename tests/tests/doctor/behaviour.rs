//! What the doctor does besides naming: little, and nothing that stays.

use std::process::Stdio;
use std::time::Duration;

use outboard_tests::image::Folder;
use outboard_tests::said::{self, run};
use rustix::process::Signal;
use testkit::proc::Process;
use testkit::requires;

use super::{SECONDS, alone, doctor};

/// How long the doctor may take to begin, and to end after a signal, on a machine that has a lot else to do.
const LIMIT: Duration = Duration::from_secs(60);

fn names_in(folder: &Folder) -> Vec<String> {
    let entries = std::fs::read_dir(folder.path())
        .expect("a folder")
        .flatten();
    let mut names: Vec<String> = entries
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

#[test]
fn a_file_of_its_own_is_made_only_if_asked_and_gone_afterwards() {
    if !requires::all(&[requires::command("fio")]) {
        return;
    }
    let _alone = alone();
    let (folder, temporary) = (Folder::new(), Folder::new());
    let data = folder.path().to_string_lossy().into_owned();
    let refused = run(&mut doctor(&temporary, SECONDS, &[&data]));
    assert_eq!(refused.code, Some(1), "{refused:?}");
    assert!(refused.stderr.contains("--write makes one"), "{refused:?}");
    let printed = run(&mut doctor(&temporary, SECONDS, &[&data, "--write"])).ok();
    let told: serde_json::Value = serde_json::from_str(&printed).unwrap();
    let direction = |at: usize| told[at]["examination"]["job"]["direction"].clone();
    assert_eq!(
        (direction(0), direction(1)),
        ("read".into(), "write".into())
    );
    assert_eq!(names_in(&folder), Vec::<String>::new());
    assert_eq!(names_in(&temporary), Vec::<String>::new());
}

/// Whether a process has a handler for a signal: `SigCgt:` and a mask, see proc_pid_status(5). The doctor takes
/// SIGTERM behind SIGINT.
fn catches(process: &Process, signal: Signal) -> bool {
    let path = format!("/proc/{}/status", process.id());
    let status = std::fs::read_to_string(path).unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| (mask >> (signal.as_raw() - 1)) & 1 == 1)
}

#[test]
fn an_interrupt_ends_it_and_leaves_nothing() {
    let _alone = alone();
    let folder = Folder::new();
    // So much time that the verdict does not come first.
    let long = SECONDS * 100;
    let mut command = doctor(&folder, long, &["throttle(memory(64M), bytes=10M/s)"]);
    let mut process = Process::start(command.stdin(Stdio::null())).unwrap();
    let watches = |process: &Process| catches(process, Signal::TERM).then_some(());
    process
        .wait_until("watch for signals", LIMIT, watches)
        .unwrap();
    // In the middle of a measurement, unless the machine is slow.
    std::thread::sleep(Duration::from_millis(500));
    assert_ne!(names_in(&folder), Vec::<String>::new());
    process.signal(Signal::INT).unwrap();
    let status = process.wait(LIMIT).unwrap();
    assert_eq!(status.code(), Some(1), "{}", process.stderr());
    assert!(
        process.stderr().contains("interrupted"),
        "{}",
        process.stderr()
    );
    assert_eq!(names_in(&folder), Vec::<String>::new());
}

#[test]
fn what_cannot_be_examined_is_said_in_one_line() {
    let folder = Folder::new();
    let nobody = format!("nbd+unix:///x?socket={}", folder.at("nobody"));
    for (args, status) in [
        (vec!["/none/there"], 1),
        (vec![nobody.as_str()], 1),
        (vec!["memory(64K)", "--block-size", "128K"], 1),
        (vec!["memory(64M)", "--write"], 2),
        (vec!["memory(64M)", "--block-size", "1000"], 2),
        (vec!["memory(64M)", "--depth", "0"], 2),
    ] {
        let mut command = said::outboard(&["doctor", "--seconds", "3"]);
        let said = run(command.args(&args).env("TMPDIR", folder.path()));
        let line = said.complaint(status);
        assert!(line.len() > 20, "{args:?}: {line}");
    }
    assert_eq!(names_in(&folder), Vec::<String>::new());
}

#[test]
fn it_ends_within_the_time_that_it_was_given() {
    let _alone = alone();
    let folder = Folder::new();
    #[expect(clippy::disallowed_methods, reason = "a test of how long it takes")]
    let start = std::time::Instant::now();
    run(&mut doctor(
        &folder,
        SECONDS,
        &["delay(memory(64M), read=5ms)"],
    ))
    .ok();
    assert!(
        start.elapsed() < Duration::from_secs(16),
        "{:?}",
        start.elapsed()
    );
}

/// Each request takes more than a second, so that three seconds are over before everything is measured.
#[test]
fn what_no_time_was_left_for_is_reported() {
    let _alone = alone();
    let folder = Folder::new();
    let mut command = said::outboard(&["doctor", "--json", "--seconds", "3"]);
    command
        .arg("delay(memory(64M), read=1300ms)")
        .env("TMPDIR", folder.path());
    let told = super::diagnosis(&mut command);
    let unknown = told["verdict"]["unknown"].to_string();
    for missing in [
        "disk: what is below `delay`: no time was left for it",
        "generator: the doctor's own load on nothing: no time was left for it",
    ] {
        assert!(unknown.contains(missing), "{unknown}");
    }
    // Nothing else is reported of what was not measured.
    assert_eq!(
        told["examination"]["substitutions"]
            .to_string()
            .matches("below")
            .count(),
        0
    );
}
