//! Test data, and the smallest ways to hand it over, to run it, and to let it wait.

use std::future::{Future, poll_fn};
use std::task::Poll;

use block::{IoBufs, Range};
use bytes::Bytes;

/// Bytes that identify their offset and their writer: two seeds differ in every byte, two
/// offsets in almost every one.
#[must_use]
pub fn pattern(seed: u8, range: Range) -> Vec<u8> {
    (range.offset..range.end())
        .map(|at| at.wrapping_mul(0x9E37_79B9_7F4A_7C15).to_le_bytes()[7] ^ seed)
        .collect()
}

/// The first place where two byte strings differ, which is the end of the shorter one where that is the beginning of the
/// other. Equal ones, which most are, are compared at once: a comparison byte by byte takes long without optimisation.
#[must_use]
pub fn first_difference(one: &[u8], other: &[u8]) -> Option<usize> {
    if one == other {
        return None;
    }
    let differs = one.iter().zip(other).position(|(a, b)| a != b);
    Some(differs.unwrap_or(one.len().min(other.len())))
}

/// All slices of `bufs` as one vector.
#[must_use]
pub fn gather(bufs: &IoBufs) -> Vec<u8> {
    bufs.concat()
}

/// `data` as the one slice of a request.
#[must_use]
pub fn single(data: impl Into<Bytes>) -> IoBufs {
    smallvec::smallvec![data.into()]
}

/// Yields to other tasks, so many times, independent of the executor.
pub async fn moments(mut count: u8) {
    poll_fn(|context| {
        if count == 0 {
            return Poll::Ready(());
        }
        count -= 1;
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// Runs `future` on this thread, without the engine, by a clock that is stopped while any task runs and advances, to the
/// next timer, only where all wait: what paces itself takes no time, however fast the machine is.
///
/// # Panics
/// If the system has no room for a runtime.
pub fn block_on<F: Future>(future: F) -> F::Output {
    tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a current-thread runtime needs only memory")
        .block_on(future)
}
