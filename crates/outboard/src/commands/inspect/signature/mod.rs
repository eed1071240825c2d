//! What libblkid recognizes on a disk: `blkid` runs on a sparse copy of the blocks that it reads.
//!
//! ```text
//! a file in memory, as large as the disk and empty
//!   1. blkid looks at it and says where it looked
//!   2. those parts are copied from the disk; back to 1, until it looks nowhere else
//! ```
//!
//! So this works with any disk, of any node, and a parser that fails on damaged data runs in another process, on a
//! copy.
//!
//! # Invariants
//!
//! * The disk is only read, and no more of it than [`COPIED_MAX`].
//! * blkid is ended if it takes longer than [`TIME_MAX`].
//!
//! # What it does not do
//!
//! It knows no signature itself. Images of virtual machines are known to another crate ([`image`]).

mod answer;
mod image;
mod program;
#[cfg(test)]
mod tests;

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::time::Duration;

use block::{IoError, Node, Range};
use nodes::read_within;
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};

pub(crate) use answer::Signature;
use answer::{BlkidResult, Pages};
pub(crate) use image::{ForeignImage, HEAD_LEN, of as image_of};

/// Most bytes of a disk that are copied.
const COPIED_MAX: u64 = 64 << 20;
/// Most times that blkid looks at one disk. It takes two to four.
const LOOKS_MAX: usize = 8;
/// How long one look may take.
const TIME_MAX: Duration = Duration::from_secs(20);
/// Copied from both ends where blkid does not say where it looks.
const ENDS: u64 = 2 << 20;
/// Read at once, bytes.
const PIECE_MAX: usize = 1 << 20;

/// Runs blkid on disks.
#[derive(Debug, Clone)]
pub(crate) struct Probe {
    program: Result<String, String>,
}

/// Why blkid gave no result.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ProbeError {
    /// The disk cannot be read.
    #[error("it cannot be read: {0}")]
    Read(#[from] IoError),
    /// The program failed.
    #[error("blkid could not look at it: {0}")]
    Program(#[from] io::Error),
    /// The program did not end.
    #[error("blkid did not come to an end within {} seconds", TIME_MAX.as_secs())]
    Slow,
    /// The program looks at more than any should.
    #[error("blkid wanted to see too much of it")]
    TooMuch,
}

impl Probe {
    /// Looks for the program.
    pub(crate) async fn find() -> Self {
        let version = engine::blocking(program::version).await;
        let program = version.map_err(|e| format!("blkid cannot be run: {e}; install util-linux"));
        Self { program }
    }

    /// What knows the signatures, or why nothing does.
    pub(crate) const fn program(&self) -> Result<&String, &String> {
        self.program.as_ref()
    }

    /// What is on `disk`; nothing where the program is not there.
    pub(crate) async fn signature(&self, disk: &Node) -> Result<Option<Signature>, ProbeError> {
        let size = disk.geometry().size;
        if self.program.is_err() || size == 0 {
            return Ok(None);
        }
        let copy = ProbeCopy::new(size)?;
        let mut pages = Pages::new(size);
        for _ in 0..LOOKS_MAX {
            let answer = copy.look().await?;
            let looked: Vec<Range> = match answer.looked_at.as_slice() {
                // A program that does not report what it read.
                [] => vec![
                    Range::new(0, ENDS),
                    Range::new(size.saturating_sub(ENDS), ENDS),
                ],
                looked => looked.to_vec(),
            };
            let new = pages.add(&looked);
            if new.is_empty() {
                return Ok(answer.signature);
            }
            if pages.bytes() > COPIED_MAX {
                return Err(ProbeError::TooMuch);
            }
            for range in new {
                copy.fill(disk, range).await?;
            }
        }
        Err(ProbeError::TooMuch)
    }
}

/// A file in memory that stands for a disk.
#[derive(Debug, Clone)]
struct ProbeCopy(Arc<File>);

impl ProbeCopy {
    fn new(size: u64) -> io::Result<Self> {
        let fd = memfd_create("disk", MemfdFlags::CLOEXEC)?;
        ftruncate(&fd, size)?;
        Ok(Self(Arc::new(File::from(fd))))
    }

    /// Copies a range of the disk.
    async fn fill(&self, disk: &Node, range: Range) -> Result<(), ProbeError> {
        for start in (range.offset..range.end()).step_by(PIECE_MAX) {
            let piece = Range::new(start, (PIECE_MAX as u64).min(range.end() - start));
            let data = read_within(disk, piece).await?;
            self.0.write_all_at(&data, start)?;
        }
        Ok(())
    }

    async fn look(&self) -> Result<BlkidResult, ProbeError> {
        let file = self.0.clone();
        let said = engine::blocking(move || program::run(&file, TIME_MAX)).await?;
        let said = said.ok_or(ProbeError::Slow)?;
        BlkidResult::read(&said).map_err(ProbeError::Program)
    }
}
