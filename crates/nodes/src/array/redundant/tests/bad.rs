//! Places of members that cannot be written or read, and their logs.

use std::sync::Arc;

use block::{BlockDevice, Errno, Node, Operation, Range, WriteFlags};
use testkit::{Effect, Fault, FaultDisk, block_on, pattern};

use super::disks;
use super::kit::{
    DATA, Heard, LOG, Recipe, assert_alike, bad, heard, open, read, recorded, superblock, write,
};
use crate::array::MemberState;
use crate::array::format::features;

const RANGE: Range = Range::new(0, 32768);
/// A place within it.
const PLACE: Range = Range::new(8192, 4096);

fn recipe() -> Recipe {
    Recipe {
        log: true,
        ..Recipe::mirror(2)
    }
}

/// The same of a member's disk.
const fn below(range: Range) -> Range {
    Range::new(DATA + range.offset, range.len)
}

fn cannot(operation: Operation, range: Range) -> Fault {
    let fault = Fault::new(Effect::Fail(Errno::Io));
    fault.on(operation).at(below(range))
}

fn faulty(disks: &[Node]) -> (Vec<Node>, Vec<Arc<FaultDisk>>) {
    let faults = disks
        .iter()
        .map(|disk| FaultDisk::new(disk.clone(), 1, Vec::new()));
    let faults: Vec<_> = faults.collect();
    let disks = faults.iter().map(|disk| disk.clone() as Node).collect();
    (disks, faults)
}

#[test]
fn a_place_that_cannot_be_written_is_logged_before_the_write_is_acknowledged() {
    block_on(async {
        let disks = disks(2);
        let (failing, faults) = faulty(&disks);
        let (recorders, journal) = recorded(&failing);
        let mirror = recipe().open(&recorders).await;
        write(&mirror, RANGE, 1).await.unwrap();
        faults[0].inject(cannot(Operation::Write, PLACE));
        heard(&journal);
        write(&mirror, RANGE, 2).await.unwrap();
        let all = heard(&journal);
        let told = all
            .iter()
            .rposition(|heard| heard.is_superblock() && heard.member == 0);
        let is_log = |heard: &Heard| heard.range.is_some_and(|range| range.offset == LOG);
        let logged = all.iter().rposition(is_log).unwrap();
        assert!(logged < told.unwrap() && all.last().unwrap().is_superblock());
        assert_eq!(bad(&disks[0]).await, [PLACE]);
        assert_eq!(
            superblock(&disks[0]).await.features & features::BAD_BLOCKS,
            features::BAD_BLOCKS
        );
        assert_eq!(
            superblock(&disks[1]).await.features & features::BAD_BLOCKS,
            0
        );
        assert_eq!(mirror.status().members[0].state, MemberState::InSync);
        // What is not there is read of the other one, now and at the next start.
        assert_eq!(read(&mirror, RANGE).await, pattern(2, RANGE));
        mirror.stop().await.unwrap();
        let mirror = open(&disks).await;
        assert_eq!(read(&mirror, RANGE).await, pattern(2, RANGE));
        // What is written there can be read again.
        write(&mirror, RANGE, 3).await.unwrap();
        mirror.stop().await.unwrap();
        assert_eq!(bad(&disks[0]).await, []);
        assert_eq!(
            superblock(&disks[0]).await.features & features::BAD_BLOCKS,
            0
        );
        assert_alike(&disks).await;
    });
}

#[test]
fn a_place_that_cannot_be_read_and_not_be_rewritten_is_logged() {
    block_on(async {
        let disks = disks(2);
        let (failing, faults) = faulty(&disks);
        let mirror = recipe().open(&failing).await;
        write(&mirror, RANGE, 1).await.unwrap();
        faults[0].inject(cannot(Operation::Read, PLACE));
        faults[0].inject(cannot(Operation::Write, PLACE));
        assert_eq!(read(&mirror, PLACE).await, pattern(1, PLACE));
        assert_eq!(bad(&disks[0]).await, [PLACE]);
        let hits = faults[0].hits();
        assert_eq!(read(&mirror, RANGE).await, pattern(1, RANGE));
        assert_eq!(faults[0].hits(), hits);
        assert_eq!(mirror.status().working, 2);
    });
}

#[test]
fn places_that_are_bad_on_different_members_are_read_of_the_others() {
    block_on(async {
        let disks = disks(2);
        let (failing, faults) = faulty(&disks);
        let mirror = recipe().open(&failing).await;
        let other = Range::new(16384, 4096);
        faults[0].inject(cannot(Operation::Write, PLACE));
        write(&mirror, PLACE, 1).await.unwrap();
        faults[1].inject(cannot(Operation::Write, other));
        write(&mirror, other, 1).await.unwrap();
        // Each still cannot be written, on one of them.
        write(&mirror, RANGE, 1).await.unwrap();
        assert_eq!(
            (bad(&disks[0]).await, bad(&disks[1]).await),
            (vec![PLACE], vec![other])
        );
        assert_eq!(read(&mirror, RANGE).await, pattern(1, RANGE));
        let mut into = vec![0; RANGE.len_usize()];
        if mirror.try_read(RANGE, &mut into) == block::TryIo::Done {
            assert_eq!(into, pattern(1, RANGE));
        }
        // Where no member has it, it fails, and no member does.
        faults[1].inject(cannot(Operation::Write, PLACE));
        let error = write(&mirror, PLACE, 2).await.unwrap_err();
        assert_eq!(error.errno, Errno::Io);
        assert_eq!(mirror.status().working, 2);
    });
}

#[test]
fn the_only_member_logs_nothing_that_no_other_has() {
    block_on(async {
        let disks = disks(2);
        let (failing, faults) = faulty(&disks);
        let mirror = recipe().open(&failing).await;
        write(&mirror, RANGE, 1).await.unwrap();
        mirror.fail_member(&super::kit::name(1)).await.unwrap();
        faults[0].inject(cannot(Operation::Write, PLACE));
        assert!(write(&mirror, PLACE, 2).await.is_err());
        assert_eq!(read(&mirror, PLACE).await, pattern(1, PLACE));
    });
}

#[test]
fn a_member_that_cannot_write_its_log_fails() {
    block_on(async {
        let disks = disks(2);
        let (failing, faults) = faulty(&disks);
        let mirror = recipe().open(&failing).await;
        write(&mirror, RANGE, 1).await.unwrap();
        faults[0].inject(Fault::new(Effect::Fail(Errno::Io)).on(Operation::Write));
        write(&mirror, RANGE, 2).await.unwrap();
        assert_eq!(mirror.status().working, 1);
        assert_eq!(read(&mirror, RANGE).await, pattern(2, RANGE));
        let flags = WriteFlags::empty();
        mirror.write_zeroes(PLACE, flags).await.unwrap();
        assert_eq!(
            superblock(&disks[1]).await.roles[0],
            crate::array::format::Role::Faulty
        );
    });
}
