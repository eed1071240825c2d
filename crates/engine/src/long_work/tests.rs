//! Turns of long work in simulated time, and its threads.
//!
//! Sixteen clients that queried the allocation of a fragmented file, each with many requests in flight, kept all
//! threads for 11 to 31 s: a client with one short query waited behind all of them, since long searches went first in,
//! first out, and each to its end.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use proptest::prelude::*;

use super::long_work;
use super::turns::{FIRST_IN_A_ROW, Turns};
use crate::{BackendChoice, Config, clock, run};

/// A job of a simulation: its client, and the slices that it still needs.
#[derive(Debug, Clone, Copy)]
struct Simulated {
    client: usize,
    slices: u32,
}

/// Gives `threads` slices in each tick. Returns the clients of the jobs that ended in it.
fn tick(turns: &mut Turns<Simulated>, threads: usize) -> Vec<usize> {
    let running: Vec<Simulated> = std::iter::from_fn(|| turns.next()).take(threads).collect();
    let mut ended = Vec::new();
    for mut job in running {
        job.slices -= 1;
        if job.slices == 0 {
            ended.push(job.client);
        } else {
            turns.push_later(job);
        }
    }
    ended
}

proptest! {
    /// Clients 1 to `floods` start a long job whenever one of theirs has ended. Client 0 comes late, with one slice.
    #[test]
    fn a_job_of_one_slice_waits_for_no_long_job(
        floods in 1usize..200, at_once in 1usize..5, threads in 1usize..9, slices in 2u32..2000, arrival in 0u32..300,
    ) {
        let mut turns = Turns::new();
        for client in (1..=floods).cycle().take(floods * at_once) {
            turns.push_first(Simulated { client, slices });
        }
        // Jobs that came before have their first slices.
        let begun = u32::try_from((floods * at_once).div_ceil(threads) * 2).expect("few");
        for _ in 0..begun + arrival {
            for client in tick(&mut turns, threads) {
                turns.push_first(Simulated { client, slices });
            }
        }
        turns.push_first(Simulated { client: 0, slices: 1 });
        let mut waited = 1;
        // All that can be ahead: those that ended in the tick before and started another.
        let ahead = threads + threads / FIRST_IN_A_ROW as usize + 1;
        loop {
            let ended = tick(&mut turns, threads);
            if ended.contains(&0) {
                break;
            }
            for client in ended {
                turns.push_first(Simulated { client, slices });
            }
            waited += 1;
            prop_assert!(waited <= 1 + ahead.div_ceil(threads), "{waited} ticks");
        }
    }

    /// Two clients with long jobs, and a flood of jobs of one slice: both go on, and at the same pace.
    #[test]
    fn long_jobs_share_what_is_left_by_a_flood_of_short_ones(short in 1usize..100, slices in 10u32..200) {
        let mut turns = Turns::new();
        for client in [0, 1] {
            turns.push_later(Simulated { client, slices });
        }
        for _ in 0..short {
            turns.push_first(Simulated { client: 2, slices: 1 });
        }
        let mut ends = [0; 2];
        let mut now = 0;
        while ends.contains(&0) {
            now += 1;
            for client in tick(&mut turns, 1) {
                match ends.get_mut(client) {
                    Some(end) => *end = now,
                    None => turns.push_first(Simulated { client, slices: 1 }),
                }
            }
            prop_assert!(now <= 2 * slices * (FIRST_IN_A_ROW + 1), "they do not go on");
        }
        prop_assert!(ends[0].abs_diff(ends[1]) <= FIRST_IN_A_ROW + 1);
    }
}

fn on_both<F: Future<Output = ()>>(main: impl Fn() -> F) {
    for backend in [BackendChoice::Uring, BackendChoice::Threads] {
        let config = Config { backend, cores: 2 };
        run(&config, |_| main()).expect("this machine has both backends");
    }
}

/// A job that counts its slices and never ends.
fn endless(slices: &Arc<AtomicUsize>) -> impl Future<Output = ()> + use<> {
    let slices = slices.clone();
    long_work(move || {
        slices.fetch_add(1, Ordering::Relaxed);
        std::thread::sleep(Duration::from_micros(100));
        ControlFlow::<()>::Continue(())
    })
}

#[test]
fn short_work_and_file_operations_go_on_while_long_work_has_all_its_threads() {
    on_both(|| async {
        let slices = Arc::new(AtomicUsize::new(0));
        let endless: Vec<_> = (0..64).map(|_| crate::spawn(endless(&slices))).collect();
        while slices.load(Ordering::Relaxed) < 64 {
            clock::sleep(Duration::from_millis(1)).await;
        }
        for _ in 0..100 {
            let both = async {
                let mut left = 2;
                let short = long_work(move || {
                    left -= 1;
                    if left == 0 {
                        ControlFlow::Break(7)
                    } else {
                        ControlFlow::Continue(())
                    }
                });
                (short.await, crate::blocking(|| 8).await)
            };
            let done = clock::timeout(Duration::from_secs(10), both).await;
            assert_eq!(done.expect("in time"), (7, 8));
        }
        for task in endless {
            task.abort();
        }
    });
}

/// Work went on for up to 31 s after the clients that had requested it were gone.
#[test]
fn a_job_whose_future_was_dropped_has_no_further_slice() {
    on_both(|| async {
        let slices = Arc::new(AtomicUsize::new(0));
        let mut job = Box::pin(endless(&slices));
        // On a machine that has no core for it, the first slice waits.
        while slices.load(Ordering::Relaxed) == 0 {
            let ended = clock::timeout(Duration::from_millis(20), &mut job).await;
            assert!(ended.is_err(), "it never ends");
        }
        drop(job);
        // The slice that ran.
        clock::sleep(Duration::from_millis(50)).await;
        let count = slices.load(Ordering::Relaxed);
        assert!(count > 0);
        clock::sleep(Duration::from_millis(50)).await;
        assert_eq!(slices.load(Ordering::Relaxed), count);
    });
}

#[test]
fn a_job_that_panics_ends_alone() {
    on_both(|| async {
        let panics = crate::spawn(long_work::<()>(|| panic!("of a test")));
        assert!(panics.await.expect_err("it panics").is_panic());
        assert_eq!(long_work(|| ControlFlow::Break(3)).await, 3);
    });
}
