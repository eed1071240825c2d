//! [`DeviceTeardown`]: how the device itself is taken down, for each driver.

use std::path::PathBuf;
use std::time::Duration;

use tokio::task::JoinHandle;

use super::{RETRY_AFTER, TeardownOutcome};
use crate::fuse::FuseError;
use crate::kernel::NbdTeardown;
use crate::worker::{DeviceWorker, WorkerCall};

/// How long the close of a device may take: it writes what the device's page cache holds.
const CLOSE_FOR: Duration = Duration::from_secs(5);

/// The device, as far as it exists.
#[derive(Debug, Default)]
pub(crate) enum DeviceTeardown {
    /// There is none.
    #[default]
    None,
    /// A loop device.
    Loop(LoopTeardown),
    /// A device of the kernel's nbd.
    Nbd(NbdTeardown),
}

impl DeviceTeardown {
    /// Where the device is.
    pub(crate) fn device(&self) -> Option<PathBuf> {
        match self {
            Self::None => None,
            Self::Loop(device_teardown) => Some(device_teardown.path.clone()),
            Self::Nbd(device_teardown) => Some(device_teardown.path()),
        }
    }

    /// Fails what the device waits for.
    pub(crate) async fn cut(&mut self) -> TeardownOutcome {
        match self {
            Self::None => TeardownOutcome::Done,
            Self::Loop(device_teardown) => device_teardown.cut().await,
            Self::Nbd(device_teardown) => device_teardown.disconnect().await,
        }
    }

    /// Takes the device down, waiting up to `timeout` for programs that have it open.
    pub(super) async fn clear(&mut self, timeout: Duration) -> TeardownOutcome {
        let started = engine::clock::now();
        loop {
            let left = match self {
                Self::None => return TeardownOutcome::Done,
                Self::Loop(device_teardown) => device_teardown.clear().await,
                Self::Nbd(device_teardown) => device_teardown.clear().await,
            };
            let waited = engine::clock::now().duration_since(started);
            match left {
                TeardownOutcome::Busy(_) if waited < timeout => {
                    engine::clock::sleep(RETRY_AFTER).await;
                }
                outcome => return outcome,
            }
        }
    }
}

/// A loop device and, in the process that owns it, the FUSE server below.
#[derive(Debug)]
pub(crate) struct LoopTeardown {
    /// Where it is.
    pub(crate) path: PathBuf,
    /// Its label, which identifies it as ours.
    pub(crate) label: String,
    /// The worker that has the device open. It clears itself when no process has.
    pub(crate) worker: Option<DeviceWorker>,
    /// What answers its requests.
    pub(crate) serving: Option<JoinHandle<Result<(), FuseError>>>,
    /// What lets it grow.
    pub(crate) growing: Option<JoinHandle<()>>,
}

impl LoopTeardown {
    /// A device without an owner process.
    pub(crate) const fn orphan(path: PathBuf, label: String) -> Self {
        Self {
            path,
            label,
            worker: None,
            serving: None,
            growing: None,
        }
    }

    async fn stop_growing(&mut self) {
        if let Some(growing) = self.growing.take() {
            growing.abort();
            // It was aborted; how it ended says nothing.
            drop(growing.await);
        }
    }

    async fn cut(&mut self) -> TeardownOutcome {
        self.stop_growing().await;
        if let Some(serving) = self.serving.take() {
            serving.abort();
            // It was aborted; how it ended says nothing.
            drop(serving.await);
        }
        TeardownOutcome::Done
    }

    /// Closing the device may write what its page cache holds, so a worker does it.
    async fn clear(&mut self) -> TeardownOutcome {
        self.stop_growing().await;
        if let Some(worker) = self.worker.take() {
            match worker.release(CLOSE_FOR).await {
                TeardownOutcome::Done => {}
                outcome => return outcome,
            }
        }
        let step = WorkerCall::Clear {
            device: self.path.clone(),
            label: self.label.clone(),
        };
        step.execute(CLOSE_FOR).await
    }
}
