//! Tests of what is written when: recorded requests of all members.

use std::cell::Cell;
use std::sync::Arc;

use block::{BlockDevice, Node, Operation, Range, WriteFlags};
use testkit::{HeldDisk, block_on};

use super::super::RedundantArray;
use super::disks;
use super::kit::{DATA, Heard, Journal, Recipe, bits, heard, open, recorded, superblock, write};

const FIRST: Range = Range::new(0, 4096);
const SECOND: Range = Range::new(8192, 4096);

/// Where the first request of a kind was sent, and the last one of another was answered.
fn first(all: &[Heard], is: impl Fn(&Heard) -> bool) -> usize {
    let found = all.iter().position(|heard| !heard.done && is(heard));
    found.expect("there is one")
}

fn last_done(all: &[Heard], is: impl Fn(&Heard) -> bool) -> usize {
    let found = all.iter().rposition(|heard| heard.done && is(heard));
    found.expect("there is one")
}

fn count(all: &[Heard], is: impl Fn(&Heard) -> bool) -> usize {
    all.iter().filter(|heard| !heard.done && is(heard)).count()
}

/// A new mirror of so many members, which write down what they get from its opening on.
async fn mirror_of(members: u32) -> (Vec<Node>, Journal, Arc<RedundantArray>) {
    let below = disks(members as usize);
    Recipe::mirror(members).make(&below).await;
    let (disks, journal) = recorded(&below);
    let mirror = open(&disks).await;
    (disks, journal, mirror)
}

#[test]
fn nothing_is_written_before_the_first_change() {
    block_on(async {
        let (_, journal, mirror) = mirror_of(2).await;
        mirror.read(FIRST).await.unwrap();
        mirror.settle().await.unwrap();
        assert!(!mirror.sweep().await.unwrap());
        assert!(mirror.mark_clean().await.unwrap());
        mirror.stop().await.unwrap();
        let written = heard(&journal);
        let written: Vec<_> = written.iter().filter(|heard| !heard.is_flush()).collect();
        assert!(written.is_empty(), "{written:?}");
    });
}

#[test]
fn members_know_of_the_bit_and_then_that_the_array_is_dirty_before_they_get_data() {
    block_on(async {
        let (disks, journal, mirror) = mirror_of(2).await;
        write(&mirror, SECOND, 1).await.unwrap();
        let all = heard(&journal);
        assert!(last_done(&all, Heard::is_bitmap) < first(&all, Heard::is_superblock));
        assert!(last_done(&all, Heard::is_superblock) < first(&all, Heard::is_data));
        for is in [Heard::is_bitmap, Heard::is_superblock, Heard::is_data] {
            assert_eq!(count(&all, is), 2, "{all:?}");
        }
        let metadata = all.iter().filter(|heard| !heard.is_data());
        assert!(metadata.clone().all(|heard| heard.fua), "{all:?}");
        for disk in &disks {
            let told = superblock(disk).await;
            assert_eq!((told.events, told.synced_to), (11, Some(0)));
            let (header, set) = bits(disk).await;
            assert_eq!((header.events, set), (11, vec![2]));
        }
    });
}

#[test]
fn a_bit_is_durable_before_data_also_while_the_array_is_dirty() {
    block_on(async {
        let (disks, journal, mirror) = mirror_of(2).await;
        write(&mirror, FIRST, 1).await.unwrap();
        heard(&journal);
        write(&mirror, SECOND, 1).await.unwrap();
        let all = heard(&journal);
        assert!(last_done(&all, Heard::is_bitmap) < first(&all, Heard::is_data));
        assert_eq!(count(&all, Heard::is_superblock), 0);
        assert_eq!(superblock(&disks[0]).await.events, 11);
        assert_eq!(bits(&disks[1]).await.1, [0, 2]);
        // Again: nothing is to be committed.
        write(&mirror, SECOND, 2).await.unwrap();
        let all = heard(&journal);
        assert_eq!(count(&all, |_| true), 2, "{all:?}");
        assert!(all.iter().all(Heard::is_data));
    });
}

