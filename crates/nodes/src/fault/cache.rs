//! [`Cache`]: what a drive has acknowledged and not yet written down, in order. Pure.
//!
//! # Invariants
//!
//! * A read sees the newest write of each byte: what is in here lies over what is below.
//! * What is written down leaves in the order in which it came, and only after it is below.

use std::collections::VecDeque;

use block::{IoBufs, Range};

use crate::blocks::slice;

/// A write that waits.
#[derive(Debug, Clone)]
pub(super) struct CacheEntry {
    id: u64,
    pub(super) range: Range,
    pub(super) data: IoBufs,
}

/// A place in the order of writes.
#[derive(Debug, Clone, Copy)]
pub(super) struct CacheMark(u64);

/// The writes that wait.
#[derive(Debug)]
pub(super) struct Cache {
    size: u64,
    used: u64,
    next: u64,
    entries: VecDeque<CacheEntry>,
}

/// Writes that wait, at most, however small they are.
const ENTRIES_MAX: usize = 4096;

impl Cache {
    /// A cache of `size` bytes.
    pub(super) const fn new(size: u64) -> Self {
        Self {
            size,
            used: 0,
            next: 0,
            entries: VecDeque::new(),
        }
    }

    /// Bytes that would be lost now.
    pub(super) const fn used(&self) -> u64 {
        self.used
    }

    /// Whether a write of `len` bytes can ever be in here.
    pub(super) const fn can_hold(&self, len: u64) -> bool {
        len <= self.size
    }

    /// Takes a write in, if there is room.
    pub(super) fn put(&mut self, range: Range, data: &IoBufs) -> bool {
        if self.used + range.len > self.size || self.entries.len() >= ENTRIES_MAX {
            return false;
        }
        self.used += range.len;
        self.entries.push_back(CacheEntry {
            id: self.next,
            range,
            data: data.clone(),
        });
        self.next += 1;
        true
    }

    /// Where the writes end that are in here now.
    pub(super) const fn mark(&self) -> CacheMark {
        CacheMark(self.next)
    }

    /// The write that waits for longest, if it came before `mark`.
    pub(super) fn oldest(&self, mark: CacheMark) -> Option<CacheEntry> {
        let first = self.entries.front()?;
        (first.id < mark.0).then(|| first.clone())
    }

    /// `entry` is below now. One that was lost meanwhile is not missed.
    pub(super) fn written(&mut self, entry: &CacheEntry) {
        if self
            .entries
            .front()
            .is_some_and(|first| first.id == entry.id)
        {
            self.used -= entry.range.len;
            self.entries.pop_front();
        }
    }

    /// Everything is gone; whether there was anything.
    pub(super) fn lose(&mut self) -> bool {
        self.used = 0;
        !std::mem::take(&mut self.entries).is_empty()
    }

    /// What lies over `range`, oldest first.
    pub(super) fn over(&self, range: Range) -> Vec<CacheEntry> {
        let touching = self.entries.iter().filter(|e| e.range.overlaps(&range));
        touching.cloned().collect()
    }
}

/// `data` of `range` as it reads with `entries` over it, oldest first.
pub(super) fn lay_over(range: Range, data: IoBufs, entries: &[CacheEntry]) -> IoBufs {
    entries.iter().fold(data, |under, entry| {
        let start = entry.range.offset.clamp(range.offset, range.end());
        let end = entry.range.end().clamp(start, range.end());
        let cut = |data: &IoBufs, base: u64, from: u64, to: u64| {
            let skip = Range::new(0, from - base).len_usize();
            slice(data, skip, Range::new(from, to - from).len_usize())
        };
        if start == end {
            return under;
        }
        let mut whole = cut(&under, range.offset, range.offset, start);
        whole.extend(cut(&entry.data, entry.range.offset, start, end));
        whole.extend(cut(&under, range.offset, end, range.end()));
        whole
    })
}
