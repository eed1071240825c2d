//! RAID 4, 5 and 6, complete or degraded: what is pure of it, and the array that is only read.
//!
//! ```text
//! layout       where data and parity are          plan            a request as reads and computations
//! unreadable   what cannot be read                rebuild         answers as the bytes that were requested
//! members      reads, errors, members in doubt    member_reads    spans, narrowing down what is really lost
//!
//! stripe_gather   writes that arrive together, by rows     stripe_plan    how a row is changed, what is read for it
//! stripe_compute  its parity                               untrusted_scan where an array read by force may be wrong
//! ppl_passes      what a partial parity log gets before    ppl_strips     what one says after a crash
//! ```
//!
//! Arrays that are open for writing are [`redundant`](super::redundant), by its `rows`: they use `layout`, `plan`, `rebuild`,
//! `member_reads` and `stripe_*`. The rest is of [`Parity`].
//!
//! # Invariants
//!
//! * Nothing is written, to no member, in no state: an array that is only read stays as it is.
//! * Bytes are computed only where they cannot be read: on members that are missing, not rebuilt so
//!   far, marked as bad there, or that fail; and only from parity that is to be trusted.
//! * What lies on one member that is there is passed on as its disk gives it.
//! * What is lost is an error that names the members, never other bytes.
//!
//! # What it does not do
//!
//! [`Parity`] writes nothing, also not what it found to be unreadable.

mod extents;
pub(super) mod journal_columns;
pub(super) mod layout;
pub(super) mod member_reads;
mod members;
mod open_checks;
pub(super) mod plan;
pub(super) mod ppl_passes;
pub(super) mod ppl_strips;
pub(super) mod rebuild;
mod state;
pub(super) mod stripe_compute;
pub(super) mod stripe_gather;
pub(super) mod stripe_plan;
#[cfg(test)]
pub(crate) mod tests;
pub(super) mod unreadable;
pub(super) mod untrusted_scan;

use std::future::ready;
use std::sync::atomic::{AtomicU64, Ordering};

use block::{
    BlockDevice, Extent, ExtentKind, FileRegion, Geometry, Identity, IoBufs, IoError, IoFuture,
    Node, Operation, Range, TryIo, WriteFlags,
};
use futures_util::future::try_join_all;
use tokio::sync::{Semaphore, broadcast};

use self::extents::ReportedExtents;
use self::layout::Layout;
use self::member_reads::{FailedRead, SpanReader, SpanSource};
use self::members::{Held, Members};
use self::plan::{Bytes, footprint, run, single};
use self::unreadable::Lost;
use self::untrusted_scan::UntrustedScan;
use super::assembly::{Absent, Assembly, Facts, Other};
use super::format::bitmap::Bits;
use super::format::{Level, features};
use super::{ArrayError, ArrayEvent, ArrayOptions, UntrustedPlaces, logs};

pub(super) use self::open_checks::layout as layout_of;
use crate::guard::{assert_checked, assert_len, refuse};

/// An array with parity that is only read.
#[derive(Debug)]
pub(super) struct Parity {
    facts: Box<Facts>,
    geometry: Geometry,
    layout: Layout,
    members: Members,
    others: Vec<Other>,
    absent: Vec<Absent>,
    events: u64,
    clean: bool,
    bits: Option<Bits>,
    /// Members keep partial parity logs.
    keeps_ppl: bool,
    has_journal: bool,
    /// What is lost from the beginning.
    lost: Lost,
    /// Where it may be wrong: it is read by force.
    untrusted: Option<Box<UntrustedPlaces>>,
    /// Bytes of members that may be read at once to compute from.
    room: Semaphore,
    /// Bytes that were computed.
    rebuilt: AtomicU64,
}

impl Parity {
    /// Opens an array for reading. Whether enough of it is there was decided before; what is lost all
    /// the same fails when it is read.
    ///
    /// # Errors
    /// Its layout is not known, or a member does not do. Nothing was written.
    pub(super) async fn open(
        assembly: Assembly,
        options: &ArrayOptions,
    ) -> Result<Self, ArrayError> {
        let bits = bits(&assembly).await;
        Self::with_bits(assembly, options, bits)
    }

