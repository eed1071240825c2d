//! [`Coverage`]: which bytes of a read have arrived, so that none comes twice or is missing.
//!
//! The usual reply is one piece that covers all; it needs no memory. Neighbours are joined, so
//! memory grows with gaps only, up to [`limits::PIECES_MAX`].

use crate::consts::limits;
use crate::transmission::BrokenReply;

/// Pieces of one read.
#[derive(Debug, Default)]
pub(super) struct Coverage {
    covered: u64,
    /// Start and end of pieces: sorted, apart from each other.
    pieces: Vec<(u64, u64)>,
}

impl Coverage {
    pub(super) const fn covered(&self) -> u64 {
        self.covered
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.covered == 0
    }

    /// Everything arrived at once.
    pub(super) const fn add_all(&mut self, len: u64) {
        self.covered = len;
    }

    /// Notes `len` bytes at `offset`, which lie within a request of `whole` bytes.
    pub(super) fn add(&mut self, whole: u64, offset: u64, len: u32) -> Result<(), BrokenReply> {
        let len = u64::from(len);
        if len > whole - self.covered {
            return Err(BrokenReply::Overlap);
        }
        if len < whole {
            self.insert(offset, offset + len)?;
        }
        self.covered += len;
        Ok(())
    }

    fn insert(&mut self, start: u64, end: u64) -> Result<(), BrokenReply> {
        let at = self.pieces.partition_point(|piece| piece.1 <= start);
        if self.pieces.get(at).is_some_and(|next| next.0 < end) {
            return Err(BrokenReply::Overlap);
        }
        let joins_left = at > 0 && self.pieces[at - 1].1 == start;
        let joins_right = self.pieces.get(at).is_some_and(|next| next.0 == end);
        match (joins_left, joins_right) {
            (true, true) => {
                self.pieces[at - 1].1 = self.pieces[at].1;
                self.pieces.remove(at);
            }
            (true, false) => self.pieces[at - 1].1 = end,
            (false, true) => self.pieces[at].0 = start,
            (false, false) if self.pieces.len() >= limits::PIECES_MAX => {
                return Err(BrokenReply::TooManyPieces);
            }
            (false, false) => self.pieces.insert(at, (start, end)),
        }
        Ok(())
    }
}
