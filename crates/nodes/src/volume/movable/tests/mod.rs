//! Tests of the pieces of a disk that can be moved, and of the reads of an old place. Moves under users are in
//! `volume/open/tests/live_moves`.

mod copy;
mod fast_path;

use std::os::fd::OwnedFd;
use std::sync::Arc;

use block::{FileRegion, Node, Range};
use testkit::MemDisk;

use super::place::Place;
use super::state::{MovableState, Relocation, TargetRole};
use crate::lent_files::LentFiles;

fn mem(size: u64) -> Node {
    Arc::new(MemDisk::new(size))
}

/// Where bytes are: the member, and the range on its disk.
fn places(state: &MovableState, range: Range) -> Vec<(usize, u64, u64)> {
    let runs = state.runs(range).into_iter();
    runs.map(|run| (run.place.member, run.below.offset, run.below.len))
        .collect()
}

/// Moves `range` to `offset` of the disk of `member`.
fn relocate(state: &mut MovableState, range: Range, member: usize, offset: u64) -> bool {
    state.relocation = Some(Relocation {
        range,
        target: Place::new(mem(4096), member, offset),
        begun_to: range.offset,
        role: TargetRole::Required,
    });
    let old = state.switch();
    old.iter().all(super::OldPlace::is_unused)
}

#[test]
fn a_part_that_is_moved_splits_its_piece_and_is_found_at_both_sides() {
    let disk = mem(4096);
    let first = (Place::new(disk.clone(), 0, 1000), 100);
    let mut state = MovableState::new(vec![first, (Place::new(disk, 0, 2000), 50)]);
    assert!(relocate(&mut state, Range::new(20, 30), 1, 500));
    let all = Range::new(0, 150);
    let split = [(0, 1000, 20), (1, 500, 30), (0, 1050, 50), (0, 2000, 50)];
    assert_eq!(places(&state, all), split);
    assert_eq!(
        places(&state, Range::new(40, 20)),
        [(1, 520, 10), (0, 1050, 10)]
    );
    assert_eq!(
        state.find(1, Range::new(490, 20)),
        [(Range::new(20, 10), 500)]
    );
    let found = [(Range::new(0, 20), 1000), (Range::new(50, 50), 1050)];
    assert_eq!(state.find(0, Range::new(1000, 200)), found);
    // One that spans several pieces, to the end.
    assert!(relocate(&mut state, Range::new(30, 120), 2, 0));
    let moved = [(0, 1000, 20), (1, 500, 10), (2, 0, 120)];
    assert_eq!(places(&state, all), moved);
}

#[test]
fn an_old_place_is_in_use_while_a_request_has_it() {
    let mut state = MovableState::new(vec![(Place::new(mem(4096), 0, 0), 100)]);
    let reading = state.runs(Range::new(0, 10));
    assert!(!relocate(&mut state, Range::new(0, 50), 1, 0));
    drop(reading);
    let reading = state.runs(Range::new(60, 10));
    drop(reading);
    assert!(relocate(&mut state, Range::new(50, 50), 1, 50));
}

#[test]
fn a_file_that_was_handed_out_is_in_use_until_its_last_region_is_dropped() {
    let (reader, _writer) = std::io::pipe().expect("a pipe");
    let file = Arc::new(OwnedFd::from(reader));
    let lent = LentFiles::default();
    let region = |offset| FileRegion {
        file: file.clone(),
        offset,
    };
    let first = lent.lend(region(7)).expect("a region");
    let second = lent.lend(region(9)).expect("a region");
    assert_eq!((first.offset, second.offset), (7, 9));
    assert!(
        Arc::ptr_eq(&first.file, &second.file),
        "one descriptor for each file"
    );
    drop(first);
    assert!(!lent.are_returned());
    drop(second);
    assert!(lent.are_returned());
}