    /// The same where the bits of its bitmap were read, if it has them.
    fn with_bits(
        assembly: Assembly,
        options: &ArrayOptions,
        bits: Option<Bits>,
    ) -> Result<Self, ArrayError> {
        let layout = open_checks::layout(&assembly.facts)?;
        assert_eq!(
            assembly.parts.len(),
            layout.parts,
            "an assembly has an entry for each part"
        );
        let geometry = open_checks::geometry(&assembly, &layout)?;
        let trusts_parity = options.force_dirty_degraded;
        let mut lost = open_checks::lost(&assembly, geometry.block_size);
        let mut distrusted = lost.clone();
        open_checks::distrust(&mut distrusted, &assembly, bits.as_ref());
        let mut untrusted = None;
        if trusts_parity {
            let mut scan = UntrustedScan::new();
            scan.add(&layout, Range::new(0, assembly.facts.size), &distrusted);
            untrusted = scan.finish().map(Box::new);
        } else {
            lost = distrusted;
        }
        let members = || {
            assembly
                .parts
                .iter()
                .filter_map(|part| part.member.as_ref())
        };
        let keeps_ppl = members().any(|member| member.superblock.keeps_ppl());
        let has_journal =
            members().any(|member| member.superblock.features & features::JOURNAL != 0);
        let held = assembly.parts.into_iter().map(|part| {
            let member = part.member?;
            Some(Held::new(member, part.rebuilt_to))
        });
        Ok(Self {
            members: Members::new(held.collect(), options.member_timeout),
            facts: Box::new(assembly.facts),
            geometry,
            layout,
            others: assembly.others,
            absent: assembly.absent,
            events: assembly.events,
            clean: assembly.synced_to.is_none(),
            bits,
            keeps_ppl,
            has_journal,
            lost,
            untrusted,
            room: Semaphore::new(member_reads::room()),
            rebuilt: AtomicU64::new(0),
        })
    }

    /// Where it may be wrong.
    pub(super) fn untrusted(&self) -> Option<&UntrustedPlaces> {
        self.untrusted.as_deref()
    }

    /// What happens to it from now on.
    pub(super) fn events(&self) -> broadcast::Receiver<ArrayEvent> {
        self.members.events()
    }

    /// The member's bytes with all of `range`, if they can be read there.
    #[inline]
    fn whole(&self, range: Range) -> Option<Bytes> {
        let bytes = single(&self.layout, range)?;
        let is_there = !self.lost.touches(bytes.part, bytes.range) && !self.members.any_in_doubt();
        is_there.then_some(bytes)
    }

    /// Reads from one member; where that fails, from the others.
    async fn read_whole(&self, range: Range, bytes: Bytes) -> Result<IoBufs, IoError> {
        match self.members.ask(bytes).await {
            Ok(data) => Ok(data),
            Err(_) => self.read_spans(range).await,
        }
    }

    /// Reads what does not lie on one member, or on one that cannot be read.
    async fn read_spans(&self, range: Range) -> Result<IoBufs, IoError> {
        let columns = footprint(&self.layout, range);
        let is_complete = !self.members.any_in_doubt() && !self.lost.touches_any(columns);
        SpanReader(self).read(range, is_complete).await
    }

    /// The extents of `range`, where all of it can be read.
    async fn reported(&self, range: Range) -> Result<Vec<Extent>, IoError> {
        let whole = |(disk, below): (&Node, Range)| {
            let (disk, shift) = (disk.clone(), below.offset);
            async move {
                let reported = disk.extents(below).await?;
                let moved = |extent: Extent| Extent {
                    range: Range::new(extent.range.offset - shift, extent.range.len),
                    ..extent
                };
                Ok::<_, IoError>(reported.into_iter().map(moved).collect::<Vec<_>>())
            }
        };
        if let Some(bytes) = single(&self.layout, range) {
            let place = self
                .members
                .place(bytes)
                .expect("what can be read is there");
            let reported = whole(place).await?;
            let moved = |extent: Extent| Extent {
                range: Range::new(range.offset + extent.range.offset, extent.range.len),
                ..extent
            };
            return Ok(reported.into_iter().map(moved).collect());
        }
        let columns = footprint(&self.layout, range);
        let asked = (0..self.layout.parts).map(|part| {
            let bytes = Bytes {
                part,
                range: columns,
            };
            let place = self
                .members
                .place(bytes)
                .expect("what can be read is there");
            whole(place)
        });
        let mut reported = Vec::new();
        for said in try_join_all(asked).await? {
            let moved = |extent: Extent| Extent {
                range: Range::new(columns.offset + extent.range.offset, extent.range.len),
                ..extent
            };
            reported.push(ReportedExtents::new(said.into_iter().map(moved).collect()));
        }
        Ok(extents::join(&self.layout, range, &mut reported))
    }
}

