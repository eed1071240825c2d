//! Tests of `blocks`.

mod growth;

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;

use block::{
    BlockDevice, Errno, Extent, ExtentKind, Node, Operation, Range, Support, TryIo, WriteFlags,
};
use futures_util::future::{join, join_all};
use proptest::prelude::*;
use testkit::{
    Effect, Fault, FaultDisk, HeldDisk, MemDisk, Op, OpSpace, TrimLeaves, block_on,
    check_against_model, check_crashes, check_dropped_futures, check_in_batches, gather, ops,
    pattern, single,
};

use super::plan::{BlockSpan, clip, slice};
use super::state::{Access, TurnTable};
use super::{BlockSizeError, Blocks};
use crate::Memory;

const SIZE: u64 = 64 * 1024;
const BELOW: u32 = 4096;

fn disk_of_4096(size: u64) -> MemDisk {
    MemDisk::new(size).with_geometry(|geometry| geometry.block_size = BELOW)
}

fn blocks(child: impl BlockDevice + 'static, block_size: u32) -> Blocks {
    Blocks::new(Arc::new(child), block_size).unwrap()
}

/// Polls a future once.
async fn is_ready<F: Future>(mut future: Pin<&mut F>) -> bool {
    poll_fn(|context| Poll::Ready(future.as_mut().poll(context).is_ready())).await
}

fn write(range: Range, fill: u8) -> Op {
    Op::Write {
        range,
        fill,
        flags: WriteFlags::empty(),
        now: false,
    }
}

