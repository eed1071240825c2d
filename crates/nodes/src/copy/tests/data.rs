//! Tests of copies between disks that can be looked into, fail, and hold still.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;

use block::{BlockDevice, Errno, Node, Operation, Range, Support, WriteFlags};
use proptest::prelude::*;
use testkit::{
    Effect, Fault, FaultDisk, HeldDisk, MemDisk, TrimLeaves, block_on, gather, pattern, single,
};

use crate::copy::{CopyError, CopyOptions, CopyProgress, CopyStage, PIECE_MAX, copy, verify};
use crate::{Memory, Null};

const MIB: u64 = 1 << 20;

fn alone() -> CopyOptions {
    CopyOptions {
        in_flight: 4,
        ..CopyOptions::default()
    }
}

fn run(source: &Node, target: &Node, options: &CopyOptions) -> Result<CopyProgress, CopyError> {
    let progress = CopyProgress::default();
    block_on(copy(source.clone(), target.clone(), options, &progress)).map(|()| progress)
}

fn write(disk: &dyn BlockDevice, range: Range, seed: u8) {
    let data = single(pattern(seed, range));
    block_on(disk.write(range, data, WriteFlags::empty())).unwrap();
}

/// A disk with some runs of data, the rest holes.
fn sparse(size: u64, runs: &[(u64, u64)]) -> MemDisk {
    let disk = MemDisk::new(size);
    for &(offset, len) in runs {
        write(&disk, Range::new(offset, len), 1);
    }
    disk
}

fn full(size: u64, seed: u8) -> MemDisk {
    MemDisk::from_bytes(pattern(seed, Range::new(0, size)))
}

async fn is_ready<F: Future>(mut future: Pin<&mut F>) -> bool {
    poll_fn(|context| Poll::Ready(future.as_mut().poll(context).is_ready())).await
}

/// Sizes in blocks of 512, where there is data, what the target held, and how it is done.
#[derive(Debug, Clone)]
struct Case {
    sectors: u64,
    runs: Vec<(u64, u64)>,
    source_block: u32,
    target_block: u32,
    target_was_full: bool,
    detect_zeroes: bool,
    zeroing: Support,
}

