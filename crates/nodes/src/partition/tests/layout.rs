//! Where new partitions go, and the names of types.

use block::Range;
use proptest::prelude::*;

use super::super::LayoutError;
use super::{
    DiskId, MIB, NewTable, PartitionKind, Scheme, guid, image, kind, lay_out, new_gpt, new_mbr,
    places, remarks, table,
};

fn sizes() -> impl Strategy<Value = Vec<Option<u64>>> {
    let fixed = prop::collection::vec((1..=2 * 2048_u64).prop_map(|size| Some(size * 512)), 0..9);
    (fixed, any::<prop::sample::Index>(), any::<bool>()).prop_map(|(mut sizes, at, rest)| {
        if rest {
            sizes.insert(at.index(sizes.len() + 1), None);
        }
        sizes
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn what_was_laid_out_is_read_back_and_sound(sizes in sizes(), is_gpt: bool, large: bool) {
        let block_size = if large { 4096 } else { 512 };
        let whole_blocks = |size: &Option<u64>| size.map(|size| size.next_multiple_of(4096));
        let sizes: Vec<_> = sizes.iter().map(whole_blocks).collect();
        let new = if is_gpt { new_gpt(block_size, &sizes) } else { new_mbr(block_size, &sizes) };
        let size = 36 * MIB;
        let laid = lay_out(size, &new).unwrap();
        let found = table(&image(size, &new));
        // An MBR without partitions, or with few, does not determine its blocks.
        if found.block_size == block_size {
            prop_assert_eq!(&found.partitions, &laid.partitions);
        } else {
            prop_assert!(!is_gpt);
        }
        prop_assert!(laid.partitions.iter().all(|entry| entry.fault.is_none()));
        prop_assert_eq!(remarks(&laid), Vec::<String>::new());
        let made: Vec<u64> = laid.partitions.iter()
            .filter(|entry| !entry.kind.is_extended())
            .map(|entry| entry.range.len)
            .collect();
        prop_assert_eq!(made.len(), sizes.len());
        for (made, wanted) in made.iter().zip(&sizes) {
            prop_assert!(wanted.is_none_or(|wanted| wanted == *made));
        }
        prop_assert_eq!(laid.id, found.id);
    }
}

#[test]
fn the_rest_may_come_first() {
    let bytes = image(64 * MIB, &new_gpt(512, &[None, Some(8 * MIB)]));
    assert_eq!(places(&table(&bytes)), [(1, 1, 54), (2, 55, 8)]);
}

#[test]
fn names_and_ids_are_kept() {
    let mut new = new_gpt(512, &[Some(MIB), None]);
    new.partitions[0].kind = kind("efi", Scheme::Gpt);
    new.partitions[1].label = "Wurzel-Größe 🚀".to_owned();
    let table = table(&image(16 * MIB, &new));
    assert_eq!(table.id.to_string(), guid(0xd1).to_string());
    let [efi, root] = &table.partitions[..] else {
        panic!("two partitions");
    };
    assert_eq!(
        (efi.kind.name(), efi.kind.to_string()),
        (Some("efi"), "EFI system".to_owned())
    );
    assert_eq!(root.label, "Wurzel-Größe 🚀");
    assert_eq!(root.id.to_string(), guid(2).to_string());
}

#[test]
fn what_cannot_be_laid_out_says_why() {
    let refusal = |size: u64, new: &NewTable| lay_out(size, new).unwrap_err().to_string();
    assert_eq!(
        refusal(MIB, &new_gpt(512, &[None])),
        "a disk of 1048576 bytes is too small for a partition table: it takes at least 3145728"
    );
    assert_eq!(
        refusal(8 * MIB, &new_gpt(512, &[Some(4 * MIB), Some(4 * MIB)])),
        "the partitions take 8388608 bytes, the disk has room for 6291456"
    );
    assert_eq!(
        refusal(8 * MIB, &new_gpt(512, &[Some(u64::MAX / 512 * 512)])),
        "the partitions take 18446744073709551615 bytes, the disk has room for 6291456"
    );
    assert_eq!(
        refusal(8 * MIB, &new_gpt(512, &[None, Some(MIB), None])),
        "partitions 1 and 3 both want the rest of the disk"
    );
    assert_eq!(
        refusal(8 * MIB, &new_gpt(4096, &[Some(512)])),
        "partition 1: its size is no multiple of 4096 bytes"
    );
    assert_eq!(
        refusal(8 * MIB, &new_gpt(512, &[Some(0)])),
        "partition 1 has no bytes"
    );
    assert_eq!(
        refusal(8 * MIB, &new_gpt(1024, &[None])),
        "a partition table counts in blocks of 512 or 4096 bytes, not of 1024"
    );
    assert_eq!(
        refusal(1 << 30, &new_gpt(512, &[Some(512); 129])),
        "129 partitions are too many: at most 128"
    );
    let mut named = new_mbr(512, &[None]);
    named.partitions[0].label = "root".to_owned();
    assert_eq!(
        refusal(8 * MIB, &named),
        "partition 1 has a name, and an MBR has no place for names"
    );
    let mut long = new_gpt(512, &[None]);
    long.partitions[0].label = "x".repeat(37);
    assert!(matches!(
        lay_out(8 * MIB, &long),
        Err(LayoutError::Label { number: 1 })
    ));
    let mixed = NewTable {
        id: DiskId::Signature(1),
        ..new_gpt(512, &[None])
    };
    assert!(matches!(
        lay_out(8 * MIB, &mixed),
        Err(LayoutError::Kind(1))
    ));
}

#[test]
fn a_boot_record_uses_what_it_can_count_of_a_huge_disk() {
    let size = 4 << 40;
    let table = lay_out(size, &new_mbr(512, &[None])).unwrap();
    let end = table.partitions[0].range.end();
    assert!(end <= (1 << 41) && end > (1 << 41) - 2 * MIB, "{end}");
    let table = lay_out(size, &new_gpt(512, &[None])).unwrap();
    assert_eq!(table.partitions[0].range, Range::new(MIB, size - 2 * MIB));
}

#[test]
fn types_are_named_or_numbered() {
    let parsed = |text, scheme| PartitionKind::parse(text, scheme).map(|kind| kind.to_string());
    let linux = "0FC63DAF-8483-4772-8E79-3D69D8477DE4";
    assert_eq!(parsed("Linux", Scheme::Gpt).unwrap(), "Linux filesystem");
    assert_eq!(parsed(linux, Scheme::Gpt).unwrap(), "Linux filesystem");
    assert_eq!(parsed("0xfd", Scheme::Mbr).unwrap(), "Linux RAID");
    assert_eq!(parsed("0xA5", Scheme::Mbr).unwrap(), "type 0xa5");
    assert_eq!(PartitionKind::Mbr(0x0b).to_string(), "FAT32");
    assert_eq!(
        parsed("linus", Scheme::Mbr).unwrap_err().to_string(),
        "`linus` is no type of a partition in MBR: known are linux, efi, swap, raid, lvm, boot, luks, \
         data, recovery, prep, fat32, fat16; or write a byte in hex, such as 0x83"
    );
    for nothing in ["0x00", "0xee", "0x05", "0x1ff", "bios-boot", ""] {
        assert!(parsed(nothing, Scheme::Mbr).is_err(), "{nothing}");
    }
    let unused = "00000000-0000-0000-0000-000000000000";
    for nothing in [unused, "0x83", "fat32", "0fc63daf"] {
        assert!(parsed(nothing, Scheme::Gpt).is_err(), "{nothing}");
    }
}
