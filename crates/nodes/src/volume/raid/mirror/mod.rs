//! [`MirrorVolume`]: an old mirror of LVM (device-mapper's `mirror`), read only.
//!
//! ```text
//! region     0      1      2      3
//! log        1      0      1      1        set: all legs are equal
//! read of    any    first  any    any      leg
//! ```
//!
//! # Invariants
//!
//! * A region that is not in sync is read of the first leg only: Linux copies that one to the others. Where it is missing
//!   such a region is an error, unless the caller forces it.
//! * A region in sync is read of one leg, and of the others where that fails.
//! * Nothing is written, to no leg and not to the log.
//!
//! # What it does not do
//!
//! It copies nothing, and writes nothing: `Geometry::read_only` says so.

pub mod log;

use std::future::ready;

use block::{
    BlockDevice, Errno, Extent, ExtentKind, FileRegion, Geometry, Identity, IoBufs, IoError,
    IoFuture, Node, Operation, Range, Support, TryIo, WriteFlags,
};
use futures_util::{StreamExt, TryStreamExt, stream};

use self::log::Regions;
use super::RaidError;
use crate::guard::{about, assert_checked, assert_len, refuse};
use crate::read::read_within;

/// Most legs of a mirror, as device-mapper has it.
const LEGS_MAX: usize = 8;
/// Runs of one request that are read at the same time, at most.
const RUNS_AT_ONCE: usize = 16;

/// An old mirror, as LVM's metadata describes it. Sizes are bytes.
#[derive(Debug, Clone)]
pub struct MirrorSpec {
    /// Its size.
    pub size: u64,
    /// What a bit of its log is for.
    pub region_size: u64,
    /// Its legs, the one first that others are copied of; `None`: it cannot be had.
    pub legs: Vec<Option<Node>>,
    /// Its log. `None`: it is kept in memory (core log), or cannot be had: no region is known to be in sync.
    pub log: Option<Node>,
}

/// How an old mirror is opened.
#[derive(Debug, Clone)]
pub struct MirrorOptions {
    /// What it is called in messages; legs are `NAME_mimage_0` and so on.
    pub name: String,
    /// Its legs were declared equal when it was made (LVM's `NOTSYNCED`): regions of which the log says nothing are in sync.
    pub assume_synced: bool,
    /// Where the first leg is missing, read regions that are not in sync of the first leg that is there.
    pub force: bool,
}

impl Default for MirrorOptions {
    fn default() -> Self {
        Self {
            name: "mirror".to_owned(),
            assume_synced: false,
            force: false,
        }
    }
}

/// An old mirror that is open.
#[derive(Debug)]
pub struct MirrorVolume {
    geometry: Geometry,
    name: String,
    /// By position; `None`: it is missing.
    legs: Vec<Option<Node>>,
    regions: Regions,
    force: bool,
    remarks: Vec<String>,
}

/// Opens an old mirror for reading.
///
/// # Errors
/// [`RaidError`]: why not.
pub async fn open_mirror(
    spec: MirrorSpec,
    options: &MirrorOptions,
) -> Result<MirrorVolume, RaidError> {
    let name = &options.name;
    let geometry = geometry(&spec, name)?;
    let unfit = |problem: log::LogProblem| {
        RaidError::refused(format!("{name}: {problem}"), "use the volume with Linux")
    };
    let regions = Regions::new(spec.size, spec.region_size, options.assume_synced);
    let regions = regions.map_err(unfit)?;
    let mut remarks: Vec<String> = Vec::new();
    for (index, _) in spec
        .legs
        .iter()
        .enumerate()
        .filter(|(_, leg)| leg.is_none())
    {
        remarks.push(format!("{name}_mimage_{index} is missing"));
    }
    let regions = match &spec.log {
        None => regions,
        Some(log) => match read_log(log, &regions).await {
            Ok(found) => {
                let (known, bits) = found.map_err(unfit)?;
                regions.with_log(known, &bits)
            }
            Err(error) => {
                remarks.push(format!("the log of {name} cannot be read: {error}"));
                regions
            }
        },
    };
    let first_is_missing = spec.legs.first().is_some_and(Option::is_none);
    let in_sync = regions.in_sync();
    if in_sync < regions.count() && first_is_missing {
        let what = format!(
            "the first leg of {name} is missing, and {in_sync} of {} regions are known to be the same on the others",
            regions.count()
        );
        if in_sync == 0 && !options.force {
            let next = "find the physical volume of the first leg, or force it to read what the others hold";
            return Err(RaidError::refused(what, next));
        }
        remarks.push(what);
    }
    Ok(MirrorVolume {
        geometry,
        name: name.clone(),
        legs: spec.legs,
        regions,
        force: options.force,
        remarks,
    })
}

