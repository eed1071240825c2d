//! What a thin volume reads as, and what it says of itself.

use std::sync::Arc;

use block::{Errno, Extent, ExtentKind, Node, Range, TryIo, WriteFlags, resolve, resolve_start};
use fastrand::Rng;
use proptest::prelude::*;
use testkit::{MemDisk, Op, block_on, check_in_batches, gather, single};

use super::super::ThinError;
use super::image::{CHUNK, TestPool};
use crate::{Memory, Null};

/// Chunks of random volumes, at most.
const CHUNKS: u64 = 40;

fn read(node: &Node, range: Range) -> Vec<u8> {
    gather(&block_on(node.read(range)).unwrap()).to_vec()
}

fn whole(node: &Node) -> Range {
    Range::new(0, node.geometry().size)
}

fn extents(node: &Node, range: Range) -> Vec<(u64, u64, ExtentKind)> {
    let found = block_on(node.extents(range)).unwrap();
    let row = |extent: Extent| (extent.range.offset, extent.range.len, extent.kind);
    found.into_iter().map(row).collect()
}

fn random_reads(rng: &mut Rng, size: u64) -> Vec<Op> {
    let op = |_| {
        let offset = rng.u64(0..=size);
        let len = rng.u64(0..=(size - offset).min(5 * CHUNK));
        Op::Read {
            range: Range::new(offset, len),
        }
    };
    (0..20).map(op).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn a_random_volume_reads_as_its_mapping_says(seed: u64) {
        let mut rng = Rng::with_seed(seed);
        let pool = TestPool::random(&mut rng, CHUNKS, 24);
        let opened = pool.open();
        for device in pool.volumes.keys() {
            let size = rng.u64(1..=CHUNKS * pool.chunk / 512) * 512;
            let origin = vec![0xd5; usize::try_from(rng.u64(0..=size / 512) * 512).unwrap()];
            let disk: Option<Node> = (!origin.is_empty())
                .then(|| Arc::new(MemDisk::from_bytes(origin.clone())) as Node);
            let volume = block_on(opened.volume(*device, size, disk)).unwrap();
            let ops = random_reads(&mut rng, size);
            let width = rng.usize(1..6);
            prop_assert!(read(&volume, whole(&volume)) == pool.expected(*device, size, &origin));
            block_on(check_in_batches(&*volume, &ops, width)).unwrap();
            let mapped = pool.volumes[device].len() as u64;
            prop_assert_eq!(block_on(opened.check_volume(*device)).unwrap(), mapped);
        }
    }
}

#[test]
fn snapshots_share_the_chunks_that_neither_has_written() {
    let origin: Vec<(u64, u64)> = (0..600).map(|chunk| (chunk, chunk % 8)).collect();
    let mut snapshot = origin.clone();
    snapshot[3] = (3, 7);
    let pool = TestPool::new(8)
        .volume(1, &origin)
        .volume(2, &origin)
        .volume(3, &snapshot);
    let opened = pool.open();
    for device in [1, 2, 3] {
        let volume = block_on(opened.volume(device, 600 * CHUNK, None)).unwrap();
        assert!(read(&volume, whole(&volume)) == pool.expected(device, 600 * CHUNK, &[]));
    }
}

#[test]
fn what_is_not_mapped_is_the_external_origins_as_far_as_that_goes() {
    let pool = TestPool::new(4).volume(1, &[(1, 2)]);
    let origin = vec![0xd5; 3 * 64 * 1024 + 512];
    let disk = Arc::new(MemDisk::from_bytes(origin.clone()));
    let size = 5 * CHUNK + 1024;
    let volume = block_on(pool.open().volume(1, size, Some(disk))).unwrap();
    let all = read(&volume, whole(&volume));
    assert!(all == pool.expected(1, size, &origin));
    assert_eq!(
        (all[0], all[3 * 65_536 + 511], all[3 * 65_536 + 512]),
        (0xd5, 0xd5, 0)
    );
    let end = 3 * CHUNK + 512;
    let rows = [
        (0, end, ExtentKind::Data),
        (end, size - end, ExtentKind::Hole),
    ];
    assert_eq!(extents(&volume, whole(&volume)), rows);
}

