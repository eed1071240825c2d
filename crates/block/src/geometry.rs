//! [`Geometry`]: what a disk is, as plain data.

/// How a disk carries out a kind of request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub enum Support {
    /// Not at all: the request is answered with `NotSupported`.
    #[default]
    None,
    /// By other requests: correct, not fast.
    Emulated,
    /// As such.
    Native,
}

impl Support {
    /// Whether the request may be sent at all.
    #[must_use]
    pub const fn any(self) -> bool {
        !matches!(self, Self::None)
    }
}

/// What a disk is. A copy stays valid while the node lives: nothing in it changes, but for the size
/// of a remote disk or an array, which may grow (never shrink). To use the new bytes, revalidate the disk
/// ([`revalidate`](crate::BlockDevice::revalidate)).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Geometry {
    /// Size, bytes; a multiple of `block_size`.
    pub size: u64,
    /// Smallest unit of a request, bytes, a power of two up to 65536. 1: any request is served.
    pub block_size: u32,
    /// Unit at which requests are fast, bytes, a power of two, at least 512.
    pub preferred_block_size: u32,
    /// Whether writes are refused with `ReadOnly`.
    pub read_only: bool,
    /// Whether seeks cost time.
    pub rotational: bool,
    /// Flush. [`Support::Native`] for every disk with a volatile cache.
    pub flush: Support,
    /// FUA on writes and `write_zeroes`.
    pub fua: Support,
    /// Trim.
    pub trim: Support,
    /// `write_zeroes`; fast zeroing is claimed only by [`Support::Native`].
    pub write_zeroes: Support,
}

impl Geometry {
    /// A writable disk of `size` bytes that takes any request natively, without seeks.
    #[must_use]
    pub const fn native(size: u64) -> Self {
        Self {
            size,
            block_size: 1,
            preferred_block_size: 4096,
            read_only: false,
            rotational: false,
            flush: Support::Native,
            fua: Support::Native,
            trim: Support::Native,
            write_zeroes: Support::Native,
        }
    }
}
