//! [`ThinError`]: why a thin pool, a thin volume or a cache is refused, and what to do about it.

use std::fmt;

use block::{Errno, IoError, Operation, Range};

use super::format::NodeFault;

/// What metadata belong to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ThinSubject {
    /// A thin pool.
    Pool,
    /// A cache.
    Cache,
}

impl fmt::Display for ThinSubject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Pool => "thin pool",
            Self::Cache => "cache",
        })
    }
}

/// Why a thin pool, a thin volume or a cache is refused.
#[derive(Debug, Clone, thiserror::Error)]
pub enum ThinError {
    /// The disk of the metadata ends too early.
    #[error("the {subject} metadata are cut off: their superblock has {len} of 4096 bytes")]
    Cut {
        /// Of what.
        subject: ThinSubject,
        /// Bytes that are there.
        len: usize,
    },
    /// All zeroes.
    #[error("the thin pool has no superblock, only zeroes: it was never activated")]
    Unused,
    /// Something else is there.
    #[error("this is not {0} metadata: their superblock has another magic number")]
    Magic(ThinSubject),
    /// Bytes of the superblock are damaged.
    #[error(
        "{subject} superblock checksum mismatch: {stored:08x} is stored, {computed:08x} would be right; \
         repair it on Linux with lvconvert --repair"
    )]
    Checksum {
        /// Of what.
        subject: ThinSubject,
        /// What it says.
        stored: u32,
        /// What its bytes come to.
        computed: u32,
    },
    /// A version that is not known.
    #[error("{subject} metadata version {found} is not supported")]
    Version {
        /// Of what.
        subject: ThinSubject,
        /// What it says.
        found: u32,
    },
    /// The kernel marked it after a failed metadata operation.
    #[error("the {0} is marked needs_check: check and repair it on Linux with lvconvert --repair")]
    NeedsCheck(ThinSubject),
    /// Flags that are not known.
    #[error("the {subject} metadata have unknown {field} {unknown:#x}: a newer kernel wrote them")]
    Flags {
        /// Of what.
        subject: ThinSubject,
        /// Which.
        field: &'static str,
        /// Those that are not known.
        unknown: u32,
    },
    /// A number that cannot be.
    #[error("the {field} of the {subject} metadata cannot be {value}")]
    Field {
        /// Of what.
        subject: ThinSubject,
        /// Which.
        field: &'static str,
        /// What it says.
        value: u64,
    },
    /// Volume group and pool are of different times.
    #[error(
        "the thin pool has transaction id {found}, and the volume group expects {expected}: one of them was \
         restored or changed without the other"
    )]
    TransactionId {
        /// The pool's.
        found: u64,
        /// The group's.
        expected: u64,
    },
    /// Volume group and pool disagree.
    #[error("the thin pool has chunks of {found} bytes, and the volume group says {expected}")]
    ChunkSize {
        /// The pool's, bytes.
        found: u64,
        /// The group's, bytes.
        expected: u64,
    },
    /// A disk is smaller than the metadata say.
    #[error(
        "the {subject} {what} have {size} bytes, and its superblock says {needed}: a disk is too small"
    )]
    Size {
        /// Of what.
        subject: ThinSubject,
        /// `data` or `metadata`.
        what: &'static str,
        /// What its disk has, bytes.
        size: u64,
        /// What it must have, bytes.
        needed: u64,
    },
    /// No such volume.
    #[error(
        "the thin pool has no volume with device id {device}{}",
        if *pending { ": its creation is still pending, activate the pool once on Linux" } else { "" }
    )]
    NoDevice {
        /// Which.
        device: u64,
        /// The volume group has messages that the pool has not carried out.
        pending: bool,
    },
    /// Details without mappings, or the other way round.
    #[error(
        "the thin pool is damaged: device id {device} has no {what}; repair it on Linux with lvconvert --repair"
    )]
    Incomplete {
        /// Which.
        device: u64,
        /// What it lacks.
        what: &'static str,
    },
    /// A damaged node.
    #[error(
        "metadata block {block} is damaged: {fault}; repair it on Linux with lvconvert --repair"
    )]
    Node {
        /// Where.
        block: u64,
        /// How.
        fault: NodeFault,
    },
    /// A mapping to nowhere.
    #[error(
        "the thin pool is damaged: it maps chunk {chunk} of a volume to data chunk {data}, and has {chunks}; \
         repair it on Linux with lvconvert --repair"
    )]
    Mapping {
        /// Chunk of the volume.
        chunk: u64,
        /// Where it should be.
        data: u64,
        /// Chunks that there are.
        chunks: u64,
    },
    /// The count of a volume's mappings is wrong.
    #[error("device id {device} maps {found} chunks, and its details say {expected}")]
    Mapped {
        /// Which.
        device: u64,
        /// Mappings that are there.
        found: u64,
        /// What the details say.
        expected: u64,
    },
    /// A size that is not made of blocks.
    #[error("a thin volume of {size} bytes is not made of blocks of {block_size} bytes")]
    Blocks {
        /// Bytes.
        size: u64,
        /// Bytes.
        block_size: u32,
    },
    /// It was to be written.
    #[error(
        "thin volume {volume} can only be read: to write, put an overlay over it, \
         overlay(volume(…, name={volume}), top.cow)"
    )]
    ReadOnly {
        /// Its name.
        volume: String,
    },
    /// The only copy of some data is in the cache.
    #[error(
        "the cache is dirty: {0}; what is cached may be newer than the origin: activate the volume on Linux, \
         flush it with lvconvert --uncache, or change it with lvchange --cachemode writethrough"
    )]
    DirtyCache(String),
    /// A request failed.
    #[error("the metadata cannot be read: {0}")]
    Read(#[from] IoError),
}

impl ThinError {
    /// The damage of a node.
    pub(super) const fn node(block: u64, fault: NodeFault) -> Self {
        Self::Node { block, fault }
    }

    /// The same as a failure of a request.
    pub(super) fn of_request(self, operation: Operation, range: Range) -> IoError {
        let errno = match &self {
            Self::Read(source) => source.errno,
            _ => Errno::Io,
        };
        IoError::new(errno, operation, Some(range)).because(self)
    }
}
