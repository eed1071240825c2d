//! What a chunk of a reply holds: [`ChunkKind`].

/// What a chunk of a structured reply holds (`NBD_REPLY_TYPE_*`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ChunkKind {
    /// 0: nothing; only ends the reply.
    None,
    /// 1: offset and bytes.
    OffsetData,
    /// 2: offset and length of a run of zeroes.
    OffsetHole,
    /// 5: metadata context and its extents.
    BlockStatus,
    /// 6: the same with 64-bit lengths.
    BlockStatusExt,
    /// 0x8001: error and text.
    Error,
    /// 0x8002: error, text and where.
    ErrorOffset,
    /// Any other number.
    Unknown(u16),
}

/// Set in the kinds of all errors.
const ERROR_BIT: u16 = 1 << 15;

impl ChunkKind {
    /// Whether a chunk of this kind makes its request fail; also kinds we do not know.
    #[must_use]
    pub fn is_error(self) -> bool {
        u16::from(self) & ERROR_BIT != 0
    }
}

impl From<u16> for ChunkKind {
    fn from(number: u16) -> Self {
        match number {
            0 => Self::None,
            1 => Self::OffsetData,
            2 => Self::OffsetHole,
            5 => Self::BlockStatus,
            6 => Self::BlockStatusExt,
            0x8001 => Self::Error,
            0x8002 => Self::ErrorOffset,
            other => Self::Unknown(other),
        }
    }
}

impl From<ChunkKind> for u16 {
    fn from(kind: ChunkKind) -> Self {
        match kind {
            ChunkKind::None => 0,
            ChunkKind::OffsetData => 1,
            ChunkKind::OffsetHole => 2,
            ChunkKind::BlockStatus => 5,
            ChunkKind::BlockStatusExt => 6,
            ChunkKind::Error => 0x8001,
            ChunkKind::ErrorOffset => 0x8002,
            ChunkKind::Unknown(number) => number,
        }
    }
}
