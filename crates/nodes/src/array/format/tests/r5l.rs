//! Tests of meta blocks of journals, by the offsets of the kernel's `struct r5l_meta_block`.

use block::Range;
use proptest::prelude::*;
use smallvec::smallvec;

use super::mirror;
use crate::array::format::r5l::{
    JournalKey, JournalSpace, MEMBERS_MAX, MetaBlock, MetaProblem, PAGE, PAGE_USIZE, Payload,
};
use crate::array::format::{
    Changes, Role, Superblock, Version, decode, encode, features, patch, ppl,
};

const UUID: [u8; 16] = *b"\x3a\xaa\x01\x22\x29\x82\x7c\xfa\x53\x31\xad\x66\xca\x76\x73\x71";

fn key() -> JournalKey {
    JournalKey::of(UUID)
}

fn block() -> MetaBlock {
    MetaBlock {
        sequence: 7,
        at: 12 * PAGE,
        payloads: vec![
            Payload::Data {
                at: 1 << 40,
                checksum: 0x1122_3344,
            },
            Payload::Parity {
                at: 64 << 10,
                checksums: smallvec![1, 2],
            },
            Payload::OnMembers {
                columns: vec![0, 8192],
            },
        ],
    }
}

#[test]
fn a_meta_block_has_its_fields_where_linux_has_them() {
    let bytes = block().encode(key());
    assert_eq!(bytes.len(), PAGE_USIZE);
    assert_eq!(bytes[..4], 0x6433_c509_u32.to_le_bytes());
    assert_eq!(bytes[8..12], [1, 0, 0, 0]);
    assert_eq!(bytes[12..16], (32_u32 + 20 + 24 + 24).to_le_bytes());
    assert_eq!(bytes[16..24], 7_u64.to_le_bytes());
    assert_eq!(bytes[24..32], (12_u64 * 8).to_le_bytes());
    // Data: kind, flags, sectors, sector of the array, checksum.
    assert_eq!(bytes[32..40], [0, 0, 0, 0, 8, 0, 0, 0]);
    assert_eq!(bytes[40..48], (1_u64 << 31).to_le_bytes());
    assert_eq!(bytes[48..52], 0x1122_3344_u32.to_le_bytes());
    // Parity: the same, with two pages.
    assert_eq!(bytes[52..60], [1, 0, 0, 0, 16, 0, 0, 0]);
    assert_eq!(bytes[60..68], 128_u64.to_le_bytes());
    assert_eq!(bytes[68..76], [1, 0, 0, 0, 2, 0, 0, 0]);
    // Columns on members: kind, flags, bytes of the list, sectors.
    assert_eq!(bytes[76..84], [2, 0, 0, 0, 16, 0, 0, 0]);
    assert_eq!(bytes[92..100], 16_u64.to_le_bytes());
    assert!(bytes[100..].iter().all(|byte| *byte == 0));
    assert_eq!(block().footprint(), 4 * PAGE);
}

/// Linux continues a CRC that is not inverted at the end, and takes the array's UUID for its beginning.
#[test]
fn checksums_are_those_of_linux() {
    let inverted = !ppl::checksum([&UUID[..], b"123456789"]);
    assert_eq!(key().checksum([&b"12345"[..], b"6789"]), inverted);
    assert_eq!(key().checksum([]), !ppl::signature(&UUID));
}

#[test]
fn what_is_not_a_block_of_this_journal_is_refused() {
    let bytes = block().encode(key());
    assert_eq!(MetaBlock::decode(&bytes, key(), 12 * PAGE), Ok(block()));
    let other = JournalKey::of([7; 16]);
    let refused = MetaBlock::decode(&bytes, other, 12 * PAGE);
    assert!(matches!(refused, Err(MetaProblem::Checksum { .. })));
    let refused = MetaBlock::decode(&bytes, key(), 13 * PAGE);
    assert_eq!(refused, Err(MetaProblem::Elsewhere(96)));
    let refused = MetaBlock::decode(&[0; PAGE_USIZE], key(), 0);
    assert_eq!(refused, Err(MetaProblem::Magic));
    assert_eq!(
        MetaBlock::decode(&bytes[..512], key(), 0),
        Err(MetaProblem::Short)
    );
    // Each sector of it counts: a cut between two of them is seen.
    for sector in 1..8 {
        let mut torn = vec![0x55; PAGE_USIZE];
        torn[..sector * 512].copy_from_slice(&bytes[..sector * 512]);
        let torn = MetaBlock::decode(&torn, key(), 12 * PAGE);
        assert!(matches!(torn, Err(MetaProblem::Checksum { .. })));
    }
}

