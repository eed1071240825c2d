//! What was encoded is read again, and what is damaged is reported.

use proptest::prelude::*;

use super::encode::{seal, superblock};
use super::{DISK_LEN, VERSIONS, mirror, place};
use crate::array::format::bitmap::{self, Bitmap};
use crate::array::format::{
    Level, MEMBERS_MAX, Problem, Role, Superblock, Version, decode, features, layout_name,
    parity_layout, places,
};

fn read_again(of: &Superblock) -> Result<Option<Superblock>, Problem> {
    let at = place(of.version);
    let mut bytes = superblock(of, at);
    bytes.resize(4096, 0);
    decode(of.version, at, &bytes)
}

#[test]
fn a_superblock_of_each_kind_says_what_was_written() {
    for version in VERSIONS {
        for number in [0, 1] {
            let written = mirror(version, number);
            assert_eq!(read_again(&written), Ok(Some(written)));
        }
    }
}

#[test]
fn superblocks_are_where_md_puts_them() {
    // mdadm --examine says "Super Offset" and `blkid` the like for a disk of 64 MiB + 5 sectors.
    let size = (64 << 20) + 5 * 512;
    let found: Vec<u64> = places(size).into_iter().map(|(_, at)| at).collect();
    assert_eq!(found, [0, 4096, (64 << 20) - 8192, (64 << 20) - 65_536]);
    assert!(places(4095).is_empty());
    assert_eq!(places(65_024).len(), 3, "an old one needs 64 KiB");
}

#[test]
fn one_that_belongs_elsewhere_is_reported() {
    let written = mirror(Version::V1_0, 0);
    let bytes = superblock(&written, 8192);
    let problem = decode(Version::V1_0, place(Version::V1_0), &bytes);
    assert_eq!(problem, Err(Problem::Elsewhere { expected: 8192 }));
}

#[test]
fn more_roles_than_there_can_be_are_refused() {
    let mut bytes = superblock(&mirror(Version::V1_2, 0), 4096);
    bytes[220..224].copy_from_slice(&(MEMBERS_MAX + 1).to_le_bytes());
    seal(&mut bytes);
    let problem = decode(Version::V1_2, 4096, &bytes);
    assert!(matches!(
        problem,
        Err(Problem::Field {
            field: "number of roles",
            ..
        })
    ));
}

#[test]
fn a_member_that_is_rebuilt_says_how_far() {
    let mut written = mirror(Version::V1_2, 1);
    written.features = features::RECOVERY_OFFSET;
    written.rebuilt_to = Some(5 << 20);
    assert_eq!(read_again(&written), Ok(Some(written)));
}

#[test]
fn an_array_that_is_not_clean_says_up_to_where_it_is() {
    for version in VERSIONS {
        let mut written = mirror(version, 0);
        written.synced_to = Some(3 << 20);
        assert_eq!(read_again(&written), Ok(Some(written)));
    }
}

#[test]
fn a_bitmap_says_what_it_covers() {
    let mut bytes = [0; 256];
    bytes[..4].copy_from_slice(b"bitm");
    bytes[4] = 4;
    bytes[24] = 18;
    bytes[32] = 17;
    bytes[40..48].copy_from_slice(&131_072_u64.to_le_bytes());
    bytes[48] = 2;
    bytes[52..56].copy_from_slice(&(64_u32 << 20).to_le_bytes());
    let read = Bitmap::decode(&bytes).expect("it is one");
    assert_eq!(
        (read.version, read.chunk, read.size),
        (4, 64 << 20, 64 << 20)
    );
    assert_eq!(
        (read.events, read.events_cleared, read.stale),
        (18, 17, true)
    );
    bytes[52] = 3;
    assert!(matches!(
        Bitmap::decode(&bytes),
        Err(bitmap::Problem::Chunk(_))
    ));
    assert_eq!(Bitmap::decode(&bytes[..71]), Err(bitmap::Problem::Missing));
}

#[test]
fn an_array_survives_what_its_level_allows() {
    let survives = |level: Level, layout: u32, present: &[u8]| {
        let present: Vec<bool> = present.iter().map(|part| *part == 1).collect();
        level.survives(layout, &present)
    };
    assert!(survives(Level::Raid1, 0, &[0, 0, 1]));
    assert!(!survives(Level::Raid1, 0, &[0, 0]));
    assert!(survives(Level::Raid5, 2, &[1, 0, 1]));
    assert!(!survives(Level::Raid5, 2, &[1, 0, 0, 1]));
    assert!(survives(Level::Raid6, 2, &[1, 0, 0, 1]));
    assert!(!survives(Level::Raid0, 0, &[1, 0]));
    // near=2 on four: 0 and 1 are copies, 2 and 3 are.
    assert!(survives(Level::Raid10, 0x102, &[1, 0, 0, 1]));
    assert!(!survives(Level::Raid10, 0x102, &[0, 0, 1, 1]));
    // far=2: each part's copy is on the next one.
    assert!(survives(Level::Raid10, 0x201, &[1, 0, 1, 0]));
    assert!(!survives(Level::Raid10, 0x201, &[1, 0, 0, 1]));
    assert!(!survives(Level::Raid10, 0xffff, &[1, 1]));
}

