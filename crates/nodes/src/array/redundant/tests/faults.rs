//! Members that fail, and what of it others know before any request is answered.

use std::sync::Arc;

use block::{BlockDevice, Errno, Node, Operation, Range, WriteFlags};
use testkit::{Effect, Fault, FaultDisk, block_on, pattern};

use super::disks;
use super::kit::{
    BITMAP, DATA, Heard, MEMBER, Recipe, SUPERBLOCK, bits, heard, name, open, options, read,
    recorded, superblock, try_open, write,
};
use crate::array::format::Role;
use crate::array::redundant::RedundantArray;
use crate::array::{ArrayEvent, ArrayOptions, MemberState};

const FIRST: Range = Range::new(0, 4096);

/// Disks of which one can be made to fail.
fn with_faults(below: &[Node], which: usize) -> (Vec<Node>, Arc<FaultDisk>) {
    let faults = FaultDisk::new(below[which].clone(), 1, Vec::new());
    let mut disks = below.to_vec();
    disks[which] = faults.clone();
    (disks, faults)
}

fn fail(operation: Operation) -> Fault {
    Fault::new(Effect::Fail(Errno::Io)).on(operation)
}

fn states(mirror: &RedundantArray) -> Vec<MemberState> {
    let members = mirror.status().members;
    members.iter().map(|member| member.state).collect()
}

#[test]
fn what_each_copy_lacks_in_another_place_is_read_of_the_others() {
    for recipe in [Recipe::mirror(2), Recipe::raid10(0x102, 2)] {
        block_on(async {
            let (disks, first) = with_faults(&disks(2), 0);
            let (disks, second) = with_faults(&disks, 1);
            let recipe = Recipe {
                log: true,
                ..recipe
            };
            let mirror = recipe.open(&disks).await;
            let all = Range::new(0, 60 << 10);
            write(&mirror, all, 1).await.unwrap();
            let bad = |faults: &FaultDisk, at: u64| {
                faults.inject(fail(Operation::Read).at(Range::new(DATA + at, 512)));
            };
            bad(&first, 5120);
            bad(&first, 50 << 10);
            bad(&second, 20 << 10);
            assert!(read(&mirror, all).await == pattern(1, all));
            // What no copy has is an error, and that alone.
            bad(&second, 5632);
            let lost = Range::new(4096, 4096);
            mirror.read(lost).await.unwrap_err();
            mirror.read(all).await.unwrap_err();
            let rest = Range::new(8192, 52 << 10);
            assert!(read(&mirror, rest).await == pattern(1, rest));
        });
    }
}

#[test]
fn a_failed_member_is_recorded_before_the_write_is_acknowledged() {
    for operation in [Operation::Write, Operation::Flush] {
        block_on(async {
            let below = disks(2);
            let (failing, faults) = with_faults(&below, 1);
            let (disks, journal) = recorded(&failing);
            let mirror = Recipe::mirror(2).open(&disks).await;
            let mut events = mirror.events();
            write(&mirror, FIRST, 1).await.unwrap();
            heard(&journal);
            faults.inject(fail(operation));
            if operation == Operation::Write {
                write(&mirror, FIRST, 2).await.unwrap();
            } else {
                mirror.flush().await.unwrap();
            }
            let all = heard(&journal);
            let told = all.last().unwrap();
            assert!(told.done && told.is_superblock() && told.fua, "{told:?}");
            assert_eq!(told.member, 0);
            let survivor = superblock(&disks[0]).await;
            assert_eq!(survivor.events, 12);
            assert_eq!(survivor.roles[..2], [Role::Active(0), Role::Faulty]);
            faults.heal();
            // The failed one is not touched any more.
            assert_eq!(superblock(&disks[1]).await.events, 11);
            assert_eq!(superblock(&disks[1]).await.role, Role::Active(1));
            heard(&journal);
            write(&mirror, FIRST, 3).await.unwrap();
            assert!(heard(&journal).iter().all(|heard| heard.member == 0));
            assert_eq!(read(&mirror, FIRST).await, pattern(3, FIRST));
            let Ok(ArrayEvent::Fail { member, .. }) = events.try_recv() else {
                panic!("nobody was told");
            };
            assert_eq!(member, name(1));
            assert_eq!(events.try_recv().unwrap(), ArrayEvent::DegradedArray);
        });
    }
}

