//! [`Op`]: one request on a disk as plain data, and random lists of them.

use block::{Range, WriteFlags};
use proptest::collection::SizeRange;
use proptest::prelude::*;

/// One request. Written bytes are [`pattern`](crate::pattern)`(fill, range)`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Op {
    /// Reads, waiting and not.
    Read {
        /// Where.
        range: Range,
    },
    /// Writes.
    Write {
        /// Where.
        range: Range,
        /// Seed of the bytes.
        fill: u8,
        /// `FUA` or nothing.
        flags: WriteFlags,
        /// Tries `try_write` first, if there are no flags.
        now: bool,
    },
    /// Writes zeroes.
    WriteZeroes {
        /// Where.
        range: Range,
        /// Any.
        flags: WriteFlags,
    },
    /// Trims.
    Trim {
        /// Where.
        range: Range,
    },
    /// Flushes.
    Flush,
}

impl Op {
    /// Where it works; `None` for a flush.
    #[must_use]
    pub const fn range(&self) -> Option<Range> {
        match *self {
            Self::Read { range }
            | Self::Write { range, .. }
            | Self::WriteZeroes { range, .. }
            | Self::Trim { range } => Some(range),
            Self::Flush => None,
        }
    }

    /// Whether it may change what the disk holds.
    #[must_use]
    pub const fn changes(&self) -> bool {
        !matches!(self, Self::Read { .. } | Self::Flush)
    }

    /// Whether both may be in flight at once with a certain outcome.
    #[must_use]
    pub fn commutes_with(&self, other: &Self) -> bool {
        let apart = match (self.range(), other.range()) {
            (Some(a), Some(b)) => !a.overlaps(&b),
            _ => true,
        };
        apart || !(self.changes() || other.changes())
    }
}

/// Where random requests may go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpSpace {
    /// Size of the disk, bytes.
    pub size: u64,
    /// Offsets and lengths are multiples of this, bytes.
    pub block_size: u32,
    /// Longest request, bytes.
    pub len_max: u64,
}

/// Lists of `count` random requests in `space`: mostly reads and writes.
pub fn ops(space: OpSpace, count: impl Into<SizeRange>) -> impl Strategy<Value = Vec<Op>> {
    prop::collection::vec(op(space), count)
}

fn op(space: OpSpace) -> impl Strategy<Value = Op> {
    let write = (
        ranges(space),
        any::<u8>(),
        prop::bool::weighted(0.2),
        any::<bool>(),
    )
        .prop_map(|(range, fill, fua, now)| Op::Write {
            range,
            fill,
            flags: if fua {
                WriteFlags::FUA
            } else {
                WriteFlags::empty()
            },
            now,
        });
    let flags = (0..=WriteFlags::all().bits()).prop_map(WriteFlags::from_bits_truncate);
    let zeroes = (ranges(space), flags).prop_map(|(range, flags)| Op::WriteZeroes { range, flags });
    prop_oneof![
        4 => write,
        3 => ranges(space).prop_map(|range| Op::Read { range }),
        1 => zeroes,
        1 => ranges(space).prop_map(|range| Op::Trim { range }),
        1 => Just(Op::Flush),
    ]
}

/// A request of each kind on `range`, and a write of the whole disk of `size` bytes among them.
#[must_use]
pub fn one_of_each(range: Range, size: u64) -> Vec<Op> {
    let flags = WriteFlags::FUA;
    let write = |range| Op::Write {
        range,
        fill: 7,
        flags,
        now: false,
    };
    vec![
        write(range),
        write(Range::new(0, size)),
        Op::WriteZeroes { range, flags },
        Op::Trim { range },
        Op::Read { range },
        Op::Flush,
    ]
}

/// Ranges of at least one block.
fn ranges(space: OpSpace) -> impl Strategy<Value = Range> {
    let block = u64::from(space.block_size);
    let blocks = space.size / block;
    let len_max = (space.len_max / block).clamp(1, blocks);
    (0..blocks, 1..=len_max)
        .prop_map(move |(start, len)| Range::new(start * block, len.min(blocks - start) * block))
}
