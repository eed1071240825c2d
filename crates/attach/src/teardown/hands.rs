//! [`Hands`]: what a teardown does to the device itself, for each way a disk is attached.

use std::path::PathBuf;
use std::time::Duration;

use engine::loopdev::LoopDevice;
use tokio::task::JoinHandle;

use super::{Outcome, RETRY_AFTER, on_thread};
use crate::fuse::FuseError;
use crate::kernel::NbdHands;
use crate::users;

/// How long the close of a device may take: it writes what the device's page cache holds.
const CLOSE_FOR: Duration = Duration::from_secs(5);

/// The device, as far as it exists.
#[derive(Debug, Default)]
pub(crate) enum Hands {
    /// There is none.
    #[default]
    None,
    /// A loop device.
    Loop(LoopHands),
    /// A device of the kernel's nbd.
    Nbd(NbdHands),
}

impl Hands {
    /// Where the device is.
    pub(crate) fn device(&self) -> Option<PathBuf> {
        match self {
            Self::None => None,
            Self::Loop(hands) => Some(hands.path.clone()),
            Self::Nbd(hands) => Some(hands.path()),
        }
    }

    /// Fails what the device waits for.
    pub(super) async fn cut(&mut self) -> Outcome {
        match self {
            Self::None => Outcome::Done,
            Self::Loop(hands) => hands.cut().await,
            Self::Nbd(hands) => hands.disconnect().await,
        }
    }

    /// Takes the device down, waiting up to `patience` for programs that have it open.
    pub(super) async fn clear(&mut self, patience: Duration) -> Outcome {
        let started = engine::clock::now();
        loop {
            let left = match self {
                Self::None => return Outcome::Done,
                Self::Loop(hands) => hands.clear().await,
                Self::Nbd(hands) => hands.clear().await,
            };
            let waited = engine::clock::now().duration_since(started);
            match left {
                Outcome::Busy(_) if waited < patience => {
                    engine::clock::sleep(RETRY_AFTER).await;
                }
                outcome => return outcome,
            }
        }
    }
}

/// A loop device and, in the process that owns it, the FUSE server below.
#[derive(Debug)]
pub(crate) struct LoopHands {
    /// Where it is.
    pub(crate) path: PathBuf,
    /// By this it is known to be ours.
    pub(crate) label: String,
    /// The open device. It clears itself when nobody has it open.
    pub(crate) device: Option<LoopDevice>,
    /// What answers its requests.
    pub(crate) serving: Option<JoinHandle<Result<(), FuseError>>>,
    /// What lets it grow. It keeps the disk's file open.
    pub(crate) growing: Option<JoinHandle<()>>,
}

impl LoopHands {
    /// A device whose process is dead.
    pub(crate) const fn orphan(path: PathBuf, label: String) -> Self {
        Self {
            path,
            label,
            device: None,
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

    async fn cut(&mut self) -> Outcome {
        self.stop_growing().await;
        if let Some(serving) = self.serving.take() {
            serving.abort();
            // It was aborted; how it ended says nothing.
            drop(serving.await);
        }
        Outcome::Done
    }

    /// Closing the device may write what its page cache holds, so it happens on a thread.
    async fn clear(&mut self) -> Outcome {
        self.stop_growing().await;
        let device = self.device.take();
        let (path, label) = (self.path.clone(), self.label.clone());
        on_thread(CLOSE_FOR, move || clear_loop(device, path, &label)).await
    }
}

fn clear_loop(device: Option<LoopDevice>, path: PathBuf, label: &str) -> Outcome {
    let device = device.map_or_else(|| LoopDevice::open(path.clone()), Ok);
    let ours = device.and_then(|device| {
        let ours = device.status()?.is_some_and(|s| s.label == label);
        if ours {
            device.clear()?;
        }
        Ok(ours)
    });
    // The device was closed just now: whether it is clear shows at the next look.
    match ours {
        Ok(false) => Outcome::Done,
        Ok(true) => Outcome::Busy(users::of_device(&path)),
        Err(e) => Outcome::Failed(e.to_string()),
    }
}

/// Whether the loop device at `path` is the one with this label.
pub(crate) fn is_ours(path: PathBuf, label: &str) -> bool {
    let status = LoopDevice::open(path).and_then(|device| device.status());
    matches!(status, Ok(Some(status)) if status.label == label)
}