#[test]
fn a_clean_array_is_recorded_behind_a_flush_of_all_members_once_writes_have_ended() {
    block_on(async {
        let (disks, journal, mirror) = mirror_of(3).await;
        write(&mirror, FIRST, 1).await.unwrap();
        heard(&journal);
        assert!(!mirror.is_clean());
        assert!(mirror.mark_clean().await.unwrap());
        let all = heard(&journal);
        assert_eq!(count(&all, Heard::is_flush), 3);
        assert!(last_done(&all, Heard::is_flush) < first(&all, Heard::is_bitmap));
        assert!(last_done(&all, Heard::is_bitmap) < first(&all, Heard::is_superblock));
        let told = superblock(&disks[2]).await;
        assert_eq!((told.events, told.synced_to), (12, None));
        // The bit stays: it is cleared later.
        let (header, set) = bits(&disks[2]).await;
        assert_eq!(
            (header.events, header.events_cleared, set),
            (12, 11, vec![0])
        );
        // Nothing is to be committed again.
        assert!(mirror.mark_clean().await.unwrap());
        assert!(heard(&journal).is_empty());
        write(&mirror, FIRST, 2).await.unwrap();
        assert_eq!(superblock(&disks[0]).await.events, 13);
        assert_eq!(superblock(&disks[0]).await.synced_to, Some(0));
    });
}

#[test]
fn a_bit_is_cleared_behind_a_flush_after_two_idle_sweeps() {
    block_on(async {
        let (disks, journal, mirror) = mirror_of(2).await;
        write(&mirror, FIRST, 1).await.unwrap();
        write(&mirror, SECOND, 1).await.unwrap();
        heard(&journal);
        assert!(mirror.sweep().await.unwrap());
        write(&mirror, SECOND, 2).await.unwrap();
        heard(&journal);
        mirror.sweep().await.unwrap();
        let all = heard(&journal);
        assert!(last_done(&all, Heard::is_flush) < first(&all, Heard::is_bitmap));
        assert_eq!(bits(&disks[0]).await.1, [2]);
        mirror.sweep().await.unwrap();
        assert_eq!(bits(&disks[1]).await.1, [] as [usize; 0]);
        assert!(!mirror.sweep().await.unwrap());
        // And is set again.
        write(&mirror, FIRST, 3).await.unwrap();
        assert_eq!(bits(&disks[1]).await.1, [0]);
    });
}

#[test]
fn a_flush_reaches_all_members_and_fua_all_copies() {
    block_on(async {
        let (_, journal, mirror) = mirror_of(3).await;
        write(&mirror, FIRST, 1).await.unwrap();
        heard(&journal);
        mirror.flush().await.unwrap();
        let all = heard(&journal);
        assert_eq!(
            (count(&all, Heard::is_flush), count(&all, |_| true)),
            (3, 3)
        );
        let data = testkit::single(vec![9; 4096]);
        mirror.write(FIRST, data, WriteFlags::FUA).await.unwrap();
        let all = heard(&journal);
        assert_eq!(count(&all, |heard| heard.is_data() && heard.fua), 3);
    });
}

#[test]
fn zeroes_and_trims_go_to_all_members_behind_their_bits() {
    block_on(async {
        let (disks, journal, mirror) = mirror_of(2).await;
        let plain = WriteFlags::empty();
        mirror.write_zeroes(FIRST, plain).await.unwrap();
        mirror.trim(SECOND).await.unwrap();
        let all = heard(&journal);
        for (operation, range) in [(Operation::WriteZeroes, FIRST), (Operation::Trim, SECOND)] {
            let there = Range::new(DATA + range.offset, range.len);
            let is = |h: &Heard| h.operation == operation && h.range == Some(there);
            assert_eq!(count(&all, is), 2, "{operation}");
        }
        assert_eq!(bits(&disks[0]).await.1, [0, 2]);
    });
}

#[test]
fn many_writes_share_one_commit() {
    block_on(async {
        let below = disks(2);
        Recipe::mirror(2).make(&below).await;
        let held = HeldDisk::new(below[0].clone());
        held.hold(false);
        let slow = [held.clone() as Node, below[1].clone()];
        let (disks, journal) = recorded(&slow);
        let mirror = open(&disks).await;
        held.hold(true);
        let writes = (0..16).map(|n| write(&mirror, Range::new(n * 4096, 4096), 1));
        let writes = futures_util::future::try_join_all(writes);
        let done = Cell::new(false);
        let writes = async {
            writes.await.unwrap();
            done.set(true);
        };
        let release = async {
            while !done.get() {
                held.release_all().await;
                tokio::task::yield_now().await;
            }
        };
        futures_util::future::join(writes, release).await;
        let all = heard(&journal);
        assert_eq!(count(&all, Heard::is_superblock), 2);
        // The first one began before the others came.
        assert_eq!(count(&all, Heard::is_bitmap), 4);
        held.hold(false);
        assert_eq!(bits(&disks[0]).await.1.len(), 16);
    });
}
