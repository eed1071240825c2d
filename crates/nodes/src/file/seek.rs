//! [`Seeks`]: where a regular file has data and where holes, by lseek(2).
//!
//! # Invariants
//!
//! * A long range is looked at on a thread that may block. A short one is searched on the fast path: the hop
//!   would cost many times the answer, and clients ask for maps in small steps. Where that took long
//!   (a search runs to the next hole, however far, and the file's map may not be in memory), the next
//!   ones take the hop for a while.

use std::io;
use std::time::Duration;

use block::{Extent, Range};
use engine::DiskFile;
use rustix::fs::{SeekFrom, seek};

use super::open::file_size;
use super::plan::{self, Seek};
use super::state::Pace;

/// Ranges up to this length are searched on the fast path, bytes: as much as a server requests at first where a client
/// wants one extent. A search takes 1 or 2 us on ext4, so the worst, a hole between any two pages, takes as
/// long as a few hops of some 25 us.
const IN_LINE_MAX: u64 = 256 << 10;

/// One that takes longer has waited for the disk, or has far to go.
const STALL: Duration = Duration::from_millis(1);

/// The searches of one file.
#[derive(Debug)]
pub(super) struct Seeks(Pace);

impl Seeks {
    pub(super) fn new() -> Self {
        Self(Pace::new(engine::clock::now()))
    }

    /// The allocation of `range`.
    pub(super) async fn extents(&self, disk: &DiskFile, range: Range) -> io::Result<Vec<Extent>> {
        if range.len <= IN_LINE_MAX && self.0.allows(engine::clock::now()) {
            // A caller that requests one range after the other would starve the other tasks of this thread.
            tokio::task::coop::consume_budget().await;
            let start = engine::clock::now();
            let found = search(disk, range);
            self.0.took(STALL, start, engine::clock::now());
            return found;
        }
        let disk = disk.clone();
        engine::blocking(move || search(&disk, range)).await
    }
}

fn search(disk: &DiskFile, range: Range) -> io::Result<Vec<Extent>> {
    let find = |what, at| match what {
        Seek::Data => found(seek(disk.fd(), SeekFrom::Data(at))),
        Seek::Hole => found(seek(disk.fd(), SeekFrom::Hole(at))),
    };
    plan::extents(range, file_size(disk)?, find)
}

/// ENXIO: there is none behind the offset.
fn found(result: rustix::io::Result<u64>) -> io::Result<Option<u64>> {
    match result {
        Ok(at) => Ok(Some(at)),
        Err(rustix::io::Errno::NXIO) => Ok(None),
        Err(e) => Err(e.into()),
    }
}
