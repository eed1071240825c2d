//! [`Shared`]: what a session tells of itself to whoever asks.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use engine::clock;

use crate::client::ClientHealth;

#[derive(Debug, Default)]
pub(crate) struct State {
    pub(crate) health: ClientHealth,
    pub(crate) trouble_since: Option<Instant>,
}

/// Written by the session, read by anyone.
#[derive(Debug, Default)]
pub(crate) struct Shared(Mutex<State>);

impl Shared {
    pub(crate) fn publish(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.state());
    }

    pub(crate) fn health(&self) -> ClientHealth {
        let state = self.state();
        let mut health = state.health.clone();
        health.gone_for = state
            .trouble_since
            .map(|since| clock::now().duration_since(since));
        health
    }

    /// Plain data: a panic while it was written leaves nothing half done that matters.
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
