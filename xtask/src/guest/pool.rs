//! Tests of the guest side by side: [`AT_ONCE_MAX`] at most, no more than one for each processor and one more: QEMU's thread
//! fills one, but a third of the time a test waits for timers, copies that are throttled, and its host's part.
//!
//! Invariants: every test is run and its outcome reported, however others end; outcomes are reported by the thread of
//! the caller, one after the other. What a test starts ends with the thread that runs it (`setpriv --pdeathsig`), so
//! nothing of it outlives an interrupted run.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError, mpsc};
use std::time::Duration;

use anyhow::Result;

use crate::clock;

/// Each machine has 1 or 2 GiB of memory.
const AT_ONCE_MAX: usize = 4;

/// How many run at once on this machine.
pub(super) fn at_once() -> usize {
    let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    (processors + 1).min(AT_ONCE_MAX)
}

/// Runs `tests` in their order, `at_once` side by side; `report` gets each as it ends, with the time it took.
///
/// # Panics
///
/// Where a test panicked, once all others have ended.
pub(super) fn run<T: Send, R: Send>(
    tests: Vec<T>,
    at_once: usize,
    test: impl Fn(&T) -> Result<R> + Sync,
    mut report: impl FnMut(&T, Duration, Result<R>),
) -> Result<()> {
    let waiting = Mutex::new(VecDeque::from(tests));
    let next = || {
        let mut waiting = waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.pop_front()
    };
    let (sender, ended) = mpsc::channel();
    std::thread::scope(|scope| {
        for _ in 0..at_once {
            let (sender, next, test) = (sender.clone(), &next, &test);
            std::thread::Builder::new().spawn_scoped(scope, move || {
                while let Some(one) = next() {
                    let begin = clock::now();
                    let outcome = test(&one);
                    if sender.send((one, begin.elapsed(), outcome)).is_err() {
                        return;
                    }
                }
            })?;
        }
        drop(sender);
        for (one, took, outcome) in ended {
            report(&one, took, outcome);
        }
        Ok(())
    })
}