#[test]
fn layouts_have_the_names_of_mdadm() {
    let name = |level, layout| layout_name(level, layout);
    assert_eq!(name(Level::Raid5, 2).as_deref(), Some("left-symmetric"));
    assert_eq!(name(Level::Raid6, 8).as_deref(), Some("ddf-zero-restart"));
    assert_eq!(name(Level::Raid10, 0x102).as_deref(), Some("near=2"));
    assert_eq!(name(Level::Raid10, 0x201).as_deref(), Some("far=2"));
    assert_eq!(name(Level::Raid10, 0x1_0201).as_deref(), Some("offset=2"));
    assert_eq!(name(Level::Raid1, 0), None);
    assert_eq!(
        name(Level::Raid5, 77).as_deref(),
        Some("unknown layout 0x4d")
    );
}

#[test]
fn layouts_are_found_by_each_name_that_mdadm_has() {
    for (level, layouts) in [(Level::Raid5, 0..=5), (Level::Raid6, 0..=20)] {
        let mut named = 0;
        for layout in layouts {
            let name = layout_name(level, layout).expect("the level has layouts");
            if !name.starts_with("unknown") {
                assert_eq!(parity_layout(level, &name), Ok(layout));
                named += 1;
            }
        }
        assert_eq!(named, if level == Level::Raid5 { 6 } else { 14 });
        for (name, layout) in [("la", 0), ("ra", 1), ("ls", 2), ("rs", 3), ("default", 2)] {
            assert_eq!(parity_layout(level, name), Ok(layout));
        }
    }
    // The same name, another layout.
    let name = "ddf-N-restart";
    assert_eq!(parity_layout(Level::Raid5, name), Ok(0));
    assert_eq!(parity_layout(Level::Raid6, name), Ok(9));
    let known = parity_layout(Level::Raid5, "left-symmetric-6").unwrap_err();
    assert_eq!(known.len(), 14);
    assert_eq!(parity_layout(Level::Raid4, "parity-last"), Err(Vec::new()));
}

#[test]
fn the_size_of_an_array_is_that_of_its_data() {
    let mut of = mirror(Version::V1_2, 0);
    assert_eq!(of.array_size(), Some(32 << 20));
    (of.level, of.members) = (Level::Raid6, 5);
    assert_eq!(of.array_size(), Some(3 * (32 << 20)));
    (of.level, of.layout, of.chunk) = (Level::Raid10, 0x102, 512 << 10);
    assert_eq!(of.array_size(), Some(80 << 20));
    (of.level, of.members) = (Level::Raid5, 0);
    assert_eq!(of.array_size(), None);
}

/// Any role of a member with so many.
fn role() -> impl Strategy<Value = Role> {
    prop_oneof![
        (0_u16..0xff00).prop_map(Role::Active),
        Just(Role::Spare),
        Just(Role::Faulty),
        Just(Role::Journal),
    ]
}

proptest! {
    #[test]
    fn any_superblock_is_read_as_it_was_written(
        kind in 2_usize..5,
        roles in prop::collection::vec(role(), 1..=MEMBERS_MAX as usize),
        own: prop::sample::Index,
        numbers: (u32, u32, u64, u64, u64),
        array: [u8; 16],
        device: [u8; 16],
        name in "[a-z0-9:]{0,32}",
        level in -1_i32..12,
    ) {
        let version = VERSIONS[kind];
        let number = own.index(roles.len());
        let (layout, chunk, events, size, seconds) = numbers;
        let written = Superblock {
            array,
            device: Some(device),
            name,
            level: Level::of(level),
            layout,
            chunk: u64::from(chunk) * 512,
            events,
            member_size: size >> 10 << 9,
            created: seconds & 0xff_ffff_ffff,
            number: u32::try_from(number).expect("few"),
            role: roles[number],
            members: u32::try_from(roles.len()).expect("few"),
            bitmap_at: Some(place(version) + 4096),
            features: features::BITMAP,
            bad_blocks: Some(block::Range::new(place(version) + 8192, 4096)),
            roles,
            ..mirror(version, 0)
        };
        prop_assert_eq!(read_again(&written), Ok(Some(written)));
    }

    #[test]
    fn one_wrong_bit_is_seen(kind in 0_usize..5, byte in 0_usize..512, bit in 0_u32..8) {
        let written = mirror(VERSIONS[kind], 0);
        let at = place(written.version);
        let mut bytes = superblock(&written, at);
        bytes.resize(4096, 0);
        bytes[byte] ^= 1 << bit;
        let read = decode(written.version, at, &bytes);
        // A superblock without its first words is none, and what counts the roles counts what is summed.
        let is_good = matches!(&read, Ok(Some(found)) if *found == written);
        prop_assert!(!is_good, "byte {} bit {}", byte, bit);
        prop_assert!(!(8..12).contains(&byte) || !matches!(read, Ok(Some(_))));
    }

    #[test]
    fn no_bytes_panic(mut bytes in prop::collection::vec(any::<u8>(), 0..4200), sealed: bool) {
        if bytes.len() > 256 {
            bytes[..8].copy_from_slice(&[0xfc, 0x4e, 0x2b, 0xa9, 1, 0, 0, 0]);
            if sealed {
                let roles = (bytes.len() - 256) / 2;
                bytes[220..224].copy_from_slice(&u32::try_from(roles).expect("few").to_le_bytes());
                bytes.truncate(256 + roles * 2);
                bytes[144..152].copy_from_slice(&8_u64.to_le_bytes());
                seal(&mut bytes);
            }
        }
        for version in VERSIONS {
            if let Ok(Some(found)) = decode(version, 4096, &bytes) {
                prop_assert!(found.roles.len() <= MEMBERS_MAX as usize);
                prop_assert!(found.working().len() <= MEMBERS_MAX as usize);
                let _told = (found.array_size(), found.fits(DISK_LEN));
                let _told = found.level.survives(found.layout, &found.working());
            }
        }
        let _told = Bitmap::decode(&bytes);
    }
}
