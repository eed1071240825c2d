//! Tests of the superblock of device-mapper's `raid`: against bytes as Linux lays them out, and against itself.

use proptest::prelude::*;

use super::{DmRaid, FailedImages, IMAGES_MAX, LEN, NewForm, is_blank};
use crate::array::format::{
    Changes, Level, Problem, Role, Version, decode, encode, patch, written,
};

const PLACE: usize = 4096;

/// Image 1 of a `raid5_ls` of three, 20 MiB each, as Linux 6.1 writes it.
fn as_linux_writes_it() -> Vec<u8> {
    let mut bytes = vec![0; PLACE];
    let mut at = 0;
    let mut put = |field: &[u8]| {
        bytes[at..at + field.len()].copy_from_slice(field);
        at += field.len();
    };
    put(b"DmRd");
    for word in [1_u32, 3, 1] {
        put(&word.to_le_bytes());
    }
    for word in [23_u64, 0b100, u64::MAX, 8192] {
        put(&word.to_le_bytes());
    }
    // Level, layout, chunk, flags.
    for word in [5_u32, 2, 128, 0] {
        put(&word.to_le_bytes());
    }
    put(&u64::MAX.to_le_bytes());
    for word in [5_u32, 2, 128, 0] {
        put(&word.to_le_bytes());
    }
    for word in [81_920_u64, 0, 0, 40_960, 0, 0, 1 << 60] {
        put(&word.to_le_bytes());
    }
    put(&0_u32.to_le_bytes());
    assert_eq!(at, LEN);
    bytes
}

fn decoded(bytes: &[u8]) -> DmRaid {
    DmRaid::decode(bytes).unwrap().unwrap()
}

#[test]
fn a_superblock_as_linux_writes_it_is_read() {
    let own = decoded(&as_linux_writes_it());
    assert_eq!((own.images, own.position, own.events), (3, 1, 23));
    assert_eq!((own.level, own.layout, own.chunk), (5, 2, 65_536));
    assert_eq!((own.rebuilt_to, own.synced_to), (None, Some(4 << 20)));
    assert_eq!((own.array_size, own.image_size), (40 << 20, 20 << 20));
    assert_eq!((own.reshape_at, own.refusal()), (None, None));
    let failed: Vec<usize> = (0..300).filter(|at| own.failed.has(*at)).collect();
    assert_eq!(failed, [2, 252]);
    assert!(own.failed.any(3) && !own.failed.any(2));
    let superblock = own.superblock();
    assert_eq!(superblock.level, Level::Raid5);
    let roles = [Role::Active(0), Role::Active(1), Role::Faulty];
    assert_eq!((superblock.number, &superblock.roles[..]), (1, &roles[..]));
    assert_eq!(superblock.bitmap_at, Some(4096));
    assert_eq!(own.encode(&as_linux_writes_it()), as_linux_writes_it());
}

#[test]
fn blank_metadata_and_other_bytes_are_no_superblock() {
    let blank = vec![0; PLACE];
    assert_eq!(DmRaid::decode(&blank), Ok(None));
    assert!(is_blank(&blank));
    let mut other = as_linux_writes_it();
    other[0] = b'x';
    assert_eq!(DmRaid::decode(&other), Ok(None));
    assert!(!is_blank(&other));
    assert_eq!(DmRaid::decode(&as_linux_writes_it()[..LEN - 1]), Ok(None));
}

#[test]
fn what_is_behind_the_old_fields_counts_only_where_that_is_said() {
    let mut bytes = as_linux_writes_it();
    bytes[4] = 0;
    bytes[60] = 1;
    bytes[120] = 0xff;
    let own = decoded(&bytes);
    assert!(!own.is_extended());
    assert_eq!((own.image_size, own.flags, own.refusal()), (0, 0, None));
    assert!(own.failed.has(2) && !own.failed.has(64));
}

#[test]
fn unknown_features_and_a_reshape_are_refused_by_name() {
    let with = |at: usize, byte: u8| {
        let mut bytes = as_linux_writes_it();
        bytes[at] = byte;
        decoded(&bytes).refusal().unwrap()
    };
    assert_eq!(with(144, 4), "it uses the unknown features 0x4");
    assert_eq!(with(4, 3), "it uses the unknown features 0x3");
    assert_eq!(with(60, 1), "a reshape was going on");
    assert_eq!(with(60, 3), "a reshape was going on");
    assert_eq!(with(60, 8), "it has the unknown flags 0x8");
}

