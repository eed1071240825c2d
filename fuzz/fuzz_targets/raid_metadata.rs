//! Any bytes as what LVM keeps for volumes of RAID: superblocks and bitmaps of images, logs of old mirrors. Nothing panics,
//! a superblock that is changed keeps what was not named, and a volume that is opened can be read to its end.
#![no_main]

use std::sync::Arc;

use block::{BlockDevice, Node, Range};
use libfuzzer_sys::fuzz_target;
use nodes::array::format::dm_raid::{DmRaid, IMAGES_MAX};
use nodes::array::format::{Changes, Role, Version, patch, written};
use nodes::volume::raid::{RaidImageDisks, RaidOptions, RaidSpec, log, open};
use testkit::{MemDisk, block_on};

/// Types of segments that are opened, and how many bytes their volumes have.
const KINDS: [(&str, u64); 5] = [
    ("raid1", 16 << 10),
    ("raid5_ls", 32 << 10),
    ("raid6_nc", 32 << 10),
    ("raid10", 24 << 10),
    ("raid0_meta", 48 << 10),
];
/// Bytes of an image, and of its metadata.
const IMAGE_LEN: u64 = 16 << 10;
const METADATA_LEN: usize = 8 << 10;

fuzz_target!(|input: (u8, bool, u64, &[u8], &[u8])| {
    let (choice, force, number, first, second) = input;
    superblock(number, first);
    regions(number, first, second);
    let (kind, size) = KINDS[usize::from(choice) % KINDS.len()];
    volume(kind, size, force, [first, second, first]);
});

fn superblock(number: u64, bytes: &[u8]) {
    let mut place = bytes.to_vec();
    place.resize(4096, 0);
    place[..4].copy_from_slice(b"DmRd");
    let Ok(Some(own)) = DmRaid::decode(&place) else {
        return;
    };
    assert!(own.images as usize <= IMAGES_MAX && (own.position as usize) < IMAGES_MAX);
    assert_eq!(own.encode(&place), place, "what was read is written");
    let mut roles = own.superblock().roles;
    roles[0] = Role::Faulty;
    let changes = Changes {
        events: Some(number),
        synced_to: Some((number % 3 != 0).then_some(0)),
        roles: Some(&roles),
        ..Changes::default()
    };
    let changed = patch(&place, Version::DmRaid, &changes);
    let again = DmRaid::decode(&changed)
        .expect("it is right")
        .expect("it is there");
    assert_eq!((again.events, again.failed.has(0)), (number, true));
    assert_eq!((again.level, again.data_at), (own.level, own.data_at));
    assert_eq!(changed[148..], place[148..]);
    assert!(written(&changed, Version::DmRaid, 512).len() == 512);
}

fn regions(number: u64, header: &[u8], bits: &[u8]) {
    let Ok(known) = log::decode(header) else {
        return;
    };
    let size = number % (1 << 40);
    let Ok(regions) = log::Regions::new(size, 1 << 21, number % 2 == 0) else {
        return;
    };
    let regions = regions.with_log(known, bits);
    assert!(regions.in_sync() <= regions.count());
}

fn volume(kind: &str, size: u64, force: bool, metadata: [&[u8]; 3]) {
    let disk = |bytes: Vec<u8>| Some(Arc::new(MemDisk::from_bytes(bytes)) as Node);
    let count = if kind == "raid6_nc" { 4 } else { 3 };
    let images = metadata
        .iter()
        .cycle()
        .take(count)
        .zip(0_u8..)
        .map(|(bytes, position)| {
            let mut bytes = bytes.to_vec();
            bytes.resize(METADATA_LEN, 0);
            if bytes.starts_with(b"DmRd") {
                // Positions are what most inputs fail at.
                bytes[12] = position;
            }
            RaidImageDisks {
                metadata: disk(bytes),
                data: disk(vec![position; usize::try_from(IMAGE_LEN).expect("small")]),
            }
        });
    let spec = RaidSpec {
        kind: kind.to_owned(),
        size,
        stripe_size: 1024,
        region_size: 4096,
        images: images.collect(),
    };
    let options = RaidOptions {
        force,
        background: false,
        ..RaidOptions::default()
    };
    block_on(async {
        match open(spec, &options).await {
            Ok(array) => {
                let _read = array.read(Range::new(0, array.geometry().size)).await;
            }
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    });
}
