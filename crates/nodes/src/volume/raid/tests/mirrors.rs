//! Old mirrors: disk log, core log, legs that are missing or cannot be read.

use std::sync::Arc;

use block::{BlockDevice, Errno, Node, Operation, Range, TryIo, WriteFlags};
use proptest::prelude::*;
use testkit::{Effect, Fault, FaultDisk, MemDisk, block_on, pattern, single};

use super::kit::place;
use crate::volume::raid::{MirrorOptions, MirrorSpec, MirrorVolume, RaidError, open_mirror};

const REGION: u64 = 4096;
const REGIONS: usize = 8;
const SIZE: u64 = REGION * REGIONS as u64;

fn content() -> Vec<u8> {
    pattern(0x44, Range::new(0, SIZE))
}

/// A log that has these regions in sync.
fn log(in_sync: u8, regions: u64) -> Node {
    let mut bytes = vec![0; 4096];
    bytes[..8].copy_from_slice(b"rRiM\x02\0\0\0");
    bytes[8..16].copy_from_slice(&regions.to_le_bytes());
    bytes[1024] = in_sync;
    Arc::new(MemDisk::from_bytes(bytes))
}

/// Legs of which all but the first are wrong where `in_sync` has no bit.
fn legs(count: usize, in_sync: u8) -> Vec<Option<Node>> {
    let leg = |index: usize| {
        let mut bytes = content();
        for region in (0..REGIONS).filter(|region| index > 0 && in_sync & (1 << region) == 0) {
            let start = region * 4096;
            bytes[start..start + 4096].fill(0xbd);
        }
        Some(Arc::new(MemDisk::from_bytes(bytes)) as Node)
    };
    (0..count).map(leg).collect()
}

/// A disk that fails all reads.
fn unreadable(disk: Node) -> Node {
    let fault = Fault::new(Effect::Fail(Errno::Io)).on(Operation::Read);
    FaultDisk::new(disk, 1, vec![fault])
}

fn open(legs: Vec<Option<Node>>, log: Option<Node>) -> Result<MirrorVolume, RaidError> {
    open_as(legs, log, &MirrorOptions::default())
}

fn open_as(
    legs: Vec<Option<Node>>,
    log: Option<Node>,
    options: &MirrorOptions,
) -> Result<MirrorVolume, RaidError> {
    let spec = MirrorSpec {
        size: SIZE,
        region_size: REGION,
        legs,
        log,
    };
    block_on(open_mirror(spec, options))
}

fn assert_read(mirror: &MirrorVolume) {
    let content = content();
    block_on(async {
        let all = mirror.read(Range::new(0, SIZE)).await.unwrap().concat();
        assert!(all == content);
        for at in (0..SIZE - 2048).step_by(1536) {
            let range = Range::new(at, 2048);
            let place = place(range);
            assert!(mirror.read(range).await.unwrap().concat() == content[place.clone()]);
            let mut now = vec![0; 2048];
            if mirror.try_read(range, &mut now) == TryIo::Done {
                assert!(now == content[place.clone()]);
            }
            let (node, start) = mirror.remap_start(range).unwrap();
            let start = node.read(start).await.unwrap().concat();
            assert!(start == content[place][..start.len()]);
        }
        let extents = mirror.extents(Range::new(0, SIZE)).await.unwrap();
        let covered: u64 = extents.iter().map(|extent| extent.range.len).sum();
        assert_eq!(covered, SIZE);
    });
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn regions_that_are_not_in_sync_are_read_of_the_first_leg(in_sync: u8, count in 1..5_usize) {
        let log = log(in_sync, REGIONS as u64);
        let mirror = open(legs(count, in_sync), Some(log)).unwrap();
        assert_read(&mirror);
        prop_assert_eq!(mirror.regions(), (in_sync.count_ones().into(), REGIONS as u64));
    }

    #[test]
    fn without_its_first_leg_a_mirror_is_read_where_it_is_in_sync(in_sync in 1..=255_u8) {
        let mut legs = legs(3, in_sync);
        legs[0] = None;
        let mirror = open(legs, Some(log(in_sync, REGIONS as u64))).unwrap();
        prop_assert!(!mirror.remarks().is_empty());
        for region in 0..REGIONS {
            let range = Range::new(region as u64 * REGION, REGION);
            let read = block_on(mirror.read(range));
            if in_sync & (1 << region) == 0 {
                prop_assert_eq!(read.unwrap_err().errno, Errno::Io);
            } else {
                let place = place(range);
                prop_assert!(read.unwrap().concat() == content()[place]);
            }
        }
    }
}

