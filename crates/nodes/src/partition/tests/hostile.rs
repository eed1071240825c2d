//! Tables made to do harm: nothing panics, nothing is read or kept without bound, and
//! what is opened lies on the disk.

use proptest::prelude::*;

use super::super::gpt::GptFault;
use super::{
    MIB, PartitionTable, TableError, image, new_gpt, new_mbr, read, summed, two_partitions,
    with_header,
};

/// What holds of every table, however it came about.
fn check(
    size: u64,
    found: Result<Option<PartitionTable>, TableError>,
) -> Result<(), TestCaseError> {
    let Ok(Some(table)) = found else {
        return Ok(());
    };
    let usable: Vec<_> = table
        .partitions
        .iter()
        .filter(|entry| entry.fault.is_none() && !entry.kind.is_extended())
        .collect();
    for (index, entry) in usable.iter().enumerate() {
        prop_assert!(entry.range.check(size, 1).is_ok(), "{entry:?}");
        for other in &usable[..index] {
            prop_assert!(!entry.range.overlaps(&other.range), "{entry:?} {other:?}");
        }
    }
    Ok(())
}

/// A few bytes of the first blocks, changed.
fn damage() -> impl Strategy<Value = Vec<(usize, u8)>> {
    let place = prop_oneof![440_usize..604, 1024_usize..2048];
    prop::collection::vec((place, any::<u8>()), 0..24)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn any_entries_with_right_sums_are_survived(damage in damage()) {
        let mut bytes = image(4 * MIB, &new_gpt(512, &[Some(MIB), None]));
        for (at, value) in damage {
            bytes[at] = value;
        }
        let bytes = summed(bytes, 512, 1024);
        check(4 * MIB, read(&bytes))?;
    }

    #[test]
    fn any_boot_records_are_survived(
        damage in prop::collection::vec((446_usize..510, any::<u8>()), 0..24),
        logical in prop::collection::vec((446_usize..510, any::<u8>()), 0..24),
    ) {
        let five = [Some(MIB), Some(MIB), Some(MIB), Some(MIB), Some(MIB)];
        let mut bytes = image(9 * MIB, &new_mbr(512, &five));
        let second = usize::try_from(4 * MIB).expect("it is small");
        for (at, value) in damage {
            bytes[at] = value;
        }
        for (at, value) in logical {
            bytes[second + at] = value;
        }
        check(9 * MIB, read(&bytes))?;
    }

    #[test]
    fn any_bytes_are_survived(head in prop::collection::vec(any::<u8>(), 0..9000)) {
        let size = head.len() as u64;
        let mut head = head;
        if let Some(signature) = head.get_mut(510..512) {
            signature.copy_from_slice(&[0x55, 0xaa]);
        }
        check(size, read(&head))?;
    }
}

#[test]
fn a_header_cannot_have_gigabytes_read() {
    let cases = [
        (u32::MAX, 128),
        (4097, 128),
        (128, 1 << 31),
        (128, 256),
        (0, 128),
    ];
    for (count, size) in cases {
        let bytes = with_header(two_partitions(512), 512, |header| {
            header.number_of_partition_entries.set(count);
            header.size_of_partition_entry.set(size);
        });
        let table = read(&bytes).unwrap().unwrap();
        assert!(table.is_read_only(), "{count} entries of {size} bytes");
    }
}

#[test]
fn a_header_cannot_point_behind_the_disk_or_wrap_around() {
    for lba in [0, 1 << 20, u64::MAX, u64::MAX / 512] {
        let bytes = with_header(two_partitions(512), 512, |header| {
            header.partition_entry_lba = gpt_disk_types::LbaLe::from_u64(lba);
            header.alternate_lba = gpt_disk_types::LbaLe::from_u64(lba);
        });
        let message = read(&bytes).unwrap().unwrap().remarks()[0].to_string();
        let expected = GptFault::EntriesPlace(lba).to_string();
        assert!(message.contains(&expected), "{message}");
    }
    let bytes = with_header(two_partitions(512), 512, |header| {
        header.last_usable_lba = gpt_disk_types::LbaLe::from_u64(u64::MAX);
    });
    assert!(read(&bytes).unwrap().unwrap().is_read_only());
}

#[test]
fn a_name_cannot_move_the_cursor() {
    let mut bytes = two_partitions(512);
    let name = 1024 + 56;
    for (index, unit) in [0x1b_u16, u16::from(b'['), u16::from(b'A'), 0xd800, 0x0a]
        .iter()
        .enumerate()
    {
        bytes[name + 2 * index..name + 2 * index + 2].copy_from_slice(&unit.to_le_bytes());
    }
    let bytes = summed(bytes, 512, 1024);
    let table = read(&bytes).unwrap().unwrap();
    assert_eq!(table.partitions[0].label, "[A\u{fffd}");
}
