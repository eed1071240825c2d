//! [`Supervised`]: a child process in a group of its own, waited for by its pidfd and ended with its group.
//!
//! Invariants: the child is reaped only by [`Supervised::end`], so its id and its group's belong to no other
//! process before that. A wait returns as soon as the child ends; there is no polling interval.
//!
//! What it deliberately does not do: it reads no output, and ends nothing when it is dropped: its owners differ in
//! what they do then.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, ChildStdin, Command, ExitStatus};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, kill_process, kill_process_group, pidfd_open,
    waitid,
};

/// How long a killed child may take: one that waits for a dead mount does not end until that answers.
const KILLED: Duration = Duration::from_millis(10);

/// The processes that get SIGTERM before SIGKILL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Terminate {
    /// The child alone: it ends what it started.
    Leader,
    /// All of its process group.
    Group,
}

/// How a child ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Termination {
    /// Its exit status; none where it did not end even when it was killed.
    pub status: Option<ExitStatus>,
    /// Whether it had to be killed.
    pub was_killed: bool,
}

/// Why a wait ended before the child did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NotEnded {
    /// The caller's `tick` returned false.
    Cancelled,
    /// The limit has passed.
    TimedOut,
}

/// A child process in a group of its own.
#[derive(Debug)]
pub struct Supervised {
    child: Child,
    pidfd: OwnedFd,
    /// Once it was reaped.
    status: Option<ExitStatus>,
}

impl Supervised {
    /// Starts `command` in a process group of its own: Ctrl-C in a terminal reaches only us.
    ///
    /// # Errors
    /// The program cannot be started.
    pub fn spawn(command: &mut Command) -> io::Result<Self> {
        let mut child = command.process_group(0).spawn()?;
        match pidfd_open(Pid::from_child(&child), PidfdFlags::empty()) {
            Ok(pidfd) => Ok(Self {
                child,
                pidfd,
                status: None,
            }),
            Err(error) => {
                child.kill()?;
                child.wait()?;
                Err(error.into())
            }
        }
    }

    /// Its process id.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Its standard input, if that is a pipe; once.
    pub(crate) const fn take_stdin(&mut self) -> Option<ChildStdin> {
        self.child.stdin.take()
    }

    /// Whether it has ended. It is not reaped.
    #[must_use]
    pub(crate) fn has_ended(&self) -> bool {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        // An error is that there is no such child, which it is once it was reaped.
        !matches!(waitid(WaitId::Pid(self.pid()), options), Ok(None))
    }

    /// Waits until it has ended, for at most `timeout`; whether it has.
    pub(crate) fn wait_timeout(&self, timeout: Duration) -> bool {
        let deadline = engine::clock::now() + timeout;
        loop {
            if self.status.is_some() {
                return true;
            }
            let left = deadline.saturating_duration_since(engine::clock::now());
            let mut fds = [PollFd::new(&self.pidfd, PollFlags::IN)];
            match poll(&mut fds, Timespec::try_from(left).ok().as_ref()) {
                Err(Errno::INTR) => {}
                Ok(0) | Err(_) => return self.has_ended(),
                Ok(_) => return true,
            }
        }
    }

    /// Waits until `ready` gives a value, called every `interval`; none once it has ended, `timeout` has passed, or
    /// `tick` returns false.
    pub fn wait_ready<T>(
        &self,
        timeout: Duration,
        interval: Duration,
        tick: &mut dyn FnMut(Instant) -> bool,
        mut ready: impl FnMut() -> Option<T>,
    ) -> Option<T> {
        let deadline = engine::clock::now() + timeout;
        loop {
            let has_ended = self.has_ended();
            if let Some(found) = ready() {
                return Some(found);
            }
            let now = engine::clock::now();
            if has_ended || now > deadline || !tick(now) {
                return None;
            }
            self.wait_timeout(interval);
        }
    }

    /// Waits until it has ended, for at most `limit`; `tick` is called every `interval`.
    ///
    /// # Errors
    /// Why the wait ended before the child did.
    pub(crate) fn wait_ended(
        &self,
        limit: Duration,
        interval: Duration,
        tick: &mut dyn FnMut(Instant) -> bool,
    ) -> Result<(), NotEnded> {
        let mut is_cancelled = false;
        let mut tick = |now| {
            is_cancelled = !tick(now);
            !is_cancelled
        };
        self.wait_ready(limit, interval, &mut tick, || None::<()>);
        match self.has_ended() {
            true => Ok(()),
            false if is_cancelled => Err(NotEnded::Cancelled),
            false => Err(NotEnded::TimedOut),
        }
    }

