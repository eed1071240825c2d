//! Thin pool metadata on the disk: checksums, superblock, btree nodes. Pure; little-endian.
//!
//! ```text
//! block 0    superblock: roots of the two trees below, chunk size, transaction id, flags
//! block n    btree node: 32 bytes of header, keys, values; a leaf or an internal node
//!            bitmaps and indexes of the space maps, which reading does not need
//!
//! data_mapping_root    device id ─► root of that device's tree: chunk ─► data chunk << 24 | time
//! device_details_root  device id ─► chunks mapped, when created
//! ```
//!
//! # Invariants
//!
//! * No input panics; nothing is allocated beyond a copy of one block.
//! * Everything that is returned has the right checksum, lies in the block that it names, and has its keys in
//!   ascending order.
//!
//! # What it does not do
//!
//! It follows no pointer: a node's children are checked against it by the walk (`walk.rs`).

mod node;
mod superblock;

use crc::{Algorithm, CRC_32_ISCSI, Crc, Table};

pub use self::node::NodeFault;
pub(super) use self::node::{NodeKind, TreeNode};
pub(super) use self::superblock::{Superblock, bad_field, header, refuse_flags};

/// Bytes of a metadata block. The format has no other size.
pub(super) const BLOCK_LEN: usize = 4096;
/// The same, as an offset.
pub(super) const BLOCK_SIZE: u64 = BLOCK_LEN as u64;
/// Unit of sizes in the superblock, bytes.
pub(super) const SECTOR: u64 = 512;
/// Bytes of the value of a mapping, and of a pointer to a block.
pub(super) const POINTER_LEN: u32 = 8;
/// Bytes of the details of a device.
pub(super) const DETAILS_LEN: u32 = 24;

/// CRC-32C without the final inversion, 16 bytes at a time: a block takes about 2 us.
const CASTAGNOLI: Crc<u32, Table<16>> = Crc::<u32, Table<16>>::new(&RAW);
const RAW: Algorithm<u32> = Algorithm {
    xorout: 0,
    ..CRC_32_ISCSI
};

/// What makes the checksum of each kind of block another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BlockKind {
    /// Superblock of a thin pool.
    PoolSuperblock,
    /// Node of a btree.
    Node,
    /// Superblock of a cache.
    CacheSuperblock,
    /// Block of an array of a cache.
    Array,
}

impl BlockKind {
    const fn constant(self) -> u32 {
        match self {
            Self::PoolSuperblock => 160_774,
            Self::Node => 121_107,
            Self::CacheSuperblock => 9_031_977,
            Self::Array => 595_846_735,
        }
    }

    /// The checksum of a block of this kind, which is stored in its first four bytes and covers the others.
    ///
    /// # Panics
    /// If `block` is shorter than the checksum itself.
    pub(super) fn checksum(self, block: &[u8]) -> u32 {
        CASTAGNOLI.checksum(&block[4..]) ^ self.constant()
    }
}

/// What a mapping's value says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Mapping {
    /// Chunk of the pool's data.
    pub(super) data: u64,
}

impl Mapping {
    /// Bits of the time at which the chunk was mapped, which only writing needs.
    const TIME_BITS: u32 = 24;

    pub(super) const fn of(value: u64) -> Self {
        Self {
            data: value >> Self::TIME_BITS,
        }
    }
}
