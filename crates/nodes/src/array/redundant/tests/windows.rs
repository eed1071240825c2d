//! What work in the background relies on; and commits that were begun and cancelled.

use std::pin::pin;

use block::ExtentKind::{Data, Hole};
use block::{BlockDevice, Errno, Node, Operation, Range};
use testkit::{Effect, Fault, FaultDisk, HeldDisk, block_on, pattern};

use super::disks;
use super::kit::{
    Heard, MEMBER, Recipe, SUPERBLOCK, assert_alike, bits, heard, name, open, read, recorded,
    superblock, write,
};
use crate::array::MemberState;
use crate::array::format::{Role, features};
use crate::array::redundant::SlotId;
use crate::test_runtime::is_ready;

const FIRST: Range = Range::new(0, 4096);

#[test]
fn a_window_waits_for_changes_that_were_there_before_and_holds_later_ones() {
    block_on(async {
        let below = disks(2);
        let held = HeldDisk::new(below[1].clone());
        held.hold(false);
        let disks = [below[0].clone(), held.clone() as Node];
        let mirror = Recipe::mirror(2).open(&disks).await;
        write(&mirror, FIRST, 1).await.unwrap();
        held.hold(true);
        let mut before = pin!(write(&mirror, FIRST, 2));
        assert!(!is_ready(before.as_mut()).await);
        let mut window = pin!(mirror.lock_range(Range::new(0, MEMBER)));
        assert!(!is_ready(window.as_mut()).await);
        held.release_all().await;
        before.await.unwrap();
        let window = window.await.unwrap();
        held.hold(false);
        let mut later = pin!(write(&mirror, FIRST, 3));
        assert!(!is_ready(later.as_mut()).await);
        assert_eq!(
            mirror.try_write(FIRST, &[0; 4096]),
            block::TryIo::WouldBlock
        );
        assert_eq!(read(&mirror, FIRST).await, pattern(2, FIRST));
        drop(window);
        later.await.unwrap();
        assert_alike(&below).await;
    });
}

#[test]
fn a_commit_goes_on_with_the_next_one_who_needs_it() {
    block_on(async {
        let below = disks(2);
        Recipe::mirror(2).make(&below).await;
        let held = HeldDisk::new(below[1].clone());
        held.hold(false);
        let slow = [below[0].clone(), held.clone() as Node];
        let (disks, journal) = recorded(&slow);
        let mirror = open(&disks).await;
        held.hold(true);
        {
            let mut first = pin!(write(&mirror, FIRST, 1));
            assert!(!is_ready(first.as_mut()).await);
        }
        let mut second = pin!(write(&mirror, Range::new(8192, 4096), 2));
        assert!(!is_ready(second.as_mut()).await);
        held.hold(false);
        held.release_all().await;
        second.await.unwrap();
        let all = heard(&journal);
        let superblocks = all.iter().filter(|h| h.is_superblock() && h.done);
        assert_eq!(superblocks.count(), 2);
        assert_eq!(superblock(&disks[1]).await.events, 11);
        // The bit of the one that was cancelled is set, too, or is not: it wrote nothing.
        assert!(bits(&disks[1]).await.1.contains(&2));
        assert!(mirror.mark_clean().await.unwrap());
        let last = heard(&journal);
        assert!(last.iter().any(Heard::is_flush));
    });
}

#[test]
fn a_commit_that_the_last_member_does_not_take_is_tried_again_with_the_same_events() {
    block_on(async {
        let below = disks(1);
        let faults = FaultDisk::new(below[0].clone(), 1, Vec::new());
        let whole = disks(2);
        Recipe::mirror(2)
            .make(&[faults.clone() as Node, whole[1].clone()])
            .await;
        let mirror = open(&[faults.clone() as Node]).await;
        let fault = Fault::new(Effect::Fail(Errno::Io)).on(Operation::Write);
        faults.inject(fault.at(Range::new(SUPERBLOCK, 512)).times(1));
        assert!(write(&mirror, FIRST, 1).await.is_err());
        assert_eq!(read(&mirror, FIRST).await, [0; 4096]);
        write(&mirror, FIRST, 2).await.unwrap();
        // Two commits that were taken: an absent member may have seen the first one.
        assert_eq!(superblock(&below[0]).await.events, 12);
        assert_eq!(bits(&below[0]).await.0.events, 12);
    });
}

