//! Which table is found, which copy of it is used, and what is reported of it.

use std::sync::Arc;

use block::{Geometry, Node};
use testkit::{MemDisk, block_on};

use super::super::encode::slot;
use super::super::mbr::BootRecord;
use super::{
    MIB, PartitionTable, Scheme, TableError, image, new_gpt, new_mbr, places, read, remarks, table,
    two_partitions,
};

/// Bytes 440 to 512 of the first sector, changed.
fn with_record(mut bytes: Vec<u8>, change: impl FnOnce(&mut BootRecord)) -> Vec<u8> {
    let mut record = BootRecord::decode(&bytes).expect("there is one");
    change(&mut record);
    bytes[..512].copy_from_slice(&record.encode());
    bytes
}

#[test]
fn a_gpt_in_either_block_size_is_found_on_disks_of_every_block_size() {
    for of_table in [512, 4096] {
        let bytes = two_partitions(of_table);
        for of_disk in [1, 512, 4096] {
            let change = |geometry: &mut Geometry| geometry.block_size = of_disk;
            let disk: Node = Arc::new(MemDisk::from_bytes(bytes.clone()).with_geometry(change));
            let table = block_on(PartitionTable::read(&disk)).unwrap().unwrap();
            assert_eq!(table.scheme, Scheme::Gpt);
            assert_eq!(table.block_size, of_table);
            assert_eq!(places(&table), [(1, 1, 4), (2, 5, 10)]);
            assert_eq!(remarks(&table), Vec::<String>::new());
        }
    }
}

#[test]
fn a_disk_without_a_table_has_none() {
    assert!(read(&[]).unwrap().is_none());
    assert!(read(&[0; 512]).unwrap().is_none());
    assert!(read(&vec![0; 1 << 20]).unwrap().is_none());
    assert!(read(&vec![0xff; 1 << 20]).unwrap().is_none());
}

#[test]
fn a_damaged_primary_leaves_its_backup_read_only() {
    let mut bytes = two_partitions(512);
    bytes[512 + 60] ^= 1;
    let table = table(&bytes);
    assert_eq!(places(&table), [(1, 1, 4), (2, 5, 10)]);
    assert!(table.is_read_only());
    assert_eq!(
        remarks(&table),
        [
            "the primary GPT is damaged (the checksum of its header is wrong): the backup is used, \
             read-only; Linux uses neither"
        ]
    );
}

#[test]
fn a_damaged_entry_is_a_damaged_copy() {
    let mut bytes = two_partitions(4096);
    bytes[2 * 4096 + 40] ^= 1;
    assert!(remarks(&table(&bytes))[0].contains("the checksum of its entries is wrong"));
    let last = bytes.len() - 5 * 4096 + 40;
    bytes[last] ^= 1;
    let error = read(&bytes).unwrap_err();
    assert!(matches!(error, TableError::Gpt { .. }));
    assert_eq!(
        error.to_string(),
        "the GPT is damaged, and so is its backup (primary: the checksum of its entries is wrong; \
         backup: the checksum of its entries is wrong): nothing of it is used"
    );
}

#[test]
fn a_damaged_backup_is_reported_and_the_primary_used() {
    let mut bytes = two_partitions(512);
    let last = bytes.len() - 512;
    bytes[last..].fill(0);
    let table = table(&bytes);
    assert!(!table.is_read_only());
    assert_eq!(
        remarks(&table),
        ["the backup GPT is damaged (there is no header)"]
    );
}

#[test]
fn two_whole_copies_that_differ_are_reported() {
    let mut bytes = two_partitions(512);
    let other = image(16 * MIB, &new_gpt(512, &[Some(8 * MIB), None]));
    let tail = bytes.len() - 33 * 512;
    bytes[tail..].copy_from_slice(&other[tail..]);
    let table = table(&bytes);
    assert_eq!(places(&table), [(1, 1, 4), (2, 5, 10)]);
    assert_eq!(
        remarks(&table),
        ["the primary GPT and its backup differ: the primary one is used"]
    );
}

#[test]
fn a_disk_that_has_grown_says_so() {
    let mut bytes = two_partitions(512);
    bytes.resize(bytes.len() + (1 << 20), 0);
    let table = table(&bytes);
    assert!(!table.is_read_only());
    assert_eq!(
        remarks(&table),
        [
            "the backup GPT is not at the end of the disk: 1048576 bytes behind it are not used; \
             `outboard disk grow` moves it"
        ]
    );
}