#[test]
fn a_core_log_knows_of_no_region() {
    let mirror = open(legs(2, 0), None).unwrap();
    assert_eq!(mirror.regions().0, 0);
    assert_read(&mirror);
    // Legs that were declared equal are, without a log.
    let synced = MirrorOptions {
        assume_synced: true,
        ..MirrorOptions::default()
    };
    let mut both = legs(2, 0xff);
    both[0] = None;
    assert_read(&open_as(both, None, &synced).unwrap());
}

#[test]
fn without_its_first_leg_and_a_log_a_mirror_is_opened_only_if_that_is_forced() {
    let both = || {
        let mut both = legs(2, 0xff);
        both[0] = None;
        both
    };
    let error = open(both(), None).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the first leg of mirror is missing, and 0 of 8 regions are known to be the same on the others"
    );
    assert!(error.next().unwrap().contains("force"));
    let forced = MirrorOptions {
        force: true,
        ..MirrorOptions::default()
    };
    assert_read(&open_as(both(), None, &forced).unwrap());
}

#[test]
fn a_log_of_fewer_regions_leaves_the_others_to_the_first_leg() {
    let mirror = open(legs(2, 0b111), Some(log(0xff, 3))).unwrap();
    assert_eq!(mirror.regions().0, 3);
    assert_read(&mirror);
}

#[test]
fn a_log_of_an_unknown_version_is_refused_and_one_that_cannot_be_read_is_not_used() {
    let bytes = b"rRiM\x07\0\0\0\x08\0\0\0\0\0\0\0".to_vec();
    let unknown = Arc::new(MemDisk::from_bytes([bytes, vec![0; 4080]].concat()));
    let error = open(legs(2, 0), Some(unknown)).unwrap_err();
    assert_eq!(
        error.to_string(),
        "mirror: its log has the unknown version 7"
    );
    let mirror = open(legs(2, 0), Some(unreadable(log(0xff, 8)))).unwrap();
    assert_eq!(mirror.remarks().len(), 1);
    assert_read(&mirror);
}

#[test]
fn a_leg_that_cannot_be_read_is_replaced_by_another_one_where_both_are_in_sync() {
    let in_sync = 0b1111_0111;
    for bad in 0..3 {
        let mut all = legs(3, in_sync);
        all[bad] = all[bad].take().map(unreadable);
        let mirror = open(all, Some(log(in_sync, 8))).unwrap();
        block_on(async {
            for region in 0..REGIONS {
                let range = Range::new(region as u64 * REGION, REGION);
                let read = mirror.read(range).await;
                let place = place(range);
                match read {
                    Ok(read) => assert!(read.concat() == content()[place]),
                    Err(_) => assert_eq!((bad, region), (0, 3)),
                }
            }
        });
    }
}

#[test]
fn a_mirror_is_not_written() {
    let mirror = open(legs(2, 0xff), Some(log(0xff, 8))).unwrap();
    assert!(mirror.geometry().read_only);
    let range = Range::new(0, 512);
    block_on(async {
        let data = single(vec![0; 512]);
        let written = mirror.write(range, data, WriteFlags::empty()).await;
        assert_eq!(written.unwrap_err().errno, Errno::NotPermitted);
        assert!(mirror.trim(range).await.is_err());
        assert!(
            mirror
                .write_zeroes(range, WriteFlags::empty())
                .await
                .is_err()
        );
        mirror.flush().await.unwrap();
        mirror.settle().await.unwrap();
    });
    assert_eq!(mirror.identity(), None);
}

#[test]
fn legs_that_are_too_small_or_none_are_refused() {
    let small: Node = Arc::new(MemDisk::new(SIZE - 512));
    let error = open(vec![Some(small)], None).unwrap_err();
    let what = format!(
        "a leg of mirror has {} bytes, and the mirror {SIZE}",
        SIZE - 512
    );
    assert_eq!(error.to_string(), what);
    let error = open(vec![None, None], None).unwrap_err();
    assert_eq!(error.to_string(), "all legs of mirror are missing");
    assert!(open(Vec::new(), None).is_err());
}
