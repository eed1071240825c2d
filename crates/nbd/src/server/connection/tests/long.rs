//! Requests on whole disks: in pieces, and cancelled when the client is gone.

use std::sync::Arc;
use std::time::Duration;

use block::{Errno, Node, Operation, Range, WriteFlags};
use proptest::prelude::*;
use testkit::HeldDisk;

use super::super::long::{self, CancelFlag, Cutter};
use super::on_engine;

/// Some pieces long, even on a machine that has much else to do.
const SIZE: u64 = 8 << 30;

proptest! {
    #[test]
    fn every_byte_is_in_one_piece_however_fast_the_disk_is(
        offset in 0u64..1 << 50, len in 0u64..1 << 50, times in prop::collection::vec(0u64..900, 1..50),
    ) {
        let range = Range::new(offset, len);
        let mut cutter = Cutter::new(range);
        let mut at = offset;
        let mut times = times.into_iter().cycle();
        let mut count = 0;
        while let Some(piece) = cutter.next() {
            prop_assert_eq!(piece.offset, at);
            prop_assert!(!piece.is_empty());
            at = piece.end();
            prop_assert_eq!(cutter.rest(), Range::new(at, range.end() - at));
            cutter.took(Duration::from_millis(times.next().expect("a cycle")));
            count += 1;
            if count > 1000 {
                return Ok(());
            }
        }
        prop_assert_eq!(at, range.end());
    }
}

#[test]
fn a_quick_disk_gets_a_few_requests_for_a_hundred_terabytes() {
    let mut cutter = Cutter::new(Range::new(0, 100 << 40));
    let mut count = 0;
    while cutter.next().is_some() {
        cutter.took(Duration::from_millis(1));
        count += 1;
    }
    assert!(count < 60, "{count} pieces");
}

/// A disk of zeroes that completes nothing until it is released.
fn disk() -> Arc<HeldDisk> {
    let disk = HeldDisk::new(Arc::new(nodes::Null::new(SIZE)));
    disk.hold(true);
    disk
}

/// The operations of the disk while `job` runs and each request completes at once.
async fn operations_of(
    disk: &Arc<HeldDisk>,
    job: impl Future<Output = Result<(), block::IoError>>,
    after: impl Fn(usize),
) -> (Vec<Operation>, Result<(), block::IoError>) {
    let mut operations = Vec::new();
    tokio::pin!(job);
    let result = loop {
        tokio::select! {
            result = &mut job => break result,
            () = disk.arrival() => {
                operations.extend(disk.held().iter().map(|held| held.operation));
                after(operations.len());
                disk.release_all().await;
            }
        }
    };
    (operations, result)
}

#[test]
fn zeroing_a_whole_disk_durably_ends_with_one_flush() {
    on_engine(|| async {
        let held = disk();
        let node: Node = held.clone();
        let all = Range::new(0, SIZE);
        let cancel = CancelFlag::default();
        let zero = long::zero(&node, all, WriteFlags::FUA, &cancel);
        let (operations, result) = operations_of(&held, zero, |_| {}).await;
        result.expect("zeroed");
        let (last, pieces) = operations.split_last().expect("asked");
        assert_eq!(*last, Operation::Flush);
        assert!(pieces.len() > 1);
        assert!(pieces.iter().all(|&op| op == Operation::WriteZeroes));
    });
}

#[test]
fn what_fits_into_a_piece_is_handed_on_as_it_is() {
    on_engine(|| async {
        let held = disk();
        let node: Node = held.clone();
        let cancel = CancelFlag::default();
        let zero = long::zero(&node, Range::new(512, 1 << 20), WriteFlags::FUA, &cancel);
        let (operations, result) = operations_of(&held, zero, |_| {}).await;
        result.expect("zeroed");
        assert_eq!(operations, [Operation::WriteZeroes]);
    });
}

/// A client that had left was waited for until its terabytes were zeroed, and so was a stop.
#[test]
fn a_long_request_ends_soon_after_it_is_cancelled() {
    on_engine(|| async {
        let held = disk();
        let node: Node = held.clone();
        let all = Range::new(0, SIZE);
        for zeroes in [true, false] {
            let cancel = CancelFlag::default();
            let job = async {
                if zeroes {
                    long::zero(&node, all, WriteFlags::empty(), &cancel).await
                } else {
                    long::trim(&node, all, true, &cancel).await
                }
            };
            let leave = |count| {
                if count == 3 {
                    cancel.set();
                }
            };
            let (operations, result) = operations_of(&held, job, leave).await;
            assert_eq!(operations.len(), 3);
            let error = result.expect_err("given up");
            assert_eq!(error.errno, Errno::ShuttingDown);
            assert!(error.range.is_some_and(|rest| rest.end() == all.end()));
        }
    });
}

/// Fetching more evicted from memory what had been fetched before it.
#[test]
fn the_cache_command_fetches_a_bounded_part_of_its_range() {
    on_engine(|| async {
        let held = disk();
        let node: Node = held.clone();
        let cancel = CancelFlag::default();
        let cache = long::cache(&node, Range::new(0, SIZE), &cancel);
        let (operations, result) = operations_of(&held, cache, |_| {}).await;
        result.expect("fetched");
        assert_eq!(operations, vec![Operation::Read; 1024]);
    });
}
