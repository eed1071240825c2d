//! The journal of a volume, pure: records, the ring, and what is done with a journal at an open.

use block::Range;
use bytes::Bytes;
use proptest::prelude::*;

use super::{block_of, blocks};
use crate::dirty::{DirtyMap, RunPart};
use crate::format::{
    BLOCK, BLOCK_LEN, IndexMeta, JournalFormatError, JournalHeader, JournalId, JournalOpening,
    JournalPosition, JournalRecord, RING_MIN, RUN, RecordHeader, RecordPlan, VolumeId,
};
use crate::journal_plan::{JournalPlan, JournalRefusal};
use crate::journal_ring::{Append, JournalQueue, JournalRing};

/// Not whole runs.
const SIZE: u64 = 5 * RUN + 3 * BLOCK;
const OPENING: JournalOpening = JournalOpening {
    id: JournalId([7; 16]),
    generation: 3,
};

fn header() -> JournalHeader {
    JournalHeader {
        volume: VolumeId([1; 16]),
        opening: OPENING,
        is_open: true,
        blocks: RING_MIN,
    }
}

/// A write of a tag, or zeroes.
fn change(changes: &mut DirtyMap, range: Range, tag: u32) {
    match tag {
        0 => RunPart::all(range).for_each(|part| changes.zero(part)),
        _ => {
            let blocks = (0..range.len / BLOCK).map(|_| block_of(tag));
            changes.write(range, blocks.collect());
        }
    }
}

fn changes() -> impl Strategy<Value = DirtyMap> {
    let one = (0..SIZE / BLOCK, 1..70_u64, 0..5_u32);
    proptest::collection::vec(one, 1..12).prop_map(|list| {
        let mut changes = DirtyMap::default();
        for (first, count, tag) in list {
            let count = count.min(SIZE / BLOCK - first);
            change(&mut changes, blocks(first, count), tag);
        }
        changes
    })
}

/// What `map` makes of each block.
fn content(map: &DirtyMap) -> Vec<Option<crate::dirty::DirtyBlock>> {
    let parts = RunPart::all(Range::new(0, SIZE));
    parts
        .flat_map(|part| part.blocks().map(move |block| map.get(part.run, block)))
        .collect()
}

fn decode(bytes: &[u8]) -> Option<RecordHeader> {
    RecordHeader::decode(&bytes[..BLOCK_LEN], OPENING)
}

proptest! {
    #[test]
    fn a_record_has_all_changes_and_nothing_else(changes in changes(), sequence: u64, block: u64) {
        let at = JournalPosition { sequence, block: block >> 1 };
        let plan = RecordPlan::of(&changes);
        let bytes = Bytes::from(plan.encode(OPENING, at));
        prop_assert_eq!(bytes.len() as u64, plan.blocks() * BLOCK);
        let record = decode(&bytes).expect("a record");
        prop_assert_eq!((record.at, record.blocks()), (at, plan.blocks()));
        let mut replayed = DirtyMap::default();
        prop_assert!(record.replay(&bytes, SIZE, &mut replayed));
        prop_assert_eq!(content(&replayed), content(&changes));
        // Of a smaller volume.
        prop_assert!(!record.replay(&bytes, BLOCK, &mut DirtyMap::default()) || content(&changes)[1..].iter().all(Option::is_none));
        let other = JournalOpening { generation: 4, ..OPENING };
        prop_assert_eq!(RecordHeader::decode(&bytes[..BLOCK_LEN], other), None);
    }

    #[test]
    fn no_bytes_of_a_record_are_replayed_where_one_differs(changes in changes(), at: prop::sample::Index, bit in 0..8_u32) {
        let mut bytes = RecordPlan::of(&changes).encode(OPENING, JournalPosition::START);
        let at = at.index(bytes.len());
        bytes[at] ^= 1 << bit;
        let bytes = Bytes::from(bytes);
        let mut replayed = DirtyMap::default();
        let is_whole = decode(&bytes).is_some_and(|record| record.replay(&bytes, SIZE, &mut replayed));
        // Those between the header of the record and its list are reserved.
        prop_assert!(!is_whole || (60..64).contains(&at));
        prop_assert!(is_whole || replayed.is_empty());
    }

    #[test]
    fn what_a_volume_records_of_its_journal_is_read_as_it_was_written(
        generation: u32, sequence: u64, block: u64, host in "\\PC{0,40}", path in "\\PC{0,40}", at: prop::sample::Index, bit in 0..8_u32,
    ) {
        let journal = Some(JournalRecord { opening: OPENING, next: JournalPosition { sequence, block }, publishes: block ^ 5, host, path });
        let meta = IndexMeta { id: header().volume, generation, journal };
        let mut bytes = meta.encode();
        prop_assert_eq!(IndexMeta::decode(&bytes), Ok(meta));
        let at = at.index(bytes.len());
        bytes[at] ^= 1 << bit;
        prop_assert!(IndexMeta::decode(&bytes).is_err());
    }

    #[test]
    fn no_bytes_are_a_panic(bytes in proptest::collection::vec(any::<u8>(), BLOCK_LEN)) {
        prop_assert_eq!(RecordHeader::decode(&bytes, OPENING), None);
        prop_assert!(JournalHeader::decode(&bytes).is_err());
    }

    /// Appends, commits and releases in any order: each record has its own place until a commit covers it.
    #[test]
    fn space_is_free_when_the_store_has_the_records(steps in proptest::collection::vec((0..4_u8, 1..40_u64), 1..80)) {
        const RING: u64 = 50;
        let mut queue = JournalQueue::new(JournalRing::new(RING, JournalPosition::START));
        let mut live: Vec<(u64, u64)> = Vec::new();
        let mut frozen = None;
        // Blocks that a record of all changes has at most.
        let mut pending = 0;
        for (step, count) in steps {
            match step {
                0 | 1 => {
                    change(queue.changes(), blocks(0, count), 1);
                    pending = count.max(pending);
                    match queue.begin_append() {
                        Append::Record(plan, at) => {
                            queue.appended();
                            pending = 0;
                            let end = at.block + plan.blocks();
                            prop_assert!(live.iter().all(|(_, other)| *other <= at.block));
                            live.push((at.block, end));
                            prop_assert!(end - live[0].0 <= RING);
                            prop_assert!(queue.is_idle());
                        }
                        Append::Full => {
                            prop_assert!(!queue.is_idle());
                            prop_assert!(live.first().is_some_and(|first| live[live.len() - 1].1 - first.0 + pending + 1 > RING));
                            if frozen.is_none() {
                                frozen = Some(queue.freeze());
                            }
                        }
                        Append::Nothing => unreachable!("there was a change"),
                    }
                }
                2 if frozen.is_none() => frozen = Some(queue.freeze()),
                _ => {
                    if let Some(next) = frozen.take() {
                        queue.committed();
                        live.retain(|(begin, _)| *begin >= next.block);
                    }
                }
            }
        }
    }
}