#[test]
fn a_disk_that_was_cut_short_is_read_only() {
    let mut bytes = image(16 * MIB, &new_gpt(512, &[Some(4 * MIB), Some(MIB)]));
    bytes.truncate(8 << 20);
    let table = table(&bytes);
    assert_eq!(places(&table), [(1, 1, 4), (2, 5, 1)]);
    assert!(table.is_read_only());
    assert_eq!(
        remarks(&table),
        [
            "the disk was made smaller: its GPT counts on 16777216 bytes, it has 8388608: used \
             read-only; Linux does not use it"
        ]
    );
}

#[test]
fn a_wiped_begin_leaves_the_backup_but_what_came_after_a_table_does_not() {
    let mut bytes = two_partitions(512);
    bytes[..1 << 20].fill(0);
    let found = table(&bytes);
    assert!(found.is_read_only());
    assert_eq!(found.remarks().len(), 2);
    // The superblock of a filesystem that was made on the whole disk.
    bytes[1024 + 56..1024 + 58].copy_from_slice(&[0x53, 0xef]);
    assert!(read(&bytes).unwrap().is_none());
}

#[test]
fn a_gpt_that_no_boot_record_protects_is_read_only() {
    let mut bytes = two_partitions(512);
    bytes[..512].fill(0);
    let table = table(&bytes);
    assert_eq!(table.scheme, Scheme::Gpt);
    assert!(table.is_read_only());
    assert_eq!(
        remarks(&table),
        ["the GPT has no protective MBR: it is used read-only; Linux does not use it"]
    );
}

#[test]
fn a_hybrid_boot_record_is_left_for_the_gpt() {
    let bytes = with_record(two_partitions(512), |record| {
        record.0.partitions[1] = slot(0x83, 2048, 2048);
    });
    let table = table(&bytes);
    assert_eq!(table.scheme, Scheme::Gpt);
    assert!(!table.is_read_only());
    assert_eq!(
        remarks(&table),
        ["a hybrid MBR: it lists partitions of its own, the GPT is used"]
    );
}

#[test]
fn a_boot_record_of_its_own_wins_over_a_gpt_behind_it() {
    let bytes = with_record(two_partitions(512), |record| {
        record.0.partitions[0] = slot(0x83, 2048, 4096);
    });
    let table = table(&bytes);
    assert_eq!(table.scheme, Scheme::Mbr);
    assert_eq!(places(&table), [(1, 1, 2)]);
    assert_eq!(
        remarks(&table),
        ["there is a GPT too, which is not used since the MBR does not protect it"]
    );
}

#[test]
fn a_protective_record_without_a_gpt_is_an_error() {
    let mut bytes = two_partitions(512);
    bytes[512..].fill(0);
    let error = read(&bytes).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the GPT is damaged, and so is its backup (primary: there is no header; backup: there is no \
         header): nothing of it is used"
    );
}

#[test]
fn logical_partitions_are_counted_from_five() {
    let sizes = [Some(MIB), Some(MIB), Some(MIB), Some(2 * MIB), None];
    for block_size in [512, 4096] {
        let bytes = image(32 * MIB, &new_mbr(block_size, &sizes));
        let table = table(&bytes);
        assert_eq!(table.block_size, block_size);
        let expected = [
            (1, 1, 1),
            (2, 2, 1),
            (3, 3, 1),
            (4, 4, 28),
            (5, 5, 2),
            (6, 8, 24),
        ];
        assert_eq!(places(&table), expected, "blocks of {block_size}");
        assert!(table.partitions[3].kind.is_extended());
        assert_eq!(table.partitions[4].id.to_string(), "cafef00d-05");
    }
}

