//! [`Job`]: one piece of work in the background, and which bytes of it are wanted.

use block::Range;

use super::super::SyncKind;
use super::super::redundant::RedundantArray;

/// A piece of work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Job {
    /// Copies are resynced after a crash; goes over the array.
    Resync,
    /// The member of a part is rebuilt; goes over the member.
    Recovery {
        /// Which part.
        part: u16,
        /// From which byte of it on.
        from: u64,
        /// Only what the bitmap has as changed.
        by_bitmap: bool,
    },
    /// The replacement of a member becomes a copy of it; goes over the member.
    Replacement {
        /// Which part.
        part: u16,
        /// From which byte of it on.
        from: u64,
    },
    /// The array gets another form; goes over the array.
    Reshape,
    /// Copies are compared; goes over the array.
    Scrub {
        /// And resynced.
        repair: bool,
    },
}

impl Job {
    pub(super) const fn kind(self) -> SyncKind {
        match self {
            Self::Resync => SyncKind::Resync,
            Self::Recovery { .. } | Self::Replacement { .. } => SyncKind::Recovery,
            Self::Reshape => SyncKind::Reshape,
            Self::Scrub { repair: false } => SyncKind::Check,
            Self::Scrub { repair: true } => SyncKind::Repair,
        }
    }

    /// What it goes over, and from where on: bytes that windows count, or bytes of the member.
    pub(super) fn span(self, array: &RedundantArray) -> (u64, u64) {
        let size = array.layout().sync_size();
        match self {
            Self::Resync => (array.needed(0).map_or(size, |range| range.offset), size),
            // In the midst of a reshape it is of both forms.
            Self::Recovery { from, .. } if array.is_reshaping() => (from, size),
            Self::Recovery { from, .. } | Self::Replacement { from, .. } => {
                (from, array.member_size())
            }
            Self::Reshape => array.reshaped_to().unwrap_or((size, size)),
            Self::Scrub { .. } => (0, size),
        }
    }

    /// The first bytes at or behind `at` that are to be worked on; `None`: there are none. Where a search takes
    /// long it ends early with bytes that need not be.
    pub(super) fn wanted(self, array: &RedundantArray, at: u64) -> Option<Range> {
        let (_, end) = self.span(array);
        match self {
            Self::Resync => array.needed(at),
            Self::Recovery {
                part, by_bitmap, ..
            } => held_and(array, part, at, end, by_bitmap),
            Self::Replacement { part, .. } => held_and(array, part, at, end, false),
            Self::Reshape | Self::Scrub { .. } => Some(Range::new(at, end.checked_sub(at)?)),
        }
    }
}

/// Runs of a member that are looked at in one search.
const SEARCH_MAX: usize = 4096;

/// The first bytes of a part at or behind `at` that hold anything of the array, and of which the bitmap says that
/// they were changed if that counts.
fn held_and(
    array: &RedundantArray,
    part: u16,
    at: u64,
    end: u64,
    by_bitmap: bool,
) -> Option<Range> {
    let mut at = at;
    let mut seen = 0;
    while at < end {
        let Some(held) = array.array_range(part.into(), at) else {
            // Nothing of the array is in the rest of the chunk.
            at = array.behind_chunk(at);
            continue;
        };
        seen += 1;
        if !by_bitmap || seen > SEARCH_MAX {
            return Some(Range::new(at, held.len));
        }
        match array.changed(held.offset) {
            Some(changed) if changed.offset < held.end() => {
                let skipped = changed.offset - held.offset;
                let len = changed.end().min(held.end()) - changed.offset;
                return Some(Range::new(at + skipped, len));
            }
            // The order of a member is not that of the array: what follows may be changed again.
            _ => at += held.len,
        }
    }
    None
}
