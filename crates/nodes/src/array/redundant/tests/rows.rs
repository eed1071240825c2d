//! Arrays with parity that are written: against the model, against the tables of layouts, and in what order members get what.

use std::sync::Arc;

use block::{BlockDevice, Errno, IoError, Node, Operation, Range, WriteFlags};
use futures_util::future::join_all;
use proptest::prelude::*;
use testkit::{
    Effect, Fault, FaultDisk, HeldDisk, OpSpace, block_on, check_against_model, check_crashes,
    check_dropped_futures, check_in_batches, first_difference, one_of_each, ops, pattern,
};

use super::disks;
use super::kit::{
    DATA, DISK, Heard, MEMBER, Recipe, bits, heard, open, options, put, read, recorded, superblock,
    try_open, unbounded, write,
};
use crate::array::format::{Level, Role};
use crate::array::open::assembled;
use crate::array::redundant::RedundantArray;
use crate::array::sync::SyncManager;
use crate::array::{ArrayOptions, Candidate, MemberState};

const CHUNK: u64 = 4096;
const FIRST: Range = Range::new(0, CHUNK);

/// Every kind of layout, and how many disks it takes.
fn recipes() -> Vec<Recipe> {
    vec![
        Recipe::parity(Level::Raid4, 0, 3),
        Recipe::parity(Level::Raid5, 0, 4),
        Recipe::parity(Level::Raid5, 2, 3),
        Recipe::parity(Level::Raid5, 2, 6).without_bitmap(),
        Recipe::parity(Level::Raid5, 3, 5),
        Recipe::parity(Level::Raid6, 2, 4),
        Recipe::parity(Level::Raid6, 8, 5).without_bitmap(),
        Recipe::parity(Level::Raid6, 10, 6),
        Recipe::parity(Level::Raid6, 18, 5),
    ]
}

fn five() -> Recipe {
    Recipe::parity(Level::Raid5, 2, 4)
}

fn members(recipe: &Recipe) -> usize {
    usize::try_from(recipe.parts).unwrap()
}

/// Bytes that every kind has.
const SPACE: OpSpace = OpSpace {
    size: 2 * MEMBER,
    block_size: 512,
    len_max: 40 << 10,
};

/// Each member holds what the tables say of what the array holds.
async fn assert_fits(recipe: &Recipe, array: &RedundantArray, disks: &[Node]) {
    let data = read(array, Range::new(0, array.geometry().size)).await;
    assert_members(recipe, data, disks, &[]).await;
}

