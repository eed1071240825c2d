//! [`Map`]: which chunks of the disk are in the store, and where. Pure.
//!
//! ```text
//! leaves   [ first │ 5 8 9 … ]  [ first │ 700 701 … ]  …     up to LEAF_MAX exceptions each, sorted
//! ```
//!
//! # Invariants
//!
//! * Exceptions are sorted by chunk of the disk over all leaves, none twice; no leaf is empty.
//! * An exception takes at most 25 bytes: 12 in a leaf that is half full or more, and its share of
//!   the leaf.

use std::ops;

use block::Range;
use smallvec::SmallVec;

/// Numbers of chunks are below this: six bytes each.
pub(crate) const CHUNKS_MAX: u64 = (1 << 48) - 1;
/// Exceptions in a leaf, at most.
pub(crate) const LEAF_MAX: usize = 512;
/// Exceptions in a leaf of a map that is made at once: room for some more.
const LEAF_FILLED: usize = LEAF_MAX / 4 * 3;

/// A chunk of the disk and where it is in the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Exception {
    old: [u8; 6],
    new: [u8; 6],
}

impl Exception {
    /// Both up to [`CHUNKS_MAX`].
    pub(crate) const fn new(old: u64, new: u64) -> Self {
        Self {
            old: pack(old),
            new: pack(new),
        }
    }

    /// Chunk of the disk.
    pub(crate) const fn old(&self) -> u64 {
        unpack(self.old)
    }

    /// Chunk of the store.
    pub(crate) const fn new_chunk(&self) -> u64 {
        unpack(self.new)
    }
}

const fn pack(number: u64) -> [u8; 6] {
    assert!(number <= CHUNKS_MAX, "chunks are counted in six bytes");
    let [a, b, c, d, e, f, _, _] = number.to_le_bytes();
    [a, b, c, d, e, f]
}

const fn unpack([a, b, c, d, e, f]: [u8; 6]) -> u64 {
    u64::from_le_bytes([a, b, c, d, e, f, 0, 0])
}

/// Neighbouring chunks of the disk that are neighbours where they are, too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ChunkRun {
    /// First chunk of the disk.
    pub(crate) old: u64,
    /// First chunk of the store; `None`: they are in the base.
    pub(crate) new: Option<u64>,
    /// Chunks.
    pub(crate) len: u64,
}

/// Bytes of the disk that are neighbours where they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ChunkPiece {
    /// Where on the disk.
    pub(crate) at: Range,
    /// Where in the store; `None`: at the same place in the base.
    pub(crate) store: Option<u64>,
}

/// The pieces of a request, in order.
pub(crate) type ChunkPieces = SmallVec<[ChunkPiece; 2]>;

impl ChunkRun {
    /// The part of it that lies in `within`, where chunks have `chunk` bytes.
    pub(crate) fn piece(&self, chunk: u64, within: Range) -> ChunkPiece {
        let start = (self.old * chunk).max(within.offset);
        let end = ((self.old + self.len) * chunk).min(within.end());
        ChunkPiece {
            at: Range::new(start, end - start),
            store: self.new.map(|new| new * chunk + (start - self.old * chunk)),
        }
    }
}

/// The chunks of `chunk` bytes that `range` touches.
pub(crate) fn chunks_of(range: Range, chunk: u64) -> ops::Range<u64> {
    range.offset / chunk..range.end().div_ceil(chunk)
}

#[derive(Debug)]
struct Leaf {
    first: u64,
    exceptions: Vec<Exception>,
}

impl Leaf {
    fn of(exceptions: Vec<Exception>) -> Self {
        Self {
            first: exceptions[0].old(),
            exceptions,
        }
    }

    fn insert(&mut self, index: usize, exception: Exception) {
        if self.exceptions.len() == self.exceptions.capacity() {
            let more = self.exceptions.len().clamp(4, LEAF_MAX);
            let room = LEAF_MAX - self.exceptions.len().min(LEAF_MAX - 1);
            self.exceptions.reserve_exact(more.min(room));
        }
        self.exceptions.insert(index, exception);
        self.first = self.exceptions[0].old();
    }
}

/// All exceptions.
#[derive(Debug, Default)]
pub(crate) struct Map {
    leaves: Vec<Leaf>,
    count: u64,
}

impl Map {
    /// A map of exceptions that are sorted by chunk of the disk, none twice.
    pub(crate) fn of_sorted(exceptions: &[Exception]) -> Self {
        Self {
            leaves: exceptions
                .chunks(LEAF_FILLED)
                .map(|some| Leaf::of(some.to_vec()))
                .collect(),
            count: exceptions.len() as u64,
        }
    }

    /// How many there are.
    pub(crate) const fn count(&self) -> u64 {
        self.count
    }

