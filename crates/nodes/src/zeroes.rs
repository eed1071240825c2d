//! Zeroes to read and to write, shared by all.

use std::sync::LazyLock;

use block::IoBufs;
use bytes::Bytes;
use engine::Buffer;

/// Small enough to stay in a core's cache.
const SHARED: usize = 256 * 1024;

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

/// Whether all bytes are zero. Blocks of a size that the compiler makes wide instructions of.
pub(crate) fn is_zero(bytes: &[u8]) -> bool {
    const WIDE: usize = 256;
    let (blocks, rest) = bytes.as_chunks::<WIDE>();
    let block_is_zero = |block: &[u8]| block.iter().fold(0, |all, byte| all | byte) == 0;
    blocks.iter().all(|block| block_is_zero(block)) && block_is_zero(rest)
}
