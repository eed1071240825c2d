//! What happens after an error of the cache file, or when the disk is changed by another way: requests go to the disk,
//! and the file is dropped for good.
//!
//! # Invariants
//!
//! * A change that is not marked goes to the disk only after the header was changed, durably, so that no later open
//!   uses the file, or after that failed too. It is tried again with later changes, and at the end.
//!
//! # What it does not do
//!
//! A medium that takes no write at all keeps what it holds, and an error says that the file must be removed before
//! it is used again. One that stays so is refused by the next open, which writes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use block::{IoError, Range, WriteFlags};
use tokio::sync::Mutex;

use super::Shared;
use super::format::{CacheHeader, HEADER_STEP, HEADERS};

/// From one attempt to change the header to the next.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// How far the file was dropped.
#[derive(Debug, Default)]
pub(super) struct Retirement {
    is_done: AtomicBool,
    /// When the next attempt may be made.
    next: Mutex<Option<Instant>>,
}

impl Shared {
    /// The cache file failed: from now on all requests go to the disk.
    pub(super) fn fail(self: &Arc<Self>, error: &IoError) {
        self.fail_because(&error.to_string());
    }

    pub(super) fn fail_because(self: &Arc<Self>, why: &str) {
        if self.failure.set(why.to_owned()).is_err() {
            return;
        }
        tracing::error!(
            "the cache file {} failed: {why}; all requests go to the disk, and the cache is dropped",
            self.name
        );
        self.state().slots.disable();
        let shared = self.clone();
        let ticket = self.tasks.ticket();
        drop(engine::spawn(async move {
            shared.retire().await;
            drop(ticket);
        }));
    }

    /// Drops what the file holds although nothing failed.
    pub(super) async fn discard(self: &Arc<Self>, why: &str) -> Result<(), String> {
        if self.failure.set(why.to_owned()).is_ok() {
            tracing::info!("the cache file {} is dropped: {why}", self.name);
            self.state().slots.disable();
        }
        self.retire().await;
        match self.is_retired() {
            true => Ok(()),
            false => Err(format!("the cache file {} takes no write", self.name)),
        }
    }

    /// Whether no later open will use what the file holds.
    pub(super) fn is_retired(&self) -> bool {
        self.retirement.is_done.load(Ordering::Acquire)
    }

    /// Changes the header so that no later open uses what the file holds. An attempt runs to its end, also where the
    /// request that waits for it is dropped.
    pub(super) async fn retire(self: &Arc<Self>) {
        if self.is_retired() {
            return;
        }
        let shared = self.clone();
        let ticket = self.tasks.ticket();
        let attempt = engine::spawn(async move {
            shared.try_to_retire().await;
            drop(ticket);
        });
        // A panic of it is logged; the next change tries again.
        drop(attempt.await);
    }

    async fn try_to_retire(&self) {
        let mut next = self.retirement.next.lock().await;
        let now = engine::clock::now();
        if self.is_retired() || next.is_some_and(|next| now < next) {
            return;
        }
        let is_first = next.is_none();
        *next = Some(now + RETRY_AFTER);
        match self.write_dropped_header().await {
            Ok(()) => self.retirement.is_done.store(true, Ordering::Release),
            Err(error) if is_first => tracing::error!(
                "the cache file {} cannot be marked as dropped: {error}; REMOVE IT before it is used again",
                self.name
            ),
            Err(_) => {}
        }
    }

    async fn write_dropped_header(&self) -> Result<(), IoError> {
        let header = CacheHeader {
            id: self.id,
            is_dropped: true,
            sequence: self.sequence + 1,
            disk_size: self.layout.disk_size,
            slots: self.layout.slots,
            identity: self.identity.clone(),
            opening: 0,
        };
        let bytes = bytes::Bytes::copy_from_slice(&header.encode());
        for copy in 0..HEADERS {
            let at = Range::new(copy * HEADER_STEP, bytes.len() as u64);
            let data = std::iter::once(bytes.clone()).collect();
            self.store.write(at, data, WriteFlags::empty()).await?;
        }
        let flushed = self.store.flush().await;
        let Err(error) = flushed else {
            return Ok(());
        };
        // After a failed flush a disk reports no other one as successful; its file may.
        let region = self.store.file_region(Range::new(0, 0));
        let Some(file) = region.map(|region| region.file) else {
            return Err(error);
        };
        let synced = engine::blocking(move || rustix::fs::fdatasync(&file)).await;
        synced.map_err(|_| error)
    }
}
