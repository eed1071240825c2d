//! A drive with a write cache, honest and lying.

use std::pin::pin;
use std::sync::Arc;

use block::{BlockDevice, Errno, IoBufs, Node, Operation, Range, WriteFlags};
use proptest::prelude::*;
use testkit::{HeldDisk, MemDisk, OpSpace, block_on, check_crashes, gather, ops, pattern, single};

use super::super::cache::{Cache, lay_over};
use super::super::{Fault, FaultEffect};
use super::{RANGE, SIZE, faulty, on, read, space, with_cache, write, write_as};
use crate::test_runtime::is_ready;

const NEXT: Range = Range::new(8192, 4096);

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn what_was_flushed_survives_a_power_cut(
        ops in ops(OpSpace { size: SIZE, ..space() }, 0..12), seed: u64, cache in 0..80_000_u64,
    ) {
        let open = async |children: Vec<Node>| {
            Ok(Arc::new(Fault::new(children[0].clone(), with_cache(cache))) as Node)
        };
        block_on(check_crashes(open, &[SIZE], &ops, seed)).unwrap();
    }

    /// The pure part: writes in any order and any pieces, over what is below.
    #[test]
    fn a_read_sees_the_newest_write_of_each_byte(
        writes in prop::collection::vec((0..100_u64, 1..60_u64), 0..12), start in 0..100_u64, len in 1..60_u64,
    ) {
        let mut cache = Cache::new(u64::MAX);
        let mut expected = [0_u8; 200];
        let span = |range: Range| range.offset.try_into().unwrap()..range.end().try_into().unwrap();
        for (fill, &(offset, len)) in (1..).zip(&writes) {
            let range = Range::new(offset, len);
            let bytes = vec![fill; range.len_usize()];
            let (head, tail) = bytes.split_at(bytes.len() / 2);
            let data: IoBufs = [head, tail].map(|half| half.to_vec().into()).into();
            prop_assert!(cache.put(range, &data));
            expected[span(range)].fill(fill);
        }
        let range = Range::new(start, len);
        let below = single(vec![0; range.len_usize()]);
        let found = lay_over(range, below, &cache.over(range));
        prop_assert_eq!(&gather(&found), &expected[span(range)]);
    }
}

#[test]
fn a_cached_write_is_read_and_below_only_after_a_flush() {
    let (child, disk) = faulty(with_cache(SIZE));
    block_on(async {
        write(&disk, RANGE, 1).await.unwrap();
        assert_eq!(read(&disk, RANGE).await, pattern(1, RANGE));
        assert_eq!(child.snapshot(), vec![0; 65_536]);
        assert_eq!(disk.handle().cached(), 4096);
        disk.flush().await.unwrap();
        assert_eq!(child.snapshot()[4096..8192], pattern(1, RANGE));
        assert_eq!(disk.handle().cached(), 0);
    });
}

#[test]
fn a_pull_loses_the_cache_and_nothing_else_and_no_flush_denies_it() {
    let (_, disk) = faulty(with_cache(SIZE));
    block_on(async {
        write(&disk, RANGE, 1).await.unwrap();
        disk.flush().await.unwrap();
        write_as(&disk, NEXT, 2, WriteFlags::FUA).await.unwrap();
        write(&disk, RANGE, 3).await.unwrap();
        write(&disk, NEXT, 4).await.unwrap();
        disk.handle().pull();
        disk.handle().plug();
        assert_eq!(read(&disk, RANGE).await, pattern(1, RANGE));
        assert_eq!(read(&disk, NEXT).await, pattern(2, NEXT));
        for _ in 0..2 {
            let error = disk.flush().await.unwrap_err();
            assert_eq!(error.errno, Errno::Io);
            assert!(error.to_string().contains("lost"), "{error}");
        }
    });
}

#[test]
fn an_empty_cache_loses_nothing() {
    let (_, disk) = faulty(with_cache(SIZE));
    block_on(async {
        write(&disk, RANGE, 1).await.unwrap();
        disk.flush().await.unwrap();
        disk.handle().pull();
        disk.handle().plug();
        disk.flush().await.unwrap();
    });
}

#[test]
fn a_drive_that_lies_about_flushes_loses_what_it_promised() {
    let (_, disk) = faulty(with_cache(SIZE));
    disk.handle().add(on(Operation::Flush, FaultEffect::Lose));
    block_on(async {
        write(&disk, RANGE, 1).await.unwrap();
        disk.flush().await.unwrap();
        assert_eq!(disk.handle().cached(), 4096);
        disk.handle().pull();
        disk.handle().plug();
        assert_eq!(read(&disk, RANGE).await, vec![0; 4096]);
    });
}