/// The mirror as a disk: read-only, in the largest blocks that a leg has.
fn geometry(spec: &MirrorSpec, name: &str) -> Result<Geometry, RaidError> {
    if spec.legs.is_empty() || spec.legs.len() > LEGS_MAX {
        let what = format!(
            "{name} has {} legs: it can have 1 to {LEGS_MAX}",
            spec.legs.len()
        );
        return Err(RaidError::refused(what, None));
    }
    let mut whole = Geometry {
        read_only: true,
        flush: Support::None,
        fua: Support::None,
        trim: Support::None,
        write_zeroes: Support::None,
        ..Geometry::native(spec.size)
    };
    let mut legs = spec.legs.iter().flatten().peekable();
    if legs.peek().is_none() {
        let what = format!("all legs of {name} are missing");
        return Err(RaidError::refused(what, "find their physical volumes"));
    }
    for leg in legs {
        let of = leg.geometry();
        if of.size < spec.size {
            let what = format!(
                "a leg of {name} has {} bytes, and the mirror {}",
                of.size, spec.size
            );
            return Err(RaidError::refused(what, None));
        }
        whole.block_size = whole.block_size.max(of.block_size);
        whole.preferred_block_size = whole.preferred_block_size.max(of.preferred_block_size);
        whole.rotational |= of.rotational;
    }
    let block = u64::from(whole.block_size);
    if [spec.size, spec.region_size]
        .iter()
        .any(|len| !len.is_multiple_of(block))
    {
        let what = format!("a leg of {name} has blocks of {block} bytes, which cut its regions");
        let next = "put smaller blocks on its physical volume: blocks(DISK, size=512)";
        return Err(RaidError::refused(what, next));
    }
    Ok(whole)
}

/// How many regions a log knows, and the bits of them.
async fn read_log(
    log: &Node,
    regions: &Regions,
) -> Result<Result<(u64, Vec<u8>), log::LogProblem>, IoError> {
    let header = read_within(log, Range::new(0, log::HEADER_LEN)).await?;
    let known = match log::decode(&header) {
        Ok(known) => known,
        Err(problem) => return Ok(Err(problem)),
    };
    let bits = read_within(log, Range::new(log::BITS_AT, regions.bits_len())).await?;
    Ok(Ok((known, bits)))
}

impl MirrorVolume {
    /// What the caller should know: legs that are missing, a log that cannot be read.
    #[must_use]
    pub fn remarks(&self) -> &[String] {
        &self.remarks
    }

    /// Regions that are in sync, and how many there are.
    #[must_use]
    pub fn regions(&self) -> (u64, u64) {
        (self.regions.in_sync(), self.regions.count())
    }

    /// The legs that a run may be read of, the best one first.
    fn legs_of(&self, run: Range, in_sync: bool) -> impl Iterator<Item = &Node> {
        let count = self.legs.len();
        let start = match in_sync {
            // Neighbouring regions are read of different legs.
            true => usize::try_from(self.regions.region_of(run.offset) % count as u64).unwrap_or(0),
            false => 0,
        };
        let legs = (0..count).map(move |step| &self.legs[(start + step) % count]);
        let is_bound = !in_sync && !self.force;
        legs.take(if is_bound { 1 } else { count }).flatten()
    }

