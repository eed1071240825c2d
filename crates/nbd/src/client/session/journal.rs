//! [`Journal`]: writes that the server acknowledged and no flush has covered. Pure.
//!
//! Entries are in the order of their acknowledgements. Writes that were durable at once (FUA) are
//! kept too: an older entry written again must not win over them. Trims are not: what they leave
//! is undefined.

use std::collections::VecDeque;

use block::{IoBufs, Range};
use nbd_proto::CommandFlags;

use crate::client::limits;
use crate::client::session::work::{Body, Owner, Part};

/// What an entry counts beside its data, bytes.
const ENTRY_COST: u64 = 128;

#[derive(Debug)]
struct Entry {
    range: Range,
    flags: CommandFlags,
    /// `None`: zeroes.
    data: Option<IoBufs>,
}

impl Entry {
    const fn cost(&self) -> u64 {
        match self.data {
            Some(_) => self.range.len + ENTRY_COST,
            None => ENTRY_COST,
        }
    }
}

/// Acknowledged writes without a flush.
#[derive(Debug)]
pub(crate) struct Journal {
    entries: VecDeque<Entry>,
    /// Number of the first entry.
    first: u64,
    cost: u64,
    max: u64,
    /// Off: the server has no flush, or a flush has failed.
    on: bool,
}

impl Journal {
    /// A journal of at most `max` bytes and a little; not `on`: it keeps nothing.
    pub(crate) const fn new(on: bool, max: u64) -> Self {
        Self {
            entries: VecDeque::new(),
            first: 0,
            cost: 0,
            max,
            on,
        }
    }

    /// Keeps an acknowledged part if it must be.
    pub(crate) fn acknowledged(&mut self, range: Range, flags: CommandFlags, body: Body) {
        let data = match body {
            Body::Write(data) => Some(data),
            Body::WriteZeroes => None,
            Body::Read(_) | Body::Trim | Body::Extents(_) | Body::Flush { .. } => return,
        };
        if !self.on {
            return;
        }
        let entry = Entry { range, flags, data };
        self.cost += entry.cost();
        self.entries.push_back(entry);
    }

    /// Number of the first entry.
    pub(crate) const fn first(&self) -> u64 {
        self.first
    }

    /// Everything below the mark is covered by a flush that is sent now.
    pub(crate) fn mark(&self) -> u64 {
        self.first + self.entries.len() as u64
    }

    /// A flush sent at `mark` succeeded.
    pub(crate) fn flushed(&mut self, mark: u64) {
        while self.first < mark
            && let Some(entry) = self.entries.pop_front()
        {
            self.first += 1;
            self.cost -= entry.cost();
        }
    }

    /// Bytes kept.
    pub(crate) const fn cost(&self) -> u64 {
        self.cost
    }

    /// Half full: a flush should be sent.
    pub(crate) fn wants_flush(&self) -> bool {
        self.cost >= self.max / 2 || self.entries.len() >= limits::JOURNAL_ENTRIES_MAX / 2
    }

    /// No further write may be sent, counting `pending` bytes in `pending_writes` that are in
    /// flight and will be kept.
    pub(crate) fn is_full(&self, pending: u64, pending_writes: usize) -> bool {
        self.on
            && (self.cost + pending >= self.max
                || self.entries.len() + pending_writes >= limits::JOURNAL_ENTRIES_MAX)
    }

    /// Keeps nothing any more: no flush will succeed.
    pub(crate) fn give_up(&mut self) {
        self.first = self.mark();
        self.entries.clear();
        self.cost = 0;
        self.on = false;
    }

    /// Longest payload, and longest range without one.
    pub(crate) fn longest(&self) -> (u64, u64) {
        let longest = |with_data: bool| {
            let entries = self.entries.iter();
            let of_kind = entries.filter(|entry| entry.data.is_some() == with_data);
            of_kind.map(|entry| entry.range.len).max().unwrap_or(0)
        };
        (longest(true), longest(false))
    }

    /// Parts to write again: from entry `from` on, up to `max` of them that do not overlap each
    /// other, so that their order does not matter. Empty: all were.
    pub(crate) fn replay(&self, from: u64, max: usize) -> Vec<Part> {
        let skip = usize::try_from(from.saturating_sub(self.first)).unwrap_or(usize::MAX);
        let mut parts: Vec<Part> = Vec::new();
        for entry in self.entries.iter().skip(skip).take(max) {
            if parts.iter().any(|part| part.range.overlaps(&entry.range)) {
                break;
            }
            let body = entry.data.clone().map_or(Body::WriteZeroes, Body::Write);
            parts.push(Part::new(Owner::Replay, entry.range, entry.flags, body));
        }
        parts
    }
}
