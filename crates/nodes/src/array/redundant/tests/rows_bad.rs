//! Places of members of arrays with parity that cannot be written, and their logs.

use std::sync::Arc;

use block::{BlockDevice, Errno, IoError, Node, Operation, Range, WriteFlags};
use testkit::{Effect, Fault, FaultDisk, MemDisk, block_on, pattern, single};

use super::kit::{
    DATA, DISK, Heard, LOG, Recipe, bad, heard, name, open, read, recorded, superblock, write,
};
use crate::array::format::{Level, Role};
use crate::array::redundant::check_rows;
use crate::array::redundant::members::SlotId;
use crate::array::{MemberState, MemberStatus};

const CHUNK: u64 = 4096;
/// Row 0 of level 5 and four members: data on parts 0 to 2, parity on part 3.
const ROW: Range = Range::new(0, 3 * CHUNK);

fn five() -> Recipe {
    Recipe {
        log: true,
        ..Recipe::parity(Level::Raid5, 2, 4)
    }
}

fn recipes() -> Vec<Recipe> {
    let six = Recipe {
        level: Level::Raid6,
        parts: 5,
        ..five()
    };
    vec![five(), five().with_ppl(16 << 10), six]
}

/// A place of a member, on its disk.
const fn below(range: Range) -> Range {
    Range::new(DATA + range.offset, range.len)
}

fn cannot_write(place: Range) -> Fault {
    let fault = Fault::new(Effect::Fail(Errno::Io));
    fault.on(Operation::Write).at(below(place))
}

/// Disks, and the same with faults before them.
fn faulty(recipe: &Recipe) -> (Vec<Node>, Vec<Arc<FaultDisk>>, Vec<Node>) {
    let disk = |_| Arc::new(MemDisk::new(DISK + recipe.ppl.unwrap_or(0))) as Node;
    let disks: Vec<Node> = (0..recipe.parts).map(disk).collect();
    let faults = disks
        .iter()
        .map(|disk| FaultDisk::new(disk.clone(), 1, Vec::new()));
    let faults: Vec<_> = faults.collect();
    let failing = faults.iter().map(|disk| disk.clone() as Node).collect();
    (disks, faults, failing)
}

async fn write_durably(array: &dyn BlockDevice, range: Range, fill: u8) -> Result<(), IoError> {
    let data = single(pattern(fill, range));
    array.write(range, data, WriteFlags::FUA).await
}

#[test]
fn a_place_of_data_or_parity_that_cannot_be_written_is_logged_before_the_write_is_acknowledged() {
    for recipe in recipes() {
        for which in [1, 3] {
            block_on(async {
                let (disks, faults, failing) = faulty(&recipe);
                let (recorders, journal) = recorded(&failing);
                let array = recipe.open(&recorders).await;
                write(&array, ROW, 1).await.unwrap();
                let place = Range::new(0, CHUNK);
                faults[which].inject(cannot_write(place));
                heard(&journal);
                write(&array, ROW, 2).await.unwrap();
                let all = heard(&journal);
                let is_log = |heard: &Heard| heard.range.is_some_and(|range| range.offset == LOG);
                let logged = all
                    .iter()
                    .rposition(|h| h.member == which && is_log(h) && h.done);
                let of = |heard: &Heard| heard.is_superblock() && heard.member == which;
                let named = all.iter().rposition(of).unwrap();
                assert!(logged.unwrap() < named, "{recipe:?}");
                assert_eq!(bad(&disks[which]).await, [place]);
                assert_eq!(array.status().members[which].state, MemberState::InSync);
                // What is not there is computed, now and at the next start.
                assert_eq!(read(&array, ROW).await, pattern(2, ROW));
                array.stop().await.unwrap();
                let array = open(&disks).await;
                assert_eq!(read(&array, ROW).await, pattern(2, ROW));
                // What is written there can be read again.
                write(&array, ROW, 3).await.unwrap();
                array.stop().await.unwrap();
                assert_eq!(bad(&disks[which]).await, []);
                let array = open(&disks).await;
                assert_eq!(read(&array, ROW).await, pattern(3, ROW));
            });
        }
    }
}

