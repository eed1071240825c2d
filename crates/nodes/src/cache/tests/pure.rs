//! The format, the marks and the slots, without any disk.

use block::Range;
use proptest::prelude::*;

use super::super::format::{
    BLOCK, BLOCKS, CacheFormatError, CacheHeader, CacheLayout, ENTRY_LEN, GRANULE, HEADER_LEN,
    HeaderCopy, MARKS_PER_SECTOR, REGION, SECTOR_LEN, SLOTS_MIN, SlotEntry, block_crc,
    encode_entry, encode_marks, newest_header, parse_entry, parse_header, parse_marks,
};
use super::super::marks::RegionMarks;
use super::super::slots::{SlotLookup, SlotTable};
use super::super::state::CacheState;

const ID: [u8; 16] = [7; 16];

fn header() -> CacheHeader {
    CacheHeader {
        id: ID,
        is_dropped: false,
        sequence: 9,
        disk_size: 100 * GRANULE,
        slots: 16,
        identity: "nbd:0123456789abcdef".to_owned(),
        opening: 41,
    }
}

fn layout(granules: u64, slots: u64) -> CacheLayout {
    CacheLayout {
        disk_size: granules * GRANULE,
        slots,
    }
}

#[test]
fn a_header_is_what_was_written() {
    let bytes = header().encode();
    assert_eq!(parse_header(&bytes), Ok(HeaderCopy::Valid(header())));
    assert_eq!(parse_header(&[0; HEADER_LEN]), Ok(HeaderCopy::Blank));
}

#[test]
fn the_newer_header_counts_and_a_torn_one_does_not() {
    let newer = CacheHeader {
        sequence: 10,
        is_dropped: true,
        ..header()
    };
    let (old, new) = (header().encode(), newer.encode());
    assert_eq!(newest_header([&old, &new]), Ok(Some(newer.clone())));
    assert_eq!(newest_header([&new, &old]), Ok(Some(newer)));
    let mut torn = new;
    torn[100] ^= 1;
    assert_eq!(newest_header([&torn, &old]), Ok(Some(header())));
    assert_eq!(newest_header([&torn, &torn]), Ok(None));
}

#[test]
fn another_version_and_foreign_bytes_are_refused_by_name() {
    let with_version = |version: u8| {
        let mut bytes = header().encode();
        bytes[8] = version;
        let crc = crc::Crc::<u32>::new(&crc::CRC_32_ISCSI).checksum(&bytes[..508]);
        bytes[508..].copy_from_slice(&crc.to_le_bytes());
        bytes
    };
    assert_eq!(
        parse_header(&with_version(2)),
        Err(CacheFormatError::Version(2))
    );
    assert_eq!(
        parse_header(&with_version(1)),
        Ok(HeaderCopy::Valid(header()))
    );
    assert_eq!(
        parse_header(&[b'x'; HEADER_LEN]),
        Err(CacheFormatError::NotACache)
    );
}

