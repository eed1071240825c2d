//! [`Seeks`]: where a regular file has data and where holes, by lseek(2).
//!
//! # Invariants
//!
//! * A long range is searched on a thread for long work, slice by slice: a file may have any number of holes, and
//!   clients request the map of all of it as often as they like. A search ends with its slice when its future is dropped.
//! * A short range is searched on the fast path, up to a bound: the hop would cost many times the answer, and clients
//!   ask for maps in small steps. Where that took long (a search runs to the next hole, however far, and the
//!   file's map may not be in memory), the next ones take the hop for a while.

use std::io;
use std::ops::ControlFlow;
use std::time::Duration;

use block::{Extent, Range};
use engine::DiskFile;
use rustix::fs::{SeekFrom, seek};

use super::open::file_size;
use super::plan::{Search, Seek};
use super::state::Pace;

/// Ranges up to this length are searched on the fast path, bytes: as much as a server requests at first where a client
/// wants one extent. A search takes 1 or 2 us on ext4.
const IN_LINE_MAX: u64 = 256 << 10;
/// Seeks of a search on the fast path; the long way does the rest. As many as a hole between any two pages of
/// [`IN_LINE_MAX`] needs, which takes as long as a few hops of some 25 us.
const IN_LINE_SEEKS: usize = 64;
/// Seeks that count as one operation when a task's share of its thread is spent.
const SEEKS_PER_TURN: usize = 4;
/// Seeks of a slice: some 0.2 ms.
const SLICE_SEEKS: usize = 256;

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
        let mut search = Search::new(range, file_size(disk)?);
        if range.len <= IN_LINE_MAX && self.0.allows(engine::clock::now()) {
            let start = engine::clock::now();
            let is_over = search.advance(IN_LINE_SEEKS, |what, at| find(disk, what, at));
            self.0.took(STALL, start, engine::clock::now());
            // A caller that requests one range after the other would starve the other tasks of this thread.
            for _ in 0..=search.seeks() / SEEKS_PER_TURN {
                tokio::task::coop::consume_budget().await;
            }
            if is_over? {
                return Ok(search.finish());
            }
        }
        let disk = disk.clone();
        engine::long_work(move || {
            match search.advance(SLICE_SEEKS, |what, at| find(&disk, what, at)) {
                Ok(false) => ControlFlow::Continue(()),
                Ok(true) => ControlFlow::Break(Ok(search.finish())),
                Err(e) => ControlFlow::Break(Err(e)),
            }
        })
        .await
    }
}

fn find(disk: &DiskFile, what: Seek, at: u64) -> io::Result<Option<u64>> {
    match what {
        Seek::Data => found(seek(disk.fd(), SeekFrom::Data(at))),
        Seek::Hole => found(seek(disk.fd(), SeekFrom::Hole(at))),
    }
}

/// ENXIO: there is none behind the offset.
fn found(result: rustix::io::Result<u64>) -> io::Result<Option<u64>> {
    match result {
        Ok(at) => Ok(Some(at)),
        Err(rustix::io::Errno::NXIO) => Ok(None),
        Err(e) => Err(e.into()),
    }
}
