//! Commits and reads against an array of tags: what a read finds through the index and the objects is what was written last.

use std::collections::BTreeMap;

use bytes::Bytes;
use proptest::prelude::*;

use super::{block_of, blocks, tag_of};
use crate::committer::Committer;
use crate::dirty::{DirtyMap, RunPart};
use crate::flush_plan::{FlushPlan, OBJECT_MAX, ObjectLayout, ObjectPlan};
use crate::format::{BLOCK, BLOCK_LEN, DataObject, IndexKey, RUN_BLOCKS};
use crate::read_plan::{DecodeBlock, Fetch, FetchError, ReadPlan};
use crate::run_map::{BlockSource, RunMap, RunMapBuilder, StoredBlock};

const BLOCKS: u64 = 200;

/// How the objects of a store are encoded.
pub(super) trait ModelCodec: Default {
    fn encode(&self, name: DataObject, object: &ObjectPlan) -> (Bytes, ObjectLayout);

    fn decode(&self, fetch: &Fetch, bytes: Bytes) -> Result<Bytes, FetchError>;
}

/// As they are.
#[derive(Default)]
struct PlainCodec;

impl DecodeBlock for PlainCodec {
    fn is_sealed(&self) -> bool {
        false
    }

    fn decode(&self, block: &StoredBlock, _: &[u8], _: &mut [u8]) -> Result<(), FetchError> {
        panic!("{block:?} is not plain")
    }
}

impl ModelCodec for PlainCodec {
    fn encode(&self, _: DataObject, object: &ObjectPlan) -> (Bytes, ObjectLayout) {
        (object.blocks.concat().into(), ObjectLayout::whole(false))
    }

    fn decode(&self, fetch: &Fetch, bytes: Bytes) -> Result<Bytes, FetchError> {
        fetch.decode(bytes, self)
    }
}

/// A store: the index as bytes, and the objects.
#[derive(Default)]
struct ModelStore<C = PlainCodec> {
    index: BTreeMap<Vec<u8>, Bytes>,
    objects: BTreeMap<DataObject, Bytes>,
    codec: C,
}

impl<C: ModelCodec> ModelStore<C> {
    fn commit(&mut self, committer: &mut Committer, changes: &DirtyMap) {
        let commit = committer.begin(changes);
        let mut layouts = Vec::new();
        for (object, number) in commit.plan.objects.iter().zip(commit.first_object..) {
            assert!(object.len() <= OBJECT_MAX);
            let generation = commit.sequence.generation;
            let name = DataObject { generation, number };
            let (bytes, layout) = self.codec.encode(name, object);
            layouts.push(layout);
            let before = self.objects.insert(name, bytes);
            assert_eq!(before, None, "an object is written once");
        }
        let mut runs = BTreeMap::new();
        let objects = (commit.first_object, &layouts[..]);
        for (key, entry) in commit.plan.entries(commit.sequence, objects) {
            let is_run = matches!(key, IndexKey::Run(_));
            let both = runs
                .insert(key.run(), is_run)
                .is_some_and(|other| other || is_run);
            assert!(!both, "a run and its blocks in one commit");
            self.index.insert(key.encode(), entry.encode(key).into());
        }
    }

    fn maps(&self) -> BTreeMap<u64, RunMap> {
        let mut builder = RunMapBuilder::default();
        let mut maps = BTreeMap::new();
        for (key, value) in &self.index {
            maps.extend(builder.push(key, value).expect("what was encoded"));
        }
        maps.extend(builder.finish());
        maps
    }

    /// The tags of some blocks.
    fn read(&self, first: u64, count: u64) -> Vec<u32> {
        let maps = self.maps();
        let mut plan = ReadPlan::default();
        let mut tags = Vec::new();
        for part in RunPart::all(blocks(first, count)) {
            for block in part.blocks() {
                let hole = BlockSource::Hole;
                let source = maps.get(&part.run).map_or(&hole, |map| map.block(block));
                plan.push(tags.len() as u64, source);
                tags.push(match source {
                    BlockSource::Inline(data) => tag_of(data),
                    _ => 0,
                });
            }
        }
        for fetch in &plan.fetches {
            let range = fetch.range();
            let begin = usize::try_from(range.start).unwrap();
            let end = usize::try_from(range.end).unwrap();
            let first = usize::try_from(fetch.first).unwrap();
            let bytes = self.objects[&fetch.object].slice(begin..end);
            let bytes = self.codec.decode(fetch, bytes).expect("what was written");
            for (block, tag) in bytes.chunks_exact(BLOCK_LEN).zip(&mut tags[first..]) {
                *tag = tag_of(block);
            }
        }
        tags
    }
}

#[derive(Debug, Clone)]
pub(super) enum Step {
    Change(u64, u64, u32),
    Commit,
    Takeover,
}

