//! [`UnflushedWrites`]: what is not durable yet, and the flushes that are to make it so. Pure.
//!
//! The journal keeps acknowledged writes; writes in flight will be added to it, and need room; flushes in flight take from it, in
//! the order that `flush_order` says. One flush is the client's own: it makes room before the journal is full.
//!
//! # Invariants
//!
//! * A failed flush is final: nothing is kept from then on, and no flush is reported as successful.

use block::Range;
use nbd_proto::CommandFlags;

use crate::client::session::flush_order::FlushOrder;
use crate::client::session::journal::Journal;
#[cfg(test)]
use crate::client::session::mutation::{self, Mutation};
use crate::client::session::work::{Body, Owner, Part};

/// Changes in flight.
#[derive(Debug, Default)]
struct ChangesInFlight {
    bytes: u64,
    count: usize,
}

/// What is not durable yet.
#[derive(Debug)]
pub(crate) struct UnflushedWrites {
    journal: Journal,
    changes: ChangesInFlight,
    flushes: FlushOrder,
    /// The client's own flush is in flight, or waits for others.
    has_own_flush: bool,
    has_failed: bool,
}

impl UnflushedWrites {
    /// With an empty journal.
    pub(crate) fn new(journal: Journal) -> Self {
        Self {
            journal,
            changes: ChangesInFlight::default(),
            flushes: FlushOrder::default(),
            has_own_flush: false,
            has_failed: false,
        }
    }

    pub(crate) const fn journal(&self) -> &Journal {
        &self.journal
    }

    pub(crate) const fn journal_mut(&mut self) -> &mut Journal {
        &mut self.journal
    }

    /// Whether the journal has room for a further write, behind those in flight.
    pub(crate) fn has_room(&self) -> bool {
        !self.journal.is_full(self.changes.bytes, self.changes.count)
    }

    /// A caller's part or the client's own flush is sent.
    pub(crate) fn sent(&mut self, part: &mut Part) {
        self.flushes.sent(part);
        self.has_own_flush |= part.owner == Owner::OwnFlush;
        if part.changes() {
            self.changes.bytes += part.payload();
            self.changes.count += 1;
        }
    }

    /// It was answered.
    pub(crate) fn answered(&mut self, part: &Part) {
        self.flushes.answered(part);
        self.lost(part);
    }

    /// It lost its connection.
    pub(crate) fn lost(&mut self, part: &Part) {
        self.has_own_flush &= part.owner != Owner::OwnFlush;
        if part.changes() && part.owner != Owner::Replay {
            self.changes.bytes -= part.payload();
            self.changes.count -= 1;
        }
    }

    /// A write was acknowledged.
    pub(crate) fn acknowledged(&mut self, range: Range, flags: CommandFlags, body: Body) {
        self.journal.acknowledged(range, flags, body);
    }

    /// A flush succeeded on the server. It is reported when [`Self::next_to_report`] returns it.
    pub(crate) fn flush_succeeded(&mut self, part: Part) {
        self.has_own_flush |= part.owner == Owner::OwnFlush;
        self.flushes.hold(part);
    }

    /// The next flush that waits for no other one any more.
    pub(crate) fn next_to_report(&mut self) -> Option<Part> {
        let waits_for_none = self.has_failed;
        #[cfg(test)]
        let waits_for_none = waits_for_none || mutation::is_on(Mutation::FlushesInAnyOrder);
        let part = self.flushes.next_ready(waits_for_none)?;
        self.has_own_flush &= part.owner != Owner::OwnFlush;
        Some(part)
    }

    /// Whether the client should send a flush of its own.
    pub(crate) fn wants_own_flush(&self) -> bool {
        self.journal.wants_flush() && !self.has_own_flush
    }

    pub(crate) const fn has_own_flush(&self) -> bool {
        self.has_own_flush
    }

    /// A flush failed, or must count as failed. Returns whether it is the first one.
    pub(crate) fn fail(&mut self) -> bool {
        self.journal.give_up();
        !std::mem::replace(&mut self.has_failed, true)
    }

    /// Whether no flush succeeds any more.
    pub(crate) const fn has_failed(&self) -> bool {
        self.has_failed
    }

    /// The connections are lost. Returns the flushes that succeeded and were not reported.
    pub(crate) fn abandon_flushes(&mut self) -> Vec<Part> {
        self.flushes.abandon()
    }

    /// Nothing that was in flight is sent again.
    pub(crate) fn drop_in_flight(&mut self) {
        drop(self.flushes.abandon());
        self.changes = ChangesInFlight::default();
        self.has_own_flush = false;
    }
}
