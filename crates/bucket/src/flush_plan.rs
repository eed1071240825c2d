//! [`FlushPlan`]: what a commit of changes writes: data objects and entries of the index. Pure.
//!
//! # Invariants
//!
//! * Few bytes go into the index itself: one request makes them durable. More go into objects of at most [`OBJECT_MAX`], in the
//!   order of the disk.
//! * A run that changed whole gets one entry; otherwise each changed block gets its own, and nothing else of the run is touched.

use bytes::Bytes;

use crate::dirty::{DirtyBlock, DirtyMap, DirtyRun};
use crate::format::{
    BLOCK_LEN, Entry, EntryContent, IndexKey, RUN_BLOCKS, RunPointer, Sequence, crc32c,
};

/// Bytes of data that go into the index, at most.
pub(crate) const INLINE_MAX: u64 = 256 << 10;
/// Bytes of a data object, at most.
pub(crate) const OBJECT_MAX: usize = 8 << 20;

/// Bytes of a data object to be written.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct ObjectPlan {
    /// Blocks, one behind the other.
    pub(crate) blocks: Vec<Bytes>,
}

impl ObjectPlan {
    /// Its length, bytes.
    pub(crate) const fn len(&self) -> usize {
        self.blocks.len() * BLOCK_LEN
    }
}

/// What the blocks of an entry will hold.
#[derive(Debug, Clone, PartialEq, Eq)]
enum PlannedContent {
    Zero,
    Inline(Bytes),
    Stored {
        /// Which of the plan's objects.
        object: usize,
        offset: u32,
        checksums: Vec<u32>,
    },
}

/// What a commit writes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct FlushPlan {
    /// Objects, to be written first.
    pub(crate) objects: Vec<ObjectPlan>,
    entries: Vec<(IndexKey, PlannedContent)>,
}

impl FlushPlan {
    /// That of these changes, with data in the index if there is not more of it than `inline_max`.
    pub(crate) fn of(changes: &DirtyMap, inline_max: u64) -> Self {
        let is_inline = changes.data_len() <= inline_max;
        let mut plan = Self::default();
        for (run, changed) in changes.runs() {
            match changed {
                DirtyRun::Zero => plan.push(IndexKey::Run(run), PlannedContent::Zero),
                DirtyRun::Blocks(blocks) => plan.add_blocks(run, blocks, is_inline),
            }
        }
        plan
    }

    fn add_blocks(&mut self, run: u64, blocks: &[Option<DirtyBlock>; RUN_BLOCKS], is_inline: bool) {
        let data = blocks.iter().filter_map(|block| match block {
            Some(DirtyBlock::Data(data)) => Some(data),
            _ => None,
        });
        if !is_inline && data.clone().count() == RUN_BLOCKS {
            let content = self.store(data);
            self.push(IndexKey::Run(run), content);
            return;
        }
        for (block, changed) in (0..).zip(blocks) {
            let content = match changed {
                None => continue,
                Some(DirtyBlock::Zero) => PlannedContent::Zero,
                Some(DirtyBlock::Data(data)) if is_inline => PlannedContent::Inline(data.clone()),
                Some(DirtyBlock::Data(data)) => self.store(std::iter::once(data)),
            };
            self.push(IndexKey::Block { run, block }, content);
        }
    }

    /// Puts blocks at the end of the last object, or of a new one.
    fn store<'a>(&mut self, blocks: impl Iterator<Item = &'a Bytes>) -> PlannedContent {
        let blocks: Vec<Bytes> = blocks.cloned().collect();
        let len = blocks.len() * BLOCK_LEN;
        let has_space = |object: &&mut ObjectPlan| object.len() + len <= OBJECT_MAX;
        if self.objects.last_mut().filter(has_space).is_none() {
            self.objects.push(ObjectPlan::default());
        }
        let object = self.objects.len() - 1;
        let target = &mut self.objects[object];
        let offset = u32::try_from(target.len()).expect("an object is at most 8 MiB");
        let checksums = blocks.iter().map(|block| crc32c(&[block])).collect();
        target.blocks.extend(blocks);
        PlannedContent::Stored {
            object,
            offset,
            checksums,
        }
    }

    fn push(&mut self, key: IndexKey, content: PlannedContent) {
        self.entries.push((key, content));
    }

    /// The entries, as a commit of `sequence` writes them, with the objects counted from `first_object` on.
    pub(crate) fn entries(
        &self,
        sequence: Sequence,
        first_object: u64,
    ) -> impl Iterator<Item = (IndexKey, Entry)> {
        self.entries.iter().map(move |(key, content)| {
            let content = match content {
                PlannedContent::Zero => EntryContent::Zero,
                PlannedContent::Inline(data) => EntryContent::Inline(data.clone()),
                PlannedContent::Stored {
                    object,
                    offset,
                    checksums,
                } => EntryContent::Stored(RunPointer {
                    generation: sequence.generation,
                    object: first_object + *object as u64,
                    offset: *offset,
                    checksums: checksums.clone(),
                }),
            };
            (*key, Entry { sequence, content })
        })
    }
}