#[test]
fn a_volume_may_end_within_a_chunk_and_be_smaller_or_larger_than_what_is_mapped() {
    let pool = TestPool::new(4).volume(1, &[(0, 3), (1, 0), (9, 1)]);
    let opened = pool.open();
    for size in [512, CHUNK + 512, 2 * CHUNK, 9 * CHUNK + 4096, 20 * CHUNK] {
        let volume = block_on(opened.volume(1, size, None)).unwrap();
        assert!(read(&volume, whole(&volume)) == pool.expected(1, size, &[]));
    }
}

#[test]
fn what_is_not_mapped_is_reported_as_holes() {
    let pool = TestPool::new(4).volume(1, &[(2, 1), (3, 0), (5, 3)]);
    let volume = block_on(pool.open().volume(1, 700 * CHUNK, None)).unwrap();
    let (data, hole) = (ExtentKind::Data, ExtentKind::Hole);
    let rows = [
        (0, 2 * CHUNK, hole),
        (2 * CHUNK, 2 * CHUNK, data),
        (4 * CHUNK, CHUNK, hole),
        (5 * CHUNK, CHUNK, data),
        (6 * CHUNK, 694 * CHUNK, hole),
    ];
    assert_eq!(extents(&volume, whole(&volume)), rows);
    let within = Range::new(3 * CHUNK + 100, CHUNK);
    let rows = [(within.offset, CHUNK - 100, data), (4 * CHUNK, 100, hole)];
    assert_eq!(extents(&volume, within), rows);
    assert_eq!(extents(&volume, Range::new(512, 0)), []);
}

#[test]
fn a_hole_of_many_tib_is_found_at_once() {
    let size: u64 = 1 << 50;
    let last = size / CHUNK - 1;
    let pool = TestPool::new(4).volume(1, &[(1, 2), (last, 3)]);
    let volume = block_on(pool.open().volume(1, size, None)).unwrap();
    let (data, hole) = (ExtentKind::Data, ExtentKind::Hole);
    let rows = [
        (0, CHUNK, hole),
        (CHUNK, CHUNK, data),
        (2 * CHUNK, size - 3 * CHUNK, hole),
        (size - CHUNK, CHUNK, data),
    ];
    assert_eq!(extents(&volume, whole(&volume)), rows);
}

#[test]
fn sections_that_share_a_slot_replace_each_other() {
    // 1024 slots of 512 chunks.
    let far = 1024 * 512;
    let pool = TestPool::new(4).volume(1, &[(5, 1), (far + 5, 2), (2 * far + 5, 3)]);
    let volume = block_on(pool.open().volume(1, 3 * far * CHUNK, None)).unwrap();
    let data = pool.data();
    let chunk = usize::try_from(CHUNK).unwrap();
    for round in 0..6 {
        let which = round % 3;
        let range = Range::new((which * far + 5) * CHUNK, CHUNK);
        let at = (usize::try_from(which).unwrap() + 1) * chunk;
        assert!(read(&volume, range) == data[at..at + chunk]);
        let mut into = vec![0; chunk];
        assert_eq!(volume.try_read(range, &mut into), TryIo::Done);
        assert!(into == data[at..at + chunk]);
    }
}

#[test]
fn the_fast_path_answers_once_the_mapping_is_known() {
    let pool = TestPool::new(4).volume(1, &[(0, 3), (1, 0)]);
    let volume = block_on(pool.open().volume(1, 4 * CHUNK, None)).unwrap();
    let mut into = vec![0xee; 4 * 65_536];
    assert_eq!(
        volume.try_read(whole(&volume), &mut into),
        TryIo::WouldBlock
    );
    assert!(volume.remap(Range::new(0, 512)).is_none());
    read(&volume, Range::new(0, 512));
    assert_eq!(volume.try_read(whole(&volume), &mut into), TryIo::Done);
    assert!(into == pool.expected(1, 4 * CHUNK, &[]));
}

