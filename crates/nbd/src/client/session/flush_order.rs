//! [`FlushOrder`]: when the success of a flush may be reported. Pure.
//!
//! A server's kernel reports that writing back failed once for each open file (`errseq`), and forgets that the data were dirty.
//! Of two flushes that a server carries out together on one file, the one that takes the error fails; the other one succeeds,
//! and covers nothing of what was lost. Their replies may arrive in any order, over different connections.
//!
//! # Invariants
//!
//! * **A flush succeeds only with all that were in flight when its reply arrived**, and durable writes with them: its success is held
//!   back until they are over. One that fails takes it along.
//! * Until then the flush covers nothing: the journal keeps its writes, and where the connections are lost, it is sent again.
//! * What is sent after the reply arrived is not waited for, so no flush waits forever.
//!
//! # What it does not do
//!
//! It does not hold back durable writes (FUA): each promises its own data alone, and NBD has the server keep that promise.

use std::collections::{BTreeSet, VecDeque};

use crate::client::session::work::Part;

/// A flush that succeeded on the server.
#[derive(Debug)]
struct Held {
    part: Part,
    /// Flushes and durable writes below this number are waited for.
    below: u64,
}

/// Flushes and durable writes in flight, and the flushes that wait for them.
#[derive(Debug, Default)]
pub(crate) struct FlushOrder {
    next: u64,
    in_flight: BTreeSet<u64>,
    held: VecDeque<Held>,
}

impl FlushOrder {
    /// A part is sent; numbers it if others have to wait for it.
    pub(crate) fn sent(&mut self, part: &mut Part) {
        part.flush_number = part.flushes().then_some(self.next);
        if let Some(number) = part.flush_number {
            self.in_flight.insert(number);
            self.next += 1;
        }
    }

    /// A part was answered.
    pub(crate) fn answered(&mut self, part: &Part) {
        if let Some(number) = &part.flush_number {
            self.in_flight.remove(number);
        }
    }

    /// Holds the success of a flush back until [`Self::next_ready`] returns it.
    pub(crate) fn hold(&mut self, part: Part) {
        let below = self.next;
        self.held.push_back(Held { part, below });
    }

    /// The next flush that waits for nothing any more. `has_failed`: a flush failed, so that none has to wait.
    pub(crate) fn next_ready(&mut self, has_failed: bool) -> Option<Part> {
        let oldest = self.in_flight.first();
        let is_ready = |held: &Held| oldest.is_none_or(|oldest| *oldest >= held.below);
        let first = self.held.front()?;
        if !has_failed && !is_ready(first) {
            return None;
        }
        self.held.pop_front().map(|held| held.part)
    }

    /// The connections are lost: returns the flushes that must be sent again.
    pub(crate) fn abandon(&mut self) -> Vec<Part> {
        self.in_flight.clear();
        self.held.drain(..).map(|held| held.part).collect()
    }
}