proptest! {
    #[test]
    fn no_bytes_panic(bytes: Vec<u8>, flip in 0..HEADER_LEN) {
        let mut block = [0; HEADER_LEN];
        let len = bytes.len().min(HEADER_LEN);
        block[..len].copy_from_slice(&bytes[..len]);
        prop_assert!(!matches!(parse_header(&block), Ok(HeaderCopy::Valid(_))));
        let mut damaged = header().encode();
        damaged[flip] ^= 0x40;
        prop_assert_ne!(parse_header(&damaged), Ok(HeaderCopy::Valid(header())));
        let mut entry = [0; ENTRY_LEN];
        entry.copy_from_slice(&block[..ENTRY_LEN]);
        prop_assert!(parse_entry(&ID, 1, &entry).is_none());
        let mut sector = [0; SECTOR_LEN];
        sector.copy_from_slice(&block[..SECTOR_LEN]);
        prop_assert!(parse_marks(&ID, 0, &sector).iter().all(|&marked| marked));
    }

    #[test]
    fn an_entry_counts_in_its_slot_of_its_cache_only(granule in 0..1_u64 << 40, valid: u32, slot in 0..1000_u32, at in 0..ENTRY_LEN) {
        let entry = SlotEntry { granule, valid, crcs: [valid ^ 5; BLOCKS as usize] };
        let bytes = encode_entry(&ID, slot, &entry);
        prop_assert_eq!(parse_entry(&ID, slot, &bytes), Some(entry));
        prop_assert_eq!(parse_entry(&ID, slot + 1, &bytes), None);
        prop_assert_eq!(parse_entry(&[8; 16], slot, &bytes), None);
        let mut damaged = bytes;
        damaged[at] ^= 1;
        prop_assert_eq!(parse_entry(&ID, slot, &damaged), None);
    }

    #[test]
    fn marks_are_what_was_written_and_all_of_them_where_a_bit_is_wrong(set in prop::collection::vec(any::<bool>(), 4032), flip in 0..SECTOR_LEN) {
        let bytes = encode_marks(&ID, 3, &set);
        prop_assert_eq!(parse_marks(&ID, 3, &bytes), set);
        let mut damaged = bytes;
        damaged[flip] ^= 2;
        // Bytes between the bits and the checksum are covered too.
        prop_assert!(parse_marks(&ID, 3, &damaged).iter().all(|&marked| marked));
    }

    #[test]
    fn a_layout_fits_and_nothing_in_it_overlaps(granules in 1..5000_u64, tail in 0..GRANULE, bytes in 0..1_u64 << 30) {
        let disk_size = granules * GRANULE + tail;
        let Some(layout) = CacheLayout::within(disk_size, bytes) else {
            let least = CacheLayout { disk_size, slots: SLOTS_MIN };
            prop_assert!(bytes < least.file_size());
            return Ok(());
        };
        prop_assert!(layout.file_size() <= bytes);
        prop_assert!(layout.table_at() + layout.slots * ENTRY_LEN as u64 <= layout.slot_at(0));
        prop_assert!(layout.regions() * REGION >= disk_size);
        prop_assert!(layout.mark_sectors() * MARKS_PER_SECTOR >= layout.regions());
        let last = u32::try_from(layout.slots - 1).unwrap();
        prop_assert_eq!(layout.slot_at(last) + GRANULE, layout.file_size());
        prop_assert!(layout.slot_at(0).is_multiple_of(BLOCK));
    }
}

#[test]
fn the_checksum_of_a_block_is_that_of_its_place() {
    let data = [1; 4096];
    let crc = block_crc(&ID, 5, 6, &data);
    assert_ne!(crc, block_crc(&ID, 6, 5, &data));
    assert_ne!(crc, block_crc(&ID, 5, 7, &data));
    assert_ne!(crc, block_crc(&[8; 16], 5, 6, &data));
}

#[test]
fn a_region_is_cleared_only_if_no_change_has_entered_since() {
    let range = Range::new(10, 10);
    let mut marks = RegionMarks::default();
    assert!(!marks.enter(range, 1), "a new mark is not durable");
    let wanted = marks.wanted();
    marks.set_durable(&wanted);
    assert!(marks.are_durable(range));
    assert!(
        marks.candidates(u64::MAX).is_empty(),
        "a change is in flight"
    );
    marks.leave(range);
    let candidates = marks.candidates(u64::MAX);
    assert!(marks.enter(range, 2), "still marked");
    marks.leave(range);
    assert!(marks.clear(&candidates).is_empty(), "it has changed since");
    assert!(
        marks.candidates(1).is_empty(),
        "the last change is a later one"
    );
    let candidates = marks.candidates(2);
    assert_eq!(marks.clear(&candidates), [0]);
    assert!(marks.is_empty());
    assert!(!marks.enter(range, 3));
}

fn state_of(layout: CacheLayout) -> CacheState<()> {
    CacheState::new(layout, SlotTable::new(layout))
}

/// Stores the whole granule.
fn fill(state: &mut CacheState<()>, granule: u64) {
    let id = state.begin_fill(granule..granule + 1, ()).unwrap();
    for job in state.finish_fill(id) {
        state.slots.finish_store(&job, &[0; BLOCKS as usize]);
    }
}

fn block(granule: u64, block: u64) -> Range {
    Range::new(granule * GRANULE + block * BLOCK, BLOCK)
}

/// Whether it is one once everything that was stored is synced.
fn is_hit(state: &mut CacheState<()>, range: Range) -> bool {
    let stored = state.slots.stored();
    state.slots.set_synced(stored);
    matches!(
        state.slots.find(range.offset / GRANULE, range),
        SlotLookup::Hit(_)
    )
}

#[test]
fn what_is_used_is_evicted_last() {
    let mut state = state_of(layout(100, SLOTS_MIN));
    (0..SLOTS_MIN).for_each(|granule| fill(&mut state, granule));
    // The first eviction takes the marks of use off all.
    fill(&mut state, 50);
    assert_eq!(state.slots.evictions(), 1);
    let used: Vec<u64> = (1..SLOTS_MIN).filter(|&granule| granule % 2 == 0).collect();
    for &granule in &used {
        assert!(is_hit(&mut state, block(granule, 0)));
    }
    fill(&mut state, 51);
    fill(&mut state, 52);
    for granule in used {
        assert!(is_hit(&mut state, block(granule, 0)), "{granule} was used");
    }
    assert_eq!(state.slots.bytes(), SLOTS_MIN * GRANULE);
}

