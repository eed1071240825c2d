//! [`Outbox`]: what is to be sent on one connection, headers and payloads, sent together.

use std::collections::VecDeque;
use std::io::{self, IoSlice};

use block::IoBufs;
use bytes::{Buf, Bytes};
use nbd_proto::{Framing, Request};
use smallvec::SmallVec;

use crate::client::stream::Stream;

/// Pieces handed to the socket at once. Linux takes 1024.
const PIECES_MAX: usize = 128;

#[derive(Debug)]
enum Piece {
    /// The next so many bytes of `heads`.
    Heads(usize),
    Payload(Bytes),
}

/// Bytes to be sent, in order. Bounded by the requests in flight.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    heads: Vec<u8>,
    /// Bytes of `heads` that were sent.
    heads_sent: usize,
    pieces: VecDeque<Piece>,
}

impl Outbox {
    pub(crate) fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    pub(crate) fn push(&mut self, request: &Request, framing: Framing, payload: Option<&IoBufs>) {
        let before = self.heads.len();
        request.encode_to(framing, &mut self.heads);
        let head = self.heads.len() - before;
        match self.pieces.back_mut() {
            Some(Piece::Heads(len)) => *len += head,
            _ => self.pieces.push_back(Piece::Heads(head)),
        }
        let payload = payload.into_iter().flatten();
        let payload = payload.filter(|bytes| !bytes.is_empty());
        self.pieces
            .extend(payload.map(|bytes| Piece::Payload(bytes.clone())));
    }

    /// Sends as much as the socket takes and returns how much. Empty afterwards, or the socket is
    /// full.
    pub(crate) fn send(&mut self, stream: &Stream) -> io::Result<usize> {
        let mut total = 0;
        while !self.is_empty() {
            let sent = {
                let parts = self.parts();
                match stream.try_write_vectored(&parts) {
                    Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                    Ok(sent) => sent,
                    Err(e) if e.kind() == io::ErrorKind::WouldBlock => break,
                    Err(e) => return Err(e),
                }
            };
            self.advance(sent);
            total += sent;
        }
        Ok(total)
    }

    fn parts(&self) -> SmallVec<[IoSlice<'_>; 16]> {
        let mut at = self.heads_sent;
        let pieces = self.pieces.iter().take(PIECES_MAX);
        let slices = pieces.map(|piece| match piece {
            Piece::Heads(len) => {
                let slice = &self.heads[at..at + len];
                at += len;
                IoSlice::new(slice)
            }
            Piece::Payload(bytes) => IoSlice::new(bytes),
        });
        slices.collect()
    }

    fn advance(&mut self, mut sent: usize) {
        while sent > 0
            && let Some(piece) = self.pieces.front_mut()
        {
            let len = match piece {
                Piece::Heads(len) => *len,
                Piece::Payload(bytes) => bytes.len(),
            };
            let step = len.min(sent);
            sent -= step;
            match piece {
                Piece::Heads(len) => {
                    *len -= step;
                    self.heads_sent += step;
                }
                Piece::Payload(bytes) => bytes.advance(step),
            }
            if step == len {
                self.pieces.pop_front();
            }
        }
        if self.pieces.is_empty() {
            self.heads.clear();
            self.heads_sent = 0;
        }
    }
}
