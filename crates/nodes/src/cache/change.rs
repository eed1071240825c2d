//! Changes: marked first, then carried out by the disk, then stored.

use std::sync::Arc;

use block::{IoBufs, IoError, IoFuture, Range};

use super::Shared;
use super::fill::whole_bytes;
use super::state::CacheChangeId;

/// Changes that may land late, before the disk is waited for.
const ABANDONED_MAX: usize = 64;

/// A change in flight. One that is dropped once it was sent may land late.
struct ChangeGuard<'a> {
    shared: &'a Shared,
    id: Option<CacheChangeId>,
    is_sent: bool,
}

impl Drop for ChangeGuard<'_> {
    fn drop(&mut self) {
        let Some(id) = self.id.take() else {
            return;
        };
        let mut state = self.shared.state();
        match self.is_sent {
            true => state.abandon_change(id),
            false => state.cancel_change(id),
        }
    }
}

impl Shared {
    /// Carries out a change of `range`, which makes it `data`, or something else.
    pub(super) async fn change<'a>(
        self: &'a Arc<Self>,
        range: Range,
        data: Option<IoBufs>,
        request: impl FnOnce() -> IoFuture<'a, ()> + Send,
    ) -> Result<(), IoError> {
        if range.is_empty() {
            return request().await;
        }
        if self.state().abandoned_count() > ABANDONED_MAX {
            self.settle_disk().await;
        }
        let (id, is_marked) = self.state().begin_change(range);
        let mut guard = ChangeGuard {
            shared: self,
            id: Some(id),
            is_sent: false,
        };
        if !is_marked && self.failure.get().is_none() {
            self.schedule_checkpoint();
            self.mark().await;
        }
        if self.failure.get().is_some() {
            self.retire().await;
        }
        guard.is_sent = true;
        // A failed one stays in the guard, which abandons it.
        request().await?;
        guard.id = None;
        let jobs = self.state().finish_change(id, data.is_some());
        if let Some(data) = data.filter(|_| !jobs.is_empty()) {
            self.store_jobs(jobs, range, &whole_bytes(data));
        }
        Ok(())
    }

    /// Waits for changes that were dropped, and for what is on its way to the cache file.
    pub(super) async fn settle(&self) -> Result<(), IoError> {
        let moment = self.state().now();
        self.child.settle().await?;
        self.tasks.settled().await;
        if let Err(error) = self.store.settle().await {
            tracing::debug!("{}: {error}", self.name);
        }
        self.state().settled(moment);
        Ok(())
    }
}
