//! Tests of where copies are.

use std::collections::BTreeSet;

use block::Range;
use proptest::prelude::*;

use super::super::layout::Layout;
use crate::array::assembly::Facts;
use crate::array::format::{Level, Version};

const CHUNK: u64 = 4096;

fn facts(level: Level, layout: u32, parts: u32, member_size: u64) -> Facts {
    Facts {
        reshape: None,
        uuid: [1; 16],
        name: "test".to_owned(),
        version: Version::V1_2,
        level,
        layout,
        chunk: if level == Level::Raid10 { CHUNK } else { 0 },
        parts,
        member_size,
        size: if level == Level::Raid10 {
            u64::MAX
        } else {
            member_size
        },
    }
}

fn raid10(layout: u32, parts: u32, rows: u64) -> Option<Layout> {
    Layout::of(&facts(Level::Raid10, layout, parts, rows * CHUNK)).ok()
}

/// The parts of each row of members, as array chunks.
fn table(layout: &Layout, parts: usize, rows: u64) -> Vec<Vec<Option<u64>>> {
    let chunk = |part, row| Some(layout.held(part, row * CHUNK)?.offset / CHUNK);
    (0..rows)
        .map(|row| (0..parts).map(|part| chunk(part, row)).collect())
        .collect()
}

fn some(rows: &[&[u64]]) -> Vec<Vec<Option<u64>>> {
    rows.iter()
        .map(|row| row.iter().copied().map(Some).collect())
        .collect()
}

#[test]
fn near_copies_lie_side_by_side() {
    let layout = raid10(0x102, 3, 4).unwrap();
    assert_eq!(layout.size(), 6 * CHUNK);
    let expected = some(&[&[0, 0, 1], &[1, 2, 2], &[3, 3, 4], &[4, 5, 5]]);
    assert_eq!(table(&layout, 3, 4), expected);
}

#[test]
fn far_copies_lie_in_the_other_half() {
    let layout = raid10(0x201, 3, 4).unwrap();
    let expected = some(&[&[0, 1, 2], &[3, 4, 5], &[2, 0, 1], &[5, 3, 4]]);
    assert_eq!(table(&layout, 3, 4), expected);
}

#[test]
fn offset_copies_lie_a_row_further_down() {
    let layout = raid10(0x1_0201, 3, 4).unwrap();
    let expected = some(&[&[0, 1, 2], &[2, 0, 1], &[3, 4, 5], &[5, 3, 4]]);
    assert_eq!(table(&layout, 3, 4), expected);
}

#[test]
fn far_copies_stay_within_sets_of_which_the_last_takes_what_is_left() {
    let layout = raid10(0x4_0201, 5, 2).unwrap();
    let expected = some(&[&[0, 1, 2, 3, 4], &[1, 0, 4, 2, 3]]);
    assert_eq!(table(&layout, 5, 2), expected);
}

#[test]
fn layouts_that_put_copies_over_each_other_are_refused() {
    // The older form of sets, one copy, more copies than parts, offset copies of pairs over an odd number of
    // parts, sets of pairs with parts left over.
    let refused = [
        (0x2_0201, 4),
        (0x101, 4),
        (0x105, 4),
        (0x1_0202, 5),
        (0x4_0202, 10),
        (0x100, 4),
    ];
    for (layout, parts) in refused {
        assert_eq!(raid10(layout, parts, 8), None, "{layout:#x} over {parts}");
    }
}

#[test]
fn a_mirror_has_everything_everywhere() {
    let layout = Layout::of(&facts(Level::Raid1, 0, 3, 1 << 20)).unwrap();
    let range = Range::new(4096, 8192);
    let pieces: Vec<_> = layout.pieces(range).collect();
    assert_eq!(pieces.len(), 1);
    assert_eq!(pieces[0].range, range);
    let copies: Vec<_> = pieces[0].copies.iter().map(|c| (c.part, c.at)).collect();
    assert_eq!(copies, [(0, 4096), (1, 4096), (2, 4096)]);
    assert!(layout.survives(|part| part == 2));
    assert!(!layout.survives(|_| false));
}

#[test]
fn an_array_survives_as_long_as_each_chunk_has_a_copy() {
    let near = raid10(0x102, 4, 8).unwrap();
    assert!(near.survives(|part| part == 0 || part == 3));
    assert!(!near.survives(|part| part == 0 || part == 1));
    let far = raid10(0x201, 4, 8).unwrap();
    assert!(far.survives(|part| part == 0 || part == 2));
    assert!(!far.survives(|part| part < 2));
    let odd = raid10(0x102, 3, 8).unwrap();
    assert!(odd.survives(|part| part != 1));
    assert!(!odd.survives(|part| part == 1));
}

fn layouts() -> impl Strategy<Value = (Layout, usize, u64)> {
    let sets = prop_oneof![Just(0_u32), Just(2)];
    let numbers = (1_u32..4, 1_u32..4, any::<bool>(), sets, 2_u32..9, 1_u64..40);
    numbers.prop_filter_map("no layout", |(near, far, offset, sets, parts, rows)| {
        let number = near | far << 8 | u32::from(offset) << 16 | sets << 17;
        let layout = raid10(number, parts, rows)?;
        Some((layout, usize::try_from(parts).unwrap(), rows))
    })
}

proptest! {
    #[test]
    fn each_chunk_has_its_copies_on_parts_of_its_own_and_no_place_is_used_twice(
        (layout, parts, rows) in layouts()
    ) {
        let mut taken = BTreeSet::new();
        for piece in layout.pieces(Range::new(0, layout.size())) {
            let on: BTreeSet<_> = piece.copies.iter().map(|copy| copy.part).collect();
            prop_assert_eq!(on.len(), piece.copies.len());
            for copy in &piece.copies {
                prop_assert!(copy.part < parts);
                prop_assert!(copy.at + piece.range.len <= rows * CHUNK);
                prop_assert!(taken.insert((copy.part, copy.at)));
                prop_assert_eq!(layout.held(copy.part, copy.at), Some(piece.range));
            }
        }
        for part in 0..parts {
            for row in 0..rows {
                let at = row * CHUNK;
                prop_assert_eq!(layout.held(part, at).is_some(), taken.contains(&(part, at)));
            }
        }
    }

    #[test]
    fn the_pieces_of_a_range_cover_it_once_in_order((layout, _, _) in layouts(), a: u64, b: u64) {
        let size = layout.size().max(1);
        let (a, b) = (a % size, b % size);
        let range = Range::new(a.min(b), a.max(b) - a.min(b));
        let mut at = range.offset;
        for piece in layout.pieces(range) {
            prop_assert_eq!(piece.range.offset, at);
            prop_assert!(!piece.range.is_empty());
            at = piece.range.end();
            let chunk = piece.range.offset / CHUNK * CHUNK;
            let whole = layout.piece(Range::new(chunk, CHUNK));
            let within = piece.range.offset - chunk;
            for (copy, first) in piece.copies.iter().zip(&whole.copies) {
                prop_assert_eq!((copy.part, copy.at), (first.part, first.at + within));
            }
        }
        prop_assert_eq!(at, range.end());
    }
}
