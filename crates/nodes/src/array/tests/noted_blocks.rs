//! Bad blocks that members note: a repair writes them again, from the other members, and a check does not.

use std::sync::Arc;

use block::{Errno, Node, Operation, Range};
use testkit::{Effect, Fault, FaultDisk, block_on, pattern};

use super::super::format::Version;
use super::super::redundant::tests::kit::{DATA, DISK, Recipe, bad, unbounded};
use super::super::{Array, ConsistencyChoice, Scrubbed, SyncKind, open};
use super::open::candidates;
use super::policy::{mem_disks, read};
use super::reshape::write;
use super::unreadable::{CHUNK, Five, KIB, LOST, UNIT, whole};

async fn scrub(array: &Array, kind: SyncKind) -> Scrubbed {
    array.scrub(kind).expect("nothing else is under way");
    array.by_hand().work().await.expect("members can be read");
    let scrubbed = array.status().scrubbed.expect("it was scrubbed");
    assert!(scrubbed.finished);
    scrubbed
}

/// What was wrong: what a rebuilt member had noted as bad stayed so also once the member that could not be read then was read again, and a
/// second fault in the row would have lost it.
#[test]
fn a_repair_writes_what_a_rebuilt_member_lacks_once_the_others_can_be_read() {
    block_on(async {
        let five = Five::new(5, Version::V1_2, ConsistencyChoice::Bitmap(Some(16 * KIB))).await;
        let array = five.open().await;
        write(&array, whole(&array), 1).await;
        array.fail("d").await.unwrap();
        five.spoil();
        array.by_hand().work().await.unwrap();
        assert_eq!(five.bad(4).await, [LOST]);
        // It cannot be computed yet.
        assert_eq!(scrub(&array, SyncKind::Repair).await.rewritten, 0);
        assert_eq!(five.bad(4).await, [LOST]);
        five.faults.heal();
        assert_eq!(scrub(&array, SyncKind::Check).await.rewritten, 0);
        assert_eq!(five.bad(4).await, [LOST]);
        let scrubbed = scrub(&array, SyncKind::Repair).await;
        assert_eq!((scrubbed.rewritten, scrubbed.mismatches), (UNIT, 0));
        // Durably: the power is cut.
        assert_eq!(five.bad(4).await, []);
        drop(array);
        let array = five.open().await;
        array.by_hand().work().await.unwrap();
        // Another member is lost, and this one is read.
        array.fail("a").await.unwrap();
        let row = Range::new((9 * 3) * CHUNK, 3 * CHUNK);
        assert!(read(&array, row).await == pattern(1, row));
        array.stop().await.unwrap();
    });
}

/// The same of a mirror: what could not be written then stays noted as long as it cannot be.
#[test]
fn a_repair_writes_what_a_mirror_has_on_one_side_alone() {
    block_on(async {
        let recipe = Recipe {
            log: true,
            ..Recipe::mirror(2)
        };
        let disks = mem_disks(2, DISK);
        recipe.make(&disks).await;
        let faults = FaultDisk::new(disks[0].clone(), 1, Vec::new());
        let failing = [faults.clone() as Node, disks[1].clone()];
        let array: Arc<Array> = open(candidates(&failing), unbounded()).await.unwrap();
        let (range, place) = (Range::new(0, 32 * KIB), Range::new(8 * KIB, UNIT));
        let below = Range::new(DATA + place.offset, place.len);
        let cannot = Fault::new(Effect::Fail(Errno::Io)).on(Operation::Write);
        faults.inject(cannot.at(below));
        write(&array, range, 1).await;
        assert_eq!(bad(&disks[0]).await, [place]);
        assert_eq!(scrub(&array, SyncKind::Repair).await.rewritten, 0);
        assert_eq!(bad(&disks[0]).await, [place]);
        assert_eq!(array.status().working, 2);
        faults.heal();
        assert_eq!(scrub(&array, SyncKind::Check).await.rewritten, 0);
        assert_eq!(bad(&disks[0]).await, [place]);
        assert_eq!(scrub(&array, SyncKind::Repair).await.rewritten, UNIT);
        assert_eq!(bad(&disks[0]).await, []);
        let found = disks[0].read(below).await.unwrap().concat();
        let at = Range::new(0, place.offset).len_usize();
        assert!(found == pattern(1, range)[at..][..place.len_usize()]);
        array.stop().await.unwrap();
    });
}
