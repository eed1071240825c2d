//! Processes of ours that run for as long as a target exists: how they are started, and waited for.
//!
//! Invariant: a process that was started is torn down with the target, on every way out.

use std::fs::OpenOptions;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use lab::sensors::read;
use lab::supervisor::Supervised;
use lab::tools::Invocation;

use super::carry_out::TargetBuild;
use super::facts::MachineFacts;
use super::teardown::Resource;
use crate::last_line::last_line;

/// How long a process may take until it is ready.
const START: Duration = Duration::from_secs(30);
/// The interval at which readiness is polled.
const POLL: Duration = Duration::from_millis(10);

/// Why a server that printed nothing is not used.
pub(super) const DEAF: &str = "its server does not listen";

/// A process that was started.
#[derive(Debug)]
pub(super) struct ServerProcess {
    /// Its id.
    pub(super) pid: u32,
    /// The file that it prints into.
    log: PathBuf,
}

impl ServerProcess {
    /// What it has printed so far.
    pub(super) fn output(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Its process group: first itself, then processes that it has started, which need not be its children any more.
    pub(super) fn group(&self) -> Vec<u32> {
        let others =
            read::pids().filter(|pid| *pid != self.pid && group_of(*pid) == Some(self.pid));
        std::iter::once(self.pid).chain(others).collect()
    }
}

/// What the kernel says of a process behind its name, which may hold anything (proc_pid_stat(5)).
fn stat(pid: u32) -> Option<String> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    Some(text.rsplit_once(") ")?.1.to_owned())
}

/// The leader of its process group; zero of a thread of the kernel.
fn group_of(pid: u32) -> Option<u32> {
    stat(pid)?.split_whitespace().nth(2)?.parse().ok()
}

impl TargetBuild<'_> {
    /// Starts `name`, which prints into `log`, and waits until it is `ready`. The error is the last line that the
    /// process printed, and `otherwise` if it printed nothing.
    pub(super) fn start(
        &mut self,
        name: &str,
        invocation: &Invocation,
        log: &Path,
        otherwise: &str,
        ready: impl Fn(&ServerProcess) -> bool,
    ) -> Result<ServerProcess, String> {
        let program = &invocation.program;
        let failed = |error: std::io::Error| format!("cannot start {}: {error}", program.display());
        let open = || {
            let mut options = OpenOptions::new();
            options.create(true).append(true).open(log).map_err(failed)
        };
        let mut command = Command::new(program);
        command
            .args(&invocation.args)
            // The other end is closed when this process ends, and smbd ends then.
            .stdin(Stdio::piped())
            .stdout(open()?)
            .stderr(open()?);
        let child = Supervised::spawn(&mut command).map_err(failed)?;
        let started = ServerProcess {
            pid: child.id(),
            log: log.to_owned(),
        };
        let mut tick = |_| !self.cancel.is_cancelled();
        let is_ready = || ready(&started).then_some(());
        let found = child.wait_ready(START, POLL, &mut tick, is_ready);
        self.standing.add(Resource::Process {
            name: name.to_owned(),
            child,
        });
        match found {
            Some(()) => Ok(started),
            None if self.cancel.is_cancelled() => Err("stopped".into()),
            None => Err(last_line(&started.output()).unwrap_or(otherwise).to_owned()),
        }
    }
}

/// The program that runs now.
pub(super) fn own_program() -> Result<PathBuf, String> {
    std::env::current_exe()
        .map_err(|error| format!("cannot find the path of this program: {error}"))
}

/// Where a program of the system's is.
pub(super) fn program(name: &str) -> Result<PathBuf, String> {
    let found = MachineFacts::of_this_machine().program(name);
    found.ok_or_else(|| format!("there is no {name}"))
}

/// A free port of loopback.
pub(super) fn free_port() -> Result<u16, String> {
    lab::host::sockets::free_port(std::net::Ipv4Addr::LOCALHOST.into())
        .map_err(|error| format!("cannot find a free port: {error}"))
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::CommandExt as _;

    use rustix::process::{Pid, Signal, kill_process_group};

    use super::*;

    /// As sshfs does with its ssh, which was taken for a foreign program.
    #[test]
    fn what_a_process_started_and_let_go_of_is_in_its_group() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("pid");
        let script = format!("(sleep 60 & echo $! > {}); exec sleep 60", file.display());
        let mut child = Command::new("sh")
            .args(["-c", &script])
            .process_group(0)
            .spawn()
            .expect("a shell");
        let started = ServerProcess {
            pid: child.id(),
            log: folder.path().join("log"),
        };
        let begun = engine::clock::now();
        let let_go = loop {
            let text = std::fs::read_to_string(&file).unwrap_or_default();
            if let Some(pid) = text.strip_suffix('\n') {
                break pid.parse::<u32>().expect("a number");
            }
            assert!(engine::clock::now().duration_since(begun) < START);
            std::thread::sleep(POLL);
        };
        let group = started.group();
        let leader = Pid::from_child(&child);
        kill_process_group(leader, Signal::KILL).expect("a group");
        child.wait().expect("a child");
        assert_eq!(group.first(), Some(&started.pid));
        assert!(group.contains(&let_go), "{group:?}");
        assert!(!group.contains(&std::process::id()), "{group:?}");
    }
}
