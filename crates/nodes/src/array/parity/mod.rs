//! RAID 4, 5 and 6, complete or degraded, for reading.
//!
//! ```text
//! layout    where data and parity are          plan       a request as reads and computations
//! lost      what cannot be read                rebuild    answers as the bytes that were requested
//! members   reads, errors, members in doubt    reading    spans, narrowing down what is really lost
//! ```
//!
//! # Invariants
//!
//! * Nothing is written, to no member, in no state: an array that is only read stays as it is.
//! * Bytes are computed only where they cannot be read: on members that are missing, not rebuilt so
//!   far, marked as bad there, or that fail; and only from parity that is to be trusted.
//! * What lies on one member that is there is passed on as its disk gives it.
//! * What is lost is an error that names the members, never other bytes.
//!
//! # The place of writing
//!
//! A writer's unit is the row ([`layout::Row`]): all that changes it is one step, under a lock of that
//! row. It will need the dirty mark and the bits of the rows' columns before the first byte (as the
//! mirror does), the choice between reading what a write replaces with its parity
//! ([`multiply_add`](engine::parity::Kernel::multiply_add)) and reading the rest of the row
//! ([`syndrome`](engine::parity::Kernel::syndrome)), the latter wherever the row is not in sync, and a
//! resync that recomputes parity. Until then `Geometry::read_only` says no to all of it.
//!
//! # What it does not do
//!
//! It writes nothing, also not what it found to be unreadable.

mod extents;
mod layout;
mod member_reads;
mod members;
mod open_checks;
mod plan;
mod rebuild;
mod state;
#[cfg(test)]
mod tests;
mod unreadable;

use std::future::ready;
use std::sync::atomic::AtomicU64;

use block::{
    BlockDevice, Errno, Extent, ExtentKind, FileRegion, Geometry, Identity, IoBufs, IoError,
    IoFuture, Node, Operation, Range, TryIo, WriteFlags,
};
use futures_util::future::try_join_all;
use tokio::sync::{Semaphore, broadcast};

use self::extents::Told;
use self::layout::Layout;
use self::members::{Held, Members};
use self::plan::{Bytes, footprint, run, single};
use self::unreadable::Lost;
use super::assembly::{Absent, Assembly, Facts, Other};
use super::format::bitmap::Bits;
use super::{ArrayError, ArrayEvent, ArrayOptions, logs};
use crate::guard::{admit, assert_checked, assert_len};

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
    /// What is lost from the beginning.
    lost: Lost,
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
        if !trusts_parity {
            open_checks::distrust(&mut lost, &assembly, bits.as_ref());
        }
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
            lost,
            room: Semaphore::new(member_reads::room()),
            rebuilt: AtomicU64::new(0),
        })
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

    /// The extents of `range`, where all of it can be read.
    async fn told(&self, range: Range) -> Result<Vec<Extent>, IoError> {
        let whole = |(disk, below): (&Node, Range)| {
            let (disk, shift) = (disk.clone(), below.offset);
            async move {
                let told = disk.extents(below).await?;
                let moved = |extent: Extent| Extent {
                    range: Range::new(extent.range.offset - shift, extent.range.len),
                    ..extent
                };
                Ok::<_, IoError>(told.into_iter().map(moved).collect::<Vec<_>>())
            }
        };
        if let Some(bytes) = single(&self.layout, range) {
            let place = self
                .members
                .place(bytes)
                .expect("what can be read is there");
            let told = whole(place).await?;
            let moved = |extent: Extent| Extent {
                range: Range::new(range.offset + extent.range.offset, extent.range.len),
                ..extent
            };
            return Ok(told.into_iter().map(moved).collect());
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
        let mut told = Vec::new();
        for said in try_join_all(asked).await? {
            let moved = |extent: Extent| Extent {
                range: Range::new(columns.offset + extent.range.offset, extent.range.len),
                ..extent
            };
            told.push(Told::new(said.into_iter().map(moved).collect()));
        }
        Ok(extents::join(&self.layout, range, &mut told))
    }

    /// Refuses a change.
    fn refuse(&self, operation: Operation, range: Range) -> IoFuture<'_, ()> {
        let refused = admit(&self.geometry, operation, range);
        debug_assert!(refused.is_err(), "an array with parity is only read");
        let refused = refused.err();
        let refused =
            refused.unwrap_or_else(|| IoError::new(Errno::NotPermitted, operation, Some(range)));
        Box::pin(ready(Err(refused)))
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
        self.refuse(Operation::Write, range)
    }

    /// There is nothing to flush.
    fn flush(&self) -> IoFuture<'_, ()> {
        Box::pin(ready(Ok(())))
    }

    fn write_zeroes(&self, range: Range, _flags: WriteFlags) -> IoFuture<'_, ()> {
        self.refuse(Operation::WriteZeroes, range)
    }

    fn trim(&self, range: Range) -> IoFuture<'_, ()> {
        self.refuse(Operation::Trim, range)
    }

    fn extents(&self, range: Range) -> IoFuture<'_, Vec<Extent>> {
        assert_checked(&self.geometry, range);
        let columns = footprint(&self.layout, range);
        let is_there = !self.lost.touches_any(columns) && !self.members.any_in_doubt();
        Box::pin(async move {
            if range.is_empty() {
                return Ok(Vec::new());
            }
            if is_there && let Ok(told) = self.told(range).await {
                return Ok(told);
            }
            let kind = ExtentKind::Data;
            Ok(vec![Extent { range, kind }])
        })
    }

    fn identity(&self) -> Option<Identity> {
        Some(Identity::of("md", &[&self.facts.uuid]))
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