#[test]
fn a_circle_of_logical_partitions_is_refused() {
    let sizes = [Some(MIB), Some(MIB), Some(MIB), Some(MIB), Some(MIB)];
    let mut bytes = image(16 * MIB, &new_mbr(512, &sizes));
    let (first, second) = (4 << 20, 6 << 20);
    let mut record = BootRecord::decode(&bytes[second..]).expect("the second record");
    record.0.partitions[1] = slot(0x05, 0, 4096);
    // Slots cannot begin at 0 on any other disk.
    bytes[second..second + 512].copy_from_slice(&record.encode());
    let error = read(&bytes).unwrap_err();
    assert_eq!(
        error.to_string(),
        format!(
            "the logical partitions of the MBR go round in a circle (at byte {first}): nothing of it \
             is used"
        )
    );
}

#[test]
fn a_chain_without_an_end_is_cut() {
    // Each record is 512 bytes behind the one before it, and says so of the next.
    let mut bytes = image(16 * MIB, &new_mbr(512, &[None]));
    bytes = with_record(bytes, |record| {
        record.0.partitions[0] = slot(0x0f, 2048, 20_000);
    });
    let mut record = super::super::encode::empty_record(0);
    for index in 0..1000_u32 {
        record.0.partitions[0] = slot(0x83, 1, 1);
        record.0.partitions[1] = slot(0x05, index + 1, 2);
        let at = (2048 + index as usize) * 512;
        bytes[at..at + 512].copy_from_slice(&record.encode());
    }
    assert!(matches!(
        read(&bytes),
        Err(TableError::TooManyLogical { .. })
    ));
}

#[test]
fn a_broken_chain_keeps_what_comes_before_it() {
    let sizes = [Some(MIB), Some(MIB), Some(MIB), Some(MIB), Some(MIB)];
    let mut bytes = image(16 * MIB, &new_mbr(512, &sizes));
    bytes[(6 << 20) + 510] = 0;
    let table = table(&bytes);
    assert_eq!(places(&table).len(), 5);
    assert_eq!(
        remarks(&table),
        ["the chain of logical partitions breaks off at byte 6291456: what follows is not known"]
    );
}

#[test]
fn a_boot_sector_of_a_filesystem_is_no_table() {
    let mut bytes = vec![0; 1 << 20];
    bytes[..3].copy_from_slice(&[0xeb, 0x3c, 0x90]);
    (bytes[14], bytes[16], bytes[21]) = (1, 2, 0xf8);
    bytes[440..444].copy_from_slice(b"text");
    bytes[510..512].copy_from_slice(&[0x55, 0xaa]);
    assert!(read(&bytes).unwrap().is_none());
    // Code where a table has its flags.
    bytes[14] = 0;
    bytes[446..510].fill(0x41);
    assert!(read(&bytes).unwrap().is_none());
    // A table without a partition is one.
    bytes[446..510].fill(0);
    assert_eq!(places(&table(&bytes)), []);
}

#[test]
fn partitions_that_begin_at_odd_places_are_reported() {
    let bytes = with_record(image(16 * MIB, &new_mbr(512, &[None])), |record| {
        record.0.partitions[0] = slot(0x83, 63, 8192);
        record.0.partitions[1] = slot(0x83, 10_000, 8192);
    });
    assert_eq!(
        remarks(&table(&bytes)),
        [
            "partition 1 begins at byte 32256, no multiple of 4 KiB: writes are slow on most drives",
            "partition 2 begins at byte 5120000, no multiple of 1 MiB"
        ]
    );
}

#[test]
fn the_block_size_of_a_boot_record_is_derived_from_what_fits() {
    // 12 MiB at 1 MiB in blocks of 4096; in blocks of 512 it would begin at 128 KiB.
    let bytes = image(16 * MIB, &new_mbr(4096, &[Some(12 * MIB)]));
    let found = table(&bytes);
    assert_eq!((found.block_size, places(&found)), (4096, vec![(1, 1, 12)]));
    assert_eq!(
        remarks(&found),
        [
            "the MBR does not say the size of its blocks: 4096 bytes, since its partitions then are \
             aligned and fit the disk"
        ]
    );
    let small = image(16 * MIB, &new_mbr(512, &[Some(MIB)]));
    assert_eq!(table(&small).block_size, 512);
    let change = |geometry: &mut Geometry| geometry.block_size = 4096;
    let large: Node = Arc::new(MemDisk::from_bytes(bytes).with_geometry(change));
    let table = block_on(PartitionTable::read(&large)).unwrap().unwrap();
    assert_eq!((table.block_size, table.remarks().len()), (4096, 0));
}
