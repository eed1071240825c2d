//! [`FlushPlan`]: what a commit of changes writes: data objects and entries of the index. Pure.
//!
//! # Invariants
//!
//! * Few bytes go into the index itself: one request makes them durable. More go into objects of at most [`OBJECT_MAX`], in the
//!   order of the disk.
//! * A run that changed whole gets one entry; otherwise each changed block gets its own, and nothing else of the run is touched.
//! * Where a block is in its object is known when the object is encoded ([`ObjectLayout`]), which its entries are written behind.

use bytes::Bytes;

use crate::dirty::{DirtyBlock, DirtyMap, DirtyRun};
use crate::format::{
    BLOCK_LEN, Entry, EntryContent, IndexKey, RUN_BLOCKS, RunPointer, SEAL_LEN, Sequence, WHOLE,
    crc32c,
};

/// Bytes of data that go into the index, at most.
pub(crate) const INLINE_MAX: u64 = 256 << 10;
/// Bytes of a data object, at most, before it is encoded.
pub(crate) const OBJECT_MAX: usize = 8 << 20;

/// Bytes of a data object to be written.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct ObjectPlan {
    /// Blocks, one behind the other.
    pub(crate) blocks: Vec<Bytes>,
    /// Which blocks of the volume they are.
    pub(crate) numbers: Vec<u64>,
}

impl ObjectPlan {
    /// Its length, bytes.
    pub(crate) const fn len(&self) -> usize {
        self.blocks.len() * BLOCK_LEN
    }
}

/// Where the blocks of an object are in it, as it is stored.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct ObjectLayout {
    /// Each block is sealed.
    is_sealed: bool,
    /// Of each block: where it begins, bytes, and its bytes without its seal. Empty where all are stored whole.
    pieces: Vec<(u32, u16)>,
}

impl ObjectLayout {
    /// That of an object with blocks that are as they were written, or sealed.
    pub(crate) const fn whole(is_sealed: bool) -> Self {
        let pieces = Vec::new();
        Self { is_sealed, pieces }
    }

    /// That of an object with a block of each of these lengths.
    pub(crate) fn of(is_sealed: bool, lengths: &[u16]) -> Self {
        let mut offset = 0;
        let pieces = lengths.iter().map(|len| {
            let piece = (offset, *len);
            offset += u32::from(*len) + seal(is_sealed);
            piece
        });
        let pieces = pieces.collect();
        Self { is_sealed, pieces }
    }

    /// Where a block begins.
    fn offset(&self, nth: usize) -> u32 {
        match self.pieces.get(nth) {
            Some((offset, _)) => *offset,
            None => {
                let nth = u32::try_from(nth).expect("an object is at most 8 MiB");
                nth * (u32::from(WHOLE) + seal(self.is_sealed))
            }
        }
    }

    /// The lengths of some blocks; none if all of them are whole.
    fn lengths(&self, blocks: std::ops::Range<usize>) -> Vec<u16> {
        let pieces = self.pieces.get(blocks).unwrap_or_default().iter();
        match pieces.clone().all(|(_, len)| *len == WHOLE) {
            true => Vec::new(),
            false => pieces.map(|(_, len)| *len).collect(),
        }
    }
}

const fn seal(is_sealed: bool) -> u32 {
    if is_sealed { SEAL_LEN } else { 0 }
}

/// What the blocks of an entry will hold.
#[derive(Debug, Clone, PartialEq, Eq)]
enum PlannedContent {
    Zero,
    Inline(Bytes),
    Stored {
        /// Which of the plan's objects.
        object: usize,
        /// The first of its blocks.
        first: usize,
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
        let numbered = (run * RUN_BLOCKS as u64..).zip(blocks);
        let data = numbered.filter_map(|(number, block)| match block {
            Some(DirtyBlock::Data(data)) => Some((number, data)),
            _ => None,
        });
        if !is_inline && data.clone().count() == RUN_BLOCKS {
            let content = self.store(data);
            self.push(IndexKey::Run(run), content);
            return;
        }
        for (block, changed) in (0..).zip(blocks) {
            let number = run * RUN_BLOCKS as u64 + u64::from(block);
            let content = match changed {
                None => continue,
                Some(DirtyBlock::Zero) => PlannedContent::Zero,
                Some(DirtyBlock::Data(data)) if is_inline => PlannedContent::Inline(data.clone()),
                Some(DirtyBlock::Data(data)) => self.store(std::iter::once((number, data))),
            };
            self.push(IndexKey::Block { run, block }, content);
        }
    }

    /// Puts blocks at the end of the last object, or of a new one.
    fn store<'a>(&mut self, blocks: impl Iterator<Item = (u64, &'a Bytes)>) -> PlannedContent {
        let (numbers, blocks): (Vec<u64>, Vec<Bytes>) = blocks
            .map(|(number, block)| (number, block.clone()))
            .unzip();
        let len = blocks.len() * BLOCK_LEN;
        let has_space = |object: &&mut ObjectPlan| object.len() + len <= OBJECT_MAX;
        if self.objects.last_mut().filter(has_space).is_none() {
            self.objects.push(ObjectPlan::default());
        }
        let object = self.objects.len() - 1;
        let target = &mut self.objects[object];
        let first = target.blocks.len();
        let checksums = blocks.iter().map(|block| crc32c(&[block])).collect();
        target.blocks.extend(blocks);
        target.numbers.extend(numbers);
        PlannedContent::Stored {
            object,
            first,
            checksums,
        }
    }

    fn push(&mut self, key: IndexKey, content: PlannedContent) {
        self.entries.push((key, content));
    }

    /// The entries, as a commit of `sequence` writes them, with the objects counted from `first_object` on, and the layout of each.
    pub(crate) fn entries(
        &self,
        sequence: Sequence,
        (first_object, layouts): (u64, &[ObjectLayout]),
    ) -> impl Iterator<Item = (IndexKey, Entry)> {
        self.entries.iter().map(move |(key, content)| {
            let content = match content {
                PlannedContent::Zero => EntryContent::Zero,
                PlannedContent::Inline(data) => EntryContent::Inline(data.clone()),
                PlannedContent::Stored {
                    object,
                    first,
                    checksums,
                } => EntryContent::Stored(RunPointer {
                    generation: sequence.generation,
                    object: first_object + *object as u64,
                    offset: layouts[*object].offset(*first),
                    is_sealed: layouts[*object].is_sealed,
                    checksums: checksums.clone(),
                    lengths: layouts[*object].lengths(*first..first + checksums.len()),
                }),
            };
            (*key, Entry { sequence, content })
        })
    }
}
