//! Tests of the pure parts: bytes, map, allocator, tables.

use std::collections::{BTreeMap, BTreeSet};

use block::Range;
use proptest::prelude::*;

use super::super::alloc::{Allocator, GAPS_MAX};
use super::super::format::{Bounds, FormatError, HEADER_LEN, check, put, read_header, read_table};
use super::super::map::{CHUNKS_MAX, ChunkRun, Exception, LEAF_MAX, Map};
use super::super::plan::{Tail, sections, whole_chunks};
use super::super::state::{Begun, FRESH_MAX, LoadedStore, OverlayState};
use super::{SMALL, layout};

/// What `dmsetup create … snapshot … P 8` leaves in the first sector of a store.
const KERNELS_HEADER: [u8; HEADER_LEN] =
    [0x53, 0x6e, 0x41, 0x70, 1, 0, 0, 0, 1, 0, 0, 0, 8, 0, 0, 0];

fn header(valid: u32, version: u32, sectors: u32) -> Vec<u8> {
    let mut bytes = b"SnAp".to_vec();
    for number in [valid, version, sectors] {
        bytes.extend(number.to_le_bytes());
    }
    bytes.resize(512, 0);
    bytes
}

#[test]
fn a_header_is_the_kernels_byte_for_byte() {
    assert_eq!(layout(4096).header(), KERNELS_HEADER);
    assert_eq!(read_header(&KERNELS_HEADER), Ok(Some(layout(4096))));
    assert_eq!(read_header(&[0; 512]), Ok(None));
    assert_eq!(read_header(&[]), Ok(None));
}

#[test]
fn what_is_not_understood_is_refused_by_name() {
    let cases = [
        (b"SnA".to_vec(), FormatError::NotAStore),
        (vec![1; 4096], FormatError::NotAStore),
        (header(0, 1, 8), FormatError::Invalid),
        (header(2, 1, 8), FormatError::Valid(2)),
        (header(1, 2, 8), FormatError::Version(2)),
        (header(1, 1, 0), FormatError::Chunk(0)),
        (header(1, 1, 12), FormatError::Chunk(12)),
        (header(1, 1, 2048), FormatError::Chunk(2048)),
        (header(1, 1, 1 << 31), FormatError::Chunk(1 << 31)),
    ];
    for (bytes, error) in cases {
        assert_eq!(read_header(&bytes), Err(error));
    }
}

#[test]
fn tables_lie_behind_as_many_chunks_as_the_ones_before_list() {
    let layout = layout(SMALL);
    let tables = [1, 34, 67, 100];
    let found: Vec<u64> = (0..4).map(|index| layout.table(index)).collect();
    assert_eq!(found, tables);
    for chunk in 0..=100 {
        let own = chunk == 0 || tables.contains(&chunk);
        assert_eq!(layout.is_own(chunk), own, "chunk {chunk}");
        let before = tables.iter().filter(|&&table| table < chunk).count();
        assert_eq!(layout.tables_before(chunk), before as u64, "chunk {chunk}");
    }
}

