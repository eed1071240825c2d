//! The device worker: opens the disk's FUSE file, puts a loop device on it, and holds both until its owner ends.
//!
//! The loop device clears itself when no process has it open, and its last close writes what its page cache
//! holds. Both need the FUSE file's server, so another process than that has the device open.

use std::io::{self, BufReader};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::Child;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use engine::loopdev::{LoopDevice, LoopOptions};
use rustix::fs::{AtFlags, StatxFlags, statx};
use serde::{Deserialize, Serialize};

use super::{Task, receive, send, spawn};
use crate::daemon::{ROOT_NAME, lock_in_memory};
use crate::error::AttachError;
use crate::fuse::open_file;
use crate::sysfs;
use crate::teardown::{TeardownOutcome, on_thread};

/// The device to set up.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct DeviceTask {
    /// The label, which is also the name of the FUSE file.
    pub(crate) label: String,
    /// Logical block size, bytes.
    pub(crate) block_size: u32,
    /// Refuse writes.
    pub(crate) read_only: bool,
    /// The root filesystem will be on it.
    pub(crate) for_root: bool,
}

/// The reply to the task.
#[derive(Debug, Serialize, Deserialize)]
enum DeviceReply {
    /// The device is there.
    Device { path: PathBuf, direct_io: bool },
    /// It is not: why.
    Failed(String),
}

/// A later request.
#[derive(Debug, Serialize, Deserialize)]
enum DeviceRequest {
    /// Give the device the size that the FUSE file has now.
    FollowSize,
}

/// The owner's side. Dropping the last clone lets the worker close the device.
#[derive(Debug, Clone)]
pub(crate) struct DeviceWorker {
    socket: Arc<UnixStream>,
    child: Arc<Mutex<Child>>,
    path: PathBuf,
}

impl DeviceWorker {
    /// Starts a worker that holds `mount`, and returns when it has set the device up. Blocks; the FUSE file must
    /// be served meanwhile.
    ///
    /// # Errors
    /// [`AttachError`]; no device is left then.
    pub(crate) fn start(mount: OwnedFd, task: DeviceTask) -> Result<Self, AttachError> {
        let name = task.for_root.then_some(ROOT_NAME);
        let (child, socket) =
            spawn(&Task::Device(task), Some(mount), name).map_err(AttachError::Launch)?;
        let answer = receive(&mut BufReader::new(&socket)).map_err(AttachError::Launch)?;
        match answer {
            Some(DeviceReply::Device { path, direct_io }) => {
                if !direct_io {
                    tracing::warn!("the loop device does without direct I/O: it will be slow");
                }
                Ok(Self {
                    socket: Arc::new(socket),
                    child: Arc::new(Mutex::new(child)),
                    path,
                })
            }
            Some(DeviceReply::Failed(why)) => Err(AttachError::Device(why)),
            None => Err(AttachError::Device(
                "the process that holds the loop device ended".to_owned(),
            )),
        }
    }

    /// Where the device is.
    pub(crate) const fn path(&self) -> &PathBuf {
        &self.path
    }

    /// Gives the device the size that the FUSE file has now. Blocks until that is served.
    ///
    /// # Errors
    /// Why it has not.
    pub(crate) fn follow_size(&self) -> Result<(), String> {
        let reply = send(&self.socket, &DeviceRequest::FollowSize)
            .and_then(|()| receive(&mut BufReader::new(&*self.socket)));
        match reply {
            Ok(Some(done)) => done,
            Ok(None) => Err("the process that holds the loop device ended".to_owned()),
            Err(e) => Err(e.to_string()),
        }
    }

    /// Has the worker close the device, and waits up to `timeout` for it to end.
    pub(crate) async fn release(self, timeout: Duration) -> TeardownOutcome {
        // It may be shut down from the other side already.
        drop(self.socket.shutdown(std::net::Shutdown::Both));
        on_thread(timeout, move || {
            let mut child = self.child.lock().unwrap_or_else(PoisonError::into_inner);
            match child.wait() {
                Ok(_) => TeardownOutcome::Done,
                Err(e) => TeardownOutcome::Failed(e.to_string()),
            }
        })
        .await
    }
}

/// The worker's side: sets the device up, answers, and holds it until the owner's end of `socket` is closed.
pub(super) fn hold(task: &DeviceTask, socket: &UnixStream) -> io::Result<()> {
    if task.for_root {
        lock_in_memory();
    }
    let mount = io::stdin().as_fd().try_clone_to_owned()?;
    let (file, device) = match set_up(&mount, task) {
        Ok(made) => made,
        Err(why) => return send(socket, &DeviceReply::Failed(why)),
    };
    sysfs::tune(device.path(), None);
    let direct_io = matches!(device.status(), Ok(Some(status)) if status.direct_io);
    let path = device.path().clone();
    send(socket, &DeviceReply::Device { path, direct_io })?;
    let mut requests = BufReader::new(socket);
    while let Ok(Some(DeviceRequest::FollowSize)) = receive(&mut requests) {
        send(socket, &follow_size(&file, &device))?;
    }
    Ok(())
}

fn set_up(mount: &OwnedFd, task: &DeviceTask) -> Result<(OwnedFd, LoopDevice), String> {
    let file = open_file(mount, &task.label, task.read_only).map_err(|e| e.to_string())?;
    let options = LoopOptions {
        label: &task.label,
        block_size: task.block_size,
        read_only: task.read_only,
    };
    let device =
        LoopDevice::attach(file.as_fd(), &options).map_err(|e| AttachError::Loop(e).to_string())?;
    Ok((file, device))
}

/// The file's size first, of which the kernel keeps a copy, then the device's.
fn follow_size(file: &OwnedFd, device: &LoopDevice) -> Result<(), String> {
    let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_FORCE_SYNC;
    statx(file, "", flags, StatxFlags::SIZE).map_err(|e| format!("the disk's file: {e}"))?;
    device.follow_size().map_err(|e| e.to_string())
}