fn cases() -> impl Strategy<Value = Case> {
    let sectors = 1..3000_u64;
    let runs = prop::collection::vec((0..3000_u64, 1..400_u64), 0..6);
    let blocks = (0..4_usize, 0..4_usize);
    let zeroing = prop_oneof![
        Just(Support::None),
        Just(Support::Emulated),
        Just(Support::Native)
    ];
    let switches = (any::<bool>(), any::<bool>(), zeroing);
    (sectors, runs, blocks, switches).prop_map(|(sectors, runs, blocks, switches)| {
        let sizes = [1, 512, 4096, 65_536];
        let source_block: u32 = sizes[blocks.0];
        Case {
            sectors: sectors.next_multiple_of(u64::from(source_block.div_ceil(512))),
            runs,
            source_block,
            target_block: sizes[blocks.1],
            target_was_full: switches.0,
            detect_zeroes: switches.1,
            zeroing: switches.2,
        }
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn the_target_begins_with_the_source_and_keeps_what_lies_behind(case in cases()) {
        let size = case.sectors * 512;
        let source = MemDisk::new(size);
        for (start, len) in case.runs {
            let start = (start * 512).min(size);
            let range = Range::new(start, (len * 512).min(size - start));
            write(&source, range, 1);
        }
        let source = source.with_geometry(|geometry| geometry.block_size = case.source_block);
        let room = size.next_multiple_of(65_536) + 65_536;
        let target = if case.target_was_full { full(room, 9) } else { MemDisk::new(room) };
        let target = target.trims_leave(TrimLeaves::Garbage).with_geometry(|geometry| {
            geometry.block_size = case.target_block;
            geometry.write_zeroes = case.zeroing;
        });
        let behind = target.snapshot().split_off(Range::new(0, size).len_usize());
        let (source, target) = (Arc::new(source), Arc::new(target));
        let options = CopyOptions { detect_zeroes: case.detect_zeroes, ..alone() };
        let nodes: (Node, Node) = (source.clone(), target.clone());
        let progress = run(&nodes.0, &nodes.1, &options).unwrap();
        let mut expected = source.snapshot();
        expected.extend(behind);
        prop_assert_eq!(target.snapshot(), expected);
        let counts = progress.counts();
        prop_assert_eq!(counts.done(), size);
        prop_assert!(counts.written <= counts.read);
        block_on(verify(nodes.0, nodes.1, &options, &progress)).unwrap();
        prop_assert_eq!(progress.counts().verified, size);
    }

    /// The story of CVE-2022-0485: a copy that went on after a failed read or write and reported
    /// success.
    #[test]
    fn a_copy_in_which_anything_failed_is_no_success(
        seed: u64, rate in 20_000..300_000_u32, which in 0..5_usize, on_source: bool,
    ) {
        let operation = [
            Operation::Read, Operation::Write, Operation::WriteZeroes, Operation::Flush,
            Operation::Extents,
        ][which];
        let fault = Fault::new(Effect::Fail(Errno::Io)).on(operation).rate(rate);
        let from = Arc::new(sparse(8 * MIB, &[(0, MIB), (3 * MIB, 2 * MIB), (7 * MIB, MIB)]));
        let onto = Arc::new(full(8 * MIB, 9));
        let (from, onto): (Node, Node) = (from, onto);
        let faulty = FaultDisk::new(if on_source { from.clone() } else { onto.clone() }, seed, vec![fault]);
        let (source, target) = if on_source { (faulty.clone() as Node, onto) } else { (from, faulty.clone() as Node) };
        let done = run(&source, &target, &alone());
        prop_assert_eq!(done.is_err(), faulty.hits() > 0);
        match done {
            Ok(_) => {}
            Err(CopyError::Source(error)) => prop_assert!(on_source && error.errno == Errno::Io),
            Err(CopyError::Target(error)) => prop_assert!(!on_source && error.errno == Errno::Io),
            Err(other) => prop_assert!(false, "{other}"),
        }
    }
}

#[test]
fn holes_are_not_read_and_not_written_to_a_new_disk() {
    let holes = Range::new(MIB, 6 * MIB);
    let no = |operation| Fault::new(Effect::Fail(Errno::Io)).on(operation).at(holes);
    let source = Arc::new(sparse(8 * MIB, &[(0, MIB), (7 * MIB, MIB)]));
    let source: Node = FaultDisk::new(source, 1, vec![no(Operation::Read)]);
    let target = Arc::new(MemDisk::new(8 * MIB));
    let faults = vec![no(Operation::Write), no(Operation::WriteZeroes)];
    let target: Node = FaultDisk::new(target, 1, faults);
    for target_is_zero in [true, false] {
        let options = CopyOptions {
            target_is_zero,
            ..alone()
        };
        let counts = run(&source, &target, &options).unwrap().counts();
        let found = (counts.read, counts.written, counts.zeroed, counts.kept);
        assert_eq!(found, (2 * MIB, 2 * MIB, 0, 6 * MIB));
    }
}

#[test]
fn zeroes_in_the_data_become_holes_if_they_are_looked_for() {
    let source = MemDisk::from_bytes(vec![0; 4 << 20]);
    write(&source, Range::new(MIB, 4096), 1);
    let source: Node = Arc::new(source);
    let count = |detect_zeroes| {
        let target: Node = Arc::new(full(4 * MIB, 3));
        let options = CopyOptions {
            detect_zeroes,
            ..alone()
        };
        let counts = run(&source, &target, &options).unwrap().counts();
        (counts.written, counts.zeroed)
    };
    assert_eq!(count(true), (32_768, 4 * MIB - 32_768));
    assert_eq!(count(false), (4 * MIB, 0));
}

#[test]
fn a_target_without_room_or_without_leave_is_not_touched() {
    let source: Node = Arc::new(full(MIB, 1));
    let small = Arc::new(full(MIB - 512, 2));
    let before = small.snapshot();
    let error = run(&source, &(small.clone() as Node), &alone()).unwrap_err();
    assert!(matches!(
        error,
        CopyError::TooSmall { source_size, target } if source_size == MIB && target == MIB - 512
    ));
    assert_eq!(small.snapshot(), before);
    let read_only: Node = Arc::new(MemDisk::new(MIB).with_geometry(|g| g.read_only = true));
    let error = run(&source, &read_only, &alone()).unwrap_err();
    assert!(matches!(error, CopyError::ReadOnly));
}

#[test]
fn the_first_difference_is_reported() {
    let source: Node = Arc::new(full(8 * MIB, 1));
    let target = full(8 * MIB, 1);
    for at in [7 * MIB, 5 * MIB + 4097] {
        write(&target, Range::new(at, 1), 2);
    }
    let target: Node = Arc::new(target);
    let progress = CopyProgress::default();
    let error = block_on(verify(source, target, &alone(), &progress)).unwrap_err();
    assert!(matches!(error, CopyError::Differs { offset } if offset == 5 * MIB + 4097));
    assert_eq!(progress.stage(), CopyStage::Verifying);
}

#[test]
fn reads_go_on_while_writes_wait_and_no_more_than_allowed() {
    block_on(async {
        let source: Node = Arc::new(full(16 * MIB, 1));
        let target = HeldDisk::new(Arc::new(MemDisk::new(16 * MIB)));
        let progress = CopyProgress::default();
        let options = CopyOptions {
            in_flight: 3,
            ..alone()
        };
        let mut copying = pin!(copy(source, target.clone(), &options, &progress));
        let mut most = 0;
        while !is_ready(copying.as_mut()).await {
            most = most.max(target.held().len());
            target.release_oldest().await;
            // The runtime gives a task that never yields nothing more to do.
            tokio::task::yield_now().await;
        }
        assert_eq!(most, 3);
        assert_eq!(progress.counts().written, 16 * MIB);
    });
}

#[test]
fn a_dropped_copy_writes_nothing_after_the_target_has_settled() {
    block_on(async {
        let below = Arc::new(MemDisk::new(8 * MIB));
        let target = HeldDisk::new(below.clone());
        let source: Node = Arc::new(full(8 * MIB, 1));
        {
            let progress = CopyProgress::default();
            let options = CopyOptions {
                target_is_zero: true,
                ..alone()
            };
            let mut copying = pin!(copy(source, target.clone(), &options, &progress));
            assert!(!is_ready(copying.as_mut()).await);
        }
        target.release_all().await;
        target.settle().await.unwrap();
        let landed = below.snapshot();
        let rest = landed[Range::new(0, 4 * PIECE_MAX).len_usize()..].iter();
        assert!(rest.copied().all(|byte| byte == 0));
        assert!(target.held().is_empty());
    });
}

#[test]
fn terabytes_of_nothing_take_no_time() {
    const TIB: u64 = 1 << 40;
    let source = Memory::new(900 * TIB);
    let last = Range::new(900 * TIB - 4096, 4096);
    write(&source, last, 5);
    let (source, target): (Node, Node) = (Arc::new(source), Arc::new(Memory::new(900 * TIB)));
    let counts = run(&source, &target, &alone()).unwrap().counts();
    assert!(counts.read <= MIB, "{counts:?}");
    assert_eq!(
        gather(&block_on(target.read(last)).unwrap()),
        pattern(5, last)
    );
    let nothing: Node = Arc::new(Null::new(TIB));
    let counts = run(&nothing, &target, &alone()).unwrap().counts();
    assert_eq!((counts.kept, counts.read), (TIB, 0));
}

#[test]
fn the_work_is_spread_over_the_cores_of_the_engine() {
    let config = engine::Config {
        backend: engine::BackendChoice::Threads,
        cores: 2,
    };
    let done = engine::run(&config, async |handle| {
        let source: Node = Arc::new(full(8 * MIB, 1));
        let below = Arc::new(MemDisk::new(8 * MIB));
        let options = CopyOptions {
            cores: Some(handle),
            ..alone()
        };
        let progress = CopyProgress::default();
        copy(source.clone(), below.clone(), &options, &progress)
            .await
            .unwrap();
        assert_eq!(below.snapshot(), pattern(1, Range::new(0, 8 * MIB)));
        let fault = Fault::new(Effect::Fail(Errno::NoSpace))
            .on(Operation::Write)
            .after(3);
        let target = FaultDisk::new(below, 1, vec![fault]);
        copy(source, target, &options, &progress).await
    });
    let error = done.unwrap().unwrap_err();
    assert!(matches!(error, CopyError::Target(error) if error.errno == Errno::NoSpace));
}

#[test]
fn zeroes_are_not_cut_out_of_a_block_of_the_target() {
    let source = MemDisk::from_bytes(vec![0; 1 << 20]);
    write(&source, Range::new(0, 4096), 1);
    let source: Node = Arc::new(source);
    let target = full(MIB, 3).with_geometry(|geometry| geometry.block_size = 65_536);
    let target: Node = Arc::new(target);
    let counts = run(&source, &target, &alone()).unwrap().counts();
    assert_eq!((counts.written, counts.zeroed), (65_536, MIB - 65_536));
}

/// Enough to be flushed while more is to be written.
const LONG: u64 = 160 * MIB;

#[test]
fn a_target_is_flushed_behind_what_is_written() {
    let source: Node = Arc::new(MemDisk::from_bytes(vec![7; 160 << 20]));
    let target: Node = Arc::new(Null::new(LONG));
    let fault = Fault::new(Effect::Fail(Errno::Io)).on(Operation::Flush);
    let target: Node = FaultDisk::new(target, 1, vec![fault]);
    let progress = CopyProgress::default();
    let copied = block_on(copy(source, target, &alone(), &progress));
    assert!(matches!(copied, Err(CopyError::Target(error)) if error.errno == Errno::Io));
    let written = progress.counts().written;
    assert!((1..LONG).contains(&written), "{written} bytes were written");
}

#[test]
fn a_file_is_written_out_and_flushed_once() {
    let source: Node = Arc::new(MemDisk::from_bytes(vec![7; 160 << 20]));
    let target: Node = Arc::new(Null::new(LONG));
    let fault = Fault::new(Effect::Fail(Errno::Io)).on(Operation::Flush);
    let target: Node = FaultDisk::new(target, 1, vec![fault]);
    let progress = CopyProgress::default();
    let file = tempfile::tempfile().unwrap();
    let options = CopyOptions {
        target_file: Some(engine::DiskFile::from_fd(file.into(), false)),
        ..alone()
    };
    let copied = block_on(copy(source, target, &options, &progress));
    assert!(matches!(copied, Err(CopyError::Target(error)) if error.errno == Errno::Io));
    assert_eq!(progress.counts().written, LONG, "flushed behind");
}

#[test]
fn the_last_flush_is_sent_even_if_all_was_flushed_before() {
    let source: Node = Arc::new(MemDisk::from_bytes(vec![7; 160 << 20]));
    let target: Node = Arc::new(Null::new(LONG));
    // Two behind what is written, one at the end.
    let fault = Fault::new(Effect::Fail(Errno::Io))
        .on(Operation::Flush)
        .after(2);
    let target: Node = FaultDisk::new(target, 1, vec![fault]);
    let progress = CopyProgress::default();
    let copied = block_on(copy(source, target, &alone(), &progress));
    assert!(matches!(copied, Err(CopyError::Target(error)) if error.errno == Errno::Io));
    assert_eq!(progress.counts().written, LONG);
}
