//! Background work on arrays with parity where data cannot be read: it costs the blocks that are lost, not the rest.

use std::sync::Arc;

use block::{BlockDevice, Errno, Node, Operation, Range, WriteFlags};
use testkit::{Effect, Fault, FaultDisk, MemDisk, block_on, pattern, single};

use super::super::format::bad_blocks::{BadBlocks, of_data};
use super::super::format::{Level, Version};
use super::super::redundant::tests::kit::unbounded;
use super::super::{
    Array, Candidate, ConsistencyChoice, CreateOptions, MemberState, NewMember, SyncKind, create,
    examine, newest, open,
};
use super::reshape::write;
use crate::read_within;

pub(super) const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
/// Bytes of each member that are used: windows are of many blocks, and chunks too.
pub(super) const MEMBER: u64 = 4 * MIB;
pub(super) const CHUNK: u64 = 64 * KIB;
/// Blocks are lost in these units.
pub(super) const UNIT: u64 = 4 * KIB;
/// Where a sector of b cannot be read, byte of a member's data: in row 9, of which part 2 has parity.
const BAD: u64 = 9 * CHUNK + 5 * UNIT + 512;
/// What is lost with it.
pub(super) const LOST: Range = Range::new(9 * CHUNK + 5 * UNIT, UNIT);
const NAMES: [&str; 5] = ["a", "b", "c", "d", "e"];

/// A RAID 5 of disks a to d, with e as a spare where that is there, and the faults of b.
pub(super) struct Five {
    disks: Vec<Node>,
    pub(super) faults: Arc<FaultDisk>,
    /// Those of d.
    pub(super) faults_of_d: Arc<FaultDisk>,
    /// Where the data of a member begin.
    data: u64,
}

impl Five {
    pub(super) async fn new(
        count: usize,
        version: Version,
        consistency: ConsistencyChoice,
    ) -> Self {
        let below = (0..count).map(|_| Arc::new(MemDisk::new(6 * MIB)) as Node);
        let mut disks: Vec<Node> = below.collect();
        let faults = FaultDisk::new(disks[1].clone(), 1, Vec::new());
        disks[1] = faults.clone();
        let faults_of_d = FaultDisk::new(disks[3].clone(), 2, Vec::new());
        disks[3] = faults_of_d.clone();
        let member = |(name, disk): (&str, &Node)| NewMember {
            name: name.to_owned(),
            disk: Some(disk.clone()),
            write_mostly: false,
            fail_fast: false,
        };
        let mut members: Vec<NewMember> = NAMES.into_iter().zip(&disks).map(member).collect();
        let spares = members.split_off(4);
        let of = CreateOptions {
            journal: None,
            level: Level::Raid5,
            layout: None,
            chunk: Some(CHUNK),
            version,
            name: "box:five".to_owned(),
            consistency,
            assume_clean: true,
            size: Some(MEMBER),
        };
        create(members, spares, of).await.expect("it can be made");
        let found = examine(&disks[0]).await.expect("it can be read");
        let data = newest(&found).expect("it is a member").1.data.offset;
        Self {
            disks,
            faults,
            faults_of_d,
            data,
        }
    }

    pub(super) async fn open(&self) -> Arc<Array> {
        let disks = NAMES.into_iter().zip(&self.disks);
        let candidates = disks.map(|(name, disk)| Candidate::local(name, disk.clone()));
        let opened = open(candidates.collect(), unbounded()).await;
        opened.expect("it can be opened")
    }

    /// A sector of b cannot be read from now on; it can be written.
    pub(super) fn spoil(&self) {
        self.spoil_sector(&self.faults);
    }

    /// The same of any disk.
    fn spoil_sector(&self, faults: &FaultDisk) {
        let fault = Fault::new(Effect::Fail(Errno::Io)).on(Operation::Read);
        faults.inject(fault.at(Range::new(self.data + BAD, 512)));
    }

    /// The same of b and of d.
    pub(super) fn spoil_two(&self) {
        self.spoil();
        self.spoil_sector(&self.faults_of_d);
    }

    /// Damages what a member holds at one block of its data.
    async fn damage(&self, member: usize, at: u64) {
        let range = Range::new(self.data + at, UNIT);
        let data = single(pattern(0x77, range));
        let written = self.disks[member].write(range, data, WriteFlags::empty());
        written.await.expect("it can be written");
    }

    /// What a member's log of bad blocks has.
    pub(super) async fn bad(&self, member: usize) -> Vec<Range> {
        let disk = &self.disks[member];
        let found = examine(disk).await.expect("it can be read");
        let superblock = newest(&found).expect("it is a member").1;
        let place = superblock.bad_blocks.expect("it has a log");
        let log = read_within(disk, place).await.expect("it can be read");
        let log = BadBlocks::decode(&log, 0).expect("it is good");
        let of_data = |run: &Range| of_data(superblock.data.offset, *run);
        log.runs().iter().filter_map(of_data).collect()
    }
}

pub(super) fn whole(array: &Array) -> Range {
    Range::new(0, array.geometry().size)
}

