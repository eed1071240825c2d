//! Backups of reshapes as mdadm writes them.

use block::Range;
use proptest::prelude::*;

use super::mirror;
use crate::array::format::reshape_backup::{LEN, ReshapeBackup, SavedRange, backup_uuid};
use crate::array::format::{Problem, Version};

const UUID: [u8; 16] = *b"0123456789abcdef";

fn backup() -> ReshapeBackup {
    ReshapeBackup {
        array: UUID,
        written: 1_795_288_091,
        first: SavedRange {
            range: Range::new(0, 768 << 10),
            at: 4096,
        },
        second: None,
        is_ours: false,
    }
}

/// By the definition in mdadm's Grow.c, field by field; the checksum was computed apart.
fn by_hand(magic: u8) -> Vec<u8> {
    let mut bytes = b"md_backup_data-".to_vec();
    bytes.push(magic);
    bytes.extend(UUID);
    for number in [1_795_288_091_u64, 8, 0, 1536] {
        bytes.extend(number.to_le_bytes());
    }
    bytes.extend(0x2492_4915_u32.to_le_bytes());
    bytes.extend([0; 4]);
    bytes.resize(LEN, 0);
    bytes
}

#[test]
fn a_header_is_what_mdadm_writes() {
    assert_eq!(backup().encode(), by_hand(b'1'));
    assert_eq!(ReshapeBackup::decode(&by_hand(b'1')), Ok(Some(backup())));
}

#[test]
fn a_header_with_a_second_range_has_a_second_checksum() {
    let mut bytes = by_hand(b'2');
    for (at, number) in [(72, 1536_u64), (80, 1536), (88, 1000)] {
        bytes[at..at + 8].copy_from_slice(&number.to_le_bytes());
    }
    let wrong = ReshapeBackup::decode(&bytes);
    assert!(matches!(wrong, Err(Problem::Checksum { .. })), "{wrong:?}");
    bytes[96..100].copy_from_slice(&0x2492_4915_u32.to_le_bytes());
    let second = SavedRange {
        range: Range::new(768 << 10, 500 << 10),
        at: 4096 + (768 << 10),
    };
    let found = ReshapeBackup::decode(&bytes).unwrap().unwrap();
    assert_eq!(found.second, Some(second));
    assert_eq!(found.encode(), bytes);
    let from = found.from(512 << 10);
    let rest = SavedRange {
        range: Range::new(512 << 10, 256 << 10),
        at: 4096 + (512 << 10),
    };
    assert_eq!(from, [rest, second]);
    assert_eq!(found.from(1268 << 10), []);
}

#[test]
fn a_header_that_names_nothing_has_no_rows() {
    let empty = ReshapeBackup::empty(UUID, 7, 4096);
    let found = ReshapeBackup::decode(&empty.encode()).unwrap().unwrap();
    assert_eq!((found, found.ranges().count()), (empty, 0));
    assert_eq!(found.from(0), []);
}

#[test]
fn superblocks_0_90_have_their_uuid_in_the_order_of_the_machine() {
    for (version, first) in [
        (Version::V0_90 { big_endian: false }, *b"\x22\x01\xaa\x3a"),
        (Version::V0_90 { big_endian: true }, *b"\x3a\xaa\x01\x22"),
        (Version::V1_0, *b"\x3a\xaa\x01\x22"),
    ] {
        assert_eq!(backup_uuid(&mirror(version, 0))[..4], first, "{version}");
    }
}

/// As mdadm has it: two hours older than the superblocks, or ten minutes younger.
#[test]
fn a_backup_of_another_time_is_of_another_reshape() {
    let of = backup();
    let is_of = [-601_i64, -600, 0, 7200, 7201].map(|by| {
        let updated = of.written.checked_add_signed(by).unwrap();
        of.is_of(updated)
    });
    assert_eq!(is_of, [false, true, true, true, false]);
}

proptest! {
    #[test]
    fn what_was_encoded_is_decoded(array: [u8; 16], written: u64, at in 0_u64..1 << 40, start in 0_u64..1 << 40, len in 0_u64..1 << 40, is_ours: bool) {
        let range = Range::new(start * 512, len * 512);
        let first = SavedRange { range, at: at * 512 };
        let of = ReshapeBackup { array, written, first, second: None, is_ours };
        prop_assert_eq!(ReshapeBackup::decode(&of.encode()), Ok(Some(of)));
    }

    #[test]
    fn no_bytes_panic(mut bytes in proptest::collection::vec(any::<u8>(), 0..600), magic in 0_u8..3, position: u64) {
        if magic > 0 && bytes.len() >= LEN {
            bytes[..16].copy_from_slice(&by_hand(b'0' + magic)[..16]);
            bytes[64..68].copy_from_slice(&0x2492_4915_u32.to_le_bytes());
            bytes[96..100].copy_from_slice(&0x2492_4915_u32.to_le_bytes());
        }
        if let Ok(Some(found)) = ReshapeBackup::decode(&bytes) {
            for saved in found.from(position) {
                prop_assert!(!saved.range.is_empty());
            }
        }
    }
}
