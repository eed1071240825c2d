//! [`DirtyMap`]: changes in memory that are not in the store yet. Pure.
//!
//! # Invariants
//!
//! * It has the last change of each block.
//! * Its data is its own: a small write does not keep the buffer that it was received in.
//! * [`DirtyMap::cost`] is an upper limit of the memory that it takes, so that a limit of it is a limit of memory.

use std::collections::BTreeMap;

use block::Range;
use bytes::Bytes;

use crate::format::{BLOCK, BLOCK_LEN, RUN, RUN_BLOCKS};

/// Bytes that a run costs besides its data.
const RUN_COST: u64 = 2048;

/// A changed block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum DirtyBlock {
    /// These bytes.
    Data(Bytes),
    /// Zeroes.
    Zero,
}

/// What changed of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum DirtyRun {
    /// All of it is zeroes.
    Zero,
    /// These blocks.
    Blocks(Box<[Option<DirtyBlock>; RUN_BLOCKS]>),
}

/// Changes in memory.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct DirtyMap {
    runs: BTreeMap<u64, DirtyRun>,
    data_blocks: u64,
}

/// The part of a range that lies in one run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RunPart {
    /// The run.
    pub(crate) run: u64,
    /// Its first block in the range.
    pub(crate) first: usize,
    /// Its blocks in the range.
    pub(crate) count: usize,
}

impl RunPart {
    /// Those of `range`, which is whole blocks, in order.
    pub(crate) fn all(range: Range) -> impl Iterator<Item = Self> {
        let mut at = range.offset;
        std::iter::from_fn(move || {
            if at >= range.end() {
                return None;
            }
            let (run, within) = (at / RUN, at % RUN);
            let len = (RUN - within).min(range.end() - at);
            at += len;
            Some(Self {
                run,
                first: block_index(within),
                count: block_index(len),
            })
        })
    }

    /// Its blocks.
    pub(crate) const fn blocks(self) -> std::ops::Range<usize> {
        self.first..self.first + self.count
    }

    /// Whether it is all of the run.
    pub(crate) const fn is_whole(self) -> bool {
        self.count == RUN_BLOCKS
    }
}

/// Blocks of `bytes`, at most those of a run.
fn block_index(bytes: u64) -> usize {
    usize::try_from(bytes / BLOCK).expect("a run has few blocks")
}

/// The blocks of a write, each in memory of its own.
pub(crate) fn copy_blocks(data: &[impl AsRef<[u8]>]) -> Vec<Bytes> {
    let len: usize = data.iter().map(|slice| slice.as_ref().len()).sum();
    let mut blocks = Vec::with_capacity(len / BLOCK_LEN);
    let mut open: Vec<u8> = Vec::new();
    for slice in data {
        let mut rest = slice.as_ref();
        while !rest.is_empty() {
            if open.is_empty() {
                open.reserve_exact(BLOCK_LEN);
            }
            let (now, later) = rest.split_at(rest.len().min(BLOCK_LEN - open.len()));
            open.extend_from_slice(now);
            rest = later;
            if open.len() == BLOCK_LEN {
                blocks.push(Bytes::from(std::mem::take(&mut open)));
            }
        }
    }
    assert!(open.is_empty(), "a write is whole blocks");
    blocks
}

impl DirtyMap {
    /// Whether nothing changed.
    pub(crate) fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// Bytes of data.
    pub(crate) const fn data_len(&self) -> u64 {
        self.data_blocks * BLOCK
    }

    /// Memory that it takes at most, bytes.
    pub(crate) fn cost(&self) -> u64 {
        self.data_len() + self.runs.len() as u64 * RUN_COST
    }

    /// Memory that a change of `range` adds at most, bytes.
    pub(crate) const fn cost_of(range: Range) -> u64 {
        range.len + (range.len / RUN + 2) * RUN_COST
    }