#[test]
fn a_full_cache_writes_down_what_came_first() {
    let (child, disk) = faulty(with_cache(2 * 4096));
    block_on(async {
        write(&disk, RANGE, 1).await.unwrap();
        write(&disk, NEXT, 2).await.unwrap();
        assert_eq!(child.snapshot(), vec![0; 65_536]);
        write(&disk, Range::new(0, 512), 3).await.unwrap();
        assert_eq!(child.snapshot()[4096..8192], pattern(1, RANGE));
        assert_eq!(child.snapshot()[8192..], vec![0; 65_536 - 8192]);
        assert_eq!(disk.handle().cached(), 4096 + 512);
    });
}

#[test]
fn zeroing_trimming_and_writes_that_the_cache_cannot_hold_come_behind_what_it_holds() {
    block_on(async {
        let (child, disk) = faulty(with_cache(4096));
        write(&disk, RANGE, 1).await.unwrap();
        disk.write_zeroes(RANGE, WriteFlags::empty()).await.unwrap();
        assert_eq!(read(&disk, RANGE).await, vec![0; 4096]);
        write(&disk, RANGE, 2).await.unwrap();
        let large = Range::new(0, 8192);
        write(&disk, large, 3).await.unwrap();
        assert_eq!(read(&disk, large).await, pattern(3, large));
        assert_eq!(child.snapshot()[..8192], pattern(3, large));
        disk.flush().await.unwrap();
        assert_eq!(child.snapshot()[..8192], pattern(3, large));
    });
}

/// A flush that is dropped while it writes the first of two writes down: its write may land late, and
/// then over the second.
#[test]
fn what_a_dropped_flush_wrote_does_not_land_on_its_successor() {
    block_on(async {
        let below = Arc::new(MemDisk::new(SIZE));
        let child = HeldDisk::new(below.clone());
        let disk = Fault::new(child.clone(), with_cache(SIZE));
        write(&disk, RANGE, 1).await.unwrap();
        write(&disk, RANGE, 2).await.unwrap();
        {
            let mut flush = pin!(disk.flush());
            assert!(!is_ready(flush.as_mut()).await);
            assert_eq!(child.held()[0].operation, Operation::Write);
        }
        let mut flush = pin!(disk.flush());
        assert!(!is_ready(flush.as_mut()).await);
        while !is_ready(flush.as_mut()).await {
            assert_eq!(child.held().len(), 1, "one write after the other");
            child.release_oldest().await;
            tokio::task::yield_now().await;
        }
        assert_eq!(below.snapshot()[4096..8192], pattern(2, RANGE));
    });
}

#[test]
fn a_cache_that_cannot_be_written_down_fails_the_flush_for_good() {
    let below = testkit::FaultDisk::new(
        Arc::new(MemDisk::new(SIZE)),
        1,
        vec![testkit::Fault::new(testkit::Effect::Fail(Errno::NoSpace)).on(Operation::Write)],
    );
    let disk = Fault::new(below.clone(), with_cache(SIZE));
    block_on(async {
        write(&disk, RANGE, 1).await.unwrap();
        assert_eq!(disk.flush().await.unwrap_err().errno, Errno::NoSpace);
        below.heal();
        assert_eq!(disk.flush().await.unwrap_err().errno, Errno::NoSpace);
        assert_eq!(read(&disk, RANGE).await, pattern(1, RANGE));
    });
}

#[test]
fn a_request_that_a_pull_overtakes_is_not_acknowledged_into_a_lost_cache() {
    block_on(async {
        let child = HeldDisk::new(Arc::new(MemDisk::new(SIZE)));
        let disk = Fault::new(child.clone(), with_cache(4096));
        write(&disk, RANGE, 1).await.unwrap();
        // Waits for room.
        let mut second = pin!(write(&disk, NEXT, 2));
        assert!(!is_ready(second.as_mut()).await);
        disk.handle().pull();
        second.await.unwrap_err();
        assert_eq!(disk.handle().cached(), 0);
    });
}

#[test]
fn a_cache_holds_its_size_and_loses_it_once() {
    let mut cache = Cache::new(1024);
    assert!(cache.can_hold(1024) && !cache.can_hold(1025));
    let data = single(vec![1; 1024]);
    assert!(cache.put(Range::new(0, 1024), &data));
    assert!(!cache.put(Range::new(0, 512), &single(vec![1; 512])));
    assert!(cache.lose() && !cache.lose());
    assert_eq!(cache.used(), 0);
}
