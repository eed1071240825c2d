//! [`Streams`]: which readers are sequential. Pure.
//!
//! # Invariants
//!
//! * Nothing is read for a reader before it went on exactly where it had ended, twice.
//!   Reads at random places never do, but by accident.
//! * A reader with requests that overtake each other stays one reader: from then on everything within
//!   its window is its own.
//! * The window opens with what is read: one piece at first, twice as many behind each piece.

use block::Range;

use super::plan::AheadWindow;

/// Readers that are distinguished; the one that has not read for longest is forgotten.
pub(super) const STREAMS_MAX: usize = 16;
/// Reads in a row that make a reader sequential.
const READS_MIN: u32 = 3;

/// Name of a reader.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct StreamId(u64);

#[derive(Debug)]
struct ReaderStream {
    id: StreamId,
    /// Behind the last byte it has read.
    next: u64,
    reads: u32,
    /// Pieces to be ahead.
    depth: u64,
    last_read: u64,
}

impl ReaderStream {
    const fn runs(&self) -> bool {
        self.reads >= READS_MIN
    }

    /// Whether a read at `offset` goes on with what this reader does.
    fn goes_on_at(&self, offset: u64, window: &AheadWindow) -> bool {
        if !self.runs() {
            return offset == self.next;
        }
        let from = self.next.saturating_sub(window.piece);
        let to = self.next.saturating_add(window.len());
        (from..=to).contains(&offset)
    }
}

/// What a reader will want, by the numbers of pieces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct WantedPieces {
    /// The reader.
    pub(super) stream: StreamId,
    /// The first byte that it has not read.
    pub(super) next: u64,
    /// The pieces from here…
    pub(super) first: u64,
    /// …to here, without.
    pub(super) end: u64,
}

/// The readers.
#[derive(Debug, Default)]
pub(super) struct Streams {
    list: Vec<ReaderStream>,
    reads: u64,
    made: u64,
}

impl Streams {
    /// A read of `range` comes: what its reader will want, if it reads from front to back.
    pub(super) fn observe(&mut self, range: Range, window: &AheadWindow) -> Option<WantedPieces> {
        self.reads += 1;
        let reads = self.reads;
        let Some(stream) = self.find(range.offset, window) else {
            self.make(range.end());
            return None;
        };
        let before = window.index(stream.next);
        stream.reads = stream.reads.saturating_add(1);
        stream.last_read = reads;
        stream.next = stream.next.max(range.end());
        if !stream.runs() {
            return None;
        }
        let first = window.index(stream.next);
        let passed = u32::try_from(first - before).unwrap_or(u32::MAX);
        let widened = stream
            .depth
            .saturating_mul(1_u64.checked_shl(passed).unwrap_or(u64::MAX));
        stream.depth = widened.min(window.depth_max);
        Some(WantedPieces {
            stream: stream.id,
            next: stream.next,
            first,
            end: first + stream.depth,
        })
    }

    /// Whether a read of `range` would make its reader want other pieces than before.
    pub(super) fn would_move(&mut self, range: Range, window: &AheadWindow) -> bool {
        self.find(range.offset, window).is_none_or(|stream| {
            !stream.runs() || window.index(range.end()) > window.index(stream.next)
        })
    }

    /// The reader other than `stream` that has not read for longest, of those that `holds` is true of.
    pub(super) fn idlest(
        &self,
        stream: StreamId,
        holds: impl Fn(StreamId) -> bool,
    ) -> Option<StreamId> {
        let others = self.list.iter().filter(|s| s.id != stream && holds(s.id));
        others.min_by_key(|s| s.last_read).map(|s| s.id)
    }

    /// Whether this reader is still known.
    pub(super) fn knows(&self, stream: StreamId) -> bool {
        self.list.iter().any(|known| known.id == stream)
    }

    fn find(&mut self, offset: u64, window: &AheadWindow) -> Option<&mut ReaderStream> {
        let fits = |stream: &&mut ReaderStream| stream.goes_on_at(offset, window);
        self.list.iter_mut().find(fits)
    }

    fn make(&mut self, next: u64) {
        if self.list.len() >= STREAMS_MAX {
            let oldest = (0..self.list.len()).min_by_key(|&at| self.list[at].last_read);
            oldest.map(|at| self.list.swap_remove(at));
        }
        self.made += 1;
        self.list.push(ReaderStream {
            id: StreamId(self.made),
            next,
            reads: 1,
            depth: 1,
            last_read: self.reads,
        });
    }
}