    /// Runs of a range that each are read of one leg.
    fn runs(&self, range: Range) -> impl Iterator<Item = (Range, bool)> + '_ {
        let mut rest = range;
        std::iter::from_fn(move || {
            if rest.is_empty() {
                return None;
            }
            let (run, in_sync) = self.regions.run(rest, rest.len);
            rest = Range::new(run.end(), rest.end() - run.end());
            Some((run, in_sync))
        })
    }

    async fn read_run(&self, run: Range, in_sync: bool) -> Result<IoBufs, IoError> {
        let mut failed = None;
        for leg in self.legs_of(run, in_sync) {
            match leg.read(run).await {
                Ok(data) => return Ok(data),
                Err(error) => {
                    tracing::debug!("{}: a leg cannot be read: {error}", self.name);
                    failed.get_or_insert(error);
                }
            }
        }
        Err(failed.unwrap_or_else(|| {
            let why = format!(
                "{}: the first leg is missing, and others may differ there",
                self.name
            );
            IoError::new(Errno::Io, Operation::Read, Some(run)).because(why)
        }))
    }

    async fn extents_of(&self, run: Range, in_sync: bool) -> Vec<Extent> {
        if let Some(leg) = self.legs_of(run, in_sync).next()
            && let Ok(extents) = leg.extents(run).await
        {
            return extents;
        }
        let kind = ExtentKind::Data;
        vec![Extent { range: run, kind }]
    }

    /// Where the first bytes of a range are read.
    fn start(&self, range: Range) -> Option<(&Node, Range)> {
        if range.is_empty() {
            return None;
        }
        let (run, in_sync) = self.regions.run(range, range.len);
        self.legs_of(run, in_sync).next().map(|leg| (leg, run))
    }
}

impl BlockDevice for MirrorVolume {
    fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    fn read(&self, range: Range) -> IoFuture<'_, IoBufs> {
        assert_checked(&self.geometry, range);
        Box::pin(async move {
            let reads = self.runs(range);
            let reads = stream::iter(reads.map(|(run, in_sync)| self.read_run(run, in_sync)));
            let read: Result<Vec<IoBufs>, IoError> =
                reads.buffered(RUNS_AT_ONCE).try_collect().await;
            let read = about(Some(range), Operation::Read, read)?;
            Ok(read.into_iter().flatten().collect())
        })
    }

    fn write(&self, range: Range, _data: IoBufs, _flags: WriteFlags) -> IoFuture<'_, ()> {
        refuse(&self.geometry, Operation::Write, range)
    }

    /// There is nothing to flush.
    fn flush(&self) -> IoFuture<'_, ()> {
        Box::pin(ready(Ok(())))
    }

    fn write_zeroes(&self, range: Range, _flags: WriteFlags) -> IoFuture<'_, ()> {
        refuse(&self.geometry, Operation::WriteZeroes, range)
    }

    fn trim(&self, range: Range) -> IoFuture<'_, ()> {
        refuse(&self.geometry, Operation::Trim, range)
    }

    fn extents(&self, range: Range) -> IoFuture<'_, Vec<Extent>> {
        assert_checked(&self.geometry, range);
        Box::pin(async move {
            let mut all = Vec::new();
            for (run, in_sync) in self.runs(range) {
                all.extend(self.extents_of(run, in_sync).await);
            }
            Ok(all)
        })
    }

    /// LVM's metadata knows which volume it is.
    fn identity(&self) -> Option<Identity> {
        None
    }

    fn settle(&self) -> IoFuture<'_, ()> {
        Box::pin(ready(Ok(())))
    }

    /// Where the first bytes are, for callers that send them from their file. There is no `remap`: a caller that follows
    /// that may write there.
    fn remap_start(&self, range: Range) -> Option<(&Node, Range)> {
        self.start(range)
    }

    fn try_read(&self, range: Range, into: &mut [u8]) -> TryIo {
        assert_checked(&self.geometry, range);
        assert_len(range, into.len());
        for (run, in_sync) in self.runs(range) {
            let Some(leg) = self.legs_of(run, in_sync).next() else {
                return TryIo::WouldBlock;
            };
            let start = Range::new(0, run.offset - range.offset).len_usize();
            let into = &mut into[start..start + run.len_usize()];
            if leg.try_read(run, into) == TryIo::WouldBlock {
                return TryIo::WouldBlock;
            }
        }
        TryIo::Done
    }

    fn file_region(&self, range: Range) -> Option<FileRegion> {
        let (leg, run) = self.start(range)?;
        if run != range {
            return None;
        }
        let (leaf, at) = block::resolve(&**leg, run);
        leaf.file_region(at)
    }
}
