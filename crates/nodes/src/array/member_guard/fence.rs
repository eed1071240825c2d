//! [`ArrayFence`]: the end of an array that another host took over.
//!
//! # Invariants
//!
//! * It is closed once and for good. From then on every request fails, reads too: what they would return may be older than
//!   what the other host has written. Nothing is written to any member any more, not even that this happened.
//! * `status` says it, and one event: each listener logs it.

use std::fmt;
use std::sync::{Arc, OnceLock};

use block::{Errno, IoError, Operation, Range};
use engine::clock::Calendar;
use tokio::sync::{Notify, broadcast};

use super::super::ArrayEvent;

/// Another host took the array over: what is known of it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct Takeover {
    /// The member that reported it.
    pub member: String,
    /// What it reported.
    pub why: String,
    /// When the other host wrote its superblock last, seconds since 1970 by that host's clock.
    pub at: Option<u64>,
    /// The events that it counts.
    pub events: Option<u64>,
}

impl fmt::Display for Takeover {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "another host took over {}", self.member)?;
        if let Some(at) = self.at {
            write!(f, " ({})", Calendar::of(at))?;
        }
        write!(f, ": {}; this array has stopped", self.why)
    }
}

/// Whether an array may still be used.
#[derive(Debug)]
pub(in crate::array) struct ArrayFence {
    array: String,
    takeover: OnceLock<Takeover>,
    events: broadcast::Sender<ArrayEvent>,
    work: Arc<Notify>,
}

impl ArrayFence {
    /// That of an array of this name, which sends `events` and notifies `work`.
    pub(in crate::array) fn new(
        array: &str,
        events: broadcast::Sender<ArrayEvent>,
        work: Arc<Notify>,
    ) -> Arc<Self> {
        Arc::new(Self {
            array: array.to_owned(),
            takeover: OnceLock::new(),
            events,
            work,
        })
    }

    /// The host that took the array over.
    pub(in crate::array) fn takeover(&self) -> Option<&Takeover> {
        self.takeover.get()
    }

    /// Whether it is closed.
    #[inline]
    pub(in crate::array) fn is_closed(&self) -> bool {
        self.takeover.get().is_some()
    }

    /// Refuses requests to an array that was taken over.
    ///
    /// # Errors
    /// It was: by which host.
    #[inline]
    pub(in crate::array) fn check(
        &self,
        operation: Operation,
        range: Option<Range>,
    ) -> Result<(), IoError> {
        match self.takeover.get() {
            None => Ok(()),
            Some(takeover) => {
                Err(IoError::new(Errno::Io, operation, range).because(takeover.clone()))
            }
        }
    }

    /// Ends the array.
    pub(in crate::array) fn close(&self, takeover: Takeover) {
        if self.takeover.set(takeover.clone()).is_err() {
            return;
        }
        tracing::debug!("{}: {takeover}", self.array);
        // There may be no listener.
        drop(self.events.send(ArrayEvent::TakenOver(takeover)));
        self.work.notify_waiters();
    }

    /// The same, where a member's server refuses this host because of another one. The error comes back.
    pub(in crate::array) fn notice(&self, member: &str, error: IoError) -> IoError {
        if let Some(fenced) = error.fenced() {
            self.close(Takeover::by_server(member, fenced.to_string()));
        }
        error
    }
}

impl Takeover {
    /// That which a member's server reports.
    pub(in crate::array) fn by_server(member: &str, why: String) -> Self {
        Self {
            member: member.to_owned(),
            why,
            at: None,
            events: None,
        }
    }
}
