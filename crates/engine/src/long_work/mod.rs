//! [`long_work`]: work that computes or blocks for long, in slices, on threads of its own.
//!
//! A search for holes may make hundreds of thousands of system calls. In the pool of [`blocking`](crate::blocking)
//! a few of them kept all threads, and every short request that waits for the pool behind them. Here each job is a
//! closure that does a bounded slice of its work when it is called; between two slices other jobs have their turn
//! ([`turns`]).
//!
//! # Invariants
//!
//! * A thread runs one slice at a time, and a job is on one thread at a time.
//! * The first slice of a job goes before the later slices of others: what is done in one slice waits for no long job.
//! * A job is not called again after its future was dropped.
//! * The queue is as long as there are futures: a caller that starts jobs for clients bounds them for each.
//!
//! # What it does not do
//!
//! It does not interrupt a slice. The threads are the process's, start with the first jobs and stay.

#[cfg(test)]
mod tests;
mod turns;

use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

use self::turns::Turns;

/// Most threads for long work.
const THREADS_MAX: usize = 8;
/// Fewest: one that waits for a disk does not stop the others' work.
const THREADS_MIN: usize = 2;

/// What the threads share.
struct Pool {
    queue: Mutex<Queue>,
    /// Signals a new turn.
    arrival: Condvar,
}

struct Queue {
    turns: Turns<Box<dyn SlicedJob>>,
    threads: usize,
    idle: usize,
}

static POOL: Pool = Pool {
    queue: Mutex::new(Queue {
        turns: Turns::new(),
        threads: 0,
        idle: 0,
    }),
    arrival: Condvar::new(),
};

/// A job between two of its slices.
trait SlicedJob: Send {
    /// Does a slice. Returns whether it was the last.
    fn slice(&mut self) -> bool;
    /// Whether its future was dropped.
    fn is_abandoned(&self) -> bool;
}

struct Slices<F, T> {
    work: F,
    result: Option<oneshot::Sender<std::thread::Result<T>>>,
}

impl<F, T> SlicedJob for Slices<F, T>
where
    F: FnMut() -> ControlFlow<T> + Send,
    T: Send,
{
    fn slice(&mut self) -> bool {
        let result = match catch_unwind(AssertUnwindSafe(&mut self.work)) {
            Ok(ControlFlow::Continue(())) => return false,
            Ok(ControlFlow::Break(value)) => Ok(value),
            Err(panic) => Err(panic),
        };
        if let Some(sender) = self.result.take() {
            // Its future may have been dropped meanwhile.
            drop(sender.send(result));
        }
        true
    }

    fn is_abandoned(&self) -> bool {
        self.result.as_ref().is_none_or(oneshot::Sender::is_closed)
    }
}

/// Calls `work` until it breaks with its result. Each call should take about 0.2 ms, and no more than a few. When the
/// returned future is dropped, the slice that runs is the last.
///
/// # Panics
/// Where `work` panics.
pub async fn long_work<T: Send + 'static>(
    work: impl FnMut() -> ControlFlow<T> + Send + 'static,
) -> T {
    let (sender, result) = oneshot::channel();
    let job = Box::new(Slices {
        work,
        result: Some(sender),
    });
    if let Some(mut job) = POOL.submit(job) {
        // The system has no thread for it: this one does it, and its other tasks have their turns in between.
        while !job.slice() {
            tokio::task::yield_now().await;
        }
    }
    match result.await.expect("a job ends with its result") {
        Ok(value) => value,
        Err(panic) => resume_unwind(panic),
    }
}

impl Pool {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Queues `job`, or gives it back where no thread can be started for it.
    fn submit(&'static self, job: Box<dyn SlicedJob>) -> Option<Box<dyn SlicedJob>> {
        let mut queue = self.lock();
        let is_short = queue.idle <= queue.turns.len() && queue.threads < threads_max();
        if is_short {
            match crate::thread(&format!("long-{}", queue.threads), || self.run()) {
                Ok(_detached) => queue.threads += 1,
                Err(_) if queue.threads == 0 => return Some(job),
                Err(_) => {}
            }
        }
        queue.turns.push_first(job);
        drop(queue);
        self.arrival.notify_one();
        None
    }

    /// A thread's work.
    fn run(&self) {
        let mut queue = self.lock();
        loop {
            let Some(mut job) = queue.turns.next() else {
                queue.idle += 1;
                queue = self
                    .arrival
                    .wait(queue)
                    .unwrap_or_else(PoisonError::into_inner);
                queue.idle -= 1;
                continue;
            };
            drop(queue);
            let is_over = job.is_abandoned() || job.slice();
            // What it holds may take long to free: not under the lock.
            let next = (!is_over).then_some(job);
            queue = self.lock();
            if let Some(job) = next {
                queue.turns.push_later(job);
            }
        }
    }
}

/// As many as there are processors, within bounds.
fn threads_max() -> usize {
    std::thread::available_parallelism()
        .map_or(THREADS_MIN, usize::from)
        .clamp(THREADS_MIN, THREADS_MAX)
}
