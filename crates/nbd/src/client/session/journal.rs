//! [`Journal`]: writes that the server acknowledged and no flush has covered. Pure.
//!
//! Entries are in the order of their acknowledgements. Writes that were durable at once (FUA) are
//! kept too: an older entry written again must not win over them. Trims are not: what they leave
//! is undefined. Before the journal is written again, what newer entries cover goes out of the older ones
//! ([`Journal::supersede`]): a durable write must not be undone, not even until it is written again.

use std::collections::VecDeque;

use block::{IoBufs, Range};
use nbd_proto::CommandFlags;

use crate::client::limits;
#[cfg(test)]
use crate::client::session::mutation::{self, Mutation};
use crate::client::session::supersede::Newest;
use crate::client::session::work::{Body, Owner, Part, take_front};

/// Bytes that an entry counts in addition to its data.
const ENTRY_COST: u64 = 128;

#[derive(Debug)]
struct Entry {
    range: Range,
    flags: CommandFlags,
    /// `None`: zeroes.
    data: Option<IoBufs>,
}

impl Entry {
    /// Whether it was durable when it was acknowledged.
    const fn is_durable(&self) -> bool {
        self.flags.contains(CommandFlags::FUA)
    }

    /// The part of it that is `range`.
    fn cut(&self, range: Range) -> Self {
        let data = self.data.clone().map(|mut data| {
            let before = usize::try_from(range.offset - self.range.offset);
            drop(take_front(&mut data, before.unwrap_or(usize::MAX)));
            take_front(&mut data, range.len_usize())
        });
        Self {
            range,
            flags: self.flags,
            data,
        }
    }

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
    /// A flush has failed.
    has_failed: bool,
    /// Writes that are not kept since then, and that no flush has covered.
    given_up: u64,
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
            has_failed: false,
            given_up: 0,
        }
    }

    /// Keeps an acknowledged part if it must be.
    pub(crate) fn acknowledged(&mut self, range: Range, flags: CommandFlags, body: Body) {
        #[cfg(test)]
        if is_not_kept(flags, &body) {
            return;
        }
        let data = match body {
            Body::Write(data) => Some(data),
            Body::WriteZeroes => None,
            Body::Read(_) | Body::Trim | Body::Extents(_) | Body::Flush { .. } => return,
        };
        let entry = Entry { range, flags, data };
        if !self.on {
            self.given_up += u64::from(self.has_failed && !entry.is_durable());
            return;
        }
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

    /// Writes that are to be written again.
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Writes that are lost if the server loses what it did not flush, and is not written to again.
    pub(crate) fn unflushed(&self) -> u64 {
        let kept = self.entries.iter().filter(|entry| !entry.is_durable());
        self.given_up + kept.count() as u64
    }

    /// Those of them that are not kept.
    pub(crate) const fn given_up(&self) -> u64 {
        self.given_up
    }

    /// Keeps nothing any more: no flush will succeed.
    pub(crate) fn give_up(&mut self) {
        self.given_up = self.unflushed();
        self.has_failed = true;
        self.first = self.mark();
        self.entries.clear();
        self.cost = 0;
        self.on = false;
    }

    /// Leaves of each entry what no newer one covers. No flush may be in flight: entries have other
    /// numbers afterwards.
    pub(crate) fn supersede(&mut self) {
        #[cfg(test)]
        if mutation::is_on(Mutation::OlderWritesAreReplayed)
            || mutation::is_on(Mutation::ReplayBackwards)
        {
            return;
        }
        let mut newest = Newest::default();
        let mut entries = VecDeque::new();
        for entry in self.entries.drain(..).rev() {
            for left in newest.cover(entry.range).into_iter().rev() {
                entries.push_front(entry.cut(left));
            }
        }
        self.cost = entries.iter().map(Entry::cost).sum();
        self.entries = entries;
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
            let overlaps = parts.iter().any(|part| part.range.overlaps(&entry.range));
            #[cfg(test)]
            let overlaps = overlaps && !mutation::is_on(Mutation::ReplayBackwards);
            if overlaps {
                break;
            }
            let body = entry.data.clone().map_or(Body::WriteZeroes, Body::Write);
            parts.push(Part::new(Owner::Replay, entry.range, entry.flags, body));
        }
        #[cfg(test)]
        if mutation::is_on(Mutation::ReplayBackwards) {
            parts.reverse();
        }
        parts
    }
}

/// Whether a mutation has the journal not keep this.
#[cfg(test)]
fn is_not_kept(flags: CommandFlags, body: &Body) -> bool {
    let is_durable = flags.contains(CommandFlags::FUA);
    let is_zeroes = matches!(body, Body::WriteZeroes);
    mutation::is_on(Mutation::NoJournal)
        || is_durable && mutation::is_on(Mutation::JournalWithoutDurableWrites)
        || is_zeroes && mutation::is_on(Mutation::JournalWithoutZeroes)
}