fn space(block_size: u32) -> OpSpace {
    OpSpace {
        size: SIZE,
        block_size,
        len_max: 3 * 4096,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn small_blocks_on_large_ones_are_a_disk(ops in ops(space(512), 0..40)) {
        block_on(check_against_model(&blocks(disk_of_4096(SIZE), 512), &ops)).unwrap();
    }

    #[test]
    fn single_bytes_on_large_blocks_are_a_disk(ops in ops(space(1), 0..40)) {
        let child = disk_of_4096(SIZE).trims_leave(TrimLeaves::Garbage);
        block_on(check_against_model(&blocks(child, 1), &ops)).unwrap();
    }

    #[test]
    fn large_blocks_on_small_ones_are_a_disk(ops in ops(space(4096), 0..40)) {
        block_on(check_against_model(&blocks(MemDisk::new(SIZE), 4096), &ops)).unwrap();
    }

    #[test]
    fn requests_side_by_side_keep_their_neighbours(ops in ops(space(512), 0..60)) {
        block_on(check_in_batches(&blocks(disk_of_4096(SIZE), 512), &ops, 12)).unwrap();
    }

    #[test]
    fn a_stack_of_blocks_is_a_disk(ops in ops(space(512), 0..40)) {
        let middle = blocks(Memory::new(SIZE), 4096);
        block_on(check_against_model(&blocks(middle, 512), &ops)).unwrap();
    }

    #[test]
    fn what_was_flushed_survives_a_power_cut(ops in ops(space(512), 0..12), seed: u64) {
        // The disk below has blocks of 4096 over one that has not.
        let open = async |children: Vec<Node>| {
            let large = Blocks::new(children[0].clone(), BELOW).unwrap();
            Ok(Arc::new(blocks(large, 512)) as Node)
        };
        block_on(check_crashes(open, &[SIZE], &ops, seed)).unwrap();
    }

    #[test]
    fn every_byte_of_a_request_is_in_the_whole_blocks_or_on_an_edge(
        offset in 0..20_000_u64, len in 0..20_000_u64, power in 0..14_u32,
    ) {
        let block = 1 << power;
        let range = Range::new(offset, len);
        let place = BlockSpan::of(range, block);
        let mut parts: Vec<Range> = place.edges(block).collect();
        parts.extend((!place.inner.is_empty()).then_some(place.inner));
        parts.sort();
        let mut at = offset;
        for part in parts {
            prop_assert_eq!(part.offset, at);
            at = part.end();
        }
        prop_assert_eq!(at, range.end());
        for edge in place.edges(block) {
            prop_assert_eq!(edge.offset / block, (edge.end() - 1) / block, "within one block");
        }
        prop_assert!(place.outer.offset <= offset && range.end() <= place.outer.end());
        let aligned = [place.inner.offset, place.inner.len].iter().all(|n| n.is_multiple_of(block));
        prop_assert!(aligned || place.inner.is_empty());
    }

    #[test]
    fn a_slice_is_the_bytes_in_between(lens in prop::collection::vec(0..9_usize, 0..6), a: u8, b: u8) {
        let mut next = 0_u8;
        let data: block::IoBufs = lens.iter().map(|&len| {
            let piece: Vec<u8> = (next..).take(len).collect();
            next += u8::try_from(len).unwrap();
            piece.into()
        }).collect();
        let (start, end) = (a.min(b).min(next), a.max(b).min(next));
        let cut = slice(&data, start.into(), (end - start).into());
        prop_assert_eq!(gather(&cut), (start..end).collect::<Vec<u8>>());
    }
}

#[test]
fn a_dropped_future_leaves_nothing_behind_after_settle() {
    let open = async |children: Vec<Node>| {
        let large = Blocks::new(children[0].clone(), BELOW).unwrap();
        Ok(Arc::new(blocks(large, 512)) as Node)
    };
    let range = Range::new(512, 2 * 4096);
    let flags = WriteFlags::FUA;
    let list = [
        write(Range::new(512, 512), 3),
        write(range, 4),
        write(Range::new(4096, 4096), 5),
        Op::WriteZeroes { range, flags },
        Op::Trim { range },
        Op::Read { range },
        Op::Flush,
    ];
    block_on(check_dropped_futures(open, &[SIZE], &list)).unwrap();
}

#[test]
fn eight_neighbours_in_one_block_are_all_written() {
    block_on(async {
        let child = HeldDisk::new(Arc::new(disk_of_4096(SIZE)));
        child.hold(true);
        let disk = Blocks::new(child.clone(), 512).unwrap();
        let ranges: Vec<Range> = (0..8).map(|n| Range::new(n * 512, 512)).collect();
        let writes = ranges.iter().map(|&range| {
            let data = single(pattern(9, range));
            disk.write(range, data, WriteFlags::empty())
        });
        let mut writes = pin!(join_all(writes));
        while !is_ready(writes.as_mut()).await {
            assert_eq!(child.held().len(), 1, "one rewrite of a block at a time");
            child.release_oldest().await;
        }
        child.hold(false);
        let whole = Range::new(0, 4096);
        let found = gather(&disk.read(whole).await.unwrap());
        assert_eq!(found, pattern(9, whole));
    });
}

#[test]
fn neighbouring_whole_blocks_do_not_wait() {
    block_on(async {
        let child = HeldDisk::new(Arc::new(disk_of_4096(SIZE)));
        child.hold(true);
        let disk = Blocks::new(child.clone(), 512).unwrap();
        let write = |offset| {
            let range = Range::new(offset, 4096);
            disk.write(range, single(pattern(1, range)), WriteFlags::empty())
        };
        let mut both = pin!(join(write(0), write(0)));
        assert!(!is_ready(both.as_mut()).await);
        assert_eq!(child.held().len(), 2);
        child.release_all().await;
        assert!(is_ready(both.as_mut()).await);
    });
}

/// A rewrite that is cancelled while its write is held below would bring back the old bytes
/// of its neighbours, had a later write of them not waited for it.
#[test]
fn a_rewrite_that_lands_late_does_not_take_its_neighbours_back() {
    block_on(async {
        let child = HeldDisk::new(Arc::new(disk_of_4096(SIZE)));
        let disk = Blocks::new(child.clone(), 512).unwrap();
        child.hold(true);
        let first = Range::new(0, 512);
        let second = Range::new(512, 512);
        {
            let data = single(pattern(1, first));
            let mut dropped = pin!(disk.write(first, data, WriteFlags::empty()));
            assert!(!is_ready(dropped.as_mut()).await);
            child.release_oldest().await;
            assert!(!is_ready(dropped.as_mut()).await);
            assert_eq!(child.held()[0].operation, Operation::Write);
        }
        let data = pattern(2, second);
        assert_eq!(
            disk.try_write(Range::new(0, 4096), &[0; 4096]),
            TryIo::WouldBlock
        );
        let mut write = pin!(disk.write(second, single(data.clone()), WriteFlags::empty()));
        assert!(!is_ready(write.as_mut()).await);
        assert_eq!(
            child.held().len(),
            1,
            "only the old write, which is waited for"
        );
        while !is_ready(write.as_mut()).await {
            child.release_oldest().await;
            tokio::task::yield_now().await;
        }
        child.hold(false);
        assert_eq!(child.late_changes(), [Range::new(0, 4096)]);
        assert_eq!(gather(&disk.read(second).await.unwrap()), data);
    });
}

#[test]
fn an_error_below_is_returned_with_the_range_of_the_request() {
    let fault = Fault::new(Effect::Fail(Errno::NoSpace)).on(Operation::Write);
    let child = FaultDisk::new(Arc::new(disk_of_4096(SIZE)), 1, vec![fault]);
    let disk = Blocks::new(child.clone(), 512).unwrap();
    let range = Range::new(512, 512);
    let error = block_on(disk.write(range, single(vec![1; 512]), WriteFlags::FUA)).unwrap_err();
    assert_eq!((error.errno, error.range), (Errno::NoSpace, Some(range)));
    child.heal();
    let read = Fault::new(Effect::Fail(Errno::Io)).on(Operation::Read);
    child.inject(read);
    let error = block_on(disk.write_zeroes(range, WriteFlags::empty())).unwrap_err();
    let told = (error.errno, error.operation, error.range);
    assert_eq!(told, (Errno::Io, Operation::WriteZeroes, Some(range)));
}

#[test]
fn zeroing_that_is_not_fast_is_refused_before_anything_is_written() {
    let child = disk_of_4096(SIZE).with_geometry(|g| g.write_zeroes = Support::Emulated);
    let disk = blocks(child, 512);
    let range = Range::new(512, 512);
    block_on(disk.write(range, single(vec![7; 512]), WriteFlags::empty())).unwrap();
    let error = block_on(disk.write_zeroes(range, WriteFlags::FAST_ZERO)).unwrap_err();
    assert_eq!(error.errno, Errno::NotSupported);
    assert_eq!(gather(&block_on(disk.read(range)).unwrap()), vec![7; 512]);
    block_on(disk.write_zeroes(range, WriteFlags::empty())).unwrap();
    assert_eq!(gather(&block_on(disk.read(range)).unwrap()), vec![0; 512]);
}

#[test]
fn the_size_is_that_of_whole_blocks_and_the_rest_is_the_childs() {
    let child = MemDisk::new(3 * 4096 + 512).with_geometry(|geometry| geometry.rotational = true);
    let disk = blocks(child, 4096);
    let geometry = disk.geometry();
    assert_eq!((geometry.size, geometry.block_size), (3 * 4096, 4096));
    assert!(geometry.rotational);
    let range = Range::new(4096, 4096);
    assert!(disk.remap(range).is_some_and(|(_, there)| there == range));
    for size in [0, 3, 131_072] {
        let child: Node = Arc::new(MemDisk::new(SIZE));
        assert_eq!(Blocks::new(child, size).unwrap_err(), BlockSizeError(size));
    }
}

#[test]
fn reads_in_line_begin_and_end_anywhere() {
    let disk = blocks(disk_of_4096(SIZE), 512);
    let whole = Range::new(0, SIZE);
    block_on(disk.write(whole, single(pattern(5, whole)), WriteFlags::empty())).unwrap();
    let range = Range::new(512, 4096);
    let mut into = vec![0; 4096];
    assert_eq!(disk.try_read(range, &mut into), TryIo::Done);
    assert_eq!(into, pattern(5, range));
    assert!(disk.remap(range).is_none(), "the child cannot read that");
}

/// A server writes whole blocks to where `remap` says that they are. Below a disk with larger blocks such a
/// write would pass by a rewrite of one of them, which then brings back what it had read before.
#[test]
fn remap_does_not_bypass_the_turns_where_blocks_are_rewritten() {
    let child = || Memory::new(SIZE);
    let rewrites = blocks(blocks(child(), 4096), 512);
    let whole = Range::new(4096, 4096);
    assert!(rewrites.remap(whole).is_none());
    let never = blocks(blocks(child(), 512), 4096);
    assert!(never.remap(whole).is_some());
}

#[test]
fn extents_are_cut_to_the_request() {
    let kind = ExtentKind::Hole;
    let extents = [(0, 4096), (4096, 4096), (8192, 4096)].map(|(offset, len)| Extent {
        range: Range::new(offset, len),
        kind,
    });
    let clipped = clip(extents.to_vec(), Range::new(512, 7680));
    let ranges: Vec<Range> = clipped.iter().map(|extent| extent.range).collect();
    assert_eq!(ranges, [Range::new(512, 3584), Range::new(4096, 4096)]);
}

#[test]
fn turns_are_first_come_first_served_and_abandoned_rewrites_block_until_settled() {
    let mut table = TurnTable::default();
    let block = Range::new(0, 4096);
    let beside = table.enter(block, Access::Beside);
    let alone = table.enter(block, Access::Alone);
    let behind = table.enter(block, Access::Beside);
    let elsewhere = table.enter(Range::new(4096, 4096), Access::Alone);
    assert!(table.is_ready(beside) && table.is_ready(elsewhere));
    assert!(!table.is_ready(alone) && !table.is_ready(behind));
    table.leave(beside);
    assert!(table.is_ready(alone) && !table.is_ready(behind));
    let before = table.now();
    table.abandon(alone);
    assert!(table.is_ready(behind) && table.is_blocked_by_abandoned(block));
    table.settled(before);
    assert!(
        table.is_blocked_by_abandoned(block),
        "it was given up after that settle began"
    );
    table.settled(table.now());
    assert!(!table.is_blocked_by_abandoned(block));
    for n in 0..200 {
        let turn = table.enter(Range::new(n * 4096, 4096), Access::Alone);
        table.abandon(turn);
    }
    assert!((0..200).all(|n| table.is_blocked_by_abandoned(Range::new(n * 4096, 1))));
}