async fn assert_members(recipe: &Recipe, data: Vec<u8>, disks: &[Node], without: &[usize]) {
    let ideal = recipe.sample(data).members();
    for (part, (ideal, disk)) in ideal.iter().zip(disks).enumerate() {
        let held = disk.read(Range::new(DATA, MEMBER)).await.unwrap().concat();
        let differs = first_difference(ideal, &held);
        assert!(
            differs.is_none() || without.contains(&part),
            "part {part}, byte {differs:?}"
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn every_kind_keeps_what_is_written_and_parity_fits(
        list in ops(SPACE, 0..40),
        which in 0..9_usize,
    ) {
        let recipe = recipes().swap_remove(which);
        let disks = disks(members(&recipe));
        block_on(async {
            let array = recipe.open(&disks).await;
            check_against_model(&*array, &list).await.unwrap();
            assert_fits(&recipe, &array, &disks).await;
            array.stop().await.unwrap();
        });
    }

    #[test]
    fn every_kind_keeps_what_is_written_at_once(
        list in ops(SPACE, 0..60),
        which in 0..9_usize,
        width in 1..12_usize,
        lost in 0..3_usize,
    ) {
        let recipe = recipes().swap_remove(which);
        let mut disks = disks(members(&recipe));
        block_on(async {
            recipe.make(&disks).await;
            if lost < members(&recipe) && lost > 0 {
                disks.remove(lost);
            }
            let array = open(&disks).await;
            check_in_batches(&*array, &list, width).await.unwrap();
            array.stop().await.unwrap();
        });
    }

    #[test]
    fn what_was_flushed_is_there_after_a_crash(
        list in ops(SPACE, 0..24),
        which in 0..9_usize,
        seed: u64,
    ) {
        let recipe = recipes().swap_remove(which);
        let sizes = vec![DISK; members(&recipe)];
        let open = |disks: Vec<Node>| open_or_make(recipe.clone(), disks);
        block_on(check_crashes(open, &sizes, &list, seed)).unwrap();
    }
}

/// A disk of zeroes is new; else what is there is opened.
async fn open_or_make(recipe: Recipe, disks: Vec<Node>) -> Result<Node, IoError> {
    let head = disks[0].read(Range::new(4096, 4)).await?.concat();
    if head == [0; 4] {
        recipe.make(&disks).await;
    }
    Ok(open(&disks).await)
}

#[test]
fn dropped_futures_leave_nothing_that_lands_late() {
    for recipe in recipes() {
        let sizes = vec![DISK; members(&recipe)];
        let open = |disks: Vec<Node>| open_or_make(recipe.clone(), disks);
        let list = one_of_each(Range::new(4096, 8192), MEMBER);
        block_on(check_dropped_futures(open, &sizes, &list)).unwrap();
    }
}

#[test]
fn a_dropped_write_leaves_no_row_half_written() {
    block_on(async {
        let below = disks(4);
        let held = HeldDisk::new(below[1].clone());
        held.hold(false);
        let mut disks = below.clone();
        disks[1] = held.clone() as Node;
        let array = five().open(&disks).await;
        write(&array, Range::new(0, 8 * CHUNK), 1).await.unwrap();
        held.hold(true);
        {
            let mut request = std::pin::pin!(write(&array, Range::new(512, 6 * CHUNK), 2));
            assert!(!crate::test_runtime::is_ready(request.as_mut()).await);
        }
        let settled = async {
            array.settle().await.unwrap();
            held.hold(false);
        };
        let released = async {
            loop {
                held.release_all().await;
                tokio::task::yield_now().await;
            }
        };
        let (settled, released) = (std::pin::pin!(settled), std::pin::pin!(released));
        futures_util::future::select(settled, released).await;
        assert_fits(&five(), &array, &below).await;
    });
}

#[test]
fn members_know_of_the_bit_and_that_the_array_is_dirty_before_they_get_data_or_parity() {
    block_on(async {
        let below = disks(4);
        five().make(&below).await;
        let (disks, journal) = recorded(&below);
        let array = open(&disks).await;
        write(&array, Range::new(CHUNK, 512), 1).await.unwrap();
        let all = heard(&journal);
        let first = all.iter().position(Heard::is_data).unwrap();
        for is in [Heard::is_bitmap, Heard::is_superblock] {
            let done = all[..first].iter().filter(|heard| heard.done && is(heard));
            assert_eq!(done.count(), 4, "each member has it durably");
        }
        // One chunk, and parity.
        let data = all.iter().filter(|heard| !heard.done && heard.is_data());
        assert_eq!(data.count(), 2);
        assert_eq!(superblock(&disks[0]).await.synced_to, Some(0));
        assert_eq!(bits(&disks[3]).await.1, [0]);
        array.stop().await.unwrap();
        assert_eq!(superblock(&disks[0]).await.synced_to, None);
        assert_eq!(bits(&disks[3]).await.1, [0_usize; 0]);
    });
}

#[test]
fn what_arrives_together_is_written_as_full_stripes() {
    block_on(async {
        let below = disks(4);
        five().make(&below).await;
        let (disks, journal) = recorded(&below);
        let array = open(&disks).await;
        write(&array, FIRST, 9).await.unwrap();
        heard(&journal);
        // 24 requests of 2 KiB: four rows.
        let pieces = (0..24).map(|n| Range::new(n * 2048, 2048));
        let writes = pieces.map(|piece| {
            let array = &array;
            async move { write(array, piece, 7).await }
        });
        for written in join_all(writes).await {
            written.unwrap();
        }
        let all = heard(&journal);
        // Each byte of parity once: pieces of rows would have written it again and again.
        for member in 0..4 {
            let own = all.iter().filter(|heard| heard.member == member);
            let data = own.filter(|heard| !heard.done && heard.is_data());
            let bytes: u64 = data.filter_map(|heard| heard.range).map(|at| at.len).sum();
            assert_eq!(bytes, 4 * CHUNK, "member {member}");
        }
        assert_fits(&five(), &array, &below).await;
    });
}

#[test]
fn a_failed_member_is_recorded_before_a_row_is_acknowledged_and_parity_holds_what_it_lacks() {
    for (operation, which) in [
        (Operation::Write, 0),
        (Operation::Write, 3),
        (Operation::Flush, 1),
    ] {
        block_on(async {
            let below = disks(4);
            let faults = FaultDisk::new(below[which].clone(), 1, Vec::new());
            let mut failing = below.clone();
            failing[which] = faults.clone();
            let (disks, journal) = recorded(&failing);
            let array = five().open(&disks).await;
            let whole = Range::new(0, 6 * CHUNK);
            write(&array, whole, 1).await.unwrap();
            heard(&journal);
            faults.inject(Fault::new(Effect::Fail(Errno::Io)).on(operation));
            // Row 0 has its data on parts 0 to 2, and parity on part 3.
            match operation {
                Operation::Flush => array.flush().await.unwrap(),
                _ => write(&array, FIRST, 2).await.unwrap(),
            }
            let all = heard(&journal);
            let told = all.last().unwrap();
            assert!(told.done && told.is_superblock() && told.fua, "{told:?}");
            let other = usize::from(which == 0);
            assert_eq!(superblock(&disks[other]).await.roles[which], Role::Faulty);
            let mut expected = pattern(1, whole);
            if operation == Operation::Write {
                expected[..4096].copy_from_slice(&pattern(2, FIRST));
            }
            assert_eq!(read(&array, whole).await, expected);
            // And so it is for the next one that opens it, without that member.
            array.flush().await.unwrap();
            array.stop().await.unwrap();
            let mut left = below.clone();
            left.remove(which);
            assert_eq!(read(&*open(&left).await, whole).await, expected);
        });
    }
}

#[test]
fn a_write_that_a_member_refuses_where_none_can_be_spared_fails_and_its_parity_is_not_trusted() {
    block_on(async {
        let below = disks(4);
        five().make(&below).await;
        let faults = FaultDisk::new(below[1].clone(), 1, Vec::new());
        // Part 0 is missing.
        let disks = vec![faults.clone() as Node, below[2].clone(), below[3].clone()];
        let array = open(&disks).await;
        let second = Range::new(CHUNK, CHUNK);
        write(&array, second, 1).await.unwrap();
        faults.inject(Fault::new(Effect::Fail(Errno::Io)).on(Operation::Write));
        write(&array, second, 2).await.unwrap_err();
        faults.heal();
        let error = array.read(FIRST).await.unwrap_err().to_string();
        assert!(error.contains("parity cannot be trusted here"), "{error}");
        let error = array.write(
            FIRST,
            testkit::single(pattern(3, FIRST)),
            WriteFlags::empty(),
        );
        error.await.unwrap();
        // It is not marked clean, and refused from then on.
        array.stop().await.unwrap();
        let error = try_open(&disks, &options()).await.unwrap_err().to_string();
        assert!(
            error.contains("was being written when it stopped"),
            "{error}"
        );
    });
}

#[test]
fn after_an_unclean_end_parity_is_made_to_fit_where_bits_are_set_or_everywhere_without_a_bitmap() {
    for recipe in recipes() {
        block_on(async {
            let disks = disks(members(&recipe));
            let array = recipe.open(&disks).await;
            let whole = Range::new(0, array.geometry().size);
            write(&array, whole, 1).await.unwrap();
            array.flush().await.unwrap();
            // It ends here, dirty; and one row's parity was not written.
            drop(array);
            let torn = pattern(0x77, FIRST);
            for disk in disks.iter().rev().take(2) {
                put(disk, DATA + 3 * CHUNK, torn.clone()).await;
            }
            let array = open(&disks).await;
            assert!(array.needed(0).is_some());
            let manager = SyncManager::new(array.clone(), &unbounded());
            manager.work().await.unwrap();
            assert_eq!(array.needed(0), None);
            assert_fits(&recipe, &array, &disks).await;
            array.stop().await.unwrap();
            assert_eq!(superblock(&disks[0]).await.synced_to, None);
        });
    }
}

#[test]
fn a_dirty_degraded_array_is_refused_for_writing_and_can_be_read_by_force() {
    block_on(async {
        let disks = disks(4);
        let array = five().open(&disks).await;
        let whole = Range::new(0, 6 * CHUNK);
        write(&array, whole, 1).await.unwrap();
        array.flush().await.unwrap();
        drop(array);
        let left = disks[1..].to_vec();
        let error = try_open(&left, &options()).await.unwrap_err().to_string();
        assert!(
            error.contains("was being written when it stopped"),
            "{error}"
        );
        let forced = ArrayOptions {
            force_dirty_degraded: true,
            ..options()
        };
        let candidates = left.iter().map(|disk| Candidate::local("m", disk.clone()));
        let candidates = candidates.enumerate().map(|(n, candidate)| Candidate {
            name: format!("m{n}"),
            ..candidate
        });
        let assembly = assembled(candidates.collect(), &forced).await.unwrap();
        let array = crate::array::open_assembly(assembly, &forced)
            .await
            .unwrap();
        assert!(array.geometry().read_only);
        assert_eq!(array.read(whole).await.unwrap().concat(), pattern(1, whole));
    });
}

#[test]
fn what_cannot_be_read_is_computed_and_rewritten() {
    block_on(async {
        let below = disks(4);
        let faults = FaultDisk::new(below[0].clone(), 1, Vec::new());
        let mut disks = below.clone();
        disks[0] = faults.clone();
        let array = five().open(&disks).await;
        write(&array, Range::new(0, 6 * CHUNK), 1).await.unwrap();
        put(&below[0], DATA, vec![0xee; 4096]).await;
        // A user's read is tried again under the lock of the row; a write must know what stays.
        for (times, is_read) in [(2, true), (1, false)] {
            let bad = Fault::new(Effect::Fail(Errno::Io)).on(Operation::Read);
            faults.inject(bad.at(Range::new(DATA, 512)).times(times));
            match is_read {
                true => assert_eq!(read(&array, FIRST).await, pattern(1, FIRST)),
                false => {
                    let others = Range::new(CHUNK, 2 * CHUNK - 512);
                    write(&array, others, 2).await.unwrap();
                }
            }
            assert_eq!(array.status().members[0].state, MemberState::InSync);
        }
        assert_eq!(array.status().members[0].corrected, 2);
        assert_fits(&five(), &array, &below).await;
    });
}

#[test]
fn trims_and_zeroes_of_whole_rows_leave_parity_that_fits() {
    block_on(async {
        let below = disks(4);
        five().make(&below).await;
        let (disks, journal) = recorded(&below);
        let array = open(&disks).await;
        let whole = Range::new(0, 12 * CHUNK);
        write(&array, whole, 1).await.unwrap();
        heard(&journal);
        // Rows 1 and 2, and some of rows 0 and 3.
        let range = Range::new(2 * CHUNK, 8 * CHUNK);
        array
            .write_zeroes(range, WriteFlags::empty())
            .await
            .unwrap();
        let all = heard(&journal);
        let zeroed = all
            .iter()
            .filter(|heard| heard.operation == Operation::WriteZeroes);
        assert_eq!(
            zeroed.filter(|heard| !heard.done).count(),
            4,
            "one for each member"
        );
        assert_eq!(read(&array, range).await, vec![0; range.len_usize()]);
        assert_fits(&five(), &array, &below).await;
        write(&array, whole, 2).await.unwrap();
        if array.geometry().trim.any() {
            array.trim(range).await.unwrap();
            let rest = Range::new(2 * CHUNK, CHUNK);
            assert_eq!(read(&array, rest).await, pattern(2, rest), "no whole row");
            assert_fits(&five(), &array, &below).await;
        }
    });
}

#[test]
fn a_spare_takes_a_part_and_holds_what_was_computed() {
    for recipe in [five(), Recipe::parity(Level::Raid6, 2, 5)] {
        block_on(async {
            let all = disks(members(&recipe) + 1);
            recipe.make(&all).await;
            let array = open(&all).await;
            let whole = Range::new(0, array.geometry().size);
            write(&array, whole, 1).await.unwrap();
            array.fail_member("m1").await.unwrap();
            write(&array, Range::new(0, 5 * CHUNK), 2).await.unwrap();
            let manager = Arc::new(SyncManager::new(array.clone(), &unbounded()));
            manager.work().await.unwrap();
            assert_eq!(array.status().working, recipe.parts);
            let mut held = all.clone();
            held.swap_remove(1);
            assert_fits(&recipe, &array, &held).await;
            array.stop().await.unwrap();
        });
    }
}
