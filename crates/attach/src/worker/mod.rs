//! Worker processes: this program run again for what may block in the kernel for as long as a disk does not
//! answer (umount(2), fsync(2), ioctls and even stat of a loop device).
//!
//! ```text
//! owner ── serves FUSE, speaks NBD ──┬─ socket ─ device worker: holds the FUSE file and the loop device
//!                                    └─ socket ─ step worker: one call, one answer
//! ```
//!
//! # Invariants
//!
//! * The process that serves a FUSE file makes no call that waits for an answer of that file. A task that
//!   waits in the kernel keeps all descriptors of its process open, `/dev/fuse` among them, even after SIGKILL: the
//!   kernel would wait for a process that waits for the kernel, and `sync` of the whole machine with it.
//! * Only the owner has `/dev/fuse` open. When it ends, for any reason, the kernel aborts the FUSE
//!   connection, what waits fails, and every worker returns from its call and ends.
//! * Workers ignore SIGTERM, SIGINT and SIGHUP: they end with their owner, or with their one call.
//!
//! A worker's standard output is one end of a socket pair: a line of JSON with the task, a line for the
//! answer. A device worker's standard input is the FUSE mount.

mod call;
mod device;

use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::daemon::message::LINE_LEN_MAX;
use crate::error::AttachError;
pub(crate) use call::{WorkerCall, is_ours};
pub(crate) use device::{DeviceTask, DeviceWorker};

/// The argument with which this program runs [`run`]; the binary's command line must lead there.
pub const WORKER: &str = "attach-worker";
/// This program, also after its file was replaced.
const PROGRAM: &str = "/proc/self/exe";

/// The task of a worker.
#[derive(Debug, Serialize, Deserialize)]
enum Task {
    /// Set a loop device up, and hold it until the owner ends.
    Device(DeviceTask),
    /// Make one call.
    Call(WorkerCall),
}

/// Runs a worker: reads its task, carries it out, answers.
///
/// # Errors
/// [`AttachError::Launch`] where its owner is gone.
pub fn run() -> Result<(), AttachError> {
    ignore_signals();
    let socket = io::stdout().as_fd().try_clone_to_owned();
    let socket = UnixStream::from(socket.map_err(AttachError::Launch)?);
    let task: Option<Task> = receive(&mut BufReader::new(&socket)).map_err(AttachError::Launch)?;
    let done = match task {
        Some(Task::Device(task)) => device::hold(&task, &socket),
        Some(Task::Call(step)) => send(&socket, &step.perform()),
        None => Ok(()),
    };
    match done {
        // Its owner has ended and waits for no answer.
        Err(e) if e.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        done => done.map_err(AttachError::Launch),
    }
}

/// A service manager that stops a unit sends SIGTERM to all of its processes; the owner alone acts on it.
fn ignore_signals() {
    use tokio::signal::unix::SignalKind;
    let ignored = Arc::new(AtomicBool::new(false));
    for kind in [
        SignalKind::terminate(),
        SignalKind::interrupt(),
        SignalKind::hangup(),
    ] {
        let caught = signal_hook::flag::register(kind.as_raw_value(), ignored.clone());
        if let Err(e) = caught {
            tracing::warn!("a signal is not ignored: {e}");
        }
    }
}

/// Starts a worker with `task`; `input` becomes its standard input.
fn spawn(
    task: &Task,
    input: Option<OwnedFd>,
    name: Option<&str>,
) -> io::Result<(Child, UnixStream)> {
    let (ours, theirs) = UnixStream::pair()?;
    let mut command = Command::new(PROGRAM);
    if let Some(name) = name {
        command.arg0(name);
    }
    let child = command
        .arg(WORKER)
        .stdin(input.map_or_else(Stdio::null, Stdio::from))
        .stdout(OwnedFd::from(theirs))
        .spawn()?;
    // The command has its end of the socket until it is dropped, and the end of the worker would not show.
    drop(command);
    send(&ours, task)?;
    Ok((child, ours))
}

fn send(mut socket: &UnixStream, message: &impl Serialize) -> io::Result<()> {
    let mut bytes = serde_json::to_vec(message)?;
    bytes.push(b'\n');
    socket.write_all(&bytes)
}

/// The next message; `None` when the other end is gone.
fn receive<T: DeserializeOwned>(socket: &mut BufReader<&UnixStream>) -> io::Result<Option<T>> {
    let mut line = Vec::new();
    socket.take(LINE_LEN_MAX).read_until(b'\n', &mut line)?;
    if line.is_empty() {
        return Ok(None);
    }
    Ok(Some(serde_json::from_slice(&line)?))
}