proptest! {
    #[test]
    fn a_store_of_the_size_for_it_can_hold_and_list_every_chunk(count in 0_u64..2000) {
        let layout = layout(SMALL);
        let chunks = layout.chunks_for(count);
        prop_assert!(layout.count_max(chunks) >= count);
        let mut alloc = Allocator::new(layout, Vec::new(), layout.table(0) + 1, chunks);
        prop_assert!(alloc.take(count).is_some());
        // And no chunk more than that.
        prop_assert!(layout.count_max(chunks - 1) < count || alloc.take(1).is_none());
    }

    #[test]
    fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..2048), store in 0..CHUNKS_MAX) {
        if let Ok(Some(layout)) = read_header(&bytes) {
            prop_assert!(bytes.starts_with(&layout.header()));
        }
        let mut found = Vec::new();
        let table = read_table(&bytes, &mut found);
        prop_assert_eq!(table.count, found.len());
        let bounds = Bounds { layout: layout(SMALL), store, base: Some(1 << 40) };
        drop(check(&mut found, bounds, GAPS_MAX));
    }

    #[test]
    fn a_header_with_other_numbers_never_panics(valid: u32, version: u32, sectors: u32) {
        let bytes = header(valid, version, sectors);
        if let Ok(layout) = read_header(&bytes) {
            prop_assert!(bytes.starts_with(&layout.unwrap().header()));
        }
    }

    #[test]
    fn a_map_is_a_map(
        chunks in prop::collection::btree_map(0_u64..3000, 2_u64..9000, 0..1200),
        order in any::<prop::sample::Index>(),
        at_once in 0..1200_usize,
        from in 0_u64..3000,
        len in 0_u64..3000,
    ) {
        let mut rest: Vec<Exception> =
            chunks.iter().map(|(&old, &new)| Exception::new(old, new)).collect();
        let first: Vec<Exception> = rest.drain(..at_once.min(rest.len())).collect();
        let mut map = Map::of_sorted(&first);
        // In an order that is neither the one of the disk nor the other way round.
        let turn = if rest.is_empty() { 0 } else { order.index(rest.len()) };
        rest.rotate_left(turn);
        for exception in rest.into_iter().rev() {
            map.insert(exception);
        }
        prop_assert_eq!(map.count(), chunks.len() as u64);
        let mut found = BTreeMap::new();
        let mut at = from;
        for ChunkRun { old, new, len } in map.runs(from..from + len) {
            prop_assert_eq!(old, at, "no gap");
            prop_assert!(len > 0);
            at = old + len;
            if let Some(new) = new {
                found.extend((0..len).map(|n| (old + n, new + n)));
            }
        }
        prop_assert_eq!(at, from + len);
        let expected: BTreeMap<u64, u64> =
            chunks.range(from..from + len).map(|(&old, &new)| (old, new)).collect();
        prop_assert_eq!(found, expected);
    }

    #[test]
    fn runs_are_as_long_as_they_can_be(chunks in prop::collection::btree_set(0_u64..200, 0..120)) {
        let sorted: Vec<Exception> =
            (2..).zip(&chunks).map(|(new, &old)| Exception::new(old, new)).collect();
        let map = Map::of_sorted(&sorted);
        let runs: Vec<ChunkRun> = map.runs(0..200).collect();
        for pair in runs.windows(2) {
            let joined = match (pair[0].new, pair[1].new) {
                (None, None) => true,
                (Some(a), Some(b)) => a + pair[0].len == b,
                _ => false,
            };
            prop_assert!(!joined, "{pair:?}");
        }
    }

    #[test]
    fn tables_are_the_same_however_they_are_filled(
        count in 0..200_u64, cuts in prop::collection::vec(0..200_usize, 0..6),
    ) {
        let layout = layout(SMALL);
        let all: Vec<Exception> = (0..count).map(|n| Exception::new(n * 3, n + 2)).collect();
        let mut at_once = BTreeMap::new();
        at_once.extend(Tail::new(layout, 0, &[]).tables(&all));
        let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(all.len())).collect();
        cuts.push(all.len());
        cuts.sort_unstable();
        let mut tail = Tail::new(layout, 0, &[]);
        let mut disk = BTreeMap::from([(0, vec![0; 512])]);
        let mut from = 0;
        for cut in cuts {
            if from < cut {
                disk.extend(tail.tables(&all[from..cut]));
            }
            tail.advance(&all[from..cut]);
            from = cut;
        }
        prop_assert_eq!(&disk, &at_once);
        prop_assert_eq!(tail.index(), count / 32);
        // What a tail is made of when a store is opened is what it had become.
        let listed = all.len() / 32 * 32;
        let opened = Tail::new(layout, count, &all[listed..]);
        prop_assert_eq!(opened.table(), tail.table());
        let mut found = Vec::new();
        for table in disk.values() {
            read_table(table, &mut found);
        }
        prop_assert_eq!(found, all);
    }

    #[test]
    fn a_chunk_of_the_store_is_handed_out_once(
        steps in prop::collection::vec((0_u8..4, 1_u64..50), 0..60), end in 3_u64..400,
    ) {
        let layout = layout(SMALL);
        let mut alloc = Allocator::new(layout, Vec::new(), layout.table(0) + 1, end);
        let all: BTreeSet<u64> = (0..end).filter(|&chunk| !layout.is_own(chunk)).collect();
        let mut held: Vec<std::ops::Range<u64>> = Vec::new();
        let mut stranded = Vec::new();
        for (what, count) in steps {
            let used: u64 = held.iter().chain(&stranded).map(|place| place.end - place.start).sum();
            match what {
                0 | 1 => match alloc.take(count) {
                    Some(places) => held.extend(places),
                    None => prop_assert!(used + count > all.len() as u64, "it was not full"),
                },
                2 => if let Some(place) = held.pop() {
                    alloc.give_back(place);
                },
                _ => if let Some(place) = held.pop() {
                    alloc.strand(place.clone());
                    stranded.push(place);
                }
            }
            if count == 7 {
                let mark = alloc.mark();
                alloc.settled(mark);
                stranded.clear();
            }
            let mut seen = BTreeSet::new();
            for chunk in held.iter().chain(&stranded).cloned().flatten() {
                prop_assert!(all.contains(&chunk), "chunk {chunk} is no place for data");
                prop_assert!(seen.insert(chunk), "chunk {chunk} twice");
            }
        }
    }

    #[test]
    fn gaps_are_what_is_neither_used_nor_a_table(used in prop::collection::btree_set(2_u64..300, 0..80)) {
        let layout = layout(SMALL);
        let used: Vec<u64> = used.into_iter().filter(|&chunk| !layout.is_own(chunk)).collect();
        let mut exceptions: Vec<Exception> =
            (0..).zip(used.iter().rev()).map(|(old, &new)| Exception::new(old, new)).collect();
        let bounds = Bounds { layout, store: 300, base: Some(300) };
        let (gaps, next) = check(&mut exceptions, bounds, GAPS_MAX).unwrap();
        prop_assert_eq!(next, used.last().map_or(2, |last| last + 1));
        let free: Vec<u64> = gaps.iter().cloned().flatten().collect();
        let expected: Vec<u64> = (2..next)
            .filter(|chunk| !layout.is_own(*chunk) && !used.contains(chunk)).collect();
        prop_assert_eq!(free, expected);
        prop_assert!(exceptions.is_sorted_by_key(Exception::old));
    }

    #[test]
    fn whole_chunks_are_those_that_are_touched(
        touched in prop::collection::btree_set(0_u64..500, 0..60),
        start in 0_u64..200,
        len in 0_u64..400,
    ) {
        let within = Range::new(start, len);
        let bytes = touched.range(start..start + len);
        let ranges: Vec<Range> = bytes.map(|&at| Range::new(at, 1)).collect();
        let whole = whole_chunks(&ranges, 16, within);
        let is_in = |at: u64| whole.iter().any(|range| range.overlaps(&Range::new(at, 1)));
        for at in within.offset..within.end() {
            let is_touched = ranges.iter().any(|range| range.offset / 16 == at / 16);
            prop_assert_eq!(is_in(at), is_touched, "byte {}", at);
        }
        prop_assert!(whole.windows(2).all(|pair| pair[0].end() < pair[1].offset));
        prop_assert!(whole.iter().all(|range| within.offset <= range.offset && range.end() <= within.end()));
    }

    #[test]
    fn sections_cover_a_range(offset in 0_u64..1000, len in 0_u64..1000, len_max in 1_u64..400) {
        let mut at = offset;
        for section in sections(Range::new(offset, len), len_max) {
            prop_assert_eq!(section.offset, at);
            prop_assert!((1..=len_max).contains(&section.len));
            at = section.end();
        }
        prop_assert_eq!(at, offset + len);
    }
}

