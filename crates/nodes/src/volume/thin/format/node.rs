//! A node of a btree of device-mapper's persistent data.

use std::ops::RangeInclusive;

use super::{BLOCK_LEN, BlockKind, POINTER_LEN};
use crate::fields::Fields;

const HEADER_LEN: usize = 32;
const KEY_LEN: usize = 8;
const INTERNAL: u32 = 1;
const LEAF: u32 = 2;

/// What is wrong with a node.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NodeFault {
    /// The metadata ends before it.
    #[error("it lies behind the end of the metadata, which has {blocks} blocks")]
    Outside {
        /// Blocks of the metadata.
        blocks: u64,
    },
    /// Bytes are damaged.
    #[error("checksum mismatch: {stored:08x} is stored, {computed:08x} would be right")]
    Checksum {
        /// What it says.
        stored: u32,
        /// What its bytes come to.
        computed: u32,
    },
    /// It was written for another place.
    #[error("it says that it is block {0}")]
    BlockNumber(u64),
    /// Neither leaf nor internal node, or something else besides.
    #[error("its flags cannot be {0:#x}")]
    Flags(u32),
    /// Values of another tree.
    #[error("its values have {found} bytes, and those of its tree have {expected}")]
    ValueSize {
        /// What it says.
        found: u32,
        /// What would be right.
        expected: u32,
    },
    /// More entries than fit.
    #[error("{count} entries of {max} cannot be")]
    Entries {
        /// Entries that it says it has.
        count: u32,
        /// Entries that it says it has room for.
        max: u32,
    },
    /// Keys that do not ascend.
    #[error("its keys do not ascend at entry {0}")]
    Order(usize),
    /// Keys that belong to another node.
    #[error("its keys are not within {low}..={high}, which its parent says")]
    Bounds {
        /// First key that may be in it.
        low: u64,
        /// Last one.
        high: u64,
    },
    /// Nodes below nodes below nodes.
    #[error("it lies {0} levels deep: the tree has a loop")]
    Depth(usize),
    /// An array that ends too early.
    #[error("the array has {found} of {len} values")]
    Short {
        /// Values that it must have.
        len: u64,
        /// Values that are there.
        found: u64,
    },
    /// More nodes than there are blocks.
    #[error("the tree has more nodes than the metadata has blocks")]
    Loop,
}

/// Which of the two.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NodeKind {
    /// Its values are the blocks of its children.
    Internal,
    /// Its values are the tree's.
    Leaf,
}

/// A node with its checksum and the order of its keys verified.
#[derive(Debug)]
pub(crate) struct TreeNode {
    bytes: Vec<u8>,
    kind: NodeKind,
    count: usize,
    values_at: usize,
    value_len: usize,
}

impl TreeNode {
    /// Decodes the node of `block`, of a tree with leaf values of `value_size` bytes.
    pub(crate) fn decode(bytes: Vec<u8>, block: u64, value_size: u32) -> Result<Self, NodeFault> {
        if bytes.len() != BLOCK_LEN {
            return Err(NodeFault::Outside { blocks: block });
        }
        let fields = Fields::of(&bytes);
        let (stored, computed) = (fields.u32(0), BlockKind::Node.checksum(&bytes));
        if stored != computed {
            return Err(NodeFault::Checksum { stored, computed });
        }
        if fields.u64(8) != block {
            return Err(NodeFault::BlockNumber(fields.u64(8)));
        }
        let (kind, expected) = match fields.u32(4) {
            INTERNAL => (NodeKind::Internal, POINTER_LEN),
            LEAF => (NodeKind::Leaf, value_size),
            flags => return Err(NodeFault::Flags(flags)),
        };
        let found = fields.u32(24);
        if found != expected {
            return Err(NodeFault::ValueSize { found, expected });
        }
        let (count, max) = (fields.u32(16), fields.u32(20));
        let entry = KEY_LEN as u64 + u64::from(expected);
        let used = HEADER_LEN as u64 + u64::from(max) * entry;
        // A child must exist: only a leaf may be empty, in a tree that is.
        if count > max || used > BLOCK_LEN as u64 || (count == 0 && kind == NodeKind::Internal) {
            return Err(NodeFault::Entries { count, max });
        }
        let small = |number: u32| usize::try_from(number).expect("a block has at most 4096 bytes");
        let node = Self {
            kind,
            count: small(count),
            values_at: HEADER_LEN + small(max) * KEY_LEN,
            value_len: small(expected),
            bytes,
        };
        let unsorted = (1..node.count).find(|index| node.key(index - 1) >= node.key(*index));
        unsorted.map_or(Ok(node), |index| Err(NodeFault::Order(index)))
    }

    pub(crate) const fn kind(&self) -> NodeKind {
        self.kind
    }

    pub(crate) const fn count(&self) -> usize {
        self.count
    }

    /// # Panics
    /// If there is no entry `index`.
    pub(crate) fn key(&self, index: usize) -> u64 {
        assert!(index < self.count, "an entry of the node");
        Fields::of(&self.bytes).u64(HEADER_LEN + index * KEY_LEN)
    }

    /// # Panics
    /// If there is no entry `index`.
    pub(crate) fn value(&self, index: usize) -> &[u8] {
        assert!(index < self.count, "an entry of the node");
        let at = self.values_at + index * self.value_len;
        &self.bytes[at..at + self.value_len]
    }

    /// A value of eight bytes: a mapping, or the block of a child.
    ///
    /// # Panics
    /// If there is no entry `index`, or values are shorter.
    pub(crate) fn number(&self, index: usize) -> u64 {
        Fields::of(self.value(index)).u64(0)
    }

    /// The first entry with this key or a higher one; `count` where there is none.
    pub(crate) fn lower_bound(&self, key: u64) -> usize {
        let (mut low, mut high) = (0, self.count);
        while low < high {
            let middle = low.midpoint(high);
            if self.key(middle) < key {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }

    /// Checks that all keys are among those that the node's parent says.
    pub(crate) fn check_bounds(&self, keys: &RangeInclusive<u64>) -> Result<(), NodeFault> {
        let (low, high) = (*keys.start(), *keys.end());
        let is_within = match self.count {
            0 => true,
            count => self.key(0) >= low && self.key(count - 1) <= high,
        };
        if is_within {
            Ok(())
        } else {
            Err(NodeFault::Bounds { low, high })
        }
    }

    /// The keys that may be below entry `index` of an internal node, of which `high` is the last.
    pub(crate) fn child_keys(&self, index: usize, high: u64) -> RangeInclusive<u64> {
        let last = match index + 1 {
            next if next < self.count => self.key(next) - 1,
            _ => high,
        };
        self.key(index)..=last
    }
}