    /// Writes `blocks` at the start of `range`, which they fill.
    pub(crate) fn write(&mut self, range: Range, blocks: Vec<Bytes>) {
        let mut blocks = blocks.into_iter();
        for part in RunPart::all(range) {
            for block in part.blocks() {
                let data = blocks.next().expect("the data of a write fills its range");
                self.set(part.run, block, DirtyBlock::Data(data));
            }
        }
    }

    /// Makes one block of a run something.
    pub(crate) fn set(&mut self, run: u64, block: usize, to: DirtyBlock) {
        let adds = u64::from(matches!(to, DirtyBlock::Data(_)));
        let slot = &mut self.blocks_of(run)[block];
        let removes = u64::from(matches!(slot, Some(DirtyBlock::Data(_))));
        *slot = Some(to);
        self.data_blocks = self.data_blocks + adds - removes;
    }

    /// The blocks of a run, to be changed.
    fn blocks_of(&mut self, run: u64) -> &mut [Option<DirtyBlock>; RUN_BLOCKS] {
        let no_blocks = || Box::new([const { None }; RUN_BLOCKS]);
        let run = self
            .runs
            .entry(run)
            .or_insert_with(|| DirtyRun::Blocks(no_blocks()));
        if *run == DirtyRun::Zero {
            let zeroes = [const { Some(DirtyBlock::Zero) }; RUN_BLOCKS];
            *run = DirtyRun::Blocks(Box::new(zeroes));
        }
        match run {
            DirtyRun::Blocks(blocks) => blocks,
            DirtyRun::Zero => unreachable!("it was replaced above"),
        }
    }

    /// Makes a part of a run zeroes.
    pub(crate) fn zero(&mut self, part: RunPart) {
        if !part.is_whole() {
            for block in part.blocks() {
                self.set(part.run, block, DirtyBlock::Zero);
            }
            return;
        }
        self.forget(part.run);
        self.runs.insert(part.run, DirtyRun::Zero);
    }

    /// Drops what changed of a run.
    pub(crate) fn forget(&mut self, run: u64) {
        if let Some(DirtyRun::Blocks(blocks)) = self.runs.remove(&run) {
            let is_data = |block: &&Option<DirtyBlock>| matches!(block, Some(DirtyBlock::Data(_)));
            self.data_blocks -= blocks.iter().filter(is_data).count() as u64;
        }
    }

    /// The change of a block.
    pub(crate) fn get(&self, run: u64, block: usize) -> Option<DirtyBlock> {
        match self.runs.get(&run)? {
            DirtyRun::Zero => Some(DirtyBlock::Zero),
            DirtyRun::Blocks(blocks) => blocks[block].clone(),
        }
    }

    /// The changed runs, in order.
    pub(crate) fn runs(&self) -> impl Iterator<Item = (u64, &DirtyRun)> {
        self.runs.iter().map(|(run, changed)| (*run, changed))
    }

    /// Changed runs within these, in order.
    pub(crate) fn runs_within(&self, runs: std::ops::Range<u64>) -> Vec<u64> {
        self.runs.range(runs).map(|(run, _)| *run).collect()
    }

    /// Takes the changes of `later`, made after its own.
    pub(crate) fn apply(&mut self, later: &Self) {
        for (run, changed) in later.runs() {
            match changed {
                DirtyRun::Zero => self.zero(RunPart {
                    run,
                    first: 0,
                    count: RUN_BLOCKS,
                }),
                DirtyRun::Blocks(blocks) => {
                    for (block, to) in blocks.iter().enumerate() {
                        if let Some(to) = to {
                            self.set(run, block, to.clone());
                        }
                    }
                }
            }
        }
    }

    /// Drops zeroes: what is left is data alone.
    pub(crate) fn retain_data(&mut self) {
        self.runs.retain(|_, changed| match changed {
            DirtyRun::Zero => false,
            DirtyRun::Blocks(blocks) => {
                for block in blocks.iter_mut() {
                    if *block == Some(DirtyBlock::Zero) {
                        *block = None;
                    }
                }
                blocks.iter().any(Option::is_some)
            }
        });
    }
}
