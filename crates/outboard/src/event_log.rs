//! [`EventLog`]: the last events of a process, as the live page shows them. Clones share it.
//!
//! # Invariants
//!
//! * At most [`EVENTS_MAX`] are kept; the oldest leave first. Numbers are never used twice.
//!
//! # What it does not do
//!
//! It is no log file: what it has ends with the process.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::UNIX_EPOCH;

use serde::Serialize;

/// Events that are kept.
pub(crate) const EVENTS_MAX: usize = 100;

/// One event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct LoggedEvent {
    /// Counts the events of this process, from 1.
    pub(crate) number: u64,
    /// When, seconds since 1970.
    pub(crate) at: u64,
    /// Its name: `Fail`, `SpareActive`…
    pub(crate) event: String,
    /// The array, snapshot, volume group or client.
    pub(crate) subject: String,
    /// The member, where there is one.
    pub(crate) member: Option<String>,
    /// In words.
    pub(crate) text: String,
}

/// The last events.
#[derive(Debug, Clone, Default)]
pub(crate) struct EventLog(Arc<Mutex<Events>>);

#[derive(Debug, Default)]
struct Events {
    last: u64,
    kept: VecDeque<LoggedEvent>,
}

impl EventLog {
    /// Appends an event that happens now.
    pub(crate) fn append(&self, event: &str, subject: &str, member: Option<&str>, text: &str) {
        let since = engine::clock::wall().duration_since(UNIX_EPOCH);
        // The list is right at every moment.
        let mut events = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        events.last += 1;
        let logged = LoggedEvent {
            number: events.last,
            at: since.map_or(0, |since| since.as_secs()),
            event: event.to_owned(),
            subject: subject.to_owned(),
            member: member.map(str::to_owned),
            text: text.to_owned(),
        };
        if events.kept.len() == EVENTS_MAX {
            events.kept.pop_front();
        }
        events.kept.push_back(logged);
    }

    /// All that are kept, latest first.
    pub(crate) fn latest_first(&self) -> Vec<LoggedEvent> {
        let events = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        events.kept.iter().rev().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    //! Tests of the order of events and of their bound.

    use super::*;

    #[test]
    fn the_oldest_events_leave_and_numbers_stay() {
        let log = EventLog::default();
        for member in 0..EVENTS_MAX + 5 {
            log.append("Fail", "media", Some(&member.to_string()), "it failed");
        }
        let events = log.latest_first();
        assert_eq!(events.len(), EVENTS_MAX);
        assert_eq!(events[0].number, EVENTS_MAX as u64 + 5);
        assert_eq!(events[EVENTS_MAX - 1].number, 6);
        assert_eq!(events[0].member.as_deref(), Some("104"));
    }
}
