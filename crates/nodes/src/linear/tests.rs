//! Tests of `linear`.

use std::pin::pin;
use std::sync::Arc;

use block::{BlockDevice, Errno, ExtentKind, Node, Operation, Range, Support, TryIo, WriteFlags};
use engine::{BackendChoice, Config};
use futures_util::future::poll_immediate;
use proptest::prelude::*;
use testkit::{
    Effect, Fault, FaultDisk, HeldDisk, MemDisk, OpSpace, TrimLeaves, block_on,
    check_against_model, check_crashes, check_dropped_futures, check_in_batches, gather,
    one_of_each, ops, pattern, single,
};

use super::plan::Map;
use super::{Linear, LinearError};
use crate::parts::{Layout, Segment};
use crate::{ErrorDisk, File, FileOptions, Memory, Null};

const SIZE: u64 = 32 * 1024;

fn segment(disk: &Node, offset: u64, len: u64) -> Segment {
    let disk = disk.clone();
    let range = Range::new(offset, len);
    Segment { disk, range }
}

/// Four segments of three disks; one disk is there twice, and no segment is a whole disk.
fn four(disks: &[Node]) -> Linear {
    let segments = vec![
        segment(&disks[0], 1024, 4096),
        segment(&disks[1], 0, 10_240),
        segment(&disks[0], 5120, 2048),
        segment(&disks[2], 512, SIZE - 4096 - 10_240 - 2048),
    ];
    Linear::new(segments).unwrap()
}

const SIZES: [u64; 3] = [8192, 12_288, 20_480];

fn mem_disks() -> Vec<Node> {
    let disk = |size| Arc::new(MemDisk::new(size).trims_leave(TrimLeaves::Garbage)) as Node;
    SIZES.map(disk).to_vec()
}

async fn open(disks: Vec<Node>) -> Result<Node, block::IoError> {
    Ok(Arc::new(four(&disks)))
}