#[test]
fn a_member_that_does_not_take_the_bitmap_or_its_superblock_fails_before_data_is_acknowledged() {
    for at in [BITMAP, SUPERBLOCK] {
        block_on(async {
            let below = disks(3);
            let (disks, faults) = with_faults(&below, 0);
            let mirror = Recipe::mirror(3).open(&disks).await;
            faults.inject(fail(Operation::Write).at(Range::new(at, 512)));
            write(&mirror, FIRST, 1).await.unwrap();
            let survivor = superblock(&disks[1]).await;
            assert_eq!(survivor.events, 12);
            assert_eq!(survivor.roles[0], Role::Faulty);
            assert_eq!(superblock(&disks[2]).await.events, 12);
            assert!(superblock(&disks[0]).await.events < 12);
            assert_eq!(mirror.status().working, 2);
            // Only the survivors' bitmaps have what it lacks.
            assert_eq!(bits(&disks[1]).await.1, [0]);
            assert_eq!(bits(&disks[1]).await.0.events_cleared, 10);
        });
    }
}

#[test]
fn the_last_member_is_never_failed() {
    block_on(async {
        let below = disks(2);
        let (disks, faults) = with_faults(&below, 0);
        let mirror = Recipe::mirror(2).open(&disks).await;
        write(&mirror, FIRST, 1).await.unwrap();
        mirror.fail_member(&name(1)).await.unwrap();
        let refused = mirror.fail_member(&name(0)).await.unwrap_err().to_string();
        assert!(refused.contains("m0 is the last member"), "{refused}");
        faults.inject(fail(Operation::Write).times(1));
        let error = write(&mirror, FIRST, 2).await.unwrap_err();
        assert_eq!((error.errno, error.range), (Errno::Io, Some(FIRST)));
        write(&mirror, FIRST, 3).await.unwrap();
        assert_eq!(states(&mirror)[0], MemberState::InSync);
        faults.inject(fail(Operation::Read).times(1));
        assert!(mirror.read(FIRST).await.is_err());
        assert_eq!(read(&mirror, FIRST).await, pattern(3, FIRST));
        faults.inject(fail(Operation::Flush).times(1));
        assert!(mirror.flush().await.is_err());
        // It never promises again what it could not keep.
        assert!(mirror.flush().await.is_err());
        assert_eq!(states(&mirror)[0], MemberState::InSync);
    });
}

#[test]
fn a_write_that_fails_everywhere_fails_no_member_and_is_read_from_the_first_until_it_is_resynced() {
    block_on(async {
        let below = disks(2);
        let full = Fault::new(Effect::Tear(Errno::NoSpace));
        let full = full.on(Operation::Write).at(Range::new(DATA, MEMBER));
        let faulty: Vec<_> = (0..2)
            .map(|n| FaultDisk::new(below[n].clone(), 40 + n as u64, Vec::new()))
            .collect();
        let disks: Vec<Node> = faulty.iter().map(|disk| disk.clone() as Node).collect();
        let mirror = Recipe::mirror(2).open(&disks).await;
        write(&mirror, FIRST, 1).await.unwrap();
        faulty.iter().for_each(|disk| disk.inject(full.clone()));
        let error = write(&mirror, FIRST, 2).await.unwrap_err();
        assert_eq!(error.errno, Errno::NoSpace);
        assert_eq!(mirror.status().working, 2);
        assert_eq!(mirror.needed(0), Some(FIRST));
        faulty.iter().for_each(|disk| disk.heal());
        let first = below[0]
            .read(Range::new(DATA, 4096))
            .await
            .unwrap()
            .concat();
        assert_eq!(read(&mirror, FIRST).await, first);
        mirror.synced(FIRST);
        assert_eq!(mirror.needed(0), None);
    });
}

