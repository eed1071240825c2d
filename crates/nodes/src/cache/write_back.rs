//! What is written of the table and the marks, and when.
//!
//! # Invariants
//!
//! * The marks of a change are durable before it goes to the disk. Changes that wait together share one write.
//! * A checkpoint writes the table, flushes the disk, syncs the file, and only then clears the marks that no change has touched since
//!   it began. The clearing itself may be lost: then more is dropped than had to be.
//! * The table and the marks have one writer each, which writes what is right at that moment: no older bytes land
//!   behind newer ones. Writers run as tasks, which no request takes with it when it is dropped.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use block::{Errno, IoError, Range, TryIo, WriteFlags};

use super::Shared;
use super::format::{MARKS_AT, SECTOR, TABLE_PAGE, encode_marks};
use super::marks::MarkSector;
use crate::guard::flush;

/// From one checkpoint to the next while there are marks, or blocks that were not synced.
pub(super) const CHECKPOINT_INTERVAL: Duration = Duration::from_secs(5);

/// What is to be written by tasks: whether checkpoints are scheduled.
#[derive(Debug, Default)]
pub(super) struct CheckpointTimer {
    is_scheduled: AtomicBool,
    /// A task will write the table.
    is_draining: AtomicBool,
}

impl Shared {
    /// Waits until the regions that wait for it are marked durably, or the cache file has failed.
    pub(super) async fn mark(self: &Arc<Self>) {
        let shared = self.clone();
        let ticket = self.tasks.ticket();
        let task = engine::spawn(async move {
            let marked = shared.mark_wanted().await;
            if let Err(error) = marked {
                shared.fail(&error);
            }
            drop(ticket);
        });
        if let Err(error) = task.await {
            self.fail_because(&format!("the marks were not written: {error}"));
        }
    }

    async fn mark_wanted(&self) -> Result<(), IoError> {
        let _one = self.marks.lock().await;
        let (wanted, sectors) = {
            let state = self.state();
            let wanted = state.marks.wanted();
            let sectors = state.marks.sectors(&wanted);
            (wanted, sectors)
        };
        if wanted.is_empty() || self.failure.get().is_some() {
            return Ok(());
        }
        let has_fua = self.store.geometry().fua.any();
        let flags = match has_fua {
            true => WriteFlags::FUA,
            false => WriteFlags::empty(),
        };
        for sector in sectors {
            self.write_marks(&sector, flags).await?;
        }
        if !has_fua {
            flush(&self.store).await?;
        }
        self.state().marks.set_durable(&wanted);
        Ok(())
    }

    async fn write_marks(&self, marks: &MarkSector, flags: WriteFlags) -> Result<(), IoError> {
        let bytes = encode_marks(&self.id, marks.sector, &marks.bits);
        let at = Range::new(MARKS_AT + marks.sector * SECTOR, SECTOR);
        let data = std::iter::once(bytes.to_vec().into()).collect();
        self.store.write(at, data, flags).await
    }

    /// Writes the entries that have changed, now or in the background.
    pub(super) fn write_table(self: &Arc<Self>) {
        if let Ok(_one) = self.table.try_lock()
            && self.try_drain_table() == TryIo::Done
        {
            return;
        }
        if self.timer.is_draining.swap(true, Ordering::AcqRel) {
            return;
        }
        let shared = self.clone();
        let ticket = self.tasks.ticket();
        drop(engine::spawn(async move {
            if let Err(error) = shared.drain_table().await {
                shared.fail(&error);
            }
            drop(ticket);
        }));
    }

    fn try_drain_table(&self) -> TryIo {
        let pages = self.state().slots.dirty_pages();
        for page in pages {
            let bytes = self.state().slots.take_dirty_page(page, &self.id);
            let Some(bytes) = bytes else {
                continue;
            };
            if self.store.try_write(self.page_at(page), &bytes) == TryIo::WouldBlock {
                self.state().slots.put_back_page(page);
                return TryIo::WouldBlock;
            }
        }
        TryIo::Done
    }

    fn page_at(&self, page: u64) -> Range {
        Range::new(self.layout.table_at() + page * TABLE_PAGE, TABLE_PAGE)
    }

