//! [`ReadBuffer`]: the bytes of a read as they arrive.
//!
//! Almost always they arrive in order; they are then appended to memory that was never cleared.
//! The first piece out of order clears the rest, and pieces go to their places.

use std::io;

use block::Range;
use bytes::{BufMut, Bytes, BytesMut};

use crate::client::stream::Stream;

/// The bytes of one read.
#[derive(Debug)]
pub(crate) struct ReadBuffer {
    range: Range,
    /// As long as what arrived in order, or as the range once something did not.
    bytes: BytesMut,
    placed: bool,
}

impl ReadBuffer {
    /// Nothing of `range` yet; memory is taken with the first byte.
    pub(crate) fn new(range: Range) -> Self {
        Self {
            range,
            bytes: BytesMut::new(),
            placed: false,
        }
    }

    /// Bytes at `offset`, from elsewhere. Within the range, as the decoder checked.
    pub(crate) fn copy(&mut self, offset: u64, piece: &[u8]) {
        match self.place(offset, piece.len()) {
            Some(place) => place.copy_from_slice(piece),
            None => self.bytes.put_slice(piece),
        }
    }

    /// Zeroes at `offset`.
    pub(crate) fn zero(&mut self, offset: u64, len: usize) {
        match self.place(offset, len) {
            Some(place) => place.fill(0),
            None => self.bytes.put_bytes(0, len),
        }
    }

    /// Receives up to `len` bytes at `offset`.
    pub(crate) fn receive(
        &mut self,
        stream: &Stream,
        offset: u64,
        len: usize,
    ) -> io::Result<usize> {
        match self.place(offset, len) {
            Some(place) => stream.try_read(place),
            None => stream.try_read_buf(&mut (&mut self.bytes).limit(len)),
        }
    }

    /// All bytes, once all have arrived.
    pub(crate) fn finish(self) -> Bytes {
        self.bytes.freeze()
    }

    /// The place of `len` bytes at `offset`, or `None` if they are to be appended.
    fn place(&mut self, offset: u64, len: usize) -> Option<&mut [u8]> {
        let whole = self.range.len_usize();
        let at = usize::try_from(offset - self.range.offset).unwrap_or(usize::MAX);
        if !self.placed && at == self.bytes.len() {
            if self.bytes.capacity() == 0 {
                self.bytes.reserve(whole);
            }
            return None;
        }
        if !self.placed {
            self.bytes.resize(whole, 0);
            self.placed = true;
        }
        Some(&mut self.bytes[at..at + len])
    }
}
