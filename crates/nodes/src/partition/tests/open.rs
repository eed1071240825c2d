//! Partitions as disks: windows that refuse what they must.

use std::sync::Arc;

use block::{BlockDevice, Errno, Geometry, Node, Range, WriteFlags};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use testkit::{
    MemDisk, OpSpace, block_on, check_against_model, check_dropped_futures, gather, ops, pattern,
    single,
};

use super::super::encode::slot;
use super::super::mbr::BootRecord;
use super::{MIB, disk, image, new_gpt, new_mbr, two_partitions};
use crate::partition::open;

/// Why partition `number` of these bytes is not opened.
fn refusal(bytes: &[u8], number: u32) -> String {
    let opened = block_on(open(disk(bytes), number));
    opened.expect_err("it is refused").to_string()
}

fn with_slots(slots: &[(u8, u32, u32)]) -> Vec<u8> {
    let mut bytes = image(16 * MIB, &new_mbr(512, &[]));
    let mut record = BootRecord::decode(&bytes).expect("there is one");
    for (place, &(kind, first, count)) in record.0.partitions.iter_mut().zip(slots) {
        *place = slot(kind, first, count);
    }
    bytes[..512].copy_from_slice(&record.encode());
    bytes
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn a_partition_is_a_disk(ops in ops(OpSpace { size: 2 * MIB, block_size: 512, len_max: 65_536 }, 0..40)) {
        let sizes = [Some(2 * MIB), Some(2 * MIB), Some(MIB)];
        let bytes = image(8 * MIB, &new_gpt(512, &sizes));
        let whole = Arc::new(MemDisk::from_bytes(bytes.clone()));
        let partition = block_on(open(whole.clone(), 2)).unwrap();
        block_on(check_against_model(&partition, &ops)).unwrap();
        let (own, after) = (usize::try_from(3 * MIB).unwrap(), whole.snapshot());
        let end = own + usize::try_from(2 * MIB).unwrap();
        prop_assert!(after[..own] == bytes[..own], "bytes before the partition changed");
        prop_assert!(after[end..] == bytes[end..], "bytes behind the partition changed");
    }
}

#[test]
fn requests_go_to_the_disk_below_as_they_are() {
    let whole = disk(&two_partitions(512));
    let partition = block_on(open(whole.clone(), 2)).unwrap();
    assert_eq!(partition.range(), Range::new(5 * MIB, 10 * MIB));
    assert_eq!(partition.geometry().size, 10 * MIB);
    let (below, at) = partition.remap(Range::new(512, 1024)).expect("a window");
    assert!(Arc::ptr_eq(below, &whole));
    assert_eq!(at, Range::new(5 * MIB + 512, 1024));
    let data = pattern(7, at);
    let written = partition.write(
        Range::new(512, 1024),
        single(data.clone()),
        WriteFlags::empty(),
    );
    block_on(written).unwrap();
    assert_eq!(gather(&block_on(whole.read(at)).unwrap()), data);
}

#[test]
fn dropped_requests_are_settled_below() {
    let make = |disks: Vec<Node>| async move {
        let table = crate::partition::lay_out(8 * MIB, &new_gpt(512, &[Some(MIB)])).unwrap();
        Ok(Arc::new(crate::Partition::of(disks[0].clone(), &table, 1).unwrap()) as Node)
    };
    let space = OpSpace {
        size: MIB,
        block_size: 512,
        len_max: 4096,
    };
    check_drops(make, space);
}

fn check_drops<F>(make: impl Fn(Vec<Node>) -> F, space: OpSpace)
where
    F: Future<Output = Result<Node, block::IoError>>,
{
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let ops = ops(space, 8).new_tree(&mut runner).unwrap().current();
    block_on(check_dropped_futures(make, &[8 * MIB], &ops)).unwrap();
}

#[test]
fn a_partition_that_only_the_backup_knows_is_read_only() {
    let mut bytes = two_partitions(512);
    bytes[512..1024].fill(0);
    let partition = block_on(open(disk(&bytes), 1)).unwrap();
    assert!(partition.geometry().read_only);
    let range = Range::new(0, 512);
    block_on(partition.read(range)).unwrap();
    let zeroes = single(vec![0; 512]);
    let refused = [
        block_on(partition.write(range, zeroes, WriteFlags::empty())),
        block_on(partition.write_zeroes(range, WriteFlags::empty())),
        block_on(partition.trim(range)),
    ];
    for answer in refused {
        assert_eq!(answer.unwrap_err().errno, Errno::NotPermitted);
    }
    assert_eq!(
        partition.try_write(range, &[0; 512]),
        block::TryIo::WouldBlock
    );
}

#[test]
fn what_is_not_there_is_refused_with_what_is() {
    let bytes = two_partitions(512);
    assert_eq!(
        refusal(&bytes, 3),
        "the disk has no partition 3: its GPT has 1, 2"
    );
    assert_eq!(
        refusal(&image(16 * MIB, &new_mbr(512, &[])), 1),
        "the disk has no partition 1: its MBR has none"
    );
    assert_eq!(refusal(&[0; 512], 1), "the disk has no partition table");
}

#[test]
fn partitions_that_overlap_or_end_behind_the_disk_are_refused() {
    let bytes = with_slots(&[
        (0x83, 2048, 4096),
        (0x83, 4096, 4096),
        (0x83, 30_000, 10_000),
        (0x83, 10_240, 2048),
    ]);
    let see = "it is not opened, see `outboard inspect`";
    assert_eq!(
        refusal(&bytes, 1),
        format!("partition 1 overlaps partition 2: {see}")
    );
    assert_eq!(
        refusal(&bytes, 2),
        format!("partition 2 overlaps partition 1: {see}")
    );
    assert_eq!(
        refusal(&bytes, 3),
        format!("partition 3 ends behind the disk (of 16777216 bytes): {see}")
    );
    block_on(open(disk(&bytes), 4)).unwrap();
}

#[test]
fn an_extended_partition_is_not_opened_and_its_logical_ones_are() {
    let sizes = [Some(MIB), Some(MIB), Some(MIB), Some(MIB), Some(MIB)];
    let bytes = image(16 * MIB, &new_mbr(512, &sizes));
    assert_eq!(
        refusal(&bytes, 4),
        "partition 4 is an extended partition, which holds the logical ones: open one of those (from 5)"
    );
    let partition = block_on(open(disk(&bytes), 6)).unwrap();
    assert_eq!(partition.range(), Range::new(7 * MIB, MIB));
}

#[test]
fn a_partition_that_cuts_blocks_of_the_disk_says_what_helps() {
    let bytes = with_slots(&[(0x83, 63, 4096)]);
    let change = |geometry: &mut Geometry| geometry.block_size = 4096;
    let large = Arc::new(MemDisk::from_bytes(bytes).with_geometry(change));
    let message = block_on(open(large, 1)).unwrap_err().to_string();
    assert!(
        message.starts_with("partition 1: ") && message.contains("blocks(DISK, size=512)"),
        "{message}"
    );
}