#[test]
fn a_record_that_is_cut_anywhere_is_none() {
    let mut changes = DirtyMap::default();
    change(&mut changes, blocks(3, 2), 9);
    let bytes = RecordPlan::of(&changes).encode(OPENING, JournalPosition::START);
    for len in 0..bytes.len() {
        // What was there before: zeroes.
        let mut cut = bytes[..len].to_vec();
        cut.resize(bytes.len(), 0);
        let is_same = cut == bytes;
        let cut = Bytes::from(cut);
        let mut replayed = DirtyMap::default();
        let is_whole = decode(&cut).is_some_and(|record| record.replay(&cut, SIZE, &mut replayed));
        assert_eq!(is_whole, is_same, "cut at {len}");
    }
}

#[test]
fn a_record_continues_at_the_begin_of_the_ring() {
    let at = JournalPosition {
        sequence: 9,
        block: 2 * 300 + 298,
    };
    let parts: Vec<Range> = JournalRing::parts(300, at, 5).collect();
    let part = |first: u64, count: u64| Range::new(first * BLOCK, count * BLOCK);
    assert_eq!(parts, [part(299, 2), part(1, 3)]);
    let parts: Vec<Range> = JournalRing::parts(300, at, 2).collect();
    assert_eq!(parts, [part(299, 2)]);
}

#[test]
fn a_header_is_read_as_it_was_written() {
    let bytes = header().encode();
    assert_eq!(JournalHeader::decode(&bytes), Ok(header()));
    for at in (0..68).filter(|at| !(8..12).contains(at)) {
        let mut bytes = bytes.clone();
        bytes[at] ^= 1;
        assert!(JournalHeader::decode(&bytes).is_err(), "byte {at}");
    }
    let mut other = bytes;
    other[8] = 2;
    let found = JournalHeader::decode(&other);
    assert_eq!(found, Err(JournalFormatError::Version(2)));
    assert_eq!(
        JournalHeader::decode(&[1; BLOCK_LEN]),
        Err(JournalFormatError::Magic)
    );
}

#[test]
fn what_is_done_with_a_journal() {
    let volume = header().volume;
    let record = |opening| JournalRecord {
        opening,
        next: JournalPosition::START,
        host: "box".to_owned(),
        path: "/j".to_owned(),
        publishes: 0,
    };
    let (host, path) = ("box".to_owned(), "/j".to_owned());
    let other = Err(JournalRefusal::Other { host, path });
    let closed = JournalHeader {
        is_open: false,
        ..header()
    };
    let own = record(OPENING);
    let foreign = record(JournalOpening {
        id: JournalId([8; 16]),
        ..OPENING
    });
    let copy = record(JournalOpening {
        generation: 2,
        ..OPENING
    });
    let plan = |header: Option<JournalHeader>, recorded: Option<&JournalRecord>| {
        JournalPlan::of(header.as_ref(), volume, (recorded, 3))
    };
    assert_eq!(plan(None, None), Ok(JournalPlan::Create));
    assert_eq!(plan(None, Some(&own)), other);
    assert_eq!(plan(Some(closed), None), Ok(JournalPlan::Reuse(closed)));
    assert_eq!(
        plan(Some(closed), Some(&own)),
        Ok(JournalPlan::Reuse(closed))
    );
    assert_eq!(plan(Some(closed), Some(&foreign)), other);
    assert_eq!(
        plan(Some(header()), Some(&own)),
        Ok(JournalPlan::Replay(header()))
    );
    assert_eq!(plan(Some(header()), Some(&foreign)), other);
    assert_eq!(plan(Some(header()), None), Err(JournalRefusal::Stale));
    assert_eq!(
        plan(Some(header()), Some(&copy)),
        Err(JournalRefusal::Stale)
    );
    let later = JournalPlan::of(Some(&closed), volume, (None, 2));
    assert!(matches!(later, Err(JournalRefusal::Later { .. })));
    let foreign = JournalPlan::of(Some(&closed), VolumeId([2; 16]), (None, 3));
    assert!(matches!(foreign, Err(JournalRefusal::Foreign(_))));
    assert!(JournalPlan::without(Some(&own)).is_err());
}
