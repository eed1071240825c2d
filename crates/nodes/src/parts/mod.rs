//! What `linear` and `stripe` share: disks of which parts make one disk, and requests that are dealt
//! out to several of them.
//!
//! # Invariants
//!
//! * A request that lies on one part is its disk's: the future, the answer on the fast path and the place of
//!   the bytes are passed on as they are.
//! * Another one is sent to each part it touches once, to all of them at the same time.
//! * A change answers only once each of its parts has: nothing of it lands after the answer, also
//!   where a part failed. Of several failures the first part's is returned.
//! * A disk of which there are several parts is flushed and settled once.
//! * Data is cut and joined by reference; nothing is copied.

mod extents;
mod geometry;
mod share;
#[cfg(test)]
mod tests;

use std::fmt::Debug;
use std::future::ready;
use std::sync::Arc;

use block::{
    Extent, Geometry, IoBufs, IoError, IoFuture, Node, Operation, Range, TryIo, WriteFlags,
};
use futures_util::future::{join_all, try_join_all};

pub use self::geometry::PartError;
pub(crate) use self::share::{Lay, Share};
use crate::guard::{admit, admit_change, assert_checked, assert_len, len_of};

/// Parts of one disk, at most.
pub(crate) const PARTS_MAX: usize = 65_536;

/// A part of a disk.
#[derive(Debug, Clone)]
pub struct Segment {
    /// The disk.
    pub disk: Node,
    /// Which bytes of it.
    pub range: Range,
}

impl Segment {
    /// All of `disk`.
    #[must_use]
    pub fn whole(disk: Node) -> Self {
        let range = Range::new(0, disk.geometry().size);
        Self { disk, range }
    }
}

/// Where the bytes of the whole are on its parts. Pure.
pub(crate) trait Layout: Debug + Send + Sync {
    /// The index of the part that holds all of `range`, and where in the part.
    fn single(&self, range: Range) -> Option<(usize, Range)>;

    /// How many bytes from `offset` on lie together on one part.
    fn run(&self, offset: u64) -> u64;

    /// What each part gets of `range`, in the order in which the range first touches them.
    fn shares(&self, range: Range) -> Vec<Share>;
}

/// Parts that were validated, where the whole's bytes are on them, and the requests to them.
#[derive(Debug)]
pub(crate) struct Parts<L> {
    segments: Vec<Segment>,
    /// Each disk once, with the first part of it.
    disks: Vec<(Node, usize)>,
    geometry: Geometry,
    layout: L,
}

impl<L: Layout> Parts<L> {
    /// Checks that each segment lies on its disk, and that whole blocks of the composed disk are
    /// whole blocks of each.
    pub(crate) fn new(
        segments: Vec<Segment>,
        layout: impl FnOnce(&[Segment]) -> L,
    ) -> Result<Self, PartError> {
        let geometry = geometry::compose(&segments)?;
        let mut disks: Vec<(Node, usize)> = Vec::new();
        for (index, segment) in segments.iter().enumerate() {
            if !disks.iter().any(|(known, _)| is_same(known, &segment.disk)) {
                disks.push((segment.disk.clone(), index));
            }
        }
        Ok(Self {
            disks,
            geometry,
            layout: layout(&segments),
            segments,
        })
    }

    pub(crate) const fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    pub(crate) const fn layout(&self) -> &L {
        &self.layout
    }

    pub(crate) fn segments(&self) -> &[Segment] {
        &self.segments
    }

    /// The disk that holds all of `range`, and where.
    #[inline]
    pub(crate) fn single(&self, range: Range) -> Option<(&Node, Range)> {
        let (part, within) = self.layout.single(range)?;
        Some(self.place(part, within))
    }

    /// The disk that holds the first bytes of `range`, and where: as many as lie together.
    pub(crate) fn start(&self, range: Range) -> Option<(&Node, Range)> {
        let len = range.len.min(self.layout.run(range.offset));
        self.single(Range::new(range.offset, len))
    }

    /// Where `within` of a part is.
    #[inline]
    fn place(&self, part: usize, within: Range) -> (&Node, Range) {
        let Segment { disk, range } = &self.segments[part];
        (disk, Range::new(range.offset + within.offset, within.len))
    }

