//! Copies a disk onto another one: sparse, with many requests in flight.
//!
//! # Invariants
//!
//! * When [`copy`] returns `Ok`, the first bytes of the target are the source's, and flushed. Any
//!   read, write or flush that failed makes it fail.
//! * A target that is too small or read-only is refused before anything is written.
//! * What the source's extents report as zeroes is not read; what the target's report as zeroes is not
//!   written again. What lies behind the source's end in a larger target is left alone, and so is all outside of
//!   [`CopyOptions::ranges`].
//! * At most [`CopyOptions::in_flight`] pieces of [`PIECE_MAX`] bytes are in memory.
//! * The target's disk works from the beginning: behind what is written its pages are written out, or
//!   it is flushed, while the copy goes on. The flush at the end is a short one.
//! * All that is to be copied below [`CopyProgress::position`] is written: after a flush that began later, a copy of the
//!   rest makes the target whole.
//!
//! # What it does not do
//!
//! It keeps no state of a copy that can be resumed: [`checkpoints`] reports to the caller what is durable. It takes
//! no snapshot: a source that is written meanwhile is copied as it is found, piece by piece.

mod checkpoint;
mod error;
mod pieces;
mod plan;
mod progress;
#[cfg(test)]
mod tests;
mod writeback;

use std::collections::BTreeSet;
use std::sync::Arc;

use block::{Extent, IoError, Node, Range};
use futures_util::future::try_join;
use futures_util::stream::{FuturesOrdered, FuturesUnordered, StreamExt};

pub use self::checkpoint::checkpoints;
pub use self::error::CopyError;
use self::pieces::{Disks, spread};
use self::plan::{Action, CELL_MIN, CopyQueue, CopyWindow, DataRun, PieceMax};
pub use self::progress::{CopyProgress, CopyStage, Counts};
use self::writeback::Behind;
use crate::blocks::Blocks;

/// Longest read and write, bytes. Measured on a copy of 1 GiB onto a new file, on a virtual machine that gives
/// its free pages back to its host, medians of five in turns with nbdcopy: 1.03x its time with this, 1.13x to
/// 2.3x with 1 MiB. A long write makes the kernel allocate large folios, and those are what the host took.
pub const PIECE_MAX: u64 = 256 << 10;
/// Longest `write_zeroes`, bytes, where the target does that by itself.
const ZERO_MAX: u64 = 1 << 30;
/// The same where it may be written out.
const ZERO_SLOW_MAX: u64 = 32 << 20;
/// Most pieces in flight.
pub const IN_FLIGHT_MAX: usize = 1024;
/// Pieces begin and end at multiples of this at least: the page of most filesystems.
const UNIT_MIN: u64 = 4096;
/// What is mapped at once, bytes: at first, and where there are few extents.
const WINDOW_MIN: u64 = 1 << 30;
const WINDOW_MAX: u64 = 1 << 40;
/// A map of so few extents is little, of so many it is much.
const EXTENTS_FEW: usize = 64;
const EXTENTS_MANY: usize = 64 * 1024;

/// How a disk is copied.
#[derive(Debug, Clone)]
pub struct CopyOptions {
    /// The target reads as zeroes from end to end: it was made a moment ago.
    pub target_is_zero: bool,
    /// Look for zeroes in what is read, and do not write them out.
    pub detect_zeroes: bool,
    /// Copy, and compare, only these, which rise and do not overlap; each is extended to whole blocks. `None`: all.
    pub ranges: Option<Vec<Range>>,
    /// Pieces in flight, 1 to [`IN_FLIGHT_MAX`].
    pub in_flight: usize,
    /// The file that the target is, where it is one: its pages are written out behind the copy, which
    /// costs less than flushes.
    pub target_file: Option<engine::DiskFile>,
    /// Spread the work over the engine's cores; without it, all is done where [`copy`] is.
    pub cores: Option<engine::Handle>,
}

impl Default for CopyOptions {
    fn default() -> Self {
        Self {
            target_is_zero: false,
            detect_zeroes: true,
            ranges: None,
            in_flight: 64,
            target_file: None,
            cores: None,
        }
    }
}

