//! [`Range`]: a run of bytes on a disk, and its one check.

use std::fmt;

/// `len` bytes at `offset`. `offset + len` never overflows in a checked range.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Range {
    /// First byte.
    pub offset: u64,
    /// Length in bytes.
    pub len: u64,
}

/// Why a range is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RangeError {
    /// The range ends behind the disk.
    #[error("{range} ends behind the disk of {size} bytes")]
    PastEnd {
        /// The refused range.
        range: Range,
        /// Size of the disk, bytes.
        size: u64,
    },
    /// Offset or length is no multiple of the block size.
    #[error("{range} is not aligned to blocks of {block_size} bytes")]
    Unaligned {
        /// The refused range.
        range: Range,
        /// The disk's smallest block, bytes.
        block_size: u32,
    },
}

impl Range {
    /// `len` bytes at `offset`.
    #[must_use]
    pub const fn new(offset: u64, len: u64) -> Self {
        Self { offset, len }
    }

    /// The byte behind the last.
    ///
    /// # Panics
    /// If the range was not checked and overflows.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.offset
            .checked_add(self.len)
            .expect("a checked range ends within 64 bits")
    }

    /// Length as a `usize`.
    ///
    /// # Panics
    /// If the range is longer than memory can be.
    #[must_use]
    pub fn len_usize(&self) -> usize {
        usize::try_from(self.len).expect("a range of memory fits memory")
    }

    /// Whether it has no bytes.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether both ranges have a byte in common.
    #[must_use]
    pub fn overlaps(&self, other: &Self) -> bool {
        self.offset < other.end() && other.offset < self.end()
    }

    /// The one check of a request against a disk of `size` bytes in blocks of `block_size`.
    ///
    /// # Errors
    /// [`RangeError::PastEnd`] before [`RangeError::Unaligned`].
    pub fn check(self, size: u64, block_size: u32) -> Result<Self, RangeError> {
        match self.offset.checked_add(self.len) {
            Some(end) if end <= size => {}
            _ => return Err(RangeError::PastEnd { range: self, size }),
        }
        let block = u64::from(block_size.max(1));
        if self.offset.is_multiple_of(block) && self.len.is_multiple_of(block) {
            return Ok(self);
        }
        Err(RangeError::Unaligned {
            range: self,
            block_size,
        })
    }
}

impl fmt::Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes at {}", self.len, self.offset)
    }
}
