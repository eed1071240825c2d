//! Readers, pieces and windows as plain data.

use block::{Geometry, Range};
use proptest::prelude::*;

use super::super::pieces::AheadPieces;
use super::super::plan::{AheadWindow, WINDOW_MAX, WINDOW_MIN};
use super::super::streams::{STREAMS_MAX, StreamId, Streams};
use super::KIB;

const DISK: u64 = 1 << 40;

fn of(disk: u64, len: u64) -> AheadWindow {
    AheadWindow::new(&Geometry::native(disk), len).unwrap()
}

fn window() -> AheadWindow {
    of(DISK, 1024 * KIB)
}

fn at(offset: u64) -> Range {
    Range::new(offset, 4 * KIB)
}

/// A reader's name.
fn stream() -> StreamId {
    let mut streams = Streams::default();
    let wanted = (0..3).filter_map(|n| streams.observe(at(n * 4 * KIB), &window()));
    wanted.last().unwrap().stream
}

proptest! {
    #[test]
    fn pieces_are_whole_blocks_fill_the_window_and_end_with_the_disk(
        len in WINDOW_MIN..=WINDOW_MAX, size in 0..(1_u64 << 63), power in 0..17_u32, index in 0..100_u64, from: u64,
    ) {
        let geometry = Geometry { block_size: 1 << power, ..Geometry::native(size) };
        let window = AheadWindow::new(&geometry, len).unwrap();
        let block = u64::from(geometry.block_size);
        prop_assert!(window.piece.is_multiple_of(block) && window.depth_max > 0);
        prop_assert!(window.len() <= len.max(block) && window.len() + window.piece > len);
        let part = window.part(index, from);
        prop_assert!(part.end() <= size);
        prop_assert!(part.is_empty() || (window.index(part.offset) == index && part.offset >= from));
    }

    #[test]
    fn a_reader_that_never_goes_on_where_it_was_is_not_read_ahead(offsets in prop::collection::vec(0..1000_u64, 0..200)) {
        let mut streams = Streams::default();
        let mut ends = Vec::new();
        for offset in offsets {
            let range = Range::new(offset * 8 * KIB, 4 * KIB);
            ends.push(range.end());
            prop_assert_eq!(streams.observe(range, &window()), None);
        }
    }

    #[test]
    fn the_bytes_of_pieces_are_counted_to_the_end(steps in prop::collection::vec((0..7_u8, 0..12_u64), 0..200)) {
        const MAX: u64 = 5 * 64 * KIB;
        let window = of(DISK, 256 * KIB);
        let stream = stream();
        let mut pieces = AheadPieces::new(MAX);
        let mut in_flight = Vec::new();
        let mut changes = Vec::new();
        for (what, n) in steps {
            let range = window.part(n, 0);
            match what {
                0..3 if pieces.may_begin(n, range) && pieces.has_room(range.len) => {
                    in_flight.push(pieces.begin(n, range, stream, ()));
                }
                3 if !in_flight.is_empty() => {
                    let id = in_flight.swap_remove(usize::try_from(n).unwrap() % in_flight.len());
                    pieces.ended(id, n % 3 > 0);
                }
                4 => changes.push(pieces.change(range)),
                5 => {
                    let moment = pieces.now();
                    changes.drain(..).for_each(|id| if n % 2 == 0 { pieces.changed(id) } else { pieces.abandon(id) });
                    if n % 3 == 0 { pieces.settled(moment) } else { pieces.settled(pieces.now()) }
                }
                6 => pieces.pass(stream, range.offset),
                _ => {}
            }
            let kept = (0..12).filter(|&n| pieces.find(window.part(n, 0), window.piece).is_some());
            prop_assert!(pieces.bytes() <= MAX && pieces.bytes() >= kept.count() as u64 * window.piece);
        }
        pieces.retain(|_| false);
        in_flight.into_iter().for_each(|id| pieces.ended(id, true));
        prop_assert_eq!(pieces.bytes(), 0);
        prop_assert!(pieces.has_ended(pieces.now()));
    }
}

#[test]
fn a_window_opens_with_what_is_read() {
    let window = window();
    let mut streams = Streams::default();
    let mut wanted = |offset| streams.observe(at(offset), &window);
    assert_eq!([wanted(0), wanted(4 * KIB)], [None, None]);
    let third = wanted(8 * KIB).unwrap();
    assert_eq!((third.next, third.first, third.end), (12 * KIB, 0, 1));
    let mut depths = Vec::new();
    for offset in (12 * KIB..5 * window.piece).step_by(4096) {
        let wanted = wanted(offset).unwrap();
        assert_eq!(wanted.first, window.index(wanted.next));
        depths.push(wanted.end - wanted.first);
    }
    depths.dedup();
    assert_eq!(depths, [1, 2, 4], "up to the window of four pieces");
}

#[test]
fn the_reader_that_has_not_read_for_longest_is_forgotten() {
    let window = window();
    let mut streams = Streams::default();
    let far = |n: u64| n << 30;
    for n in 0..=STREAMS_MAX as u64 {
        streams.observe(at(far(n)), &window);
    }
    let mut goes_on = |n| {
        streams.observe(at(far(n) + 4 * KIB), &window);
        streams.observe(at(far(n) + 8 * KIB), &window).is_some()
    };
    assert!(goes_on(1) && goes_on(STREAMS_MAX as u64));
    assert!(!goes_on(0));
}

#[test]
fn a_range_is_found_only_whole() {
    let window = of(DISK, 256 * KIB);
    let mut pieces = AheadPieces::new(u64::MAX);
    let stream = stream();
    for (index, from) in [(0, 8 * KIB), (1, 0), (3, 0)] {
        pieces.begin(index, window.part(index, from), stream, index);
    }
    let found = |pieces: &AheadPieces<u64>, offset, len| {
        let found = pieces.find(Range::new(offset, len), window.piece);
        found.map(|found| found.into_iter().map(|f| f.slot).collect::<Vec<_>>())
    };
    assert_eq!(found(&pieces, 8 * KIB, 64 * KIB), Some(vec![0, 1]));
    assert_eq!(found(&pieces, 4 * KIB, 8 * KIB), None, "before the first");
    assert_eq!(
        found(&pieces, 64 * KIB, 65 * KIB),
        None,
        "the third is not there"
    );
    assert_eq!(found(&pieces, 5, 0), Some(vec![]));
    pieces.change(Range::new(100 * KIB, 1));
    assert_eq!(found(&pieces, 8 * KIB, 64 * KIB), None);
    assert_eq!(found(&pieces, 8 * KIB, 56 * KIB), Some(vec![0]));
}