/// Copies all of `source`, or [`CopyOptions::ranges`] of it, to the beginning of `target`, and flushes it. Dropping the future leaves
/// the target as far as it came, once it has settled.
///
/// # Errors
/// [`CopyError`], of the first request that failed.
pub async fn copy(
    source: Node,
    target: Node,
    options: &CopyOptions,
    progress: &CopyProgress,
) -> Result<(), CopyError> {
    let size = source.geometry().size;
    if target.geometry().read_only {
        return Err(CopyError::ReadOnly);
    }
    if target.geometry().size < size {
        return Err(CopyError::TooSmall {
            source_size: size,
            target: target.geometry().size,
        });
    }
    let mover = Mover::new(source, target, options);
    mover.run(progress).await?;
    let target = &mover.disks.target;
    if target.geometry().flush.any() {
        progress.enter(CopyStage::Flushing);
        target.flush().await.map_err(CopyError::Target)?;
    }
    Ok(())
}

/// Reads all of `source`, or [`CopyOptions::ranges`] of it, and as much of `target`, and compares them.
///
/// # Errors
/// [`CopyError::Differs`], or that of the first request that failed.
pub async fn verify(
    source: Node,
    target: Node,
    options: &CopyOptions,
    progress: &CopyProgress,
) -> Result<(), CopyError> {
    progress.enter(CopyStage::Verifying);
    let size = source.geometry().size;
    if target.geometry().size < size {
        return Err(CopyError::TooSmall {
            source_size: size,
            target: target.geometry().size,
        });
    }
    let mover = Mover::new(source, target, options);
    let mut pieces = mover.ranges.iter().flat_map(|range| {
        let numbers = range.offset / PIECE_MAX..range.end().div_ceil(PIECE_MAX);
        numbers.map(|n| {
            let start = range.offset.max(n * PIECE_MAX);
            Range::new(start, range.end().min((n + 1) * PIECE_MAX) - start)
        })
    });
    // In order, so that the first difference is the one that is reported.
    let mut flights = FuturesOrdered::new();
    loop {
        while flights.len() < mover.in_flight
            && let Some(range) = pieces.next()
        {
            let disks = mover.disks.clone();
            flights.push_back(spread(options.cores.as_ref(), async move {
                disks.compare(range).await
            }));
        }
        match flights.next().await {
            Some(counts) => progress.add(&counts?),
            None => return Ok(()),
        }
    }
}

/// One copy that goes on.
struct Mover<'a> {
    disks: Arc<Disks>,
    options: &'a CopyOptions,
    size: u64,
    /// What is copied, in whole blocks.
    ranges: Vec<Range>,
    unit: u64,
    in_flight: usize,
    max: PieceMax,
}

/// Which pieces are not copied yet: those in flight and all from `next` on. Pieces start in the order of the disk.
struct Pending {
    starts: BTreeSet<u64>,
    next: u64,
}

impl Pending {
    const fn new(next: u64) -> Self {
        Self {
            starts: BTreeSet::new(),
            next,
        }
    }

    /// All below is copied.
    fn position(&self) -> u64 {
        self.starts.first().copied().unwrap_or(self.next)
    }
}

/// What is known of a window of both disks.
struct Mapped {
    range: Range,
    source: Vec<Extent>,
    target: Vec<Extent>,
}

impl<'a> Mover<'a> {
    fn new(source: Node, target: Node, options: &'a CopyOptions) -> Self {
        let size = source.geometry().size;
        let block_of = |node: &Node| u64::from(node.geometry().block_size.max(1));
        let unit = block_of(&source).max(block_of(&target)).max(UNIT_MIN);
        let native = target.geometry().write_zeroes == block::Support::Native;
        // The last piece ends where the source does, which may be within a block of the target.
        let target = if size.is_multiple_of(block_of(&target)) {
            target
        } else {
            let smaller = Blocks::new(target, source.geometry().block_size.max(1));
            Arc::new(smaller.expect("the source's block size is one"))
        };
        let ranges = match &options.ranges {
            Some(ranges) => {
                plan::whole_blocks(ranges, block_of(&source).max(block_of(&target)), size)
            }
            None => vec![Range::new(0, size)],
        };
        Self {
            ranges,
            disks: Arc::new(Disks {
                source,
                target,
                cell: options.detect_zeroes.then_some(unit.max(CELL_MIN)),
            }),
            options,
            size,
            unit,
            in_flight: options.in_flight.clamp(1, IN_FLIGHT_MAX),
            max: PieceMax {
                data: PIECE_MAX,
                zero: if native { ZERO_MAX } else { ZERO_SLOW_MAX },
            },
        }
    }