    /// Writes all entries that have changed. False: a full filesystem has no place for some of them.
    async fn drain_table(&self) -> Result<bool, IoError> {
        let _one = self.table.lock().await;
        self.timer.is_draining.store(false, Ordering::Release);
        let pages = self.state().slots.dirty_pages();
        for page in pages {
            let bytes = self.state().slots.take_dirty_page(page, &self.id);
            let Some(bytes) = bytes else {
                continue;
            };
            let data = std::iter::once(bytes.into()).collect();
            let at = self.page_at(page);
            if let Err(error) = self.store.write(at, data, WriteFlags::empty()).await {
                self.state().slots.put_back_page(page);
                return match error.errno {
                    Errno::NoSpace => Ok(false),
                    _ => Err(error),
                };
            }
        }
        Ok(true)
    }

    /// Writes what has changed, syncs the file, and clears the marks of regions that were idle meanwhile.
    /// Only regions that no change behind number `before` has entered.
    pub(super) async fn checkpoint(self: &Arc<Self>, before: u64) {
        let shared = self.clone();
        let ticket = self.tasks.ticket();
        let task = engine::spawn(async move {
            if let Err(error) = shared.sync_and_clear(before).await {
                shared.fail(&error);
            }
            drop(ticket);
        });
        if let Err(error) = task.await {
            tracing::debug!("{}: no checkpoint: {error}", self.name);
        }
    }

    async fn sync_and_clear(&self, before: u64) -> Result<(), IoError> {
        if self.failure.get().is_some() {
            return Ok(());
        }
        let (candidates, stored, has_unsynced) = {
            let state = self.state();
            let slots = &state.slots;
            let candidates = state.marks.candidates(before);
            (candidates, slots.stored(), slots.has_unsynced())
        };
        let mut clears = self.drain_table().await? && !candidates.is_empty();
        // A disk that loses what was not flushed would hold less than the cache.
        if clears && let Err(error) = flush(&self.child).await {
            tracing::debug!("{}: its marks stay: {error}", self.name);
            clears = false;
        }
        if clears || has_unsynced {
            flush(&self.store).await?;
            self.state().slots.set_synced(stored);
        }
        if !clears {
            return Ok(());
        }
        let _one = self.marks.lock().await;
        let sectors = {
            let mut state = self.state();
            // What a failed file holds on its medium is protected by its marks alone.
            if state.slots.is_disabled() {
                return Ok(());
            }
            let cleared = state.marks.clear(&candidates);
            state.marks.sectors(&cleared)
        };
        for sector in sectors {
            self.write_marks(&sector, WriteFlags::empty()).await?;
        }
        Ok(())
    }

    /// The last checkpoint, durable.
    pub(super) async fn close(self: &Arc<Self>) {
        self.is_closing.store(true, Ordering::Release);
        if let Err(error) = self.settle().await {
            tracing::debug!("{}: {error}", self.name);
        }
        self.checkpoint(u64::MAX).await;
        if self.failure.get().is_some() {
            return self.retire().await;
        }
        if let Err(error) = flush(&self.store).await {
            self.fail(&error);
            self.retire().await;
        }
    }

    /// Has checkpoints made until no mark is left, and everything that was stored is synced.
    pub(super) fn schedule_checkpoint(self: &Arc<Self>) {
        if self.timer.is_scheduled.swap(true, Ordering::AcqRel) {
            return;
        }
        let shared = Arc::downgrade(self);
        drop(engine::spawn(checkpoints(shared)));
    }
}

/// Keeps the cache open only while it works.
async fn checkpoints(shared: Weak<Shared>) {
    let mut before = 0;
    loop {
        engine::clock::sleep(CHECKPOINT_INTERVAL).await;
        let Some(shared) = shared.upgrade() else {
            return;
        };
        shared.checkpoint(before).await;
        before = shared.state().now();
        if shared.failure.get().is_some() {
            return;
        }
        // What enters from here on schedules the next one.
        let is_clear = || {
            let state = shared.state();
            state.marks.is_empty() && !state.slots.has_unsynced()
        };
        if is_clear() {
            shared.timer.is_scheduled.store(false, Ordering::Release);
            if is_clear() || shared.timer.is_scheduled.swap(true, Ordering::AcqRel) {
                return;
            }
        }
    }
}