/// Fails if anything but what is lost, of row 9, is not as it was written.
async fn assert_rest(array: &Array, fill: u8) {
    let row = 3 * CHUNK;
    for at in (0..whole(array).len).step_by(16 * 1024) {
        let range = Range::new(at, 16 * KIB);
        if at / row == 9 {
            continue;
        }
        assert!(
            array.read(range).await.unwrap().concat() == pattern(fill, range),
            "byte {at}"
        );
    }
}

#[test]
fn a_resync_leaves_out_what_cannot_be_read_and_the_array_stays_dirty_there_alone() {
    for bitmap in [
        ConsistencyChoice::Bitmap(Some(16 * KIB)),
        ConsistencyChoice::Resync,
    ] {
        block_on(async {
            let five = Five::new(4, Version::V1_2, bitmap).await;
            let array = five.open().await;
            write(&array, whole(&array), 1).await;
            array.flush().await.unwrap();
            // It ends here, dirty: parity of rows 1 and 40, on part 2 and on part 3, was not written.
            drop(array);
            five.damage(2, CHUNK).await;
            five.damage(3, 40 * CHUNK).await;
            five.spoil();
            let array = five.open().await;
            let manager = array.by_hand();
            let told = manager.work().await.unwrap_err().to_string();
            assert!(told.contains("the resync is not complete: "), "{told}");
            assert!(told.contains(&LOST.to_string()), "{told}");
            assert_eq!(
                array.status().working,
                4,
                "one sector is no reason to fail a member"
            );
            // The bit of it, or all from there on.
            let bit = Range::new(LOST.offset / (16 * KIB) * (16 * KIB), 16 * KIB);
            let expected = match bitmap {
                ConsistencyChoice::Resync => Range::new(LOST.offset, MEMBER - LOST.offset),
                _ => bit,
            };
            assert_eq!(manager.array.needed(0), Some(expected));
            assert_eq!(manager.array.needed(expected.end()), None);
            assert_rest(&array, 1).await;
            let lost = Range::new((9 * 3) * CHUNK, 3 * CHUNK);
            let told = array.read(lost).await.unwrap_err().to_string();
            assert!(told.contains("parity cannot be trusted here"), "{told}");
            array.stop().await.unwrap();
            // It is resynced when it is opened next, once the sector can be read.
            five.faults.heal();
            let array = five.open().await;
            let manager = array.by_hand();
            assert!(manager.array.needed(0).is_some());
            manager.work().await.unwrap();
            array.scrub(SyncKind::Check).unwrap();
            manager.work().await.unwrap();
            let scrubbed = array.status().scrubbed.unwrap();
            assert_eq!((scrubbed.mismatches, scrubbed.finished), (0, true));
            array.stop().await.unwrap();
        });
    }
}

#[test]
fn a_member_is_rebuilt_without_what_cannot_be_read_and_notes_it_as_bad() {
    block_on(async {
        let five = Five::new(5, Version::V1_2, ConsistencyChoice::Bitmap(Some(16 * KIB))).await;
        let array = five.open().await;
        write(&array, whole(&array), 1).await;
        array.fail("d").await.unwrap();
        five.spoil();
        let manager = array.by_hand();
        manager.work().await.unwrap();
        assert_eq!(array.status().working, 4);
        assert_eq!(five.bad(4).await, [LOST]);
        assert_rest(&array, 1).await;
        // No member has what both lack; all else of the row is there.
        let row = Range::new((9 * 3) * CHUNK, 3 * CHUNK);
        let told = array.read(row).await.unwrap_err().to_string();
        assert!(
            told.contains("too many members cannot be read here") && told.contains("a bad block"),
            "{told}"
        );
        array.scrub(SyncKind::Check).unwrap();
        manager.work().await.unwrap();
        let scrubbed = array.status().scrubbed.unwrap();
        assert_eq!((scrubbed.mismatches, scrubbed.finished), (0, true));
        array.stop().await.unwrap();
        // It is known when the array is opened next, and what is written is good again.
        let array = five.open().await;
        array.read(row).await.unwrap_err();
        write(&array, row, 2).await;
        array.flush().await.unwrap();
        array.stop().await.unwrap();
        assert_eq!(five.bad(4).await, []);
        five.faults.heal();
        let array = five.open().await;
        assert!(array.read(row).await.unwrap().concat() == pattern(2, row));
        array.stop().await.unwrap();
    });
}

#[test]
fn without_a_log_a_rebuild_ends_where_data_cannot_be_read_and_says_where() {
    block_on(async {
        let old = Version::V0_90 { big_endian: false };
        let five = Five::new(5, old, ConsistencyChoice::Default).await;
        let array = five.open().await;
        write(&array, whole(&array), 1).await;
        array.fail("d").await.unwrap();
        five.spoil();
        let manager = array.by_hand();
        let told = manager.work().await.unwrap_err().to_string();
        assert!(told.contains("recovery cannot go on: "), "{told}");
        assert!(
            told.contains("too many members cannot be read here"),
            "{told}"
        );
        let member = array
            .status()
            .members
            .into_iter()
            .find(|member| member.name == "e");
        let state = member.map(|member| member.state);
        assert!(
            matches!(state, Some(MemberState::Rebuilding(_))),
            "{state:?}"
        );
        assert_rest(&array, 1).await;
        array.stop().await.unwrap();
    });
}
