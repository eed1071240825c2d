//! Tests of `throttle`. What is exact is tested on the pure state, with a clock of its own, and on a clock that
//! is stopped while any task runs; of the real one the tests ask only that it goes on.

use std::num::NonZeroU64;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use block::{BlockDevice, Node, Operation, Range, TryIo, WriteFlags};
use engine::clock;
use futures_util::future::join_all;
use proptest::prelude::*;
use testkit::{
    HeldDisk, MemDisk, OpSpace, block_on, check_against_model, check_dropped_futures,
    check_in_batches, one_of_each, ops, single,
};

use super::plan::{Cost, cost};
use super::state::Bucket;
use super::{Rates, Throttle};
use crate::test_runtime::{is_ready, timed};

const SIZE: u64 = 64 * 1024;
const RANGE: Range = Range::new(4096, 4096);

fn per_s(rate: u64) -> Option<NonZeroU64> {
    NonZeroU64::new(rate)
}

fn rates(bytes_per_s: u64, burst: u64) -> Rates {
    Rates {
        bytes_per_s: per_s(bytes_per_s),
        burst_bytes: Some(burst),
        ..Rates::default()
    }
}

fn bucket(bytes_per_s: u64, burst: u64) -> Bucket {
    Bucket::new(rates(bytes_per_s, burst).both()).unwrap()
}

const fn bytes(bytes: u64) -> Cost {
    Cost { bytes, ops: 1 }
}

fn throttle(rates: Rates) -> Throttle {
    Throttle::new(Arc::new(MemDisk::new(SIZE)), rates)
}

fn space() -> OpSpace {
    OpSpace {
        size: SIZE,
        block_size: 1,
        len_max: 3 * 4096,
    }
}

/// Requests as (time since the one before, bytes).
fn arrivals() -> impl Strategy<Value = Vec<(u32, u32)>> {
    prop::collection::vec((0..200_000_000_u32, 1..3_000_000_u32), 1..40)
}

