//! Processes of ours that run for as long as a target exists: how they are started, and waited for.
//!
//! Invariant: a process that was started is torn down with the target, whatever comes of it.

use std::fs::OpenOptions;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use lab::sensors::read;
use lab::supervisor::Supervised;
use lab::tools::Invocation;

use super::carry_out::Work;
use super::facts::Facts;
use super::teardown::Resource;
use crate::last_line::last_line;

/// How long a process may take until it is ready.
const START: Duration = Duration::from_secs(30);
/// Between two looks.
const POLL: Duration = Duration::from_millis(10);

/// A process that was started.
#[derive(Debug)]
pub(super) struct Started {
    /// Its id.
    pub(super) pid: u32,
    /// The file that it prints into.
    log: PathBuf,
}

impl Started {
    /// What it has printed so far.
    pub(super) fn said(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// It, and then whatever it has started that is in its process group, which may be its child no more.
    pub(super) fn group(&self) -> Vec<u32> {
        let others =
            read::pids().filter(|pid| *pid != self.pid && group_of(*pid) == Some(self.pid));
        std::iter::once(self.pid).chain(others).collect()
    }

    /// Whether it is there and has not ended.
    fn is_running(&self) -> bool {
        stat(self.pid).is_some_and(|stat| !stat.starts_with('Z'))
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

impl Work<'_> {
    /// Starts what is called `name` and prints into `log`.
    pub(super) fn start(
        &mut self,
        name: &str,
        invocation: &Invocation,
        log: &Path,
    ) -> Result<Started, String> {
        let program = &invocation.program;
        let failed = |error: std::io::Error| format!("cannot start {}: {error}", program.display());
        let open = || {
            let mut options = OpenOptions::new();
            options.create(true).append(true).open(log).map_err(failed)
        };
        let mut command = Command::new(program);
        command
            .args(&invocation.args)
            // The other end goes with us, however we end, and smbd ends then.
            .stdin(Stdio::piped())
            .stdout(open()?)
            .stderr(open()?);
        let child = Supervised::spawn(&mut command).map_err(failed)?;
        let pid = child.id();
        self.standing.add(Resource::Process {
            name: name.to_owned(),
            child,
        });
        Ok(Started {
            pid,
            log: log.to_owned(),
        })
    }

    /// Waits until `ready`. A process that ends before that, or takes too long, has said why in its last
    /// line; if it said nothing, `otherwise` is the reason.
    pub(super) fn wait_until(
        &self,
        process: &Started,
        otherwise: &str,
        ready: impl Fn() -> bool,
    ) -> Result<(), String> {
        let started = engine::clock::now();
        while !ready() {
            if self.cancel.is_cancelled() {
                return Err("stopped".into());
            }
            let waited = engine::clock::now().duration_since(started);
            if !process.is_running() || waited > START {
                let said = process.said();
                return Err(last_line(&said).unwrap_or(otherwise).to_owned());
            }
            std::thread::sleep(POLL);
        }
        Ok(())
    }
}

/// The program that runs now.
pub(super) fn own_program() -> Result<PathBuf, String> {
    std::env::current_exe().map_err(|error| format!("cannot tell where this program is: {error}"))
}

/// Where a program of the system's is.
pub(super) fn program(name: &str) -> Result<PathBuf, String> {
    let found = Facts::of_this_machine().program(name);
    found.ok_or_else(|| format!("there is no {name}"))
}

/// A free port of loopback.
pub(super) fn free_port() -> Result<u16, String> {
    lab::host::listeners::free_port(std::net::Ipv4Addr::LOCALHOST.into())
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
        let started = Started {
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