    /// Bytes of memory that they take.
    #[cfg(test)]
    pub(crate) fn bytes(&self) -> usize {
        let leaves = self.leaves.iter();
        let exceptions: usize = leaves.map(|leaf| leaf.exceptions.capacity()).sum();
        exceptions * size_of::<Exception>() + self.leaves.capacity() * size_of::<Leaf>()
    }

    /// Adds an exception.
    ///
    /// # Panics
    /// If its chunk has one.
    pub(crate) fn insert(&mut self, exception: Exception) {
        self.count += 1;
        let old = exception.old();
        let at = self.leaf_of(old);
        let last = at + 1 >= self.leaves.len();
        let Some(leaf) = self.leaves.get_mut(at) else {
            self.leaves.push(Leaf::of(vec![exception]));
            return;
        };
        let found = leaf.exceptions.binary_search_by_key(&old, Exception::old);
        let index = found.expect_err("a chunk has one place in the store");
        if leaf.exceptions.len() < LEAF_MAX {
            leaf.insert(index, exception);
        } else if last && index == LEAF_MAX {
            // Chunks that are written in order fill their leaves.
            self.leaves.push(Leaf::of(vec![exception]));
        } else {
            let mut upper = Leaf::of(leaf.exceptions.split_off(LEAF_MAX / 2));
            match index.checked_sub(LEAF_MAX / 2) {
                Some(index) => upper.insert(index, exception),
                None => leaf.insert(index, exception),
            }
            self.leaves.insert(at + 1, upper);
        }
    }

    /// Removes the exception of chunk `old`, if there is one.
    pub(crate) fn remove(&mut self, old: u64) {
        let at = self.leaf_of(old);
        let Some(leaf) = self.leaves.get_mut(at) else {
            return;
        };
        let found = leaf.exceptions.binary_search_by_key(&old, Exception::old);
        let Ok(index) = found else {
            return;
        };
        self.count -= 1;
        leaf.exceptions.remove(index);
        match leaf.exceptions.first() {
            Some(first) => leaf.first = first.old(),
            None => drop(self.leaves.remove(at)),
        }
    }

    /// Where the bytes of `range` are, of chunks of `chunk` bytes: pieces in order that cover it.
    pub(crate) fn pieces(
        &self,
        range: Range,
        chunk: u64,
    ) -> impl Iterator<Item = ChunkPiece> + use<'_> {
        let runs = self.runs(chunks_of(range, chunk));
        runs.map(move |run| run.piece(chunk, range))
    }

    /// What `chunks` of the disk are made of: runs in order that cover them without a gap, each as
    /// long as it can be.
    pub(crate) fn runs(&self, chunks: ops::Range<u64>) -> Runs<'_> {
        let leaf = self.leaf_of(chunks.start);
        let index = self.leaves.get(leaf).map_or(0, |leaf| {
            let before = |exception: &Exception| exception.old() < chunks.start;
            leaf.exceptions.partition_point(before)
        });
        let mut runs = Runs {
            map: self,
            leaf,
            index,
            chunks,
        };
        runs.step_over_the_end();
        runs
    }

    /// The leaf that has `old`, or would get it.
    fn leaf_of(&self, old: u64) -> usize {
        let after = self.leaves.partition_point(|leaf| leaf.first <= old);
        after.saturating_sub(1)
    }
}

/// See [`Map::runs`].
#[derive(Debug)]
pub(crate) struct Runs<'a> {
    map: &'a Map,
    /// The first exception at or behind the start of `chunks`.
    leaf: usize,
    index: usize,
    /// What is still to come.
    chunks: ops::Range<u64>,
}

impl Runs<'_> {
    fn exception(&self) -> Option<Exception> {
        let leaf = self.map.leaves.get(self.leaf)?;
        leaf.exceptions.get(self.index).copied()
    }

    fn step_over_the_end(&mut self) {
        let leaf = self.map.leaves.get(self.leaf);
        if leaf.is_some_and(|leaf| self.index == leaf.exceptions.len()) {
            self.leaf += 1;
            self.index = 0;
        }
    }

    fn step(&mut self) {
        self.index += 1;
        self.step_over_the_end();
    }
}

impl Iterator for Runs<'_> {
    type Item = ChunkRun;

    fn next(&mut self) -> Option<ChunkRun> {
        let ops::Range { start: old, end } = self.chunks;
        if old >= end {
            return None;
        }
        let first = self.exception().filter(|first| first.old() < end);
        let (new, len) = match first {
            None => (None, end - old),
            Some(first) if first.old() > old => (None, first.old() - old),
            Some(first) => {
                let new = first.new_chunk();
                let mut len = 1;
                self.step();
                while let Some(next) = self.exception()
                    && next.old() == old + len
                    && next.old() < end
                    && next.new_chunk() == new + len
                {
                    len += 1;
                    self.step();
                }
                (Some(new), len)
            }
        };
        self.chunks.start = old + len;
        Some(ChunkRun { old, new, len })
    }
}