fn checked(pairs: &[(u64, u64)]) -> Result<(), FormatError> {
    let mut exceptions: Vec<Exception> = pairs
        .iter()
        .map(|&(old, new)| Exception::new(old, new))
        .collect();
    let bounds = Bounds {
        layout: layout(SMALL),
        store: 100,
        base: Some(50),
    };
    check(&mut exceptions, bounds, GAPS_MAX).map(drop)
}

#[test]
fn exceptions_that_point_nowhere_or_twice_are_refused() {
    assert_eq!(checked(&[(49, 2), (0, 99)]), Ok(()));
    assert_eq!(
        checked(&[(50, 2)]),
        Err(FormatError::BeyondBase { chunk: 50, end: 50 })
    );
    let astray = |pairs| matches!(checked(pairs), Err(FormatError::Astray { .. }));
    assert!(astray(&[(1, 100)]), "behind the end");
    assert!(astray(&[(1, 1)]), "on the first table");
    assert!(astray(&[(1, 67)]), "on the third table");
    assert_eq!(checked(&[(1, 2), (1, 3)]), Err(FormatError::Twice(1)));
    assert_eq!(checked(&[(1, 2), (2, 2)]), Err(FormatError::Shared(2)));
}

#[test]
fn a_huge_gap_costs_no_more_than_is_remembered() {
    let mut exceptions = vec![Exception::new(0, CHUNKS_MAX - 100)];
    let bounds = Bounds {
        layout: layout(SMALL),
        store: CHUNKS_MAX,
        base: None,
    };
    let (gaps, _) = check(&mut exceptions, bounds, 10).unwrap();
    assert_eq!(gaps.len(), 10);
}

