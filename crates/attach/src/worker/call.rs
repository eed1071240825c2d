//! [`WorkerCall`]: one call that may block, and its outcome.

use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::time::Duration;

use engine::loopdev::LoopDevice;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use super::{Task, receive, spawn};
use crate::mount::{self, UnmountMode};
use crate::sysfs;
use crate::teardown::{TeardownOutcome, on_thread};
use crate::users;

/// One call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum WorkerCall {
    /// umount(2).
    Unmount(PathBuf),
    /// umount(2) with `MNT_DETACH`.
    UnmountLazily(PathBuf),
    /// rmdir(2). Where the directory is a mount point in another mount namespace still, the kernel unmounts that.
    RemoveDir(PathBuf),
    /// syncfs(2) of the filesystem mounted here.
    Sync(PathBuf),
    /// fsync(2) of the device.
    Flush(PathBuf),
    /// `LOOP_CLR_FD` of the device, if it has this label.
    Clear {
        /// The device.
        device: PathBuf,
        /// The label.
        label: String,
    },
    /// Whether the device has this label: `Done`, else `Failed`.
    Identify {
        /// The device.
        device: PathBuf,
        /// The label.
        label: String,
    },
    /// Opens the device, so that the kernel reads its partition table, and sets its queue limits.
    Prepare {
        /// The device.
        device: PathBuf,
        /// Largest request, KiB.
        request_kib: Option<u32>,
    },
}

impl WorkerCall {
    /// Makes the call in a worker, for `timeout` at most. The worker is left alone then: it ends when the call
    /// returns.
    pub(crate) async fn execute(self, timeout: Duration) -> TeardownOutcome {
        on_thread(timeout, move || {
            self.in_worker()
                .unwrap_or_else(|e| TeardownOutcome::Failed(format!("its worker process: {e}")))
        })
        .await
    }

    /// Waits for a worker, which a signal can interrupt at any time.
    fn in_worker(self) -> std::io::Result<TeardownOutcome> {
        let (mut child, socket) = spawn(&Task::Call(self), None, None)?;
        let outcome = receive(&mut BufReader::new(&socket));
        child.wait()?;
        let ended = || TeardownOutcome::Failed("its worker process ended".to_owned());
        Ok(outcome?.unwrap_or_else(ended))
    }

    /// Makes the call.
    pub(super) fn perform(self) -> TeardownOutcome {
        match self {
            Self::Unmount(dir) => match mount::unmount(&dir, UnmountMode::Now) {
                Ok(()) => TeardownOutcome::Done,
                Err(Errno::BUSY) => TeardownOutcome::Busy(users::users_of_mount(&dir)),
                Err(e) => TeardownOutcome::Failed(e.to_string()),
            },
            Self::UnmountLazily(dir) => outcome_of(mount::unmount(&dir, UnmountMode::Lazily)),
            Self::RemoveDir(dir) => match std::fs::remove_dir(dir) {
                Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
                    TeardownOutcome::Failed(e.to_string())
                }
                _ => TeardownOutcome::Done,
            },
            Self::Sync(dir) => {
                let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
                let opened = rustix::fs::open(&dir, flags, Mode::empty());
                outcome_of(opened.and_then(rustix::fs::syncfs))
            }
            Self::Flush(device) => {
                let flags = OFlags::RDWR | OFlags::CLOEXEC;
                let opened = rustix::fs::open(&device, flags, Mode::empty());
                outcome_of(opened.and_then(rustix::fs::fsync))
            }
            Self::Clear { device, label } => clear(device, &label),
            Self::Identify { device, label } => match has_label(device, &label) {
                true => TeardownOutcome::Done,
                false => TeardownOutcome::Failed("it is another's".to_owned()),
            },
            Self::Prepare {
                device,
                request_kib,
            } => {
                sysfs::tune(&device, request_kib);
                let flags = OFlags::RDONLY | OFlags::CLOEXEC;
                outcome_of(rustix::fs::open(&device, flags, Mode::empty()).map(drop))
            }
        }
    }
}

fn outcome_of(result: rustix::io::Result<()>) -> TeardownOutcome {
    match result {
        Ok(()) => TeardownOutcome::Done,
        Err(e) => TeardownOutcome::Failed(e.to_string()),
    }
}

fn clear(path: PathBuf, label: &str) -> TeardownOutcome {
    let ours = LoopDevice::open(path.clone()).and_then(|device| {
        let ours = device.status()?.is_some_and(|s| s.label == label);
        if ours {
            device.clear()?;
        }
        Ok(ours)
    });
    // The device was closed just now: whether it is clear shows at the next look.
    match ours {
        Ok(false) => TeardownOutcome::Done,
        Ok(true) => TeardownOutcome::Busy(users::users_of_device(&path)),
        Err(e) => TeardownOutcome::Failed(e.to_string()),
    }
}

fn has_label(path: PathBuf, label: &str) -> bool {
    let status = LoopDevice::open(path).and_then(|device| device.status());
    matches!(status, Ok(Some(status)) if status.label == label)
}

/// Whether the loop device at `path` is the one with this label.
pub(crate) async fn is_ours(path: &Path, label: &str, timeout: Duration) -> bool {
    let step = WorkerCall::Identify {
        device: path.to_owned(),
        label: label.to_owned(),
    };
    step.execute(timeout).await == TeardownOutcome::Done
}
