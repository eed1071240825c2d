//! Tests of headers of partial parity logs, by the offsets of the kernel's `struct ppl_header`.

use block::Range;
use proptest::prelude::*;

use super::{encode, mirror, place};
use crate::array::format::ppl::{
    ENTRIES_MAX, HEADER_LEN_USIZE, PplEntry, PplHeader, PplProblem, PplSpace, checksum, signature,
};
use crate::array::format::{self, Level, Superblock, Version, features};

const UUID: [u8; 16] = *b"\x3a\xaa\x01\x22\x29\x82\x7c\xfa\x53\x31\xad\x66\xca\x76\x73\x71";

fn entry(data_sector: u64, parity_len: u32, data_len: u32) -> PplEntry {
    PplEntry {
        data_sector,
        parity_len,
        data_len,
        parity_part: 2,
        checksum: 0x1234_5678,
    }
}

fn header(entries: Vec<PplEntry>) -> PplHeader {
    PplHeader {
        signature: signature(&UUID),
        generation: 7,
        entries,
    }
}

/// The vectors of RFC 3720, B.4: seed and end are inverted, as the kernel does.
#[test]
fn checksums_are_crc_32c() {
    assert_eq!(checksum([&[0_u8; 32][..]]), 0x8a91_36aa);
    assert_eq!(checksum([&[0xff_u8; 32][..]]), 0x62a8_ab43);
    assert_eq!(checksum([&b"12345"[..], &b"6789"[..]]), 0xe306_9283);
    assert_eq!(checksum([]), 0);
}

#[test]
fn a_header_has_its_fields_where_linux_has_them() {
    let bytes = header(vec![entry(24, 4096, 8192), entry(1 << 40, 0, 12_288)]).encode();
    assert_eq!(bytes.len(), HEADER_LEN_USIZE);
    assert!(bytes[..512].iter().all(|byte| *byte == 0xff));
    assert_eq!(bytes[512..516], checksum([&UUID[..]]).to_le_bytes());
    assert_eq!(bytes[516..520], [0; 4]);
    assert_eq!(bytes[520..528], 7_u64.to_le_bytes());
    assert_eq!(bytes[528..532], 2_u32.to_le_bytes());
    assert_eq!(bytes[536..544], 24_u64.to_le_bytes());
    assert_eq!(bytes[544..548], 4096_u32.to_le_bytes());
    assert_eq!(bytes[548..552], 8192_u32.to_le_bytes());
    assert_eq!(bytes[552..556], 2_u32.to_le_bytes());
    assert_eq!(bytes[556..560], 0x1234_5678_u32.to_le_bytes());
    assert_eq!(bytes[560..568], (1_u64 << 40).to_le_bytes());
    assert!(bytes[584..].iter().all(|byte| *byte == 0));
    let mut summed = bytes.clone();
    summed[532..536].fill(0);
    assert_eq!(bytes[532..536], checksum([&summed[..]]).to_le_bytes());
    assert_eq!(ENTRIES_MAX, 148);
}

#[test]
fn what_is_no_header_of_the_array_says_why() {
    let good = header(vec![entry(24, 4096, 8192)]).encode();
    let of = |bytes: &[u8]| PplHeader::decode(bytes, signature(&UUID));
    assert_eq!(of(&good), Ok(header(vec![entry(24, 4096, 8192)])));
    assert_eq!(of(&[0; 4096]), Err(PplProblem::Blank));
    assert_eq!(of(&good[..4095]), Err(PplProblem::Short));
    let mut torn = good.clone();
    torn[512..1024].fill(0);
    assert!(matches!(of(&torn), Err(PplProblem::Checksum { .. })));
    let other = PplHeader::empty(signature(&[7; 16])).encode();
    let found = signature(&[7; 16]);
    assert_eq!(of(&other), Err(PplProblem::Signature(found)));
    let mut many = good;
    many[528..532].copy_from_slice(&149_u32.to_le_bytes());
    many[532..536].fill(0);
    let sum = checksum([&many[..]]);
    many[532..536].copy_from_slice(&sum.to_le_bytes());
    assert_eq!(of(&many), Err(PplProblem::Count(149)));
}