#[test]
fn while_a_slot_is_empty_bits_stay_and_so_does_the_mark_for_members_that_are_re_added() {
    block_on(async {
        let disks = disks(2);
        let mirror = Recipe::mirror(2).open(&disks).await;
        write(&mirror, FIRST, 1).await.unwrap();
        mirror.mark_clean().await.unwrap();
        mirror.fail_member(&name(1)).await.unwrap();
        write(&mirror, Range::new(16384, 4096), 2).await.unwrap();
        for _ in 0..4 {
            mirror.sweep().await.unwrap();
        }
        mirror.mark_clean().await.unwrap();
        let (header, set) = bits(&disks[0]).await;
        assert_eq!(set, [0, 4]);
        assert_eq!(header.events_cleared, 11);
        assert_eq!(superblock(&disks[0]).await.events, header.events);
        // Also at the next start.
        mirror.stop().await.unwrap();
        drop(mirror);
        let mirror = open(&disks[..1]).await;
        write(&mirror, FIRST, 3).await.unwrap();
        for _ in 0..4 {
            mirror.sweep().await.unwrap();
        }
        mirror.stop().await.unwrap();
        let (header, set) = bits(&disks[0]).await;
        assert_eq!((header.events_cleared, set), (11, vec![0, 4]));
        // The one that left is older than the array, and not older than that.
        let left = superblock(&disks[1]).await;
        assert!((header.events_cleared..header.events).contains(&left.events));
    });
}

#[test]
fn what_cannot_be_read_is_read_elsewhere_and_rewritten() {
    block_on(async {
        let below = disks(2);
        let (failing, faults) = with_faults(&below, 0);
        let (disks, journal) = recorded(&failing);
        let mirror = Recipe::mirror(2).open(&disks).await;
        write(&mirror, FIRST, 1).await.unwrap();
        heard(&journal);
        faults.inject(fail(Operation::Read).times(1));
        assert_eq!(read(&mirror, FIRST).await, pattern(1, FIRST));
        let all = heard(&journal);
        assert!(all.iter().all(|heard| heard.member == 0 && heard.is_data()));
        assert_eq!(all.len(), 2);
        let status = mirror.status();
        assert_eq!(status.members[0].corrected, 1);
        assert_eq!(status.working, 2);
        mirror.mark_clean().await.unwrap();
        assert_eq!(superblock(&disks[0]).await.corrected, 1);
        // Where that fails, too, the member has failed.
        faults.inject(fail(Operation::Read));
        assert_eq!(read(&mirror, FIRST).await, pattern(1, FIRST));
        assert!(matches!(states(&mirror)[0], MemberState::Missing));
        assert_eq!(superblock(&below[1]).await.roles[0], Role::Faulty);
    });
}

#[test]
fn a_fail_fast_member_is_given_no_second_chance() {
    block_on(async {
        let below = disks(2);
        let (failing, faults) = with_faults(&below, 0);
        let (disks, journal) = recorded(&failing);
        let recipe = Recipe {
            fail_fast: true,
            ..Recipe::mirror(2)
        };
        let mirror = recipe.open(&disks).await;
        write(&mirror, FIRST, 1).await.unwrap();
        heard(&journal);
        faults.inject(fail(Operation::Read).times(1));
        assert_eq!(read(&mirror, FIRST).await, pattern(1, FIRST));
        assert!(!heard(&journal).iter().any(Heard::is_data));
        assert_eq!(superblock(&disks[1]).await.roles[0], Role::Faulty);
    });
}

#[test]
fn a_read_only_array_repairs_and_records_nothing() {
    block_on(async {
        let below = disks(2);
        let (failing, faults) = with_faults(&below, 0);
        let (disks, journal) = recorded(&failing);
        let mirror = Recipe::mirror(2).open(&disks).await;
        write(&mirror, FIRST, 1).await.unwrap();
        mirror.stop().await.unwrap();
        let read_only = ArrayOptions {
            read_only: true,
            ..options()
        };
        let mirror = try_open(&disks, &read_only).await.unwrap();
        heard(&journal);
        faults.inject(fail(Operation::Read));
        assert_eq!(read(&mirror, FIRST).await, pattern(1, FIRST));
        let refused = write(&mirror, FIRST, 2).await.unwrap_err();
        assert_eq!(refused.errno, Errno::NotPermitted);
        mirror.flush().await.unwrap();
        mirror.settle().await.unwrap();
        assert!(mirror.fail_member(&name(0)).await.is_err());
        mirror.stop().await.unwrap();
        assert!(heard(&journal).is_empty());
        assert_eq!(mirror.status().working, 2);
    });
}

#[test]
fn raid10_continues_until_a_chunk_has_no_member() {
    block_on(async {
        let disks = disks(4);
        let mirror = Recipe::raid10(0x102, 4).open(&disks).await;
        let all = Range::new(0, 2 * MEMBER);
        write(&mirror, all, 1).await.unwrap();
        mirror.fail_member(&name(0)).await.unwrap();
        mirror.fail_member(&name(3)).await.unwrap();
        for last in [1, 2] {
            assert!(mirror.fail_member(&name(last)).await.is_err());
        }
        assert_eq!(read(&mirror, all).await, pattern(1, all));
        write(&mirror, all, 2).await.unwrap();
        mirror.stop().await.unwrap();
        let mirror = open(&disks[1..3]).await;
        assert_eq!(read(&mirror, all).await, pattern(2, all));
    });
}

