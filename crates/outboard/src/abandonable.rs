//! Commands that use disks which may not answer run in a child process, which the command itself abandons when a
//! signal does not end it.
//!
//! A task that waits in the kernel for a disk ends with no signal, and its process is not reaped before that: only
//! another process can return to the shell.
//!
//! # Invariants
//!
//! * SIGINT, SIGTERM and SIGHUP end the command within [`GRACE`] and a little, also where the child waits for a disk.
//! * An abandoned child loses nothing: when the disk answers it finds itself cancelled, removes its files and records
//!   how it ended. So it does when its parent is killed, and when all that it built takes longer to remove than
//!   [`GRACE`].
//! * The child has its parent's terminal, standard files and process group.
//!
//! # What it does not do
//!
//! It starts no child of a child: without the parent that [`CHILD_OF`] names, the variable means nothing.

use std::io;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{
    Pid, PidfdFlags, Signal, getpid, getppid, kill_process, pidfd_open,
    set_parent_process_death_signal,
};

use crate::failure::Failure;
use crate::interrupt::Interrupt;

/// Names the parent to a child.
const CHILD_OF: &str = "OUTBOARD_CHILD_OF";
/// Cancels the child: from its parent, and from the kernel when that ends. Unlike SIGTERM it may come twice.
const CANCEL: Signal = Signal::USR1;
/// How long a child may clean up before it is abandoned.
const GRACE: Duration = Duration::from_millis(1500);
/// The longest wait before signals are looked at again; one that comes meanwhile ends the wait.
const POLL: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 250_000_000,
};

/// Watches for signals in the child that is to do the work; none in its parent, once the child has succeeded.
pub(crate) fn watch() -> Result<Option<Interrupt>, Failure> {
    let interrupt = Interrupt::watch()?;
    let parent = getppid();
    let named = std::env::var(CHILD_OF).ok();
    if named.is_some_and(|named| parent.is_some_and(|parent| named == parent.to_string())) {
        let failed = |error: io::Error| Failure::because("cannot watch the parent", &error);
        interrupt.also_by(CANCEL).map_err(failed)?;
        set_parent_process_death_signal(Some(CANCEL)).map_err(|error| failed(error.into()))?;
        if getppid() != parent {
            return Err(Failure::new("stopped before anything was measured"));
        }
        return Ok(Some(interrupt));
    }
    match start() {
        Ok(child) => wait(child, &interrupt).map(|()| None),
        Err(error) => {
            tracing::debug!(%error, "no child process: a disk that hangs keeps this one");
            Ok(Some(interrupt))
        }
    }
}

/// Starts this command line again.
fn start() -> io::Result<Child> {
    let mut arguments = std::env::args_os();
    // Its name there is shown; a program that was replaced has none.
    let program = std::env::current_exe()?;
    let program = match program.exists() {
        true => program,
        false => PathBuf::from("/proc/self/exe"),
    };
    let mut command = Command::new(program);
    arguments.next().inspect(|own| {
        command.arg0(own);
    });
    let command = command.args(arguments);
    command.env(CHILD_OF, getpid().to_string()).spawn()
}

/// Waits until the child has ended, and after a signal no longer than [`GRACE`].
fn wait(mut child: Child, interrupt: &Interrupt) -> Result<(), Failure> {
    let failed = |error: io::Error| Failure::because("cannot wait for the child process", &error);
    let pid = Pid::from_child(&child);
    let pidfd = pidfd_open(pid, PidfdFlags::empty()).ok();
    let mut deadline = None;
    loop {
        if let Some(status) = child.try_wait().map_err(failed)? {
            return ended(status, interrupt);
        }
        let now = engine::clock::now();
        match deadline {
            None if interrupt.came() => {
                kill_process(pid, CANCEL).map_err(|error| failed(error.into()))?;
                deadline = Some(now + GRACE);
            }
            Some(deadline) if now > deadline => return Err(abandoned(pid)),
            _ => {}
        }
        let fds = pidfd.iter().map(|fd| PollFd::new(fd, PollFlags::IN));
        let mut fds: Vec<_> = fds.collect();
        // A signal ends it early, an error is a wait of no length at worst.
        poll(&mut fds, Some(&POLL)).ok();
    }
}

fn ended(status: ExitStatus, interrupt: &Interrupt) -> Result<(), Failure> {
    match (status.code(), status.signal()) {
        (Some(0), _) => Ok(()),
        (Some(code), _) => Err(Failure::reported_as(u8::try_from(code).unwrap_or(1))),
        // It had not yet begun.
        (None, _) if interrupt.came() => Err(Failure::new("stopped before anything was measured")),
        (None, signal) => Err(Failure::new(format!(
            "the process that measured was killed by signal {}",
            signal.unwrap_or_default()
        ))),
    }
}

fn abandoned(pid: Pid) -> Failure {
    let what = format!(
        "stopped, but process {pid} still cleans up, or waits for a disk that does not answer"
    );
    Failure::new(what).next("it removes its files, and ends when the disk does")
}
