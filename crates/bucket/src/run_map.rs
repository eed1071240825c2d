//! [`RunMap`]: what each block of a run is, by the entries of the index. Pure.
//!
//! # Invariants
//!
//! * The entry with the latest [`Sequence`] that covers a block is the block's. One commit writes either the entry of a run or
//!   entries of its blocks, never both.

use bytes::Bytes;

use crate::format::{
    BLOCK, DataObject, Entry, EntryContent, EntryFormatError, IndexKey, RUN_BLOCKS, Sequence,
};

/// Where a block is in an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct StoredBlock {
    /// The object.
    pub(crate) object: DataObject,
    /// Offset in it, bytes.
    pub(crate) offset: u64,
    /// Its bytes there, with its seal.
    pub(crate) len: u32,
    /// It is sealed with the key of the volume.
    pub(crate) is_sealed: bool,
    /// Which block of the volume it is.
    pub(crate) number: u64,
    /// CRC-32C of the block, as it was written.
    pub(crate) checksum: u32,
}

impl StoredBlock {
    /// The end of it in the object, bytes.
    pub(crate) const fn end(&self) -> u64 {
        self.offset + self.len as u64
    }

    /// Whether the object has it as it was written.
    pub(crate) const fn is_plain(&self) -> bool {
        !self.is_sealed && self.len as u64 == BLOCK
    }
}

/// What a block is.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) enum BlockSource {
    /// Never written: zeroes.
    #[default]
    Hole,
    /// Zeroes that were written.
    Zero,
    /// These bytes.
    Inline(Bytes),
    /// Bytes of an object.
    Stored(StoredBlock),
}

impl BlockSource {
    /// Whether it takes space in the store.
    pub(crate) const fn is_data(&self) -> bool {
        matches!(self, Self::Inline(_) | Self::Stored(_))
    }
}

/// What the blocks of a run are.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct RunMap {
    blocks: [(Sequence, BlockSource); RUN_BLOCKS],
}

impl RunMap {
    /// Takes an entry of the run, in any order.
    pub(crate) fn apply(&mut self, key: IndexKey, entry: &Entry) {
        match key {
            IndexKey::Run(run) => {
                (0..RUN_BLOCKS).for_each(|block| self.set((run, block), 0, entry))
            }
            IndexKey::Block { run, block } => {
                let block = usize::from(block);
                self.set((run, block), block, entry);
            }
        }
    }

    /// `first`: the block that the entry begins with.
    fn set(&mut self, (run, block): (u64, usize), first: usize, entry: &Entry) {
        let (sequence, source) = &mut self.blocks[block];
        if entry.sequence < *sequence {
            return;
        }
        *sequence = entry.sequence;
        *source = match &entry.content {
            EntryContent::Zero => BlockSource::Zero,
            EntryContent::Inline(data) => BlockSource::Inline(data.clone()),
            EntryContent::Stored(pointer) => {
                let nth = block - first;
                let (offset, len) = pointer.piece(nth);
                BlockSource::Stored(StoredBlock {
                    object: DataObject {
                        generation: pointer.generation,
                        number: pointer.object,
                    },
                    offset,
                    len,
                    is_sealed: pointer.is_sealed,
                    number: run.wrapping_mul(RUN_BLOCKS as u64) + block as u64,
                    checksum: pointer.checksums[nth],
                })
            }
        };
    }

    /// What a block is.
    pub(crate) const fn block(&self, block: usize) -> &BlockSource {
        &self.blocks[block].1
    }

    /// What its blocks are, in order.
    pub(crate) fn sources(&self) -> impl Iterator<Item = &BlockSource> {
        self.blocks.iter().map(|(_, source)| source)
    }

    /// Whether any block is something else than zeroes.
    pub(crate) fn has_data(&self) -> bool {
        self.sources().any(BlockSource::is_data)
    }
}

/// Puts the entries of a scan, which come in the order of their keys, together by run.
#[derive(Debug, Default)]
pub(crate) struct RunMapBuilder {
    run: Option<(u64, RunMap)>,
}

impl RunMapBuilder {
    /// Takes the next entry of a scan; returns the run before it when that is complete.
    ///
    /// # Errors
    /// An entry that is not understood.
    pub(crate) fn push(
        &mut self,
        key: &[u8],
        value: &Bytes,
    ) -> Result<Option<(u64, RunMap)>, EntryFormatError> {
        let key = IndexKey::decode(key).ok_or(EntryFormatError::Key)?;
        let entry = Entry::decode(key, value)?;
        let is_next = self.run.as_ref().is_some_and(|(run, _)| *run != key.run());
        let complete = if is_next { self.run.take() } else { None };
        let (_, map) = self
            .run
            .get_or_insert_with(|| (key.run(), RunMap::default()));
        map.apply(key, &entry);
        Ok(complete)
    }

    /// The last run.
    pub(crate) fn finish(self) -> Option<(u64, RunMap)> {
        self.run
    }
}
