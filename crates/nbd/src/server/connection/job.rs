//! [`Job`]: a request that waits for its disk, and how it is carried out.

use block::{IoBufs, IoError, Node, Range, WriteFlags};

use crate::server::budget::Charge;

/// Bytes fetched at once for the cache command where a disk has no file to advise on.
const CACHE_PIECE: u64 = 1 << 20;

/// What is asked of the disk.
#[derive(Debug)]
pub(super) enum Job {
    Read(Range),
    Write(Range, IoBufs, WriteFlags),
    Flush,
    Trim { range: Range, fua: bool },
    WriteZeroes(Range, WriteFlags),
    Cache(Range),
}

impl Job {
    /// Whether it changes the disk, so that it may not be forgotten halfway.
    pub(super) const fn changes(&self) -> bool {
        match self {
            Self::Write(..) | Self::Trim { .. } | Self::WriteZeroes(..) => true,
            Self::Read(_) | Self::Flush | Self::Cache(_) => false,
        }
    }

    /// Memory that it takes while it runs, besides what it was given.
    pub(super) fn memory(&self) -> usize {
        match self {
            Self::Read(range) => range.len_usize(),
            Self::Cache(range) => Range::new(0, range.len.min(CACHE_PIECE)).len_usize(),
            Self::Write(..) | Self::Flush | Self::Trim { .. } | Self::WriteZeroes(..) => 0,
        }
    }
}

/// A job whose time has come to be answered.
#[derive(Debug)]
pub(super) struct Done {
    pub(super) cookie: u64,
    /// What was read; `None` for other jobs.
    pub(super) read: Option<Range>,
    /// Whether the job was one that changes the disk.
    pub(super) changed: bool,
    /// Memory that the job held.
    pub(super) bytes: usize,
    /// The bytes of a read; nothing for other jobs.
    pub(super) result: Result<IoBufs, IoError>,
    /// The same memory as the process counts it, kept until the reply left.
    pub(super) charge: Charge,
}

/// Carries `job` out.
pub(super) async fn run(disk: Node, cookie: u64, job: Job, bytes: usize, charge: Charge) -> Done {
    let mut read = None;
    let changed = job.changes();
    let nothing = |()| IoBufs::new();
    let result = match job {
        Job::Read(range) => {
            read = Some(range);
            disk.read(range).await
        }
        Job::Write(range, data, flags) => disk.write(range, data, flags).await.map(nothing),
        Job::Flush => disk.flush().await.map(nothing),
        Job::Trim { range, fua } => trim(&disk, range, fua).await.map(nothing),
        Job::WriteZeroes(range, flags) => disk.write_zeroes(range, flags).await.map(nothing),
        Job::Cache(range) => cache(&disk, range).await.map(nothing),
    };
    Done {
        cookie,
        read,
        changed,
        bytes,
        result,
        charge,
    }
}

async fn trim(disk: &Node, range: Range, fua: bool) -> Result<(), IoError> {
    disk.trim(range).await?;
    if fua {
        disk.flush().await?;
    }
    Ok(())
}

/// Asks the kernel to read ahead where the bytes are in a file, else reads and forgets them.
async fn cache(disk: &Node, range: Range) -> Result<(), IoError> {
    let (leaf, at) = block::resolve(&**disk, range);
    if let Some(region) = leaf.file_region(at) {
        let len = std::num::NonZeroU64::new(at.len);
        let advice = rustix::fs::Advice::WillNeed;
        if rustix::fs::fadvise(&region.file, region.offset, len, advice).is_ok() {
            return Ok(());
        }
    }
    let mut offset = range.offset;
    while offset < range.end() {
        let len = CACHE_PIECE.min(range.end() - offset);
        drop(disk.read(Range::new(offset, len)).await?);
        offset += len;
    }
    Ok(())
}
