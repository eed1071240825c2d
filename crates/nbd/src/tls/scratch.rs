//! Buffers of a thread, which its TLS connections share: a call borrows one and gives it back.

use std::cell::Cell;
use std::thread::LocalKey;

use super::link::{RECEIVE_LEN, SEND_LEN};

thread_local! {
    static RECEIVED: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
    static SENDING: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// Lends [`RECEIVE_LEN`] bytes for what is received.
pub(super) fn received<T>(work: impl FnOnce(&mut [u8]) -> T) -> T {
    lend(&RECEIVED, RECEIVE_LEN, work)
}

/// Lends [`SEND_LEN`] bytes for what is sent.
pub(super) fn sending<T>(work: impl FnOnce(&mut [u8]) -> T) -> T {
    lend(&SENDING, SEND_LEN, work)
}

/// A call that panics loses the buffer; the next gets a new one.
fn lend<T>(
    place: &'static LocalKey<Cell<Vec<u8>>>,
    len: usize,
    work: impl FnOnce(&mut [u8]) -> T,
) -> T {
    let mut buffer = place.take();
    if buffer.is_empty() {
        buffer.resize(len, 0);
    }
    let result = work(&mut buffer);
    place.set(buffer);
    result
}
