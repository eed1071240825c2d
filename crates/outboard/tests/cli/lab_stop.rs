//! SIGINT and SIGTERM end `lab run` within 2 s, also while a child does not react or a disk does not answer.

use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use testkit::requires;

use super::lab::plan;
use super::{LIMIT, outboard, within};

/// How long a run may take to end.
const END_MAX: Duration = Duration::from_secs(2);
/// Where Debian has the server of SFTP.
const SFTP_SERVER: &str = "/usr/lib/openssh/sftp-server";
/// A program that only SIGKILL ends; the file `MARK` shows that it runs.
const IGNORES: &str = "trap '' TERM INT HUP; touch \"$MARK\"; while :; do sleep 600; done";

/// Starts a run in which `name` is replaced by `script`, sends `signal` once that ignores it, and returns how long
/// the run took to end.
fn stopped(name: &str, script: &str, signal: Signal) -> Duration {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    fs::create_dir(folder.join("base")).expect("a folder");
    let mut run = started(folder, name, script);
    let took = interrupted(&mut run, signal);
    // The files of a busy machine may take longer: the process that removes them is left to do so.
    within(LIMIT, || is_empty(&folder.join("base")).then_some(()));
    took
}

/// Sends `signal` to a run, and returns how long that took to end.
fn interrupted(run: &mut Child, signal: Signal) -> Duration {
    let begun = engine::clock::now();
    kill_process(Pid::from_child(run), signal).expect("it runs");
    let status = within(LIMIT, || run.try_wait().expect("it is ours"));
    let took = engine::clock::now().duration_since(begun);
    assert!(!status.success());
    took
}

/// A run in the folder `base`, in which `name` is replaced by `script`, as soon as that runs.
fn started(folder: &Path, name: &str, script: &str) -> Child {
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
        .stderr(fs::File::create(folder.join("messages")).expect("a file"));
    let mut run = command.spawn().expect("it starts");
    within(LIMIT, || {
        let ended = run.try_wait().expect("it is ours");
        assert!(ended.is_none(), "it ended by itself: {ended:?}");
        mark.exists().then_some(())
    });
    run
}

/// A fio that writes the test file, with measurements that do not end.
fn never_measures() -> String {
    format!(
        "case \"$*\" in *--name=seq-read*) {IGNORES};; esac\n\
         exec \"$(PATH=$REAL_PATH command -v fio)\" \"$@\""
    )
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
    let took = stopped("fio", &never_measures(), Signal::TERM);
    assert!(took < END_MAX, "{took:?}");
}

/// A filesystem with a server that may be stopped: I/O on it then waits in the kernel.
struct Sshfs<'a> {
    mount: &'a Path,
    server: Child,
    client: Child,
}

impl<'a> Sshfs<'a> {
    fn mount(folder: &Path, mount: &'a Path) -> Self {
        fs::create_dir(mount).expect("a folder");
        let (ours, theirs) = UnixStream::pair().expect("sockets");
        let socket =
            |end: &UnixStream| Stdio::from(OwnedFd::from(end.try_clone().expect("a copy")));
        let mut server = Command::new(SFTP_SERVER);
        server.stdin(socket(&theirs)).stdout(socket(&theirs));
        let mut client = Command::new("sshfs");
        client.args(["-f", "-o", "passive"]);
        client.arg(format!("here:{}", folder.display())).arg(mount);
        client.stdin(socket(&ours)).stdout(socket(&ours));
        let started = Self {
            mount,
            server: server.spawn().expect("it starts"),
            client: client.spawn().expect("it starts"),
        };
        within(LIMIT, || {
            let mounts = fs::read_to_string("/proc/mounts").expect("a table");
            let point = mount.to_str().expect("UTF-8");
            mounts.contains(point).then_some(())
        });
        started
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.server), signal).expect("it is ours");
    }
}

impl Drop for Sshfs<'_> {
    fn drop(&mut self) {
        self.signal(Signal::CONT);
        let mut unmount = Command::new("fusermount3");
        unmount.args(["-u", "-z"]).arg(self.mount).status().ok();
        self.server.kill().ok();
        self.client.wait().ok();
        self.server.wait().ok();
    }
}

/// Removing the test file waits in the kernel then, and a task that does is ended by no signal.
#[test]
fn a_run_on_a_disk_that_does_not_answer_is_stopped_within_two_seconds_and_cleans_up_when_it_does() {
    let needs = [
        requires::fuse(),
        requires::command("fio"),
        requires::command("sshfs"),
        requires::command("fusermount3"),
        requires::command(SFTP_SERVER),
    ];
    if !requires::all(&needs) {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    let disk = folder.join("disk");
    fs::create_dir(&disk).expect("a folder");
    let base = folder.join("base");
    let sshfs = Sshfs::mount(&disk, &base);
    let mut run = started(folder, "fio", &never_measures());
    sshfs.signal(Signal::STOP);
    let took = interrupted(&mut run, Signal::INT);
    let messages = || fs::read_to_string(folder.join("messages")).expect("text");
    assert!(took < END_MAX, "{took:?}: {}", messages());
    assert!(
        messages().contains("a disk that does not answer; it removes its files,"),
        "{}",
        messages()
    );
    assert!(!is_empty(&disk));
    sshfs.signal(Signal::CONT);
    within(LIMIT, || is_empty(&disk).then_some(()));
    within(LIMIT, || {
        messages().contains("whole blocks were kept").then_some(())
    });
}