    /// Sends `signal` to its group.
    ///
    /// # Errors
    /// The kernel refuses it.
    pub(crate) fn signal_group(&self, signal: Signal) -> io::Result<()> {
        match kill_process_group(self.pid(), signal) {
            // No process is left in it.
            Ok(()) | Err(Errno::SRCH) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Sends SIGTERM, waits for `grace`, kills what is left of its group, and reaps it.
    ///
    /// # Errors
    /// It cannot be signalled or reaped.
    pub fn end(&mut self, terminate: Terminate, grace: Duration) -> io::Result<Termination> {
        let mut was_killed = false;
        if self.status.is_none() {
            if !self.has_ended() {
                match terminate {
                    Terminate::Leader => kill_process(self.pid(), Signal::TERM)?,
                    Terminate::Group => self.signal_group(Signal::TERM)?,
                }
            }
            was_killed = !self.wait_timeout(grace);
            if was_killed || terminate == Terminate::Group {
                // What it started and left running, too.
                self.signal_group(Signal::KILL)?;
            }
            self.wait_timeout(KILLED);
            self.status = self.child.try_wait()?;
        }
        Ok(Termination {
            status: self.status,
            was_killed,
        })
    }

    fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Far beyond what any of these tests waits.
    const LONG: Duration = Duration::from_secs(60);

    fn shell(script: &str) -> Supervised {
        Supervised::spawn(Command::new("sh").args(["-c", script])).expect("a shell")
    }

    #[test]
    fn a_wait_ends_with_the_child_and_long_before_its_timeout() {
        let mut child = shell("exit 3");
        let begun = engine::clock::now();
        assert!(child.wait_timeout(LONG));
        assert!(engine::clock::now().duration_since(begun) < LONG);
        assert!(child.has_ended());
        let ended = child.end(Terminate::Leader, LONG).expect("an end");
        assert_eq!(ended.status.and_then(|status| status.code()), Some(3));
        assert!(!ended.was_killed);
        assert_eq!(child.end(Terminate::Group, LONG).expect("again"), ended);
    }

    #[test]
    fn a_child_that_runs_is_not_ended_by_a_wait() {
        let mut child = shell("exec sleep 600");
        assert!(!child.wait_timeout(Duration::ZERO));
        assert!(!child.has_ended());
        let ended = child.end(Terminate::Leader, LONG).expect("an end");
        assert!(ended.status.is_some() && !ended.was_killed);
    }

    #[test]
    fn a_child_that_ignores_the_request_is_killed_with_its_group() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("pid");
        let script = format!(
            "trap '' TERM; sleep 600 & echo $! > {0}.new; mv {0}.new {0}; while :; do sleep 600; done",
            file.display()
        );
        let mut child = shell(&script);
        let read = || std::fs::read_to_string(&file).ok();
        let pid = child.wait_ready(LONG, KILLED, &mut |_| true, read);
        let pid = pid.expect("its child").trim().parse().ok();
        let pid = pid.and_then(Pid::from_raw).expect("an id");
        let grandchild = pidfd_open(pid, PidfdFlags::empty()).expect("it runs");
        let ended = child.end(Terminate::Leader, KILLED).expect("an end");
        assert!(ended.was_killed);
        let mut fds = [PollFd::new(&grandchild, PollFlags::IN)];
        let timeout = Timespec::try_from(LONG).expect("a minute");
        assert_eq!(poll(&mut fds, Some(&timeout)), Ok(1), "it still runs");
    }

    #[test]
    fn a_wait_for_the_end_reports_why_it_stopped_before() {
        let mut child = shell("exec sleep 600");
        let cancelled = child.wait_ended(LONG, LONG, &mut |_| false);
        assert_eq!(cancelled, Err(NotEnded::Cancelled));
        let late = child.wait_ended(Duration::ZERO, KILLED, &mut |_| true);
        assert_eq!(late, Err(NotEnded::TimedOut));
        child.end(Terminate::Leader, LONG).expect("an end");
        assert_eq!(child.wait_ended(LONG, LONG, &mut |_| false), Ok(()));
    }

    #[test]
    fn nothing_is_awaited_of_a_child_that_has_ended() {
        let child = shell("exit 0");
        let found: Option<()> = child.wait_ready(LONG, LONG, &mut |_| true, || None);
        assert_eq!(found, None);
        assert!(child.has_ended());
    }
}