#[test]
fn numbers_that_cannot_be_are_reported_by_field() {
    let mut bytes = as_linux_writes_it();
    bytes[8] = 254;
    let field = "number of images";
    assert_eq!(
        DmRaid::decode(&bytes),
        Err(Problem::Field { field, value: 254 })
    );
    let mut bytes = as_linux_writes_it();
    bytes[12..16].fill(0xff);
    assert!(matches!(
        DmRaid::decode(&bytes),
        Err(Problem::Field {
            field: "position",
            ..
        })
    ));
    let mut bytes = as_linux_writes_it();
    bytes[112..120].fill(0xff);
    assert!(matches!(
        DmRaid::decode(&bytes),
        Err(Problem::Field { field: "size", .. })
    ));
}

#[test]
fn a_change_leaves_what_it_does_not_name_and_takes_one_block() {
    let mut before = as_linux_writes_it();
    before[200] = 7;
    let roles = [Role::Faulty, Role::Active(1), Role::Active(2)];
    let changes = Changes {
        events: Some(24),
        synced_to: Some(Some(0)),
        rebuilt_to: Some(Some(1 << 20)),
        roles: Some(&roles),
        // Not kept here.
        updated: Some(1),
        has_bad_blocks: Some(true),
        ..Changes::default()
    };
    let after = patch(&before, Version::DmRaid, &changes);
    let own = decoded(&after);
    assert_eq!((own.events, own.synced_to), (24, Some(0)));
    assert_eq!(own.rebuilt_to, Some(1 << 20));
    assert!(own.failed.has(0) && !own.failed.has(2) && own.failed.has(252));
    let differing = (0..PLACE).filter(|at| before[*at] != after[*at]);
    assert!(differing.clone().all(|at| (16..48).contains(&at)));
    assert_eq!(written(&after, Version::DmRaid, 512).len(), 512);
    assert_eq!(written(&after, Version::DmRaid, 4096).len(), 4096);
    assert_eq!(patch(&after, Version::DmRaid, &Changes::default()), after);
}

#[test]
fn a_new_superblock_is_read_as_what_it_was_made_of() {
    let own = decoded(&as_linux_writes_it()).superblock();
    let bytes = encode(&own, 0);
    let again = decode(Version::DmRaid, 0, &bytes).unwrap().unwrap();
    assert_eq!(again, own);
}

fn any_superblock() -> impl Strategy<Value = DmRaid> {
    let offset = || prop::option::of((0..1_u64 << 50).prop_map(|at| at * 512));
    let size = || (0..1_u64 << 50).prop_map(|at| at * 512);
    let head = (1..=253_u32, 0..253_u32, any::<u64>(), any::<[u64; 4]>());
    let places = (offset(), offset(), offset(), size(), size(), size());
    let form = (any::<i32>(), any::<u32>(), 0..1_u64 << 20, any::<i32>());
    (head, places, form, any::<bool>()).prop_map(|(head, places, form, extended)| {
        let (images, position, events, mut failed) = head;
        let (rebuilt_to, synced_to, reshape_at, array_size, data_at, image_size) = places;
        let (level, layout, chunk, images_added) = form;
        let new = NewForm {
            level,
            layout,
            chunk: chunk * 512,
            images_added: if extended { images_added } else { 0 },
            data_at: if extended { data_at } else { 0 },
        };
        if !extended {
            failed[1..].fill(0);
        }
        DmRaid {
            compat: extended.into(),
            incompat: 0,
            images,
            position,
            events,
            failed: FailedImages(failed),
            rebuilt_to,
            synced_to,
            level,
            layout,
            chunk: chunk * 512,
            flags: u32::from(extended),
            reshape_at: reshape_at.filter(|_| extended),
            new,
            array_size: if extended { array_size } else { 0 },
            data_at: if extended { data_at } else { 0 },
            image_size: if extended { image_size } else { 0 },
        }
    })
}

proptest! {
    #[test]
    fn what_is_encoded_is_decoded(own in any_superblock(), fill: u8) {
        let before = vec![fill; 512];
        let bytes = own.encode(&before);
        prop_assert!(bytes[LEN..].iter().all(|byte| *byte == fill));
        prop_assert_eq!(DmRaid::decode(&bytes), Ok(Some(own)));
    }

    #[test]
    fn no_bytes_panic(mut bytes in prop::collection::vec(any::<u8>(), 0..200), magic: bool) {
        if magic && bytes.len() >= 4 {
            bytes[..4].copy_from_slice(b"DmRd");
        }
        if let Ok(Some(own)) = DmRaid::decode(&bytes) {
            prop_assert!(own.images as usize <= IMAGES_MAX);
            let _refusal = own.refusal();
            let superblock = own.superblock();
            prop_assert_eq!(superblock.roles.len(), own.images as usize);
            let again = patch(&bytes, Version::DmRaid, &Changes::default());
            prop_assert_eq!(DmRaid::decode(&again), Ok(Some(own)));
        }
    }
}
