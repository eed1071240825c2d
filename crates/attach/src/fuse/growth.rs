//! Lets the loop device grow with the disk below it: the file first, then the device.
//!
//! The file's size is what the FUSE server answers from the disk's geometry; the kernel keeps a copy
//! that it fetches again here.

use std::time::{Duration, Instant};

use block::Node;
use tokio::sync::mpsc;

use crate::growth::{GROWTH_EVERY, LastSizeFailure, SizeReply, answer};
use crate::remote::Remote;
use crate::sysfs;
use crate::worker::DeviceWorker;

/// How often the disk's geometry is looked at: a reconnect may have found it larger.
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// A device that follows its disk.
#[derive(Debug)]
pub(crate) struct SizeFollower {
    /// The disk's server.
    pub(crate) remote: Remote,
    /// The disk.
    pub(crate) disk: Node,
    /// The worker that has the disk's file and the device on it open.
    pub(crate) device: DeviceWorker,
    /// The size both have, bytes.
    pub(crate) size: u64,
}

impl SizeFollower {
    /// Fetches the size from the server at intervals and at each request, until it is dropped.
    pub(crate) async fn follow(mut self, mut size_requests: mpsc::Receiver<SizeReply>) {
        let mut looked: Instant = engine::clock::now();
        let mut last_failure = LastSizeFailure::default();
        loop {
            let reply = tokio::select! {
                () = engine::clock::sleep(LOOK_EVERY) => None,
                Some(reply) = size_requests.recv() => Some(reply),
            };
            let now = engine::clock::now();
            let refresh = reply.is_some() || now.duration_since(looked) >= GROWTH_EVERY;
            let mut result = Ok(());
            if refresh {
                looked = now;
                result = self.remote.refresh_size().await;
            }
            if sysfs::device_size(self.disk.geometry().size) > self.size {
                result = result.and(self.grow().await);
            }
            // Where nothing was fetched, a failure of before may still be there.
            if (refresh || result.is_err())
                && last_failure.is_new(&result)
                && let Err(why) = &result
            {
                tracing::warn!("the size of the disk: {why}");
            }
            answer(reply, result.map(|()| self.size));
        }
    }

    async fn grow(&mut self) -> Result<(), String> {
        let size = sysfs::device_size(self.disk.geometry().size);
        sysfs::check_shape(size, self.disk.geometry().block_size)?;
        let device = self.device.clone();
        engine::blocking(move || device.follow_size()).await?;
        tracing::info!(
            was = self.size,
            size,
            "the disk has grown, and the device with it"
        );
        self.size = size;
        Ok(())
    }
}
