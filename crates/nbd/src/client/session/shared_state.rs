//! [`SharedState`]: the state of a session that its handles may read.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use block::{Geometry, GrowingGeometry};
use engine::clock;

use crate::client::{ClientHealth, Target};

#[derive(Debug, Default)]
pub(crate) struct PublishedState {
    pub(crate) health: ClientHealth,
    pub(crate) outage_since: Option<Instant>,
    /// The time that the outages took that are over.
    pub(crate) outages_ended: Duration,
    /// The server that is used, or was last.
    pub(crate) server: Option<Target>,
}

/// Written by the session, read by anyone.
#[derive(Debug)]
pub(crate) struct SharedState {
    state: Mutex<PublishedState>,
    geometry: GrowingGeometry,
    /// How often connections were lost or made.
    epoch: AtomicU64,
    /// Held while the size is queried: one query at a time.
    refreshing: tokio::sync::Mutex<()>,
}

impl SharedState {
    pub(crate) fn new(geometry: Geometry) -> Self {
        Self {
            state: Mutex::default(),
            geometry: GrowingGeometry::new(geometry),
            epoch: AtomicU64::new(0),
            refreshing: tokio::sync::Mutex::default(),
        }
    }

    /// Waits until no other caller queries the size.
    pub(crate) async fn refreshing(&self) -> tokio::sync::MutexGuard<'_, ()> {
        self.refreshing.lock().await
    }

    pub(crate) fn geometry(&self) -> &Geometry {
        self.geometry.now()
    }

    /// The export has `size` bytes now. Returns whether that is more than before.
    pub(crate) fn grow(&self, size: u64) -> bool {
        self.geometry.grow(size)
    }

    /// All connections were lost, or made.
    pub(crate) fn change_epoch(&self) {
        self.epoch.fetch_add(1, Ordering::Release);
    }

    /// A number that changes then.
    pub(crate) fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::Acquire)
    }

    pub(crate) fn publish(&self, change: impl FnOnce(&mut PublishedState)) {
        change(&mut self.state());
    }

    pub(crate) fn health(&self) -> ClientHealth {
        let state = self.state();
        let mut health = state.health.clone();
        health.size = self.geometry().size;
        health.gone_for = state
            .outage_since
            .map(|since| clock::now().duration_since(since));
        health.gone_in_all = state.outages_ended + health.gone_for.unwrap_or_default();
        health
    }

    /// The connections lead to this one, which has the disk.
    pub(crate) fn use_server(&self, server: &Target) {
        self.publish(|state| {
            if state.server.as_ref() == Some(server) {
                return;
            }
            state.health.server_changes += u64::from(state.server.is_some());
            state.health.server = server.to_string();
            state.server = Some(server.clone());
        });
    }

    /// The server that is used, or was last.
    pub(crate) fn server(&self) -> Option<Target> {
        self.state().server.clone()
    }

    pub(crate) fn reports_extents(&self) -> bool {
        self.state().health.extents
    }

    /// Plain data: a panic while it was written leaves nothing half done that matters.
    fn state(&self) -> MutexGuard<'_, PublishedState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