    /// Moves everything: pieces of one window are in flight while the next ones are mapped.
    async fn run(&self, progress: &CopyProgress) -> Result<(), CopyError> {
        let mut queue = CopyQueue::default();
        let mut flights = FuturesUnordered::new();
        let mut len = WINDOW_MIN;
        let map_from = |end, len| {
            let start = self.next_start(end)?;
            Some(Box::pin(self.map(start, len)))
        };
        let mut mapping = map_from(0, len);
        let mut behind = Behind::new(self.disks.clone(), self.options);
        let first = self.ranges.first().map_or(self.size, |range| range.offset);
        let mut pending = Pending::new(first);
        loop {
            while flights.len() < self.in_flight
                && let Some(piece) = queue.pop(self.max)
            {
                pending.next = piece.range.end();
                if piece.action == Action::Keep {
                    progress.add(&Counts {
                        kept: piece.range.len,
                        ..Counts::default()
                    });
                    continue;
                }
                let start = piece.range.offset;
                pending.starts.insert(start);
                let work = self.start(piece);
                flights.push(async move { (start, work.await) });
            }
            progress.set_position(pending.position());
            // Ahead of the pieces, but not without bound.
            let wants_map = mapping.is_some() && queue.len() < EXTENTS_MANY;
            if flights.is_empty() && !wants_map {
                progress.set_position(self.size);
                return behind.finish().await;
            }
            let map = async { mapping.as_mut().expect("it is asked for").await };
            // In one order, so that a seeded world replays; a map is the rarest of them.
            tokio::select! {
                biased;
                mapped = map, if wants_map => {
                    let mapped = mapped?;
                    len = next_window(len, mapped.source.len() + mapped.target.len());
                    mapping = map_from(mapped.range.end(), len);
                    queue.extend(self.decide(&mapped));
                }
                ended = behind.ended() => ended?,
                Some((start, counts)) = flights.next() => {
                    let counts = counts?;
                    pending.starts.remove(&start);
                    progress.add(&counts);
                    behind.wrote(counts.written);
                }
            }
        }
    }

    /// Where the next window begins if `end` is the end of the last one; `None` if nothing is left to copy.
    fn next_start(&self, end: u64) -> Option<u64> {
        let next = self.ranges.partition_point(|range| range.end() <= end);
        let start = self.ranges.get(next)?.offset.max(end);
        (start < self.size).then_some(start / self.unit * self.unit)
    }

    /// Starts a piece.
    fn start(&self, piece: DataRun) -> impl Future<Output = Result<Counts, CopyError>> + use<> {
        let disks = self.disks.clone();
        let work = async move { disks.carry_out(piece).await };
        spread(self.options.cores.as_ref(), work)
    }

    /// Reads both disks' extents of `len` bytes from `start` on.
    async fn map(&self, start: u64, len: u64) -> Result<Mapped, CopyError> {
        let range = Range::new(start, len.min(self.size - start));
        let source = async {
            let extents = self.disks.source.extents(range).await;
            extents.map_err(CopyError::Source)
        };
        let target = async {
            if self.options.target_is_zero {
                let kind = block::ExtentKind::Hole;
                return Ok(vec![Extent { range, kind }]);
            }
            self.target_extents(range).await.map_err(CopyError::Target)
        };
        let (source, target) = try_join(source, target).await?;
        Ok(Mapped {
            range,
            source,
            target,
        })
    }

    async fn target_extents(&self, range: Range) -> Result<Vec<Extent>, IoError> {
        self.disks.target.extents(range).await
    }

    fn decide(&self, mapped: &Mapped) -> Vec<DataRun> {
        let runs = plan::runs(&CopyWindow {
            range: mapped.range,
            source: &mapped.source,
            target: &mapped.target,
            unit: self.unit,
            size: self.size,
        });
        plan::within(&runs, &self.ranges)
    }
}

/// How much to map after a map of `len` bytes had so many extents.
fn next_window(len: u64, extents: usize) -> u64 {
    if extents <= EXTENTS_FEW {
        (len * 2).min(WINDOW_MAX)
    } else if extents >= EXTENTS_MANY {
        (len / 2).max(WINDOW_MIN)
    } else {
        len
    }
}