#[test]
fn numbers_that_no_store_has_are_still_refused() {
    let mut table = vec![0; 512];
    put(&mut table, 0, Exception::new(7, 9));
    table[0..8].copy_from_slice(&u64::MAX.to_le_bytes());
    let mut found = Vec::new();
    read_table(&table, &mut found);
    let bounds = Bounds {
        layout: layout(SMALL),
        store: 100,
        base: None,
    };
    let error = check(&mut found, bounds, GAPS_MAX).unwrap_err();
    assert!(matches!(error, FormatError::Astray { .. }), "{error}");
}

#[test]
fn bytes_behind_the_end_of_a_table_are_noticed() {
    let mut table = vec![0; 512];
    put(&mut table, 0, Exception::new(7, 9));
    let read = |table: &[u8]| read_table(table, &mut Vec::new());
    assert!(!read(&table).leftover);
    put(&mut table, 5, Exception::new(8, 10));
    let found = read(&table);
    assert_eq!((found.count, found.leftover), (1, true));
}

/// Scattered, rising and falling chunks, and a map that is made at once.
#[test]
fn an_exception_takes_at_most_32_bytes() {
    const COUNT: u64 = 100_000;
    type Order = fn(u64) -> u64;
    let orders: [(&str, Order); 3] = [
        ("scattered", |n| {
            n.wrapping_mul(0x9E37_79B9_7F4A_7C15) % (1 << 28)
        }),
        ("rising", |n| n * 2),
        ("falling", |n| (COUNT - n) * 2),
    ];
    for (name, order) in orders {
        let mut map = Map::default();
        let mut seen = BTreeSet::new();
        for n in 0..COUNT {
            if seen.insert(order(n)) {
                map.insert(Exception::new(order(n), n + 2));
            }
        }
        let each = map.bytes() as u64 / map.count();
        assert!(each <= 26, "{name}: {each} bytes");
    }
    let sorted: Vec<Exception> = (0..COUNT).map(|n| Exception::new(n * 7, n + 2)).collect();
    let map = Map::of_sorted(&sorted);
    assert!(map.bytes() as u64 / map.count() <= 13);
    assert!(size_of::<Exception>() == 12 && LEAF_MAX >= 64);
}

#[test]
fn what_waits_for_a_flush_is_listed_before_it_is_too_much() {
    let chunks = FRESH_MAX as u64;
    let layout = layout(4096);
    let mut state = OverlayState::new(LoadedStore {
        layout,
        size: (chunks + 2) * 4096,
        map: Map::of_sorted(&[]),
        alloc: Allocator::new(layout, Vec::new(), 2, layout.chunks_for(chunks + 2)),
    });
    state.prepared(u64::MAX);
    let begin = |state: &mut OverlayState, range| match state.begin(range) {
        Begun::Go(work) => {
            state.publish(work.claim.unwrap());
            true
        }
        Begun::List => false,
        other => panic!("{other:?}"),
    };
    assert!(begin(&mut state, Range::new(0, chunks * 4096)));
    let next = Range::new(chunks * 4096, 4096);
    assert!(!begin(&mut state, next));
    state.committed(FRESH_MAX);
    assert!(begin(&mut state, next));
}

proptest! {
    #[test]
    fn what_is_removed_from_a_map_is_the_bases_again(
        olds in prop::collection::btree_set(0_u64..3000, 0..1500), removed in prop::collection::vec(0_u64..3000, 0..1500),
    ) {
        let mut left: BTreeMap<u64, u64> = olds.iter().map(|&old| (old, old * 2 + 2)).collect();
        let all: Vec<Exception> = left.iter().map(|(&old, &new)| Exception::new(old, new)).collect();
        let mut map = Map::of_sorted(&all);
        for old in removed {
            map.remove(old);
            left.remove(&old);
        }
        prop_assert_eq!(map.count(), left.len() as u64);
        let mut found = BTreeMap::new();
        for run in map.runs(0..3000) {
            let chunks = run.new.map(|new| (0..run.len).map(move |n| (run.old + n, new + n)));
            found.extend(chunks.into_iter().flatten());
        }
        prop_assert_eq!(found, left);
    }
}
