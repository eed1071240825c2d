//! What several parts are together: sizes, blocks and support. Pure.

use block::{Geometry, Range, Support};

use super::{PARTS_MAX, Segment};

/// Parts that make no disk. Parts are counted from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PartError {
    /// There is none.
    #[error("no disk is named to make it of")]
    None,
    /// There are too many.
    #[error("{0} parts are too many: at most {PARTS_MAX}")]
    TooMany(usize),
    /// One has no bytes.
    #[error("part {0} is empty")]
    Empty(usize),
    /// One lies behind its disk's end.
    #[error("part {number} is {range}, its disk has {size} bytes")]
    PastEnd {
        /// Which.
        number: usize,
        /// Where it should be on its disk.
        range: Range,
        /// Size of that disk, bytes.
        size: u64,
    },
    /// One is not made of whole blocks.
    #[error(
        "part {number} ({range}) is not made of whole blocks of {block_size} bytes, as part \
         {largest} needs: put smaller blocks on part {largest}: blocks(DISK, size=512)"
    )]
    Unaligned {
        /// Which.
        number: usize,
        /// Where it is on its disk.
        range: Range,
        /// The largest block of all parts, bytes.
        block_size: u32,
        /// The part with that block.
        largest: usize,
    },
    /// All of them together are larger than a disk can be.
    #[error(
        "all parts together are larger than a disk can be ({} bytes)",
        i64::MAX
    )]
    TooLarge,
}

/// Validates the segments and computes the geometry of the whole.
///
/// The largest block size of a part is the whole's; what one part cannot do, all cannot, but for flush: parts
/// without a cache have nothing to flush.
pub(super) fn compose(segments: &[Segment]) -> Result<Geometry, PartError> {
    if segments.len() > PARTS_MAX {
        return Err(PartError::TooMany(segments.len()));
    }
    let geometries = || segments.iter().map(|segment| segment.disk.geometry());
    let Some(first) = geometries().next() else {
        return Err(PartError::None);
    };
    let mut whole = Geometry {
        size: 0,
        ..first.clone()
    };
    let mut largest = 1;
    for (number, part) in (1..).zip(geometries()) {
        if part.block_size > whole.block_size {
            (whole.block_size, largest) = (part.block_size, number);
        }
        whole.preferred_block_size = whole.preferred_block_size.max(part.preferred_block_size);
        whole.read_only |= part.read_only;
        whole.rotational |= part.rotational;
        whole.flush = whole.flush.max(part.flush);
        whole.fua = whole.fua.min(part.fua);
        whole.trim = whole.trim.min(part.trim);
        whole.write_zeroes = whole.write_zeroes.min(part.write_zeroes);
    }
    for (number, segment) in (1..).zip(segments) {
        check(number, segment, whole.block_size, largest)?;
        let sum = whole.size.checked_add(segment.range.len);
        whole.size = sum
            .filter(|&size| i64::try_from(size).is_ok())
            .ok_or(PartError::TooLarge)?;
    }
    if whole.flush == Support::None {
        whole.fua = Support::None;
    }
    Ok(whole)
}

fn check(
    number: usize,
    segment: &Segment,
    block_size: u32,
    largest: usize,
) -> Result<(), PartError> {
    let range = segment.range;
    let size = segment.disk.geometry().size;
    if range.is_empty() {
        return Err(PartError::Empty(number));
    }
    if range.check(size, 1).is_err() {
        return Err(PartError::PastEnd {
            number,
            range,
            size,
        });
    }
    range
        .check(size, block_size)
        .map(|_| ())
        .map_err(|_| PartError::Unaligned {
            number,
            range,
            block_size,
            largest,
        })
}