#[test]
fn a_fill_that_a_change_overtook_stores_the_other_blocks_only() {
    let mut state = state_of(layout(16, 16));
    let fill = state.begin_fill(2..3, ()).unwrap();
    assert!(state.fills.join(block(2, 3)).is_some());
    let (change, _) = state.begin_change(Range::new(block(2, 3).offset + 100, 10));
    assert!(
        state.fills.join(block(2, 3)).is_none(),
        "it may give what was there before"
    );
    assert!(state.fills.join(block(2, 4)).is_some());
    assert!(
        state.finish_change(change, true).is_empty(),
        "it fills no block"
    );
    let jobs = state.finish_fill(fill);
    assert_eq!(jobs[0].blocks, !(1 << 3));
}

#[test]
fn a_fill_that_begins_during_a_change_does_not_store_its_blocks() {
    let mut state = state_of(layout(16, 16));
    let (change, _) = state.begin_change(block(2, 3));
    let fill = state.begin_fill(2..3, ()).unwrap();
    drop(state.finish_change(change, false));
    assert_eq!(state.finish_fill(fill)[0].blocks, !(1 << 3));
}

#[test]
fn a_change_overtakes_data_that_is_being_stored() {
    let mut state = state_of(layout(16, 16));
    let fill = state.begin_fill(2..3, ()).unwrap();
    let jobs = state.finish_fill(fill);
    let (change, _) = state.begin_change(block(2, 3));
    // The fill still writes the block: what the change has cannot be stored.
    assert!(state.finish_change(change, true).is_empty());
    state.slots.finish_store(&jobs[0], &[0; BLOCKS as usize]);
    assert!(!is_hit(&mut state, block(2, 3)));
    assert!(is_hit(&mut state, block(2, 4)));
}

#[test]
fn of_overlapping_changes_none_is_stored() {
    let mut state = state_of(layout(16, 16));
    let (one, _) = state.begin_change(block(1, 0));
    let (other, _) = state.begin_change(Range::new(100, 200 * 1024));
    assert!(state.finish_change(one, true).is_empty());
    assert!(state.finish_change(other, true).is_empty());
    let (alone, _) = state.begin_change(block(1, 0));
    assert_eq!(state.finish_change(alone, true).len(), 1);
}

#[test]
fn a_change_that_failed_keeps_its_blocks_out_until_the_disk_has_settled() {
    let mut state = state_of(layout(16, 16));
    fill(&mut state, 1);
    let (change, _) = state.begin_change(block(1, 0));
    state.abandon_change(change);
    fill(&mut state, 1);
    assert!(!is_hit(&mut state, block(1, 0)));
    assert!(is_hit(&mut state, block(1, 1)));
    assert!(
        state.marks.candidates(u64::MAX).is_empty(),
        "it may still land"
    );
    let now = state.now();
    state.settled(now);
    fill(&mut state, 1);
    assert!(is_hit(&mut state, block(1, 0)));
    assert_eq!(state.marks.candidates(u64::MAX).len(), 1);
}

#[test]
fn what_was_verified_before_a_change_says_nothing_after_it() {
    let mut state = state_of(layout(16, 16));
    let entry = SlotEntry {
        granule: 3,
        valid: u32::MAX,
        crcs: [1; BLOCKS as usize],
    };
    assert!(state.slots.load(3, &entry));
    let SlotLookup::Unverified(place) = state.slots.find(3, block(3, 0)) else {
        panic!("a loaded block is not verified");
    };
    let (_, is_marked) = state.begin_change(block(3, 1));
    assert!(!is_marked);
    assert!(!state.slots.verified(place, 1, 0));
    assert!(!is_hit(&mut state, block(3, 0)));
}

#[test]
fn two_entries_of_one_granule_and_one_behind_the_disk_are_not_used() {
    let entry = |granule| SlotEntry {
        granule,
        valid: 1,
        crcs: [1; BLOCKS as usize],
    };
    let mut state = state_of(layout(100, SLOTS_MIN));
    assert!(state.slots.load(0, &entry(40)));
    assert!(!state.slots.load(1, &entry(40)));
    assert!(!state.slots.load(2, &entry(100)));
    let mut whole = state_of(layout(16, 16));
    assert!(
        !whole.slots.load(3, &entry(4)),
        "each granule has its own slot"
    );
}
