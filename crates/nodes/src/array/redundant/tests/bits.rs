//! Tests of the life of bits.

use std::collections::BTreeSet;

use block::Range;
use proptest::prelude::*;

use super::super::bits::Bits;
use crate::array::format::bitmap::{self, Bitmap};

const CHUNK: u64 = 4096;
const COUNT: u64 = 20;
const SIZE: u64 = COUNT * CHUNK - 512;

fn header() -> Bitmap {
    Bitmap {
        version: 4,
        array: [7; 16],
        events: 1,
        events_cleared: 1,
        size: SIZE,
        chunk: 4096,
        stale: false,
        daemon_sleep: 5,
        write_behind: 0,
    }
}

/// Bits of which these are set on the disk.
fn bits(set: &[usize], all: bool) -> Bits {
    let mut image = vec![0; Bits::image_len(&header(), 512)];
    set.iter()
        .for_each(|bit| image[256 + bit / 8] |= 1 << (bit % 8));
    // Behind the last one they mean nothing.
    image[256 + 2] |= 0xf0;
    Bits::new(&header(), image, all).unwrap()
}

fn commit(bits: &mut Bits, durable: bool) -> Vec<u8> {
    let pages = bits.begin_commit(None::<fn(&mut [u8])>);
    bits.end_commit(durable);
    pages
        .into_iter()
        .next()
        .map_or_else(Vec::new, |page| page.bytes)
}

fn set_in(image: &[u8]) -> Vec<u64> {
    let is_set = |bit: &u64| {
        let bit = usize::try_from(*bit).unwrap();
        image[256 + bit / 8] & 1 << (bit % 8) != 0
    };
    (0..COUNT).filter(is_set).collect()
}

const fn chunk(index: u64) -> Range {
    Range::new(index * CHUNK, 512)
}

#[test]
fn a_bit_is_set_only_once_its_commit_is_durable() {
    let mut bits = bits(&[], false);
    assert!(!bits.begin(chunk(3)));
    assert!(!bits.are_set(chunk(3)));
    commit(&mut bits, false);
    assert!(!bits.are_set(chunk(3)));
    assert_eq!(set_in(&commit(&mut bits, true)), [3]);
    assert!(bits.are_set(chunk(3)));
    assert!(bits.begin(chunk(3)));
    assert!(!bits.has_changes());
}

#[test]
fn a_bit_that_is_wanted_again_while_it_is_cleared_is_set_by_the_next_commit() {
    let mut bits = bits(&[], false);
    bits.begin(chunk(3));
    commit(&mut bits, true);
    bits.end(chunk(3));
    bits.sweep(true);
    bits.sweep(true);
    assert!(bits.will_clear());
    let pages = bits.begin_commit(None::<fn(&mut [u8])>);
    assert_eq!(set_in(&pages[0].bytes), [] as [u64; 0]);
    assert!(!bits.begin(chunk(3)));
    bits.end_commit(true);
    assert!(!bits.are_set(chunk(3)));
    assert_eq!(set_in(&commit(&mut bits, true)), [3]);
    assert!(bits.are_set(chunk(3)));
}

#[test]
fn a_bit_is_kept_while_a_write_is_in_flight_or_copies_may_differ_or_a_member_is_missing() {
    let mut all = bits(&[1, 2, 3], false);
    commit(&mut all, true);
    all.begin(chunk(1));
    all.need(chunk(2));
    for _ in 0..3 {
        all.sweep(false);
    }
    assert!(!all.will_clear());
    all.sweep(true);
    assert_eq!(set_in(&commit(&mut all, true)), [1, 2]);
    all.resynced(Range::new(CHUNK, 2 * CHUNK));
    all.end(chunk(1));
    all.sweep(true);
    all.sweep(true);
    // A member failed before the commit.
    all.keep_all();
    assert!(!all.will_clear());
    assert_eq!(all.set(), 2);
}

#[test]
fn bits_of_a_member_that_comes_back_are_set_with_the_next_commit() {
    let mut bits = bits(&[2], false);
    commit(&mut bits, true);
    let shape = bitmap::Shape::new(SIZE, 4096).unwrap();
    let mut own = bitmap::Bits::clear(shape);
    own.set(2);
    own.set(9);
    own.set(COUNT - 1);
    bits.note(&own);
    assert_eq!(set_in(&commit(&mut bits, true)), [2, 9, COUNT - 1]);
    // They are found when what is set is copied.
    assert_eq!(bits.next_set(9 * CHUNK), Some(Range::new(9 * CHUNK, CHUNK)));
}

#[test]
fn the_last_chunk_may_be_cut_short_and_what_is_behind_it_means_nothing() {
    let mut bits = bits(&[], true);
    assert_eq!((bits.count(), bits.set()), (COUNT, COUNT));
    bits.need_all_set(0);
    assert_eq!(bits.next_needed(0), Some(Range::new(0, SIZE)));
    bits.resynced(Range::new(0, SIZE - 512));
    assert_eq!(
        bits.next_needed(0),
        Some(Range::new(SIZE + 512 - CHUNK, CHUNK - 512))
    );
    bits.resynced(Range::new(SIZE - 3 * CHUNK, 3 * CHUNK));
    assert_eq!(bits.next_needed(0), None);
    assert_eq!(bits.needed(), 0);
}

#[test]
fn what_lies_before_a_checkpoint_is_not_needed() {
    let mut bits = bits(&[1, 5, 6, 9], false);
    bits.need_all_set(6 * CHUNK);
    assert_eq!(bits.next_needed(0), Some(Range::new(6 * CHUNK, CHUNK)));
    assert!(!bits.is_needed(chunk(5)) && bits.is_needed(chunk(9)));
    assert_eq!(
        bits.next_set(2 * CHUNK),
        Some(Range::new(5 * CHUNK, 2 * CHUNK))
    );
}

#[derive(Debug, Clone)]
enum Step {
    Begin(u64),
    End,
    Sweep(bool),
    Commit(bool),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        (0..COUNT).prop_map(Step::Begin),
        Just(Step::End),
        any::<bool>().prop_map(Step::Sweep),
        prop::bool::weighted(0.8).prop_map(Step::Commit),
    ];
    prop::collection::vec(step, 0..80)
}

proptest! {
    #[test]
    fn whatever_happens_the_disk_has_the_bit_of_every_write_that_may_go_on(list in steps()) {
        let mut bits = bits(&[4, 17], false);
        let mut under_way: Vec<u64> = Vec::new();
        let mut disk: BTreeSet<u64> = BTreeSet::from([4, 17]);
        for step in list {
            match step {
                Step::Begin(index) => {
                    bits.begin(chunk(index));
                    under_way.push(index);
                }
                Step::End if under_way.is_empty() => {}
                Step::End => bits.end(chunk(under_way.remove(0))),
                Step::Sweep(may) => {
                    bits.sweep(may);
                }
                Step::Commit(durable) => {
                    let image = commit(&mut bits, durable);
                    if durable && !image.is_empty() {
                        disk = set_in(&image).into_iter().collect();
                    }
                }
            }
            for index in 0..COUNT {
                prop_assert!(!bits.are_set(chunk(index)) || disk.contains(&index));
            }
        }
        commit(&mut bits, true);
        for index in under_way {
            prop_assert!(bits.are_set(chunk(index)));
        }
    }
}