#[test]
fn a_read_leads_to_data_that_are_read_only_and_to_no_others() {
    let pool = TestPool::new(4).volume(1, &[(0, 2), (1, 3), (2, 0)]);
    let volume = block_on(pool.open().volume(1, 4 * CHUNK, None)).unwrap();
    read(&volume, Range::new(0, 512));
    let (_, there) = resolve(&*volume, Range::new(4096, CHUNK));
    assert_eq!(there, Range::new(2 * CHUNK + 4096, CHUNK));
    let (_, start) = resolve_start(&*volume, Range::new(CHUNK, 2 * CHUNK));
    assert_eq!(start, Range::new(3 * CHUNK, CHUNK));
    assert!(
        volume.remap(Range::new(CHUNK, 2 * CHUNK)).is_none(),
        "it lies in two places"
    );
    assert!(
        volume.remap(Range::new(3 * CHUNK, 512)).is_none(),
        "it is not mapped"
    );

    let writable = Arc::new(MemDisk::from_bytes(pool.data()));
    let opened = pool
        .open_with(&pool.metadata(), writable, pool.spec())
        .unwrap();
    let volume = block_on(opened.volume(1, 4 * CHUNK, None)).unwrap();
    read(&volume, Range::new(0, 512));
    assert!(volume.remap(Range::new(0, 512)).is_none());
    assert!(volume.remap_start(Range::new(0, 512)).is_none());
}

#[test]
fn changes_are_refused() {
    let pool = TestPool::new(4).volume(1, &[(0, 2)]);
    let volume = block_on(pool.open().volume(1, CHUNK, None)).unwrap();
    let range = Range::new(0, 512);
    let data = single(vec![1; 512]);
    let none = WriteFlags::empty();
    let refused = [
        block_on(volume.write(range, data, none)),
        block_on(volume.write_zeroes(range, none)),
        block_on(volume.trim(range)),
    ];
    for answer in refused {
        assert_eq!(answer.unwrap_err().errno, Errno::NotPermitted);
    }
    assert_eq!(volume.try_write(range, &[1; 512]), TryIo::WouldBlock);
    block_on(volume.flush()).unwrap();
    block_on(volume.settle()).unwrap();
    assert!(read(&volume, whole(&volume)) == pool.expected(1, CHUNK, &[]));
    let error = ThinError::ReadOnly {
        volume: "vg/thin".to_owned(),
    };
    assert!(
        error
            .to_string()
            .contains("overlay(volume(…, name=vg/thin), top.cow)")
    );
}

#[test]
fn the_blocks_of_a_volume_are_the_largest_of_its_disks() {
    let pool = TestPool::new(4).volume(1, &[(0, 2)]);
    let coarse = |size| {
        let disk = Memory::new(size);
        Arc::new(crate::Blocks::new(Arc::new(disk), 4096).unwrap()) as Node
    };
    let opened = pool.open();
    let origin = Some(coarse(2 * CHUNK));
    let volume = block_on(opened.volume(1, CHUNK, origin.clone())).unwrap();
    assert_eq!(volume.geometry().block_size, 4096);
    assert!(volume.geometry().read_only);
    let refused = block_on(opened.volume(1, CHUNK + 512, origin)).unwrap_err();
    assert!(matches!(
        refused,
        ThinError::Blocks {
            block_size: 4096,
            ..
        }
    ));
}

#[test]
fn two_volumes_of_a_pool_are_different_disks_and_one_is_the_same() {
    let pool = TestPool::new(4).volume(1, &[]).volume(2, &[]);
    let data: Node = Arc::new(Null::new(4 * CHUNK));
    let metadata: Node = Arc::new(Null::new(CHUNK));
    assert!(data.identity().is_some() && metadata.identity().is_some());
    let opened = pool.open();
    let [one, same, other] =
        [1, 1, 2].map(|device| block_on(opened.volume(device, CHUNK, None)).unwrap());
    assert_eq!(one.identity(), same.identity());
    if one.identity().is_some() {
        assert_ne!(one.identity(), other.identity());
    }
}