#[test]
fn the_log_has_the_blocks_that_cannot_be_written_and_no_more() {
    block_on(async {
        let recipe = five();
        let (disks, faults, failing) = faulty(&recipe);
        let array = recipe.open(&failing).await;
        write(&array, ROW, 1).await.unwrap();
        // Rows 0 to 3 have parity on parts 3, 2, 1 and 0: part 0 gets one run of zeroes, or three of data.
        let place = Range::new(CHUNK, 512);
        faults[0].inject(cannot_write(place));
        write(&array, Range::new(3 * CHUNK, 9 * CHUNK), 2)
            .await
            .unwrap();
        assert_eq!(bad(&disks[0]).await, [Range::new(CHUNK, CHUNK)]);
        assert_eq!(array.status().working, 4);
    });
}

#[test]
fn places_that_the_others_cannot_make_up_for_are_not_logged_and_the_write_fails() {
    block_on(async {
        let recipe = five();
        let (disks, faults, failing) = faulty(&recipe);
        let array = recipe.open(&failing).await;
        write(&array, ROW, 1).await.unwrap();
        let place = Range::new(0, CHUNK);
        faults[0].inject(cannot_write(place));
        faults[1].inject(cannot_write(place));
        let error = write(&array, ROW, 2).await.unwrap_err();
        assert_eq!(error.errno, Errno::Io);
        assert_eq!(array.status().working, 4);
        let logged = [bad(&disks[0]).await, bad(&disks[1]).await].concat();
        assert_eq!(logged.len(), 1, "one is made up for: {logged:?}");
        // In different rows each has the others.
        let other = Range::new(4 * CHUNK, CHUNK);
        faults[1].heal();
        faults[1].inject(cannot_write(other));
        write(&array, ROW, 3).await.unwrap();
        let whole = Range::new(0, 15 * CHUNK);
        write(&array, whole, 4).await.unwrap();
        assert_eq!(read(&array, whole).await, pattern(4, whole));
        assert_eq!(array.status().working, 4);
        // Nor does a member fail at a place that another one lacks.
        let full = Fault::new(Effect::Fail(Errno::NoSpace));
        faults[3].inject(full.on(Operation::Write).at(below(place)));
        write(&array, ROW, 5).await.unwrap_err();
        assert_eq!(array.status().working, 4);
    });
}

#[test]
fn without_a_log_and_where_the_member_cannot_write_it_the_member_fails() {
    for recipe in [
        five(),
        Recipe {
            log: false,
            ..five()
        },
    ] {
        block_on(async {
            let (disks, faults, failing) = faulty(&recipe);
            let array = recipe.open(&failing).await;
            write(&array, ROW, 1).await.unwrap();
            match recipe.log {
                // Nothing can be written to it.
                true => faults[1].inject(Fault::new(Effect::Fail(Errno::Io)).on(Operation::Write)),
                false => faults[1].inject(cannot_write(Range::new(0, CHUNK))),
            }
            write(&array, ROW, 2).await.unwrap();
            assert_eq!(array.status().working, 3);
            assert_eq!(superblock(&disks[0]).await.roles[1], Role::Faulty);
            assert_eq!(read(&array, ROW).await, pattern(2, ROW));
        });
    }
}

