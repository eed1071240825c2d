//! [`Behind`]: has the target's disk work behind what a copy writes.
//!
//! A file's pages are written out: the kernel starts writeback, and the copy does not wait. Any other target is flushed.
//!
//! # Invariants
//!
//! * One write-out or flush at a time, and the copy never waits for it.
//! * A flush that fails is reported: the copy fails with it.
//!
//! # What it does not do
//!
//! It is not the flush that the copy owes at its end. A write-out that fails says nothing about the
//! disk; that flush does.

use std::sync::Arc;

use engine::{DiskFile, Ticket};
use futures_util::future::BoxFuture;

use super::pieces::{Disks, spread};
use super::{CopyError, CopyOptions, Counts};

/// A flush begins when so many bytes were written since the last one began. Measured on a copy of
/// 1 GiB onto a file: 0.81 s with this, 1.12 s with twice as much, 1.42 s with one flush at the end.
const FLUSH_MAX: u64 = 64 << 20;

/// The same for a write-out, which commits no journal. Measured likewise, on another disk, medians of
/// four: 1.51 s with flushes, 0.84 s with 2 MiB, 1.14 s with 8 MiB, 0.77 s with 32 MiB (0.81 s nbdcopy).
const WRITE_OUT_MAX: u64 = 8 << 20;

/// The writeback in flight during a copy.
pub(super) struct Behind {
    disks: Arc<Disks>,
    file: Option<DiskFile>,
    cores: Option<engine::Handle>,
    /// Written since the last one began, bytes.
    written: u64,
    work: Option<BoxFuture<'static, Result<Counts, CopyError>>>,
}

impl Behind {
    pub(super) fn new(disks: Arc<Disks>, options: &CopyOptions) -> Self {
        Self {
            disks,
            file: options.target_file.clone(),
            cores: options.cores.clone(),
            written: 0,
            work: None,
        }
    }

    /// So many bytes were written. Begins a write-out or a flush where it is time.
    pub(super) fn wrote(&mut self, bytes: u64) {
        self.written += bytes;
        if self.work.is_some() {
            return;
        }
        self.work = match &self.file {
            Some(file) if self.written >= WRITE_OUT_MAX => Some(write_out(file)),
            None if self.written >= FLUSH_MAX => self.flush(),
            _ => return,
        };
        self.written = 0;
    }

    fn flush(&self) -> Option<BoxFuture<'static, Result<Counts, CopyError>>> {
        if !self.disks.target.geometry().flush.any() {
            return None;
        }
        let disks = self.disks.clone();
        let flush = async move {
            let flushed = disks.target.flush().await;
            flushed.map_err(CopyError::Target)?;
            Ok(Counts::default())
        };
        Some(spread(self.cores.as_ref(), flush))
    }

    /// Waits for the writeback in flight: the kernel may report a failure only once.
    pub(super) async fn finish(self) -> Result<(), CopyError> {
        match self.work {
            None => Ok(()),
            Some(work) => work.await.map(drop),
        }
    }

    /// Resolves when what goes on has ended, and never where nothing does.
    pub(super) async fn ended(&mut self) -> Result<(), CopyError> {
        match &mut self.work {
            None => std::future::pending().await,
            Some(work) => {
                let ended = work.await;
                self.work = None;
                ended.map(drop)
            }
        }
    }
}

fn write_out(file: &DiskFile) -> BoxFuture<'static, Result<Counts, CopyError>> {
    let begun = file.start_write_out(Ticket::none());
    Box::pin(async move {
        if let Err(error) = begun.await {
            tracing::debug!("the kernel does not write out ahead of the flush: {error}");
        }
        Ok(Counts::default())
    })
}
