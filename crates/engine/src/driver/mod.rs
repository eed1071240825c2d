//! Operations on files, and the two ways to carry them out.
//!
//! An [`Op`] owns all it touches: the file, the buffers, the ticket. [`perform`] hands it to the
//! ring of this thread, or to the blocking pool where there is none, and returns a future of the
//! op and its result. Dropping the future lets the operation run to its end.

mod op;
mod pool;
#[cfg(test)]
mod tests;
pub(crate) mod uring;

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

pub(crate) use op::{Kind, Op};

/// What carries out file I/O.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Backend {
    /// An io_uring ring on each core's thread.
    Uring,
    /// A small pool of blocking threads.
    Threads,
}

impl std::fmt::Display for Backend {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Uring => "io_uring",
            Self::Threads => "blocking threads",
        })
    }
}

/// Starts `op` on this thread's driver.
pub(crate) fn perform(op: Op) -> Completion {
    let slot = Arc::new(Slot::default());
    if let Err(op) = uring::try_start(op, &slot) {
        pool::start(op, slot.clone());
    }
    Completion(slot)
}

/// Where an operation's result waits for its future.
#[derive(Debug, Default)]
pub(crate) struct Slot(Mutex<State>);

#[derive(Debug, Default)]
enum State {
    #[default]
    Started,
    Awaited(Waker),
    Finished(Op, io::Result<usize>),
    Taken,
}

impl Slot {
    /// Stores the result and wakes the task that waits for it.
    pub(crate) fn finish(&self, op: Op, result: io::Result<usize>) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let before = std::mem::replace(&mut *state, State::Finished(op, result));
        drop(state);
        if let State::Awaited(waker) = before {
            waker.wake();
        }
    }
}

/// Resolves to the operation, given back with its buffers, and its result.
#[derive(Debug)]
pub(crate) struct Completion(Arc<Slot>);

impl Future for Completion {
    type Output = (Op, io::Result<usize>);

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut state = self.0.0.lock().unwrap_or_else(PoisonError::into_inner);
        match std::mem::replace(&mut *state, State::Taken) {
            State::Finished(op, result) => Poll::Ready((op, result)),
            State::Taken => panic!("an operation's result was taken twice"),
            State::Started | State::Awaited(_) => {
                *state = State::Awaited(cx.waker().clone());
                Poll::Pending
            }
        }
    }
}