#[test]
fn a_durable_write_that_fails_once_fails_the_member_and_one_that_never_works_is_logged() {
    for recipe in [
        five(),
        Recipe {
            log: true,
            ..Recipe::mirror(2)
        },
    ] {
        block_on(async {
            let (disks, faults, failing) = faulty(&recipe);
            let array = recipe.open(&failing).await;
            let first = Range::new(0, CHUNK);
            write(&array, first, 1).await.unwrap();
            let parts = array.status().working;
            faults[0].inject(cannot_write(first));
            write_durably(&*array, first, 2).await.unwrap();
            assert_eq!(array.status().working, parts);
            assert_eq!(bad(&disks[0]).await, [first]);
            faults[0].heal();
            // What was not durable may be any of it: what is written a second time says nothing.
            faults[0].inject(cannot_write(first).times(1));
            write_durably(&*array, first, 3).await.unwrap();
            assert_eq!(array.status().working, parts - 1);
            let is_failed = |member: &MemberStatus| {
                member.name == name(0) && member.state == MemberState::Failed
            };
            assert!(array.status().members.iter().any(is_failed));
            assert_eq!(read(&array, first).await, pattern(3, first));
        });
    }
}

#[test]
fn a_repair_writes_noted_blocks_and_clears_them_behind_a_flush() {
    for recipe in recipes() {
        for which in [1, 3] {
            block_on(async {
                let (disks, faults, failing) = faulty(&recipe);
                let (recorders, journal) = recorded(&failing);
                let array = recipe.open(&recorders).await;
                write(&array, ROW, 1).await.unwrap();
                let place = Range::new(0, CHUNK);
                faults[which].inject(cannot_write(place));
                write(&array, ROW, 2).await.unwrap();
                assert_eq!(bad(&disks[which]).await, [place]);
                let rows = Range::new(0, 4 * CHUNK);
                // It still cannot be written: no member fails for that.
                let checked = check_rows(&array, rows, true).await.unwrap();
                assert_eq!(
                    (checked.rewritten, array.status().working),
                    (0, recipe.parts)
                );
                assert_eq!(bad(&disks[which]).await, [place]);
                faults[which].heal();
                heard(&journal);
                let checked = check_rows(&array, rows, true).await.unwrap();
                assert_eq!(checked.rewritten, CHUNK, "{recipe:?}, member {which}");
                assert_eq!(bad(&disks[which]).await, []);
                let all = heard(&journal);
                let of = |operation, at: u64, done| {
                    let is_it = move |heard: &Heard| {
                        let is_at = heard.range.is_none_or(|range| range.offset == at);
                        let is_same = heard.member == which && heard.done == done;
                        is_same && heard.operation == operation && is_at
                    };
                    all.iter().position(is_it).unwrap()
                };
                let written = of(Operation::Write, DATA, true);
                let flushed = of(Operation::Flush, 0, true);
                let logged = of(Operation::Write, LOG, false);
                assert!(written < flushed && flushed < logged, "{all:?}");
                // All members are read now, and fit.
                let checked = check_rows(&array, rows, false).await.unwrap();
                assert_eq!((checked.differ, checked.lost), (Vec::new(), Vec::new()));
                assert_eq!(read(&array, ROW).await, pattern(2, ROW));
                array.stop().await.unwrap();
            });
        }
    }
}

#[test]
fn blocks_that_the_others_cannot_make_up_for_stay_noted_and_are_not_written() {
    block_on(async {
        let recipe = five();
        let (disks, _faults, failing) = faulty(&recipe);
        let (recorders, journal) = recorded(&failing);
        let array = recipe.open(&recorders).await;
        write(&array, ROW, 1).await.unwrap();
        // A datum and the parity of the same columns, as a reshape leaves them.
        let place = Range::new(0, CHUNK);
        for member in [0, 3] {
            assert!(array.lock().state.log_bad(SlotId(member), &[place]));
        }
        array.flush().await.unwrap();
        heard(&journal);
        let checked = check_rows(&array, Range::new(0, 4 * CHUNK), true)
            .await
            .unwrap();
        assert_eq!(checked.rewritten, 0);
        let is_data = |heard: &Heard| {
            let place = heard.range.is_some_and(|range| range.offset >= DATA);
            place && heard.operation == Operation::Write
        };
        assert!(!heard(&journal).iter().any(is_data));
        assert_eq!(bad(&disks[0]).await, [place]);
        assert_eq!(bad(&disks[3]).await, [place]);
    });
}