#[test]
fn a_member_that_is_write_mostly_is_read_only_in_need() {
    block_on(async {
        let below = disks(2);
        let (disks, faults) = with_faults(&below, 0);
        let recipe = Recipe {
            write_mostly: Some(0),
            ..Recipe::mirror(2)
        };
        let mirror = recipe.open(&disks).await;
        write(&mirror, FIRST, 1).await.unwrap();
        faults.inject(Fault::new(Effect::Fail(Errno::Io)).on(Operation::Read));
        let hits = faults.hits();
        read(&mirror, FIRST).await;
        assert_eq!(faults.hits(), hits);
        faults.heal();
        mirror.fail_member(&name(1)).await.unwrap();
        assert_eq!(read(&mirror, FIRST).await, pattern(1, FIRST));
    });
}

#[test]
fn zeroing_that_a_member_cannot_do_is_written() {
    block_on(async {
        let below = disks(2);
        let (disks, faults) = with_faults(&below, 1);
        let mirror = Recipe::mirror(2).open(&disks).await;
        write(&mirror, FIRST, 1).await.unwrap();
        let cannot = Fault::new(Effect::Fail(Errno::NotSupported));
        faults.inject(cannot.clone().on(Operation::WriteZeroes));
        faults.inject(cannot.on(Operation::Trim));
        let flags = WriteFlags::FAST_ZERO;
        mirror.write_zeroes(FIRST, flags).await.unwrap();
        mirror.trim(Range::new(8192, 4096)).await.unwrap();
        super::kit::assert_alike(&below).await;
        assert_eq!(read(&mirror, FIRST).await, [0; 4096]);
        assert_eq!(mirror.status().working, 2);
    });
}

#[test]
fn a_failed_member_can_be_forgotten_and_a_working_one_cannot() {
    block_on(async {
        let disks = disks(3);
        let mirror = Recipe::mirror(2).open(&disks).await;
        assert_eq!(states(&mirror)[2], MemberState::Spare);
        assert!(mirror.remove_member(&name(0)).await.is_err());
        assert!(mirror.remove_member("nobody").await.is_err());
        mirror.remove_member(&name(2)).await.unwrap();
        mirror.fail_member(&name(1)).await.unwrap();
        assert!(mirror.fail_member(&name(1)).await.is_err());
        mirror.remove_member(&name(1)).await.unwrap();
        assert_eq!(states(&mirror), [MemberState::InSync, MemberState::Missing]);
        let told = superblock(&disks[0]).await;
        assert_eq!(
            told.roles[..3],
            [Role::Active(0), Role::Faulty, Role::Faulty]
        );
    });
}

/// md's `max_corr_read_errors`: one that is repaired again and again is dying, and says so.
#[test]
fn a_member_whose_read_errors_do_not_end_has_failed() {
    block_on(async {
        let below = disks(2);
        let (disks, faults) = with_faults(&below, 0);
        let mirror = Recipe::mirror(2).open(&disks).await;
        write(&mirror, FIRST, 1).await.unwrap();
        let mut events = mirror.events();
        for error in 1..=20 {
            faults.inject(fail(Operation::Read).times(1));
            assert_eq!(read(&mirror, FIRST).await, pattern(1, FIRST));
            assert_eq!(mirror.status().members[0].corrected, error);
        }
        assert!(events.try_recv().is_err());
        faults.inject(fail(Operation::Read).times(1));
        assert_eq!(read(&mirror, FIRST).await, pattern(1, FIRST));
        assert_eq!(states(&mirror)[0], MemberState::Missing);
        assert_eq!(superblock(&below[1]).await.roles[0], Role::Faulty);
        let Ok(ArrayEvent::Fail { member, why }) = events.try_recv() else {
            panic!("nobody was told");
        };
        assert_eq!(member, name(0));
        assert!(why.contains("more than 20 read errors"), "{why}");
        // The holder of the last copy is not failed for it.
        drop(mirror);
        let mirror = open(&below[1..]).await;
        assert_eq!(read(&mirror, FIRST).await, pattern(1, FIRST));
    });
}
