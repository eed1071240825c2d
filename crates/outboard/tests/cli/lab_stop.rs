//! SIGINT and SIGTERM end `lab run` within 2 s, also while a child does not react.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use testkit::requires;

use super::lab::plan;
use super::{LIMIT, outboard, within};

/// How long a run may take to end.
const END_MAX: Duration = Duration::from_secs(2);
/// A program that only SIGKILL ends; the file `MARK` shows that it runs.
const IGNORES: &str = "trap '' TERM INT HUP; touch \"$MARK\"; while :; do sleep 600; done";

/// Starts a run in which `name` is replaced by `script`, sends `signal` once that ignores it, and returns how long
/// the run took to end.
fn stopped(name: &str, script: &str, signal: Signal) -> Duration {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    fs::create_dir(folder.join("base")).expect("a folder");
    fs::create_dir(folder.join("programs")).expect("a folder");
    fs::write(folder.join("p.toml"), plan()).expect("a plan");
    let program = folder.join("programs").join(name);
    fs::write(&program, format!("#!/bin/sh\n{script}\n")).expect("a program");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("ours");
    let mark = folder.join("mark");
    let path = std::env::var("PATH").expect("a path");
    let mut command = outboard(folder, &["lab", "run", "p.toml", "base"]);
    command
        .env("MARK", &mark)
        .env("REAL_PATH", &path)
        .env(
            "PATH",
            format!("{}:{path}", folder.join("programs").display()),
        )
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let mut run = command.spawn().expect("it starts");
    within(LIMIT, || {
        let ended = run.try_wait().expect("it is ours");
        assert!(ended.is_none(), "it ended by itself: {ended:?}");
        mark.exists().then_some(())
    });
    let begun = engine::clock::now();
    kill_process(Pid::from_child(&run), signal).expect("it runs");
    let status = within(LIMIT, || run.try_wait().expect("it is ours"));
    let took = engine::clock::now().duration_since(begun);
    assert!(!status.success());
    assert!(is_empty(&folder.join("base")), "its files stay");
    took
}

fn is_empty(folder: &Path) -> bool {
    fs::read_dir(folder).expect("a folder").next().is_none()
}

/// It stood 11 minutes in a sync of a disk that did not answer.
#[test]
fn a_run_that_waits_for_a_sync_without_an_end_is_stopped_within_two_seconds() {
    if !requires::all(&[requires::command("fio")]) {
        return;
    }
    for signal in [Signal::INT, Signal::TERM] {
        let took = stopped("sync", IGNORES, signal);
        assert!(took < END_MAX, "{signal:?}: {took:?}");
    }
}

#[test]
fn a_run_that_waits_for_a_fio_which_ignores_signals_is_stopped_within_two_seconds() {
    if !requires::all(&[requires::command("fio")]) {
        return;
    }
    // The test file is written, and then a measurement does not end.
    let script = format!(
        "case \"$*\" in *--name=seq-read*) {IGNORES};; esac\n\
         exec \"$(PATH=$REAL_PATH command -v fio)\" \"$@\""
    );
    let took = stopped("fio", &script, Signal::TERM);
    assert!(took < END_MAX, "{took:?}");
}