fn step() -> impl Strategy<Value = Step> {
    let change = (0..BLOCKS, prop_oneof![1..4_u64, 1..=BLOCKS], 0..30_u32);
    prop_oneof![
        6 => change.prop_map(|(first, count, tag)| {
            Step::Change(first, count.min(BLOCKS - first), if tag < 6 { 0 } else { tag })
        }),
        3 => Just(Step::Commit),
        1 => Just(Step::Takeover),
    ]
}

pub(super) type Reads = Vec<(u64, u64)>;

pub(super) fn steps_and_reads() -> impl Strategy<Value = (Vec<Step>, Reads)> {
    (
        prop::collection::vec(step(), 1..40),
        prop::collection::vec((0..BLOCKS, 1..=BLOCKS), 1..5),
    )
}

/// Plays `steps`, and compares with an array of tags what `reads` find after each.
pub(super) fn play_steps<C: ModelCodec>(steps: Vec<Step>, reads: &Reads) {
    let mut store = ModelStore::<C>::default();
    let mut committer = Committer::new(1);
    let mut generation = 1;
    let mut changes = DirtyMap::default();
    let mut committed = vec![0_u32; usize::try_from(BLOCKS).unwrap()];
    let mut now = committed.clone();
    for step in steps {
        match step {
            Step::Change(first, count, tag) => {
                let range = blocks(first, count);
                match tag {
                    0 => RunPart::all(range).for_each(|part| changes.zero(part)),
                    tag => changes.write(range, (0..count).map(|_| block_of(tag)).collect()),
                }
                let (begin, end) = (first, first + count);
                now[usize::try_from(begin).unwrap()..usize::try_from(end).unwrap()].fill(tag);
            }
            Step::Commit => {
                store.commit(&mut committer, &changes);
                changes = DirtyMap::default();
                committed.clone_from(&now);
            }
            Step::Takeover => {
                generation += 1;
                committer = Committer::new(generation);
                changes = DirtyMap::default();
                now.clone_from(&committed);
            }
        }
        for (first, count) in reads {
            let count = (*count).min(BLOCKS - first);
            let begin = usize::try_from(*first).unwrap();
            let end = begin + usize::try_from(count).unwrap();
            assert_eq!(store.read(*first, count), &committed[begin..end]);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn a_read_finds_what_was_committed_last((steps, reads) in steps_and_reads()) {
        play_steps::<PlainCodec>(steps, &reads);
    }
}

fn written(range: std::ops::Range<u64>) -> DirtyMap {
    let mut changes = DirtyMap::default();
    for block in range {
        let tag = u32::try_from(block).unwrap() + 1;
        changes.write(blocks(block, 1), vec![block_of(tag)]);
    }
    changes
}

fn entry_count(plan: &FlushPlan) -> usize {
    let layouts = vec![ObjectLayout::whole(false); plan.objects.len()];
    let objects = (0, &layouts[..]);
    plan.entries(crate::format::Sequence::default(), objects)
        .count()
}

/// 4 KiB into a run of 128 KiB is one entry, and reads nothing of what is there.
#[test]
fn a_small_write_is_one_entry() {
    let plan = FlushPlan::of(&written(3..4), 0);
    assert_eq!((entry_count(&plan), plan.objects.len()), (1, 1));
    assert_eq!(plan.objects[0].len() as u64, BLOCK);
    let inline = FlushPlan::of(&written(3..4), BLOCK);
    assert_eq!((entry_count(&inline), inline.objects.len()), (1, 0));
}

#[test]
fn a_whole_run_is_one_entry() {
    let plan = FlushPlan::of(&written(0..2 * RUN_BLOCKS as u64), 0);
    assert_eq!((entry_count(&plan), plan.objects.len()), (2, 1));
    let more = FlushPlan::of(&written(0..2 * RUN_BLOCKS as u64 + 5), 0);
    assert_eq!((entry_count(&more), more.objects.len()), (7, 1));
}

#[test]
fn objects_have_a_largest_size() {
    let blocks_max = OBJECT_MAX as u64 / BLOCK;
    let plan = FlushPlan::of(&written(0..blocks_max + 1), 0);
    let lens: Vec<usize> = plan.objects.iter().map(|object| object.len()).collect();
    assert_eq!(lens, [OBJECT_MAX, BLOCK_LEN]);
}

#[test]
fn blocks_that_lie_together_are_fetched_together() {
    let mut store = ModelStore::<PlainCodec>::default();
    let mut committer = Committer::new(1);
    store.commit(&mut committer, &written(0..128));
    let maps = store.maps();
    let mut plan = ReadPlan::default();
    for block in 20..100_usize {
        let map = &maps[&(block as u64 / RUN_BLOCKS as u64)];
        plan.push(block as u64 - 20, map.block(block % RUN_BLOCKS));
    }
    assert_eq!(plan.fetches.len(), 1);
    assert_eq!(plan.fetches[0].range(), 20 * BLOCK..100 * BLOCK);
    let wrong = Bytes::from(vec![0; 80 * BLOCK_LEN]);
    assert!(plan.fetches[0].decode(wrong.clone(), &PlainCodec).is_err());
    assert_eq!(plan.fetches[0].problems(&wrong, &PlainCodec).len(), 80);
}
