//! A thread's scratch memory: one receive buffer and one send buffer, shared by its connections.
//!
//! A connection borrows them for one step, which does not wait. What a step leaves over it copies
//! into memory of its own, so an idle connection holds none, and busy ones work in memory that
//! stays in the processor's cache.

use std::cell::Cell;

use engine::Buffer;

/// Bytes received at most in one step.
pub(super) const RECEIVE_LEN: usize = 256 << 10;
/// Bytes of replies gathered before they are sent.
pub(super) const SEND_LEN: usize = 256 << 10;

/// The two buffers.
#[derive(Debug)]
pub(super) struct Scratch {
    pub(super) receive: Buffer,
    pub(super) send: Buffer,
}

thread_local! {
    static SCRATCH: Cell<Option<Scratch>> = const { Cell::new(None) };
}

/// Lends this thread's scratch to `step`. A step that panics loses it; the next gets a new one.
pub(super) fn with<T>(step: impl FnOnce(&mut Scratch) -> T) -> T {
    let mut scratch = SCRATCH.take().unwrap_or_else(|| Scratch {
        receive: Buffer::take(RECEIVE_LEN),
        send: Buffer::take(SEND_LEN),
    });
    let result = step(&mut scratch);
    SCRATCH.set(Some(scratch));
    result
}
