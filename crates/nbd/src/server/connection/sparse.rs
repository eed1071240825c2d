//! Reads that leave out holes, and [`HoleHeuristic`], which knows when looking for them pays.
//!
//! A hole costs a chunk of 32 bytes instead of its zeroes; looking for it costs a turn to another
//! thread. So it is looked for only where bytes come from a file and are not in the page cache, which
//! holes never are, and seldom where none was found lately.

use block::{Extent, ExtentKind, IoError, Node, Range};

use super::job::{JobOutput, Pieces};
use super::status;

/// Pieces of one read; with more holes than that it is sent as it is.
const PIECES_MAX: usize = 16;
/// After a look in vain so many reads pass unseen, after the next one twice as many, up to…
const PAUSE_FIRST: u32 = 4;
/// …so many.
const PAUSE_MAX: u32 = 256;
/// Holes shorter than this are sent as zeroes.
const HOLE_MIN: u64 = 16 << 10;

/// What is known of a connection's chances to read holes.
#[derive(Debug, Default)]
pub(super) struct HoleHeuristic {
    /// The last look found one.
    is_keen: bool,
    /// Reads to let pass.
    pause: u32,
    /// As many as that after the last look in vain.
    last: u32,
}

impl HoleHeuristic {
    /// Whether to look for holes in this read.
    pub(super) const fn should_probe(&mut self) -> bool {
        if self.is_keen {
            return true;
        }
        if self.pause > 0 {
            self.pause -= 1;
            return false;
        }
        // Those that come before this one is answered need not look too.
        self.pause = PAUSE_FIRST;
        true
    }

    /// A look was worth it, or not.
    pub(super) fn found(&mut self, holes: bool) {
        self.is_keen = holes;
        self.last = if holes {
            0
        } else {
            (self.last * 2).clamp(PAUSE_FIRST, PAUSE_MAX)
        };
        self.pause = self.last;
    }
}

/// Reads `range` but for its holes.
pub(super) async fn read(disk: &Node, range: Range) -> Result<JobOutput, IoError> {
    let align = disk.geometry().block_size.max(512);
    let extents = disk.extents(range).await?;
    let pieces = cut(&status::in_blocks(&extents, range, align));
    if pieces.len() > PIECES_MAX || pieces.iter().all(|piece| !piece.1) {
        let data = disk.read(range).await?;
        return Ok(JobOutput::Sparse(vec![(range, Some(data))]));
    }
    let mut read = Pieces::new();
    for (piece, is_hole) in pieces {
        let data = if is_hole {
            None
        } else {
            Some(disk.read(piece).await?)
        };
        read.push((piece, data));
    }
    Ok(JobOutput::Sparse(read))
}

/// Joins what is to be sent as bytes; true: a hole.
pub(super) fn cut(extents: &[Extent]) -> Vec<(Range, bool)> {
    let mut pieces: Vec<(Range, bool)> = Vec::new();
    for extent in extents {
        let is_hole = extent.kind != ExtentKind::Data && extent.range.len >= HOLE_MIN;
        match pieces.last_mut() {
            Some((last, was_hole)) if *was_hole == is_hole => last.len += extent.range.len,
            _ => pieces.push((extent.range, is_hole)),
        }
    }
    pieces
}
