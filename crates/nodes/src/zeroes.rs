//! Zeroes to read and to write, shared by all.

use std::sync::LazyLock;

use block::{IoBufs, Range};
use bytes::Bytes;
use engine::Buffer;

/// Small enough to stay in a core's cache.
const SHARED: usize = 256 * 1024;

/// Zeroes that are written together where a disk cannot zero, bytes.
const WRITE_LEN_MAX: u64 = 1 << 20;

static ZEROES: LazyLock<Bytes> = LazyLock::new(|| {
    let mut buffer = Buffer::take(SHARED);
    buffer.fill(0);
    buffer.freeze()
});

/// `len` zeroes, page-aligned, without a copy.
pub(crate) fn zeroes(len: usize) -> IoBufs {
    let whole = std::iter::repeat_n(ZEROES.clone(), len / SHARED);
    let rest = len % SHARED;
    whole
        .chain((rest > 0).then(|| ZEROES.slice(..rest)))
        .collect()
}

/// All of `range` in pieces that are written one after the other, with the zeroes of each.
pub(crate) fn zero_pieces(range: Range) -> impl Iterator<Item = (Range, IoBufs)> {
    pieces(range, WRITE_LEN_MAX).map(|piece| (piece, zeroes(piece.len_usize())))
}

/// Cuts `range` into pieces of at most `len_max`.
fn pieces(range: Range, len_max: u64) -> impl Iterator<Item = Range> {
    let starts =
        (range.offset..range.end()).step_by(usize::try_from(len_max).unwrap_or(usize::MAX));
    starts.map(move |start| Range::new(start, len_max.min(range.end() - start)))
}

/// Whether all bytes are zero. Blocks of a size that the compiler makes wide instructions of.
pub(crate) fn is_zero(bytes: &[u8]) -> bool {
    const WIDE: usize = 256;
    let (blocks, rest) = bytes.as_chunks::<WIDE>();
    let block_is_zero = |block: &[u8]| block.iter().fold(0, |all, byte| all | byte) == 0;
    blocks.iter().all(|block| block_is_zero(block)) && block_is_zero(rest)
}

#[cfg(test)]
mod tests {
    use block::Range;
    use proptest::prelude::*;

    use super::{pieces, zero_pieces};

    proptest! {
        #[test]
        fn pieces_cover_a_range_once(offset in 0_u64..10_000, len in 0_u64..10_000, len_max in 1_u64..3000) {
            let range = Range::new(offset, len);
            let mut at = offset;
            for piece in pieces(range, len_max) {
                prop_assert_eq!(piece.offset, at);
                prop_assert!(piece.len > 0 && piece.len <= len_max);
                at = piece.end();
            }
            prop_assert_eq!(at, range.end());
        }
    }

    #[test]
    fn zeroes_fill_the_pieces_that_they_are_written_to() {
        let range = Range::new(4096, (3 << 20) + 512);
        let all: Vec<_> = zero_pieces(range).collect();
        assert_eq!(all.len(), 4);
        for (piece, data) in all {
            let len: usize = data.iter().map(|bytes| bytes.len()).sum();
            assert_eq!(len, piece.len_usize());
            assert!(data.iter().flatten().all(|byte| *byte == 0));
        }
    }
}
