//! Tests of superblocks: against an encoder of their own, against those that mdadm made, and against
//! mdadm reading what the encoder made.

mod bad_blocks;
mod changes;
mod decode;
pub(crate) mod encode;
mod mdadm;
mod ppl;
mod r5l;
mod reshape_backup;

use block::Range;

use super::{Level, Role, Superblock, Version, places};

/// Bytes of the disks that superblocks of tests are on.
pub(crate) const DISK_LEN: u64 = 64 << 20;

/// Every kind of superblock.
pub(crate) const VERSIONS: [Version; 5] = [
    Version::V0_90 { big_endian: false },
    Version::V0_90 { big_endian: true },
    Version::V1_0,
    Version::V1_1,
    Version::V1_2,
];

/// Where a superblock is on a disk of [`DISK_LEN`].
pub(crate) fn place(version: Version) -> u64 {
    let is_it = |found: &Version| match (found, &version) {
        (Version::V0_90 { .. }, Version::V0_90 { .. }) => true,
        (found, wanted) => found == wanted,
    };
    let places = places(DISK_LEN).into_iter();
    let mut places = places.filter(|(found, _)| is_it(found));
    places.next().expect("every kind has a place").1
}

/// Member `number` of a whole mirror of two.
pub(crate) fn mirror(version: Version, number: u16) -> Superblock {
    let at = place(version);
    let old = matches!(version, Version::V0_90 { .. });
    let data = match version {
        Version::V0_90 { .. } | Version::V1_0 => Range::new(0, at / 65_536 * 65_536),
        _ => Range::new(1 << 20, DISK_LEN - (1 << 20)),
    };
    let mut roles = vec![Role::Active(0), Role::Active(1)];
    roles.resize(
        if old { 27 } else { 128 },
        if old { Role::Faulty } else { Role::Spare },
    );
    Superblock {
        version,
        array: *b"\x3a\xaa\x01\x22\x29\x82\x7c\xfa\x53\x31\xad\x66\xca\x76\x73\x71",
        name: if old { "127" } else { "nas:photos" }.to_owned(),
        created: 1_795_288_091,
        updated: 1_795_288_099,
        level: Level::Raid1,
        layout: 0,
        chunk: 0,
        members: 2,
        member_size: 32 << 20,
        data: if old { Range::new(0, at) } else { data },
        events: 18,
        synced_to: None,
        rebuilt_to: None,
        device: (!old).then(|| [u8::try_from(number).expect("small"); 16]),
        number: number.into(),
        role: Role::Active(number),
        roles,
        bitmap_at: None,
        ppl: None,
        bad_blocks: None,
        bad_blocks_shift: 0,
        corrected: 0,
        features: 0,
        write_mostly: false,
        fail_fast: false,
        reshape: None,
    }
}