fn space(block_size: u32) -> OpSpace {
    OpSpace {
        size: SIZE,
        block_size,
        len_max: SIZE / 2,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn four_segments_are_a_disk(ops in ops(space(1), 0..60), width in 1_usize..8) {
        block_on(check_in_batches(&four(&mem_disks()), &ops, width)).unwrap();
    }

    #[test]
    fn a_window_is_a_disk(ops in ops(space(512), 0..40)) {
        let below: Node = Arc::new(Memory::new(3 * SIZE));
        let window = Linear::new(vec![segment(&below, SIZE / 2, SIZE)]).unwrap();
        block_on(check_against_model(&window, &ops)).unwrap();
    }

    #[test]
    fn what_was_flushed_survives_a_power_cut(ops in ops(space(512), 0..12), seed: u64) {
        block_on(check_crashes(open, &SIZES, &ops, seed)).unwrap();
    }

    #[test]
    fn every_byte_of_a_request_is_on_one_segment(
        lens in prop::collection::vec(1..50_u64, 1..9), a in 0..400_u64, b in 0..400_u64,
    ) {
        let size: u64 = lens.iter().sum();
        let (start, end) = (a.min(b).min(size), a.max(b).min(size));
        let range = Range::new(start, end - start);
        let map = Map::new(lens.iter().copied());
        let mut covered = Vec::new();
        for share in map.shares(range) {
            prop_assert!(share.within.end() <= lens[share.part]);
            let before: u64 = lens[..share.part].iter().sum();
            let bytes = share.within.offset..share.within.end();
            let runs = share.runs().flatten();
            for (byte, at) in bytes.zip(runs) {
                prop_assert_eq!(before + byte, start + at as u64);
                covered.push(before + byte);
            }
        }
        prop_assert_eq!(covered, (start..end).collect::<Vec<_>>());
        if let Some((part, within)) = map.single(range) {
            let before: u64 = lens[..part].iter().sum();
            prop_assert_eq!(before + within.offset, start);
            prop_assert!(within.len == range.len && within.end() <= lens[part]);
        } else {
            prop_assert!(start == size || map.shares(range).len() > 1);
        }
    }
}

#[test]
fn a_dropped_future_leaves_nothing_behind_after_settle() {
    let range = Range::new(4000, 11_000);
    let list = one_of_each(range, SIZE);
    block_on(check_dropped_futures(open, &SIZES, &list)).unwrap();
}

#[test]
fn a_window_shows_and_changes_nothing_outside_it() {
    let disk = Arc::new(MemDisk::from_bytes(pattern(1, Range::new(0, SIZE))));
    let below: Node = disk.clone();
    let window = Linear::new(vec![segment(&below, 4096, 8192)]).unwrap();
    let whole = Range::new(0, 8192);
    let found = gather(&block_on(window.read(whole)).unwrap());
    assert_eq!(found, pattern(1, Range::new(4096, 8192)));
    block_on(window.write_zeroes(whole, WriteFlags::empty())).unwrap();
    let after = disk.snapshot();
    assert_eq!(after[..4096], pattern(1, Range::new(0, 4096)));
    assert_eq!(
        after[12_288..],
        pattern(1, Range::new(12_288, SIZE - 12_288))
    );
    assert!(after[4096..12_288].iter().all(|&byte| byte == 0));
}

#[test]
fn remap_names_the_one_disk_that_holds_a_range() {
    let disks = mem_disks();
    let linear = four(&disks);
    let found = |offset, len| {
        let (disk, range) = linear.remap(Range::new(offset, len))?;
        let index = disks.iter().position(|d| crate::parts::is_same(d, disk));
        Some((index.unwrap(), range))
    };
    assert_eq!(found(0, 4096), Some((0, Range::new(1024, 4096))));
    assert_eq!(found(4096, 1), Some((1, Range::new(0, 1))));
    assert_eq!(found(4095, 2), None);
    assert_eq!(found(14_336, 2048), Some((0, Range::new(5120, 2048))));
    assert_eq!(found(SIZE - 1, 1), Some((2, Range::new(512 + 16_383, 1))));
    assert_eq!(found(SIZE, 0), None);
}

#[test]
fn bytes_across_a_boundary_are_read_and_written_in_line() {
    let linear = four(&mem_disks());
    let range = Range::new(4000, 11_000);
    let data = pattern(3, range);
    assert_eq!(linear.try_write(range, &data), TryIo::Done);
    let mut into = vec![0; range.len_usize()];
    assert_eq!(linear.try_read(range, &mut into), TryIo::Done);
    assert_eq!(into, data);
    assert_eq!(gather(&block_on(linear.read(range)).unwrap()), data);
}

#[test]
fn one_segment_that_would_wait_makes_all_wait() {
    let mut disks = mem_disks();
    disks[1] = HeldDisk::new(disks[1].clone());
    let linear = four(&disks);
    let mut into = [0; 200];
    let across = Range::new(4000, 200);
    assert_eq!(linear.try_read(across, &mut into), TryIo::WouldBlock);
    assert_eq!(linear.try_write(across, &into), TryIo::WouldBlock);
    assert_eq!(linear.try_read(Range::new(0, 200), &mut into), TryIo::Done);
}

#[test]
fn a_disk_that_is_there_twice_is_flushed_once() {
    let held: Vec<_> = mem_disks().into_iter().map(HeldDisk::new).collect();
    let disks: Vec<Node> = held.iter().map(|disk| disk.clone() as Node).collect();
    let linear = four(&disks);
    block_on(async {
        let mut flush = pin!(linear.flush());
        assert!(poll_immediate(flush.as_mut()).await.is_none());
        for disk in &held {
            let asked: Vec<_> = disk.held().iter().map(|held| held.operation).collect();
            assert_eq!(asked, [Operation::Flush]);
        }
        for disk in &held {
            assert!(poll_immediate(flush.as_mut()).await.is_none());
            disk.release_all().await;
        }
        flush.await.unwrap();
    });
}

#[test]
fn a_disk_without_a_cache_is_not_flushed() {
    let plain = MemDisk::new(8192).with_geometry(|geometry| geometry.flush = Support::None);
    let plain = HeldDisk::new(Arc::new(plain));
    let disks: Vec<Node> = vec![plain.clone(), Arc::new(MemDisk::new(8192))];
    block_on(Linear::of_disks(disks).unwrap().flush()).unwrap();
    assert!(plain.held().is_empty());
}

#[test]
fn a_failed_write_answers_once_nothing_of_it_can_land_any_more() {
    let mut disks = mem_disks();
    let fault = Fault::new(Effect::Fail(Errno::NoSpace)).on(Operation::Write);
    disks[0] = FaultDisk::new(disks[0].clone(), 1, vec![fault]);
    let slow = HeldDisk::new(disks[1].clone());
    disks[1] = slow.clone();
    let linear = four(&disks);
    let range = Range::new(4000, 200);
    block_on(async {
        let data = single(pattern(1, range));
        let mut write = pin!(linear.write(range, data, WriteFlags::empty()));
        assert!(
            poll_immediate(write.as_mut()).await.is_none(),
            "the other one is in flight"
        );
        assert_eq!(slow.release_all().await, 1);
        let error = write.await.unwrap_err();
        assert_eq!(error.errno, Errno::NoSpace, "a full disk stays a full disk");
        assert_eq!(error.range, Some(range), "the range that was asked for");
        assert!(error.to_string().contains("part 1 of 4"), "{error}");
    });
}

#[test]
fn a_lost_segment_leaves_the_others() {
    let good: Node = Arc::new(MemDisk::new(8192));
    let disks = vec![good.clone(), Arc::new(ErrorDisk::new(8192)), good];
    let linear = Linear::of_disks(disks).unwrap();
    block_on(async {
        linear.read(Range::new(0, 8192)).await.unwrap();
        linear.read(Range::new(16_384, 8192)).await.unwrap();
        let error = linear.read(Range::new(8191, 2)).await.unwrap_err();
        assert_eq!(error.errno, Errno::Io);
        linear.flush().await.unwrap();
        linear.settle().await.unwrap();
    });
}

#[test]
fn what_one_segment_cannot_do_all_refuse() {
    let weak = MemDisk::new(8192).with_geometry(|geometry| {
        geometry.trim = Support::None;
        geometry.write_zeroes = Support::Emulated;
    });
    let disks: Vec<Node> = vec![Arc::new(MemDisk::new(8192)), Arc::new(weak)];
    let linear = Linear::of_disks(disks).unwrap();
    block_on(async {
        let errno = |result: Result<(), block::IoError>| result.map_err(|error| error.errno);
        let range = Range::new(0, 512);
        assert_eq!(errno(linear.trim(range).await), Err(Errno::NotSupported));
        let fast = linear.write_zeroes(range, WriteFlags::FAST_ZERO);
        assert_eq!(errno(fast.await), Err(Errno::NotSupported));
        let slow = linear.write_zeroes(range, WriteFlags::empty());
        assert_eq!(errno(slow.await), Ok(()));
    });
}

#[test]
fn one_read_only_disk_makes_all_read_only() {
    let read_only = MemDisk::new(8192).with_geometry(|geometry| geometry.read_only = true);
    let disks: Vec<Node> = vec![Arc::new(MemDisk::new(8192)), Arc::new(read_only)];
    let linear = Linear::of_disks(disks).unwrap();
    assert!(linear.geometry().read_only);
    let range = Range::new(0, 512);
    let write = linear.write(range, single(vec![1; 512]), WriteFlags::empty());
    assert_eq!(block_on(write).unwrap_err().errno, Errno::NotPermitted);
    assert_eq!(linear.try_write(range, &[1; 512]), TryIo::WouldBlock);
}

#[test]
fn extents_of_all_segments_are_reported_in_order() {
    let data: Node = Arc::new(MemDisk::from_bytes(vec![1; 4096]));
    let hole: Node = Arc::new(Null::new(4096));
    let linear = Linear::of_disks(vec![hole.clone(), data, hole.clone(), hole]).unwrap();
    let extents = block_on(linear.extents(Range::new(1024, 15_360 - 1024))).unwrap();
    let told: Vec<_> = extents.iter().map(|e| (e.range, e.kind)).collect();
    let expected = [
        (Range::new(1024, 3072), ExtentKind::Hole),
        (Range::new(4096, 4096), ExtentKind::Data),
        (Range::new(8192, 7168), ExtentKind::Hole),
    ];
    assert_eq!(told, expected);
}

#[test]
fn parts_that_make_no_disk_are_refused() {
    assert_eq!(Linear::new(Vec::new()).unwrap_err(), LinearError::None);
    let disk: Node = Arc::new(MemDisk::new(8192));
    let error = Linear::new(vec![segment(&disk, 4096, 8192)]).unwrap_err();
    assert!(
        matches!(error, LinearError::PastEnd { number: 1, .. }),
        "{error}"
    );
}

#[test]
#[should_panic(expected = "a range that it should refuse")]
fn a_range_past_the_end_was_the_exports_to_refuse() {
    let disks = vec![Arc::new(MemDisk::new(4096)) as Node];
    let linear = Linear::of_disks(disks).unwrap();
    drop(linear.read(Range::new(4096, 1)));
}

/// Runs `test` on two sparse files, of which the second can be made longer.
fn with_files(test: impl AsyncFn(Vec<Node>, std::path::PathBuf)) {
    let config = Config {
        backend: BackendChoice::Threads,
        cores: 1,
    };
    let folder = tempfile::tempdir().unwrap();
    let paths = [0, 1].map(|n| folder.path().join(n.to_string()));
    engine::run(&config, |_| async {
        let mut disks = Vec::new();
        for path in &paths {
            std::fs::File::create(path).unwrap().set_len(8192).unwrap();
            let disk = File::open(path, FileOptions::default()).await.unwrap();
            disks.push(Arc::new(disk) as Node);
        }
        test(disks, paths[1].clone()).await;
    })
    .unwrap();
}

fn grow(path: &std::path::Path, size: u64) {
    let file = std::fs::OpenOptions::new().write(true).open(path).unwrap();
    file.set_len(size).unwrap();
}

#[test]
fn disks_in_a_row_grow_with_the_last() {
    with_files(async |disks, last| {
        let linear = Linear::of_disks(disks).unwrap();
        assert!(linear.revalidate().await.unwrap().is_none());
        grow(&last, 12_288);
        let grown = linear.revalidate().await.unwrap().unwrap();
        assert_eq!(grown.geometry().size, 20_480);
        let range = Range::new(16_000, 4480);
        let data = single(pattern(1, range));
        grown.write(range, data, WriteFlags::empty()).await.unwrap();
        assert_eq!(gather(&grown.read(range).await.unwrap()), pattern(1, range));
        assert!(grown.revalidate().await.unwrap().is_none());
        grow(&last, 16_384);
        let again = grown.revalidate().await.unwrap().unwrap();
        assert_eq!(again.geometry().size, 24_576);
    });
}

#[test]
fn segments_stay_as_large_as_requested() {
    with_files(async |disks, last| {
        let segments = disks.into_iter().map(Segment::whole).collect();
        let linear = Linear::new(segments).unwrap();
        grow(&last, 12_288);
        assert!(linear.revalidate().await.unwrap().is_none());
    });
}
