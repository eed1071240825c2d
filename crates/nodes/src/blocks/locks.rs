//! [`Locks`]: waits for a turn in the [`TurnTable`].

use std::sync::{Mutex, MutexGuard, PoisonError};

use block::{BlockDevice, IoError, Range};
use tokio::sync::{Notify, Semaphore, SemaphorePermit};

use super::state::{Access, Turn, TurnTable};

/// Changes that are in flight or wait for their blocks; more of them wait for these, in order.
pub(super) const CHANGES_MAX: usize = 256;

/// The turns of all changes.
#[derive(Debug)]
pub(super) struct Locks {
    table: Mutex<TurnTable>,
    places: Semaphore,
    left: Notify,
}

impl Locks {
    pub(super) fn new() -> Self {
        Self {
            table: Mutex::default(),
            places: Semaphore::new(CHANGES_MAX),
            left: Notify::new(),
        }
    }

    /// Waits until `blocks` may be changed, and until nothing can land on them late.
    pub(super) async fn take(
        &self,
        blocks: Range,
        access: Access,
        child: &dyn BlockDevice,
    ) -> Result<Guard<'_>, IoError> {
        let place = self.places.acquire().await;
        let guard = Guard {
            _place: place.expect("the semaphore is never closed"),
            locks: self,
            turn: self.table().enter(blocks, access),
            in_flight: false,
        };
        loop {
            let left = self.left.notified();
            tokio::pin!(left);
            left.as_mut().enable();
            if self.table().is_ready(guard.turn) {
                break;
            }
            left.await;
        }
        // A later request that could leave an abandoned write on these blocks needs a turn on them first.
        if self.table().is_blocked_by_abandoned(blocks) {
            self.settle(child).await?;
        }
        Ok(guard)
    }

    /// The same without waiting, for a change that fills its blocks.
    pub(super) fn try_take(&self, blocks: Range) -> Option<Guard<'_>> {
        let place = self.places.try_acquire().ok()?;
        let mut table = self.table();
        if table.is_blocked_by_abandoned(blocks) {
            return None;
        }
        let turn = table.enter(blocks, Access::Beside);
        if table.is_ready(turn) {
            drop(table);
            return Some(Guard {
                locks: self,
                turn,
                in_flight: false,
                _place: place,
            });
        }
        table.leave(turn);
        drop(table);
        // Another request may have begun to wait for this turn in between.
        self.left.notify_waiters();
        None
    }

    /// Waits for what was abandoned.
    pub(super) async fn settle(&self, child: &dyn BlockDevice) -> Result<(), IoError> {
        let before = self.table().now();
        child.settle().await?;
        self.table().settled(before);
        Ok(())
    }

    fn table(&self) -> MutexGuard<'_, TurnTable> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A turn on some blocks; over when it is dropped.
#[derive(Debug)]
pub(super) struct Guard<'a> {
    locks: &'a Locks,
    turn: Turn,
    /// A rewrite of blocks that are not filled is on its way below.
    in_flight: bool,
    _place: SemaphorePermit<'a>,
}

impl Guard<'_> {
    /// Runs a rewrite. If it is dropped before its end, its blocks are blocked by an abandoned write.
    pub(super) async fn rewrite<T>(&mut self, below: impl Future<Output = T>) -> T {
        self.in_flight = true;
        let result = below.await;
        self.in_flight = false;
        result
    }
}

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        let mut table = self.locks.table();
        if self.in_flight {
            table.abandon(self.turn);
        } else {
            table.leave(self.turn);
        }
        drop(table);
        self.locks.left.notify_waiters();
    }
}