    pub(crate) fn read(&self, range: Range) -> IoFuture<'_, IoBufs> {
        assert_checked(&self.geometry, range);
        match self.single(range) {
            Some((disk, below)) => disk.read(below),
            None => Box::pin(self.gather(range)),
        }
    }

    async fn gather(&self, range: Range) -> Result<IoBufs, IoError> {
        let shares = self.layout.shares(range);
        let answers = try_join_all(shares.iter().map(async |share| {
            let (disk, below) = self.place(share.part, share.within);
            let answer = disk.read(below).await;
            answer.map_err(|e| self.blame(share.part, Operation::Read, Some(range), e))
        }));
        Ok(share::join(&shares, answers.await?))
    }

    pub(crate) fn write(&self, range: Range, data: IoBufs, flags: WriteFlags) -> IoFuture<'_, ()> {
        if let Err(refused) = admit(&self.geometry, Operation::Write, range) {
            return Box::pin(ready(Err(refused)));
        }
        assert_len(range, len_of(&data));
        match self.single(range) {
            Some((disk, below)) => disk.write(below, data, flags),
            None => Box::pin(self.scatter(range, data, flags)),
        }
    }

    async fn scatter(&self, range: Range, data: IoBufs, flags: WriteFlags) -> Result<(), IoError> {
        let shares = self.layout.shares(range);
        let cut = share::cut(&shares, &data);
        let writes = shares.iter().zip(cut).map(async |(share, data)| {
            let (disk, below) = self.place(share.part, share.within);
            let answer = disk.write(below, data, flags).await;
            answer.map_err(|e| self.blame(share.part, Operation::Write, Some(range), e))
        });
        first_failure(join_all(writes).await)
    }

    pub(crate) fn write_zeroes(&self, range: Range, flags: WriteFlags) -> IoFuture<'_, ()> {
        self.change(Operation::WriteZeroes, range, flags, move |disk, below| {
            disk.write_zeroes(below, flags)
        })
    }

    pub(crate) fn trim(&self, range: Range) -> IoFuture<'_, ()> {
        let flags = WriteFlags::empty();
        self.change(Operation::Trim, range, flags, |disk, below| {
            disk.trim(below)
        })
    }

    /// A change without data.
    fn change<'a>(
        &'a self,
        operation: Operation,
        range: Range,
        flags: WriteFlags,
        ask: impl Fn(&'a Node, Range) -> IoFuture<'a, ()> + Send + Sync + 'a,
    ) -> IoFuture<'a, ()> {
        if let Err(refused) = admit_change(&self.geometry, operation, range, flags) {
            return Box::pin(ready(Err(refused)));
        }
        if let Some((disk, below)) = self.single(range) {
            return ask(disk, below);
        }
        let shares = self.layout.shares(range);
        Box::pin(async move {
            let changes = shares.iter().map(async |share| {
                let (disk, below) = self.place(share.part, share.within);
                let answer = ask(disk, below).await;
                answer.map_err(|e| self.blame(share.part, operation, Some(range), e))
            });
            first_failure(join_all(changes).await)
        })
    }

    pub(crate) fn extents(&self, range: Range) -> IoFuture<'_, Vec<Extent>> {
        assert_checked(&self.geometry, range);
        Box::pin(async move {
            let shares = self.layout.shares(range);
            let answers = try_join_all(shares.iter().map(async |share| {
                let (disk, below) = self.place(share.part, share.within);
                let answer = disk.extents(below).await;
                answer.map_err(|e| self.blame(share.part, Operation::Extents, Some(range), e))
            }));
            Ok(extents::join(range, &shares, answers.await?))
        })
    }

    pub(crate) fn flush(&self) -> IoFuture<'_, ()> {
        if let [(only, _)] = self.disks.as_slice() {
            return only.flush();
        }
        let cached = |(disk, _): &&(Node, usize)| disk.geometry().flush.any();
        let flushes = self.disks.iter().filter(cached).map(async |(disk, part)| {
            let answer = disk.flush().await;
            answer.map_err(|e| self.blame(*part, Operation::Flush, None, e))
        });
        let flushes = join_all(flushes);
        Box::pin(async { first_failure(flushes.await) })
    }

    pub(crate) fn settle(&self) -> IoFuture<'_, ()> {
        if let [(only, _)] = self.disks.as_slice() {
            return only.settle();
        }
        let settled = join_all(self.disks.iter().map(|(disk, _)| disk.settle()));
        Box::pin(async { first_failure(settled.await) })
    }

    /// That of all disks together: [`connection_epoch`](block::BlockDevice::connection_epoch).
    pub(crate) fn connection_epoch(&self) -> u64 {
        let epochs = self.disks.iter().map(|(disk, _)| disk.connection_epoch());
        epochs.fold(0, u64::wrapping_add)
    }

    pub(crate) fn try_read(&self, range: Range, into: &mut [u8]) -> TryIo {
        assert_checked(&self.geometry, range);
        assert_len(range, into.len());
        if let Some((disk, below)) = self.single(range) {
            return disk.try_read(below, into);
        }
        for share in self.layout.shares(range) {
            for (disk, below, run) in self.runs(&share) {
                if disk.try_read(below, &mut into[run]) == TryIo::WouldBlock {
                    return TryIo::WouldBlock;
                }
            }
        }
        TryIo::Done
    }

    pub(crate) fn try_write(&self, range: Range, data: &[u8]) -> TryIo {
        assert_checked(&self.geometry, range);
        assert_len(range, data.len());
        if self.geometry.read_only {
            return TryIo::WouldBlock;
        }
        if let Some((disk, below)) = self.single(range) {
            return disk.try_write(below, data);
        }
        for share in self.layout.shares(range) {
            for (disk, below, run) in self.runs(&share) {
                if disk.try_write(below, &data[run]) == TryIo::WouldBlock {
                    return TryIo::WouldBlock;
                }
            }
        }
        TryIo::Done
    }

    /// The runs of a share: their disk, where they are there, and where in the request.
    fn runs<'a>(
        &'a self,
        share: &'a Share,
    ) -> impl Iterator<Item = (&'a Node, Range, std::ops::Range<usize>)> {
        let (disk, below) = self.place(share.part, share.within);
        let mut at = below.offset;
        share.runs().map(move |run| {
            let range = Range::new(at, run.len() as u64);
            at = range.end();
            (disk, range, run)
        })
    }

    /// Returns an error with the range of the caller's request, and the part it came from.
    fn blame(
        &self,
        part: usize,
        operation: Operation,
        range: Option<Range>,
        error: IoError,
    ) -> IoError {
        let source = format!("part {} of {}: {error}", part + 1, self.segments.len());
        IoError::new(error.errno, operation, range).because(source)
    }
}

fn first_failure(answers: Vec<Result<(), IoError>>) -> Result<(), IoError> {
    answers.into_iter().collect()
}

/// Whether both are one disk.
pub(crate) fn is_same(a: &Node, b: &Node) -> bool {
    std::ptr::addr_eq(Arc::as_ptr(a), Arc::as_ptr(b))
}