/// The bits of the bitmap of a member that has seen all, where they can be read and are valid.
async fn bits(assembly: &Assembly) -> Option<Bits> {
    let header = assembly.bitmap.as_ref().filter(|header| !header.stale)?;
    let mut members = assembly
        .parts
        .iter()
        .filter_map(|part| part.member.as_ref());
    let fresh = members.find(|member| member.superblock.events == assembly.events)?;
    let read = logs::bits(&fresh.disk, &fresh.superblock, header).await;
    read.unwrap_or_else(|error| {
        tracing::warn!("the bitmap of {} cannot be read: {error}", fresh.name);
        None
    })
}

impl SpanSource for Parity {
    fn layout(&self) -> &Layout {
        &self.layout
    }

    fn level(&self) -> Level {
        self.facts.level
    }

    fn block_size(&self) -> u32 {
        self.geometry.block_size
    }

    fn room(&self) -> &Semaphore {
        &self.room
    }

    fn lost(&self) -> &Lost {
        &self.lost
    }

    fn doubted(&self) -> Vec<usize> {
        self.members.in_doubt()
    }

    fn ask(&self, bytes: Bytes) -> impl Future<Output = Result<IoBufs, IoError>> + Send {
        self.members.ask(bytes)
    }

    fn name(&self, part: usize) -> &str {
        self.members.name(part)
    }

    fn why_lost(&self, part: usize, columns: Range) -> String {
        match self.members.held()[part].as_ref() {
            None => String::new(),
            Some(held) => why_lost(held.rebuilt_to, columns),
        }
    }

    /// What was repaired is counted and forgotten.
    fn finish(&self, computed: u64, failed: Vec<FailedRead>) {
        if computed > 0 {
            self.rebuilt.fetch_add(computed, Ordering::Relaxed);
        }
        for (bytes, _) in failed {
            self.members.corrected(bytes.part);
        }
    }
}

/// Why a member cannot be read at `columns`.
pub(super) fn why_lost(rebuilt_to: Option<u64>, columns: Range) -> String {
    match rebuilt_to {
        Some(to) if columns.offset >= to => format!(" (rebuilt only up to byte {to})"),
        _ => " (a bad block)".to_owned(),
    }
}

impl BlockDevice for Parity {
    fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    fn read(&self, range: Range) -> IoFuture<'_, IoBufs> {
        assert_checked(&self.geometry, range);
        if range.is_empty() {
            return Box::pin(ready(Ok(IoBufs::new())));
        }
        match self.whole(range) {
            Some(bytes) => Box::pin(self.read_whole(range, bytes)),
            None => Box::pin(self.read_spans(range)),
        }
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
        let columns = footprint(&self.layout, range);
        let is_there = !self.lost.touches_any(columns) && !self.members.any_in_doubt();
        Box::pin(async move {
            if range.is_empty() {
                return Ok(Vec::new());
            }
            if is_there && let Ok(reported) = self.reported(range).await {
                return Ok(reported);
            }
            let kind = ExtentKind::Data;
            Ok(vec![Extent { range, kind }])
        })
    }

    fn identity(&self) -> Option<Identity> {
        self.facts.identity()
    }

    fn settle(&self) -> IoFuture<'_, ()> {
        Box::pin(ready(Ok(())))
    }

    /// Where the first bytes are, for callers that send them from their file. There is no `remap`: one that follows
    /// that may write there.
    fn remap_start(&self, range: Range) -> Option<(&Node, Range)> {
        let len = range.len.min(run(&self.layout, range.offset));
        let bytes = self.whole(Range::new(range.offset, len))?;
        self.members.place(bytes)
    }

    fn try_read(&self, range: Range, into: &mut [u8]) -> TryIo {
        assert_checked(&self.geometry, range);
        assert_len(range, into.len());
        let mut done = 0;
        while done < range.len {
            let at = range.offset + done;
            let piece = Range::new(at, (range.len - done).min(run(&self.layout, at)));
            let Some((disk, below)) = self.remap_start(piece) else {
                return TryIo::WouldBlock;
            };
            let start = Range::new(0, done).len_usize();
            let into = &mut into[start..start + piece.len_usize()];
            if disk.try_read(below, into) == TryIo::WouldBlock {
                return TryIo::WouldBlock;
            }
            done += piece.len;
        }
        TryIo::Done
    }

    fn file_region(&self, range: Range) -> Option<FileRegion> {
        let (disk, below) = self.members.place(self.whole(range)?)?;
        let (leaf, at) = block::resolve(&**disk, below);
        leaf.file_region(at)
    }
}
