//! Tests of `delay`. Times are exact by a clock that is stopped while any task runs; of the real one the
//! tests ask only that it goes on.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use block::{BlockDevice, Node, Operation, Range, TryIo, WriteFlags};
use engine::clock;
use futures_util::future::join_all;
use proptest::prelude::*;
use testkit::{
    HeldDisk, MemDisk, OpSpace, block_on, check_against_model, check_dropped_futures,
    check_in_batches, one_of_each, ops, single,
};

use super::{Delay, DelayTimes};
use crate::test_runtime::{is_ready, timed};

const SIZE: u64 = 64 * 1024;
const RANGE: Range = Range::new(4096, 4096);
/// Whole steps of the clock.
const WAIT: Duration = Duration::from_millis(20);

fn space() -> OpSpace {
    OpSpace {
        size: SIZE,
        block_size: 1,
        len_max: 3 * 4096,
    }
}

fn delay(times: DelayTimes) -> Delay {
    Delay::new(Arc::new(MemDisk::new(SIZE)), times)
}

/// A delay of `WAIT` for this kind of request and no other.
fn only(operation: Operation) -> DelayTimes {
    let none = DelayTimes::default();
    match operation {
        Operation::Read => DelayTimes { read: WAIT, ..none },
        Operation::Write => DelayTimes {
            write: WAIT,
            ..none
        },
        Operation::Flush => DelayTimes {
            flush: WAIT,
            ..none
        },
        Operation::Trim => DelayTimes { trim: WAIT, ..none },
        Operation::WriteZeroes => DelayTimes {
            write_zeroes: WAIT,
            ..none
        },
        Operation::Extents => DelayTimes {
            extents: WAIT,
            ..none
        },
        Operation::Measure => none,
    }
}

const KINDS: [Operation; 6] = [
    Operation::Read,
    Operation::Write,
    Operation::Flush,
    Operation::Trim,
    Operation::WriteZeroes,
    Operation::Extents,
];

async fn send(disk: &Delay, operation: Operation) {
    match operation {
        Operation::Read => drop(disk.read(RANGE).await.unwrap()),
        Operation::Write => {
            let data = single(vec![1; 4096]);
            disk.write(RANGE, data, WriteFlags::FUA).await.unwrap();
        }
        Operation::Flush => disk.flush().await.unwrap(),
        Operation::Trim => disk.trim(RANGE).await.unwrap(),
        Operation::WriteZeroes => disk.write_zeroes(RANGE, WriteFlags::empty()).await.unwrap(),
        Operation::Extents => drop(disk.extents(RANGE).await.unwrap()),
        Operation::Measure => assert!(disk.revalidate().await.unwrap().is_none()),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn a_disk_without_delays_is_the_disk_below(ops in ops(space(), 0..40)) {
        block_on(check_against_model(&delay(DelayTimes::default()), &ops)).unwrap();
    }

    #[test]
    fn a_late_disk_is_a_disk(ops in ops(space(), 0..24), seed: u64) {
        let times = DelayTimes {
            jitter: Duration::from_millis(1),
            seed,
            ..DelayTimes::all(Duration::from_micros(100))
        };
        timed(check_in_batches(&delay(times), &ops, 8)).unwrap();
    }

    #[test]
    fn jitter_is_the_seeds_and_within_its_bound(read: u32, jitter: u32, seed: u64, n: u64) {
        let read = Duration::from_micros(read.into());
        let jitter = Duration::from_micros(jitter.into());
        let times = DelayTimes { read, jitter, seed, ..DelayTimes::default() };
        let drawn = times.draw(Operation::Read, n);
        prop_assert_eq!(drawn, times.draw(Operation::Read, n));
        prop_assert_eq!(drawn.is_some(), !read.is_zero());
        prop_assert!(drawn.is_none_or(|drawn| (read..=read + jitter).contains(&drawn)));
        prop_assert_eq!(times.draw(Operation::Write, n), None);
    }
}

#[test]
fn jitter_spreads_and_differs_between_seeds() {
    let drawn = |seed| -> Vec<Duration> {
        let times = DelayTimes {
            jitter: Duration::from_millis(100),
            seed,
            ..DelayTimes::all(WAIT)
        };
        (0..100)
            .filter_map(|n| times.draw(Operation::Read, n))
            .collect()
    };
    let middle = WAIT + Duration::from_millis(50);
    let late = drawn(1).iter().filter(|&&delay| delay > middle).count();
    assert!((30..70).contains(&late), "{late} of 100 in the upper half");
    assert_ne!(drawn(1), drawn(2));
}

#[test]
fn the_longest_jitter_there_is_does_not_overflow() {
    let times = DelayTimes {
        jitter: Duration::MAX,
        ..DelayTimes::all(Duration::MAX)
    };
    assert_eq!(times.draw(Operation::Flush, 3), Some(Duration::MAX));
}

#[test]
fn each_kind_of_request_waits_for_its_own_delay() {
    block_on(async {
        for late in KINDS {
            let disk = delay(only(late));
            for sent in KINDS {
                let begun = clock::now();
                let mut request = pin!(send(&disk, sent));
                let at_once = is_ready(request.as_mut()).await;
                assert_eq!(at_once, late != sent, "{sent} where {late} is late");
                if !at_once {
                    request.await;
                    assert_eq!(clock::now() - begun, WAIT, "{sent}");
                }
            }
        }
    });
}

#[test]
fn requests_wait_side_by_side() {
    block_on(async {
        let disk = delay(DelayTimes::all(WAIT));
        let begun = clock::now();
        join_all((0..100).map(|_| send(&disk, Operation::Read))).await;
        assert_eq!(clock::now() - begun, WAIT);
    });
}

#[test]
fn what_is_late_is_not_answered_in_line_nor_gone_around() {
    let data = [1; 4096];
    let mut into = [0; 4096];
    for late in KINDS {
        let disk = delay(only(late));
        let write = disk.try_write(RANGE, &data);
        let read = disk.try_read(RANGE, &mut into);
        let now = |waits| {
            if waits {
                TryIo::WouldBlock
            } else {
                TryIo::Done
            }
        };
        assert_eq!(write, now(late == Operation::Write));
        assert_eq!(read, now(late == Operation::Read));
        assert!(disk.remap(RANGE).is_none() && disk.file_region(RANGE).is_none());
    }
}

#[test]
fn a_request_that_is_dropped_while_it_waits_was_never_sent() {
    block_on(async {
        let child = HeldDisk::new(Arc::new(MemDisk::new(SIZE)));
        let disk = Delay::new(child.clone(), only(Operation::Write));
        {
            let mut write = pin!(send(&disk, Operation::Write));
            assert!(!is_ready(write.as_mut()).await);
        }
        clock::sleep(WAIT * 2).await;
        assert!(child.held().is_empty());
        disk.settle().await.unwrap();
    });
}

#[test]
fn a_dropped_future_leaves_nothing_behind_after_settle() {
    let open = async |children: Vec<Node>| {
        let disk = Delay::new(children[0].clone(), DelayTimes::default());
        Ok(Arc::new(disk) as Node)
    };
    let list = one_of_each(RANGE, SIZE);
    block_on(check_dropped_futures(open, &[SIZE], &list)).unwrap();
}
