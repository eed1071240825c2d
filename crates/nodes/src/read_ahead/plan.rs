//! How far is read ahead, and in which pieces. Pure.

use block::{Geometry, Range};

/// Smallest piece, bytes.
const PIECE_MIN: u64 = 4 * 1024;
/// Largest piece, bytes.
const PIECE_MAX: u64 = 1024 * 1024;
/// Smallest window, bytes.
pub(super) const WINDOW_MIN: u64 = 4 * 1024;
/// Largest window, bytes.
pub(super) const WINDOW_MAX: u64 = 64 * 1024 * 1024;

/// A window that cannot be had.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("reading ahead takes a window from {WINDOW_MIN} to {WINDOW_MAX} bytes, not {0}")]
pub struct WindowError(u64);

/// How far is read ahead of one reader.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct AheadWindow {
    /// Size of the disk, bytes.
    disk: u64,
    /// Length of a piece, bytes.
    pub(super) piece: u64,
    /// Pieces ahead, at most.
    pub(super) depth_max: u64,
}

impl AheadWindow {
    /// A window of about `len` bytes on such a disk.
    pub(super) fn new(disk: &Geometry, len: u64) -> Result<Self, WindowError> {
        if !(WINDOW_MIN..=WINDOW_MAX).contains(&len) {
            return Err(WindowError(len));
        }
        let unit = PIECE_MIN.max(disk.block_size.into());
        let piece = (len / 4).clamp(unit, PIECE_MAX) / unit * unit;
        Ok(Self {
            disk: disk.size,
            piece,
            depth_max: (len / piece).max(1),
        })
    }

    /// The same window on a disk of another size.
    pub(super) const fn on(self, disk: u64) -> Self {
        Self { disk, ..self }
    }

    /// The pieces of this window, bytes.
    pub(super) const fn len(&self) -> u64 {
        self.piece * self.depth_max
    }

    /// The number of the piece that holds byte `offset`.
    pub(super) const fn index(&self, offset: u64) -> u64 {
        offset / self.piece
    }

    /// The part of piece `index` from byte `from` on.
    pub(super) fn part(&self, index: u64, from: u64) -> Range {
        let start = index.saturating_mul(self.piece);
        let end = start.saturating_add(self.piece).min(self.disk);
        let start = start.max(from).min(end);
        Range::new(start, end - start)
    }
}