/// A member of a RAID 5 with a log of so many bytes, so far from the superblock.
fn member(version: Version, away: i64, len: u64, bits: u32) -> (Superblock, u64) {
    let at = place(version);
    let start = at.checked_add_signed(away).unwrap();
    let of = Superblock {
        level: Level::Raid5,
        ppl: Some(Range::new(start, len)),
        features: bits,
        ..mirror(version, 0)
    };
    (of, at)
}

#[test]
fn a_superblock_says_where_the_log_is_on_either_side_of_it() {
    for (version, away) in [(Version::V1_2, 4096), (Version::V1_0, -1_052_672)] {
        for bits in [features::PPL, features::MULTIPLE_PPLS] {
            let (of, at) = member(version, away, 1 << 20, bits);
            let mut bytes = encode::superblock(&of, at);
            bytes[96..98].copy_from_slice(&i16::try_from(away / 512).unwrap().to_le_bytes());
            bytes[98..100].copy_from_slice(&2048_u16.to_le_bytes());
            encode::seal(&mut bytes);
            let found = format::decode(version, at, &bytes).unwrap().unwrap();
            assert_eq!((found.ppl, found.bitmap_at), (of.ppl, None));
            assert!(found.keeps_ppl());
            let again = format::decode(version, at, &format::encode(&of, at));
            assert_eq!(again.unwrap().unwrap().ppl, of.ppl);
        }
        let (mut of, at) = member(version, away, 1 << 20, 0);
        of.bitmap_at = None;
        let found = format::decode(version, at, &format::encode(&of, at));
        assert_eq!(found.unwrap().unwrap().ppl, None, "no feature says so");
    }
}

#[test]
fn headers_follow_each_other_only_where_there_is_room_and_the_superblock_says_so() {
    let space = |len, bits| PplSpace::of(&member(Version::V1_2, 4096, len, bits).0);
    assert_eq!(space(4096, features::PPL), None);
    assert_eq!(space(8191, features::PPL), None);
    let small = space(4096 + 6000, features::MULTIPLE_PPLS).unwrap();
    assert_eq!((small.is_ring, small.place.len), (false, 8192));
    assert_eq!(small.parity_max(), 4096);
    assert_eq!(small.place_for(4096, 4096), 0);
    assert_eq!(small.next(0, &PplHeader::empty(1)), None);
    assert!(!space(1 << 20, features::PPL).unwrap().is_ring);
    assert!(
        !space(2 * 132 * 1024 - 512, features::MULTIPLE_PPLS)
            .unwrap()
            .is_ring
    );
    let ring = space(2 * 132 * 1024, features::MULTIPLE_PPLS).unwrap();
    assert_eq!((ring.is_ring, ring.parity_max()), (true, 128 * 1024));
    let header = header(vec![entry(0, 8192, 8192), entry(0, 0, 8192)]);
    assert_eq!(header.footprint(), 12_288);
    assert_eq!(ring.next(4096, &header), Some(16_384));
    assert_eq!(ring.next(ring.place.len - 12_288, &header), None);
    assert_eq!(ring.place_for(16_384, 12_288), 16_384);
    assert_eq!(
        ring.place_for(ring.place.len - 12_288, 12_288),
        ring.place.len - 12_288
    );
    assert_eq!(ring.place_for(ring.place.len - 8192, 12_288), 0);
}

proptest! {
    #[test]
    fn headers_are_read_as_they_were_written(
        generation: u64,
        entries in proptest::collection::vec(any::<(u64, u32, u32, u32, u32)>(), 0..=ENTRIES_MAX),
    ) {
        let entry = |(data_sector, parity_len, data_len, parity_part, checksum)| PplEntry {
            data_sector, parity_len, data_len, parity_part, checksum,
        };
        let signature = signature(&UUID);
        let entries = entries.into_iter().map(entry).collect();
        let header = PplHeader { signature, generation, entries };
        prop_assert_eq!(PplHeader::decode(&header.encode(), signature), Ok(header));
    }

    #[test]
    fn no_bytes_are_a_header_that_was_not_written(
        mut bytes in proptest::collection::vec(any::<u8>(), 0..5000),
        at in 0..4096_usize,
    ) {
        let signature = signature(&UUID);
        prop_assert!(PplHeader::decode(&bytes, signature).is_err());
        bytes = header(vec![entry(24, 4096, 8192)]).encode();
        bytes[at] ^= 1;
        prop_assert!(PplHeader::decode(&bytes, signature).is_err());
    }
}