proptest! {
    #[test]
    fn no_span_of_time_has_more_than_its_rate_and_the_burst(
        arrivals in arrivals(), rate in 1..50_000_000_u64, burst in 0..5_000_000_u64,
    ) {
        let mut bucket = bucket(rate, burst);
        let mut now = Duration::ZERO;
        let ready: Vec<(u128, u128)> = arrivals.into_iter().map(|(gap, len)| {
            now += Duration::from_nanos(gap.into());
            let ready = bucket.charge(now, bytes(len.into())).max(now);
            (ready.as_nanos(), len.into())
        }).collect();
        prop_assert!(ready.is_sorted_by_key(|(ready, _)| *ready), "first come, first served");
        for (first, begin) in ready.iter().enumerate() {
            let mut units = 0;
            // What comes behind the request that begins the span.
            for (end, len) in &ready[first + 1..] {
                units += len;
                let span = end - begin.0;
                let allowed = u128::from(burst) * 1_000_000_000 + u128::from(rate) * (span + 1);
                prop_assert!(units * 1_000_000_000 <= allowed, "{units} in {span} ns");
            }
        }
    }

    #[test]
    fn a_full_line_takes_exactly_as_long_as_its_requests_cost(
        lens in prop::collection::vec(1..5_000_000_u64, 1..200), rate in 1..10_000_000_000_u64,
    ) {
        let mut bucket = bucket(rate, 0);
        let mut ready = Duration::ZERO;
        for &len in &lens {
            ready = bucket.charge(Duration::ZERO, bytes(len));
        }
        let total: u128 = lens.iter().map(|&len| u128::from(len)).sum();
        prop_assert_eq!(ready.as_nanos(), (total * 1_000_000_000).div_ceil(rate.into()));
    }

    /// A reader that repeats its request as soon as it may, by a clock that wakes it up late: as long as it is
    /// not later than what the burst saves up, it gets its whole rate.
    #[test]
    fn late_wake_ups_cost_nothing_that_the_burst_covers(
        late in prop::collection::vec(0..10_000_000_u64, 2..200), rate in 1_000..1_000_000_000_u64,
    ) {
        let len = rate / 1000;
        let mut bucket = bucket(rate, rate / 50);
        let mut now = Duration::from_secs(1);
        let mut ready = now;
        bucket.charge(now, bytes(rate / 50));
        for &late in &late {
            ready = bucket.charge(now, bytes(len));
            if ready > now {
                now = ready + Duration::from_nanos(late);
            }
        }
        let total = u128::from(len) * late.len() as u128;
        let exact = (total * 1_000_000_000).div_ceil(rate.into());
        prop_assert_eq!((ready - Duration::from_secs(1)).as_nanos(), exact);
    }

    #[test]
    fn a_request_that_left_the_line_leaves_no_trace(
        arrivals in arrivals(), rate in 1..50_000_000_u64, burst in 0..5_000_000_u64, gone in 1..3_000_000_u64,
    ) {
        let (mut with, mut without) = (bucket(rate, burst), bucket(rate, burst));
        let mut now = Duration::ZERO;
        for (gap, len) in arrivals {
            now += Duration::from_nanos(gap.into());
            with.charge(now, bytes(gone));
            with.refund(bytes(gone));
            let len = bytes(len.into());
            prop_assert_eq!(with.charge(now, len), without.charge(now, len));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    #[test]
    fn a_throttled_disk_is_a_disk(ops in ops(space(), 0..40)) {
        let rates = Rates {
            write_ops_per_s: per_s(20_000),
            read_bytes_per_s: per_s(50_000_000),
            ..rates(50_000_000, 8192)
        };
        timed(check_against_model(&throttle(rates), &ops)).unwrap();
        timed(check_in_batches(&throttle(rates), &ops, 8)).unwrap();
    }
}

#[test]
fn a_request_takes_its_time_and_idleness_is_saved_up_to_the_burst() {
    let mut bucket = bucket(1_000_000, 500_000);
    let second = Duration::from_secs(1);
    let charge = |bucket: &mut Bucket, now, len| bucket.charge(now, bytes(len));
    assert_eq!(charge(&mut bucket, Duration::ZERO, 1_000_000), second);
    // An hour saves up half a second.
    let hour = 3600 * second;
    assert_eq!(charge(&mut bucket, hour, 500_000), hour);
    assert_eq!(charge(&mut bucket, hour, 3_000_000), hour + 3 * second);
    let later = hour + 2 * second;
    assert_eq!(
        charge(&mut bucket, later, 1),
        hour + 3 * second + Duration::from_micros(1)
    );
}

#[test]
fn bytes_and_requests_both_count() {
    let rates = Rates {
        ops_per_s: per_s(10),
        burst_ops: Some(0),
        ..rates(1000, 0)
    };
    let mut bucket = Bucket::new(rates.both()).unwrap();
    let ms = Duration::from_millis;
    assert_eq!(bucket.charge(Duration::ZERO, bytes(1)), ms(100));
    assert_eq!(bucket.charge(Duration::ZERO, bytes(999)), ms(1000));
    assert_eq!(bucket.charge(Duration::ZERO, bytes(0)), ms(1000));
    assert!(Bucket::new(Rates::default().both()).is_none());
}

#[test]
fn what_moves_no_bytes_costs_a_request_and_a_question_nothing() {
    let at = Some(RANGE);
    let moves = Some(Cost {
        bytes: 4096,
        ops: 1,
    });
    let commands = Some(Cost { bytes: 0, ops: 1 });
    assert_eq!(cost(Operation::Read, at), moves);
    assert_eq!(cost(Operation::Write, at), moves);
    assert_eq!(cost(Operation::Trim, at), commands);
    assert_eq!(cost(Operation::WriteZeroes, at), commands);
    assert_eq!(cost(Operation::Flush, None), commands);
    assert_eq!(cost(Operation::Extents, at), None);
}

#[test]
fn the_largest_rates_and_the_longest_requests_do_not_overflow() {
    let mut bucket = bucket(u64::MAX, u64::MAX);
    let late = Duration::from_nanos(u64::MAX);
    assert_eq!(bucket.charge(late, bytes(u64::MAX)), late);
    let mut bucket = self::bucket(1, 0);
    assert_eq!(bucket.charge(late, bytes(u64::MAX)), Duration::MAX);
}

#[test]
fn requests_end_in_the_order_of_arrival_at_the_configured_rate() {
    const READS: u64 = 20;
    block_on(async {
        // 4 ms each, whole steps of the clock.
        let disk = throttle(rates(1_024_000, 0));
        let order = Mutex::new(Vec::new());
        let begun = clock::now();
        let read = async |n| {
            drop(disk.read(RANGE).await.unwrap());
            order.lock().unwrap().push(n);
        };
        join_all((0..READS).map(read)).await;
        assert!(order.lock().unwrap().is_sorted());
        assert_eq!(clock::now() - begun, Duration::from_millis(4 * READS));
    });
}

#[test]
fn a_request_larger_than_the_burst_is_carried_out() {
    block_on(async {
        let disk = throttle(rates(1_000_000, 512));
        let range = Range::new(0, SIZE);
        assert_eq!(disk.read(range).await.unwrap().concat().len(), 65_536);
    });
}

#[test]
fn a_cancelled_request_delays_no_other() {
    block_on(async {
        // 50 ms each: five seconds in line.
        let disk = throttle(Rates {
            ops_per_s: per_s(20),
            burst_ops: Some(0),
            ..Rates::default()
        });
        let begun = clock::now();
        let mut line: Vec<_> = (0..100).map(|_| Box::pin(disk.read(RANGE))).collect();
        for read in &mut line {
            assert!(!is_ready(read.as_mut()).await);
        }
        let last = line.pop().unwrap();
        drop(line);
        drop(last.await.unwrap());
        assert_eq!(clock::now() - begun, Duration::from_millis(50));
    });
}

#[test]
fn a_dropped_request_never_reaches_the_disk_below() {
    block_on(async {
        let child = HeldDisk::new(Arc::new(MemDisk::new(SIZE)));
        let disk = Throttle::new(child.clone(), rates(1, 0));
        {
            let data = single(vec![1; 4096]);
            let mut write = pin!(disk.write(RANGE, data, WriteFlags::empty()));
            assert!(!is_ready(write.as_mut()).await);
        }
        disk.settle().await.unwrap();
        assert!(child.held().is_empty());
    });
}

#[test]
fn writes_that_wait_for_their_own_rate_hold_no_read_up() {
    block_on(async {
        let disk = throttle(Rates {
            write_bytes_per_s: per_s(1),
            ..rates(1_000_000_000, 1_000_000)
        });
        let write = || disk.write(RANGE, single(vec![1; 4096]), WriteFlags::empty());
        let mut writes = pin!(join_all((0..10).map(|_| write())));
        assert!(!is_ready(writes.as_mut()).await);
        let begun = clock::now();
        for _ in 0..10 {
            drop(disk.read(RANGE).await.unwrap());
        }
        assert!(
            clock::now() - begun < Duration::from_secs(60),
            "a write takes an hour"
        );
        assert!(!is_ready(writes.as_mut()).await);
    });
}

#[test]
fn the_fast_path_uses_the_burst_and_overtakes_no_request() {
    block_on(async {
        let disk = throttle(Rates {
            read_ops_per_s: per_s(5),
            burst_ops: Some(2),
            ..Rates::default()
        });
        clock::sleep(Duration::from_millis(450)).await;
        let mut into = [0; 4096];
        assert_eq!(disk.try_read(RANGE, &mut into), TryIo::Done);
        assert_eq!(disk.try_read(RANGE, &mut into), TryIo::Done);
        let mut waits = pin!(async {
            while disk.try_read(RANGE, &mut into) == TryIo::Done {}
            drop(disk.read(RANGE).await.unwrap());
        });
        assert!(!is_ready(waits.as_mut()).await);
        assert_eq!(disk.try_read(RANGE, &mut [0; 4096]), TryIo::WouldBlock);
        assert_eq!(
            disk.try_write(RANGE, &[1; 4096]),
            TryIo::Done,
            "not bounded"
        );
        waits.await;
        assert!(disk.remap(RANGE).is_none() && disk.file_region(RANGE).is_none());
    });
}

#[test]
fn what_would_wait_below_costs_nothing() {
    block_on(async {
        let child = HeldDisk::new(Arc::new(MemDisk::new(SIZE)));
        let disk = Throttle::new(
            child.clone(),
            Rates {
                ops_per_s: per_s(1000),
                burst_ops: Some(1),
                ..Rates::default()
            },
        );
        clock::sleep(Duration::from_millis(5)).await;
        let mut into = [0; 4096];
        for _ in 0..1000 {
            assert_eq!(disk.try_read(RANGE, &mut into), TryIo::WouldBlock);
        }
        let mut read = pin!(disk.read(RANGE));
        assert!(!is_ready(read.as_mut()).await);
        assert_eq!(child.held().len(), 1, "it went on at once");
    });
}

#[test]
fn a_dropped_future_leaves_nothing_behind_after_settle() {
    let open = async |children: Vec<Node>| {
        let disk = Throttle::new(children[0].clone(), Rates::default());
        Ok(Arc::new(disk) as Node)
    };
    let list = one_of_each(RANGE, SIZE);
    block_on(check_dropped_futures(open, &[SIZE], &list)).unwrap();
}
