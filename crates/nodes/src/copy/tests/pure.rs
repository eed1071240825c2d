//! Tests of the pure part.

use block::{Extent, ExtentKind, IoBufs, Range};
use bytes::Bytes;
use proptest::prelude::*;

use crate::copy::plan::{
    Action, CELL_MIN as CELL, CopyQueue, CopyWindow, PieceMax, first_difference, parts, runs,
};

const KINDS: [ExtentKind; 3] = [ExtentKind::Data, ExtentKind::Hole, ExtentKind::Zero];

/// Extents over `size` bytes, cut anywhere.
fn extents(size: u64) -> impl Strategy<Value = Vec<Extent>> {
    let cuts = prop::collection::vec((0..=size, 0..3_usize), 0..20);
    cuts.prop_map(move |mut cuts| {
        cuts.push((size, 0));
        cuts.sort_unstable();
        let mut at = 0;
        let extents = cuts.into_iter().map(|(end, kind)| {
            let range = Range::new(at, end - at);
            at = end;
            let kind = KINDS[kind];
            Extent { range, kind }
        });
        extents.filter(|extent| !extent.range.is_empty()).collect()
    })
}

/// What an extent map says of a byte.
fn is_zero(extents: &[Extent], at: u64) -> bool {
    extents
        .iter()
        .any(|extent| extent.kind != ExtentKind::Data && extent.range.overlaps(&Range::new(at, 1)))
}

const SIZE: u64 = 100_000;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn every_byte_is_in_one_piece_and_nothing_is_left_out_that_may_not_be_zero(
        source in extents(SIZE), target in extents(SIZE), power in 0..14_u32,
    ) {
        let unit = 1 << power;
        let range = Range::new(0, SIZE);
        let window = CopyWindow { range, source: &source, target: &target, unit, size: SIZE };
        let mut queue = CopyQueue::default();
        queue.extend(runs(&window));
        let max = PieceMax { data: 16_384, zero: 32_768 };
        let mut at = 0;
        while let Some(piece) = queue.pop(max) {
            let range = piece.range;
            prop_assert_eq!(range.offset, at);
            prop_assert!(range.len > 0);
            prop_assert!(at.is_multiple_of(unit));
            at = range.end();
            let sampled = (range.offset..range.end()).step_by(97).chain([at - 1]);
            for byte in sampled {
                let (from, onto) = (is_zero(&source, byte), is_zero(&target, byte));
                match piece.action {
                    Action::Data { onto_zeroes } => {
                        prop_assert!(range.len <= max.data);
                        prop_assert!(!onto_zeroes || onto);
                    }
                    Action::Zero => prop_assert!(from && range.len <= max.zero),
                    Action::Keep => prop_assert!(from && onto),
                }
            }
        }
        prop_assert_eq!(at, SIZE);
    }

    #[test]
    fn zeroes_are_found_in_any_slicing(
        offset in 0..3 * CELL,
        cells in prop::collection::vec(any::<bool>(), 1..8),
        cuts in prop::collection::vec(1..40_000_usize, 0..12),
    ) {
        let len = cells.len() as u64 * CELL - offset % 1000;
        let range = Range::new(offset, len);
        // One byte of a cell of the disk that is not zero.
        let mut bytes = vec![0_u8; range.len_usize()];
        for (n, _) in cells.iter().enumerate().filter(|(_, full)| **full) {
            let at = (n as u64 * CELL + 4711) % len;
            bytes[Range::new(0, at).len_usize()] = 1;
        }
        let mut data = IoBufs::new();
        let mut rest = Bytes::from(bytes.clone());
        for cut in cuts {
            data.push(rest.split_to(cut.min(rest.len())));
        }
        data.push(rest);
        let mut at = range.offset;
        for part in parts(range, &data, CELL) {
            prop_assert_eq!(part.range.offset, at);
            at = part.range.end();
            let start = Range::new(0, part.range.offset - offset).len_usize();
            let slice = &bytes[start..start + part.range.len_usize()];
            prop_assert_eq!(part.zero, slice.iter().all(|&byte| byte == 0));
        }
        prop_assert_eq!(at, range.end());
    }

    #[test]
    fn the_first_difference_is_found_in_any_slicing(
        bytes in prop::collection::vec(0..3_u8, 0..200),
        change in prop::option::of(0..200_usize),
        cuts in prop::collection::vec(0..50_usize, 0..6),
    ) {
        let one = IoBufs::from_iter([Bytes::from(bytes.clone())]);
        let mut changed = bytes.clone();
        let change = change.filter(|&at| at < bytes.len());
        if let Some(at) = change {
            changed[at] ^= 0x80;
        }
        let mut other = IoBufs::new();
        let mut rest = Bytes::from(changed);
        for cut in cuts {
            other.push(rest.split_to(cut.min(rest.len())));
        }
        other.push(rest);
        prop_assert_eq!(first_difference(&one, &other), change.map(|at| at as u64));
    }
}

#[test]
fn a_part_that_is_zero_joins_its_neighbours() {
    let range = Range::new(0, 4 * CELL);
    let data = IoBufs::from_iter([Bytes::from(vec![0; range.len_usize()])]);
    let found = parts(range, &data, CELL);
    assert_eq!(found.len(), 1);
    assert!(found[0].zero && found[0].range == range);
}

#[test]
fn zeroes_that_end_with_the_disk_need_no_whole_unit() {
    let extent = |offset, len, kind| Extent {
        range: Range::new(offset, len),
        kind,
    };
    let source = [
        extent(0, 5000, ExtentKind::Data),
        extent(5000, 5000, ExtentKind::Hole),
    ];
    let window = CopyWindow {
        range: Range::new(0, 10_000),
        source: &source,
        target: &[],
        unit: 4096,
        size: 10_000,
    };
    let found: Vec<(Range, Action)> = runs(&window).iter().map(|r| (r.range, r.action)).collect();
    let onto_zeroes = false;
    let expected = [
        (Range::new(0, 8192), Action::Data { onto_zeroes }),
        (Range::new(8192, 1808), Action::Zero),
    ];
    assert_eq!(found, expected);
}