#[test]
fn a_block_has_room_for_a_page_of_each_member() {
    let data = Payload::Data { at: 0, checksum: 0 };
    let mut block = MetaBlock::empty(0, 0);
    for _ in 0..MEMBERS_MAX {
        assert!(block.has_room(std::slice::from_ref(&data)));
        block.payloads.push(data.clone());
    }
    assert!(!block.has_room(&[data]));
    assert_eq!(MEMBERS_MAX, 203);
    assert_eq!(MetaBlock::decode(&block.encode(key()), key(), 0), Ok(block));
}

#[test]
fn a_journal_is_a_ring_of_pages() {
    let superblock = Superblock {
        data: Range::new(1 << 20, 10 * PAGE + 512),
        ..mirror(Version::V1_2, 0)
    };
    let space = JournalSpace::of(&superblock);
    assert_eq!(space.len(), 10 * PAGE);
    assert_eq!(space.advance(9 * PAGE, 2 * PAGE), PAGE);
    assert_eq!(space.distance(9 * PAGE, PAGE), 2 * PAGE);
    assert_eq!(space.distance(PAGE, PAGE), 0);
    let start = superblock.data.offset;
    let around = [
        Range::new(start + 9 * PAGE, PAGE),
        Range::new(start, 2 * PAGE),
    ];
    assert_eq!(space.pieces(9 * PAGE, 3 * PAGE)[..], around);
    let straight = [Range::new(start, 3 * PAGE)];
    assert_eq!(space.pieces(0, 3 * PAGE)[..], straight);
    let at = PAGE;
    let bytes = encode(&superblock, at);
    assert_eq!(space.tail(&bytes), 0);
    for (tail, read) in [(512, 0), (10 * PAGE, 0), (3 * PAGE, 3 * PAGE)] {
        let changes = Changes {
            journal_tail: Some(tail),
            ..Changes::default()
        };
        let moved = patch(&bytes, Version::V1_2, &changes);
        assert_eq!(space.tail(&moved), read);
        let again = decode(Version::V1_2, at, &moved);
        assert_eq!(again, Ok(Some(superblock.clone())));
    }
}

fn payload() -> impl Strategy<Value = Payload> {
    let at = || (0_u64..1 << 40).prop_map(|page| page * PAGE);
    prop_oneof![
        (at(), any::<u32>()).prop_map(|(at, checksum)| Payload::Data { at, checksum }),
        (at(), prop::collection::vec(any::<u32>(), 1..3)).prop_map(|(at, checksums)| {
            let checksums = checksums.into();
            Payload::Parity { at, checksums }
        }),
        prop::collection::vec(at(), 0..9).prop_map(|columns| Payload::OnMembers { columns }),
    ]
}

proptest! {
    #[test]
    fn blocks_are_read_as_they_were_written(
        sequence: u64,
        page in 0_u64..1 << 40,
        payloads in prop::collection::vec(payload(), 0..40),
    ) {
        let block = MetaBlock { sequence, at: page * PAGE, payloads };
        let bytes = block.encode(key());
        prop_assert_eq!(MetaBlock::decode(&bytes, key(), page * PAGE), Ok(block));
    }

    #[test]
    fn any_bytes_with_a_right_checksum_are_read_or_refused(
        body in prop::collection::vec(any::<u8>(), 0..256),
        len in 0_u32..5000,
    ) {
        let mut bytes = MetaBlock::empty(1, 0).encode(key());
        bytes[32..32 + body.len()].copy_from_slice(&body);
        bytes[12..16].copy_from_slice(&len.to_le_bytes());
        bytes[4..8].fill(0);
        let sum = key().checksum([&bytes[..]]);
        bytes[4..8].copy_from_slice(&sum.to_le_bytes());
        if let Ok(block) = MetaBlock::decode(&bytes, key(), 0) {
            let again = MetaBlock::decode(&block.encode(key()), key(), 0);
            prop_assert_eq!(again, Ok(block));
        }
    }
}

/// The story: for arrays with a journal no member counted as being rebuilt, and what it did not have yet was read of it.
#[test]
fn the_tail_of_a_journal_is_where_other_members_say_how_far_they_are_rebuilt() {
    let mut superblock = Superblock {
        features: features::JOURNAL,
        ..mirror(Version::V1_2, 1)
    };
    superblock.roles[2] = Role::Journal;
    let at = PAGE;
    let rebuilt = Changes {
        rebuilt_to: Some(Some(1 << 20)),
        ..Changes::default()
    };
    let bytes = patch(&encode(&superblock, at), Version::V1_2, &rebuilt);
    let found = decode(Version::V1_2, at, &bytes);
    let found = found.expect("it is right").expect("it is there");
    assert_eq!(found.rebuilt_to, Some(1 << 20));
    let journal = Changes {
        number: Some(2),
        journal_tail: Some(PAGE),
        ..Changes::default()
    };
    let bytes = patch(&bytes, Version::V1_2, &journal);
    let found = decode(Version::V1_2, at, &bytes);
    let found = found.expect("it is right").expect("it is there");
    assert_eq!((found.role, found.rebuilt_to), (Role::Journal, None));
}