/// A spare becomes a member, step by step.
#[test]
fn what_a_member_is_recorded_to_hold_is_durable_behind_its_data() {
    block_on(async {
        let below = disks(3);
        Recipe::mirror(2).make(&below).await;
        let (disks, journal) = recorded(&below);
        let mirror = open(&disks).await;
        write(&mirror, FIRST, 1).await.unwrap();
        mirror.fail_member(&name(1)).await.unwrap();
        assert_eq!(mirror.vacancies(), (vec![1], vec![SlotId(2)]));
        heard(&journal);
        mirror.give_part(SlotId(2), 1, false).await.unwrap();
        let told = superblock(&disks[2]).await;
        assert_eq!((told.role, told.rebuilt_to), (Role::Active(1), Some(0)));
        assert_eq!(bits(&disks[2]).await.1, [0]);
        // It gets what is written, and is not read.
        let second = Range::new(8192, 4096);
        write(&mirror, second, 2).await.unwrap();
        let got = below[2]
            .read(Range::new(super::kit::DATA + 8192, 4096))
            .await;
        assert_eq!(got.unwrap().concat(), pattern(2, second));
        assert_eq!(mirror.rebuilding(), [(1, 0, false)]);
        mirror.rebuilt(1, 4096);
        write(&mirror, Range::new(16384, 4096), 3).await.unwrap();
        // Nothing was flushed yet.
        assert_eq!(superblock(&disks[2]).await.rebuilt_to, Some(0));
        heard(&journal);
        mirror.checkpoint().await.unwrap();
        let all = heard(&journal);
        let flushed = all.iter().rposition(|heard| heard.is_flush() && heard.done);
        let written = all.iter().position(Heard::is_superblock);
        assert!(flushed.unwrap() < written.unwrap());
        assert_eq!(superblock(&disks[2]).await.rebuilt_to, Some(4096));
        // Opened again it goes on there.
        let again = open(&below).await;
        assert_eq!(again.rebuilding(), [(1, 4096, false)]);
        drop(again);
        mirror.in_sync(1).await.unwrap();
        let told = superblock(&disks[2]).await;
        assert_eq!(
            (told.rebuilt_to, told.features & features::RECOVERY_OFFSET),
            (None, 0)
        );
        assert_eq!(mirror.status().members[1].state, MemberState::InSync);
        // Now bits may be cleared, and a member that left is too old to come back by them.
        for _ in 0..3 {
            mirror.sweep().await.unwrap();
        }
        mirror.stop().await.unwrap();
        let (header, set) = bits(&disks[0]).await;
        assert_eq!(set, [] as [usize; 0]);
        assert!(superblock(&disks[1]).await.events < header.events_cleared);
    });
}

#[test]
fn a_mirror_can_have_more_parts_and_fewer() {
    block_on(async {
        let disks = disks(2);
        let mirror = Recipe::mirror(2).open(&disks).await;
        write(&mirror, FIRST, 1).await.unwrap();
        mirror.set_parts(3).await.unwrap();
        assert_eq!(superblock(&disks[0]).await.members, 3);
        assert_eq!(mirror.status().working, 2);
        write(&mirror, FIRST, 2).await.unwrap();
        mirror.set_parts(2).await.unwrap();
        assert_eq!(superblock(&disks[1]).await.members, 2);
        assert_eq!(read(&mirror, FIRST).await, pattern(2, FIRST));
    });
}

#[test]
fn a_line_that_goes_wrong_half_way_is_put_right_by_who_writes_it_again() {
    block_on(async {
        let below = disks(2);
        // A held disk answers nothing on the fast path.
        let held = HeldDisk::new(below[1].clone());
        held.hold(false);
        let disks = [below[0].clone(), held.clone() as Node];
        let mirror = Recipe::mirror(2).open(&disks).await;
        write(&mirror, FIRST, 1).await.unwrap();
        let data = pattern(2, FIRST);
        assert_eq!(mirror.try_write(FIRST, &data), block::TryIo::WouldBlock);
        write(&mirror, FIRST, 2).await.unwrap();
        assert_alike(&below).await;
        assert!(mirror.mark_clean().await.unwrap());
        // Or by none: then by the settling.
        write(&mirror, FIRST, 3).await.unwrap();
        for _ in 0..200 {
            let data = pattern(4, FIRST);
            assert_eq!(mirror.try_write(FIRST, &data), block::TryIo::WouldBlock);
        }
        assert!(mirror.mark_clean().await.unwrap());
        assert_alike(&below).await;
    });
}

#[test]
fn what_one_member_reports_of_holes_is_reported() {
    block_on(async {
        for recipe in [
            Recipe::mirror(2),
            Recipe::raid10(0x102, 4),
            Recipe::raid10(0x201, 3),
        ] {
            let count = usize::try_from(recipe.parts).unwrap();
            let disks = disks(count);
            let mirror = recipe.open(&disks).await;
            let size = mirror.geometry().size;
            write(&mirror, Range::new(8192, 8192), 1).await.unwrap();
            let extents = mirror.extents(Range::new(0, size)).await.unwrap();
            let kinds: Vec<_> = extents.iter().map(|e| (e.range.len, e.kind)).collect();
            assert_eq!(kinds, [(8192, Hole), (8192, Data), (size - 16384, Hole)]);
        }
    });
}
