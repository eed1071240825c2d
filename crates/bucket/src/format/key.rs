//! [`IndexKey`]: what an entry of the index is for.
//!
//! # Invariants
//!
//! * Keys sort by run, and within a run the entry of the whole run is before those of its blocks: one scan of a part of the disk
//!   gets all of it in order.

use super::RUN_BLOCKS;

/// First byte of the keys of runs and blocks.
const INDEX_PREFIX: u8 = b'm';
/// The key of what the index records of itself.
pub(crate) const META_KEY: &[u8] = b"v";

/// Bytes of the key of a run, and of a block.
const RUN_KEY_LEN: usize = 9;
const BLOCK_KEY_LEN: usize = RUN_KEY_LEN + 1;

/// What an entry is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum IndexKey {
    /// All blocks of a run.
    Run(u64),
    /// One block of a run.
    Block {
        /// The run.
        run: u64,
        /// The block, counted in it.
        block: u8,
    },
}

impl IndexKey {
    /// The run.
    pub(crate) const fn run(self) -> u64 {
        match self {
            Self::Run(run) | Self::Block { run, .. } => run,
        }
    }

    /// Blocks that its entry is for.
    pub(crate) const fn block_count(self) -> usize {
        match self {
            Self::Run(_) => RUN_BLOCKS,
            Self::Block { .. } => 1,
        }
    }

    /// As bytes that sort as the keys do.
    pub(crate) fn encode(self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(BLOCK_KEY_LEN);
        bytes.push(INDEX_PREFIX);
        bytes.extend_from_slice(&self.run().to_be_bytes());
        if let Self::Block { block, .. } = self {
            bytes.push(block);
        }
        bytes
    }

    /// The key of these bytes.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let rest = bytes.strip_prefix(&[INDEX_PREFIX])?;
        let (run, rest) = rest.split_first_chunk()?;
        let run = u64::from_be_bytes(*run);
        match rest {
            [] => Some(Self::Run(run)),
            [block] if usize::from(*block) < RUN_BLOCKS => Some(Self::Block { run, block: *block }),
            _ => None,
        }
    }
}
