//! `linear`: parts of disks, one behind the other. With one part it is a window: partitions and the
//! `linear` of device-mapper tables are made of it.
//!
//! ```text
//! the disk   ├──── segment 1 ────┼─ segment 2 ─┼──────── segment 3 ────────┤
//! below       a: 1M..            b: 0..         a: 9M..
//! ```
//!
//! # Invariants
//!
//! * Those of [`parts`](crate::parts): a request within one segment is its disk's, another one is dealt
//!   out. Of a write that failed some segments may hold the new bytes.
//! * A request with `FAST_ZERO` that one segment refuses may have zeroed others.
//!
//! # What it does not do
//!
//! It keeps no data and orders nothing: a flush is passed on to each disk below.

mod plan;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use block::{
    BlockDevice, Errno, Extent, Geometry, Identity, IoBufs, IoError, IoFuture, Node, Operation,
    Range, TryIo, WriteFlags,
};

use self::plan::Map;
use crate::parts::{PartError, Parts, Segment};

/// Segments that make no disk.
pub type LinearError = PartError;

/// Parts of disks, one behind the other.
#[derive(Debug)]
pub struct Linear {
    parts: Parts<Map>,
    grows: bool,
}

impl Linear {
    /// Makes one disk of `segments`, in order. It is as large as they are and stays so.
    ///
    /// # Errors
    /// If a segment lies not on its disk or cuts a block of another.
    pub fn new(segments: Vec<Segment>) -> Result<Self, LinearError> {
        let lens = |segments: &[Segment]| Map::new(segments.iter().map(|s| s.range.len));
        Ok(Self {
            parts: Parts::new(segments, lens)?,
            grows: false,
        })
    }

    /// Makes one disk of whole disks, in order. It grows with the last of them.
    ///
    /// # Errors
    /// If the size of one is no multiple of the largest block size.
    pub fn of_disks(disks: Vec<Node>) -> Result<Self, LinearError> {
        let linear = Self::new(disks.into_iter().map(Segment::whole).collect())?;
        Ok(Self {
            grows: true,
            ..linear
        })
    }

    /// The segments, in order.
    #[must_use]
    pub fn segments(&self) -> &[Segment] {
        self.parts.segments()
    }

    /// The same disk with a last one of another size.
    async fn regrown(&self) -> Result<Option<Node>, IoError> {
        let segments = self.parts.segments();
        let Some((last, before)) = segments.split_last() else {
            return Ok(None);
        };
        let Some(disk) = last.disk.revalidate().await? else {
            return Ok(None);
        };
        let size = disk.geometry().size;
        if size == last.range.end() {
            return Ok(None);
        }
        let failed = |why: String| {
            IoError::new(Errno::Invalid, Operation::Measure, None)
                .because(format!("the last disk has {size} bytes now: {why}"))
        };
        let len = size
            .checked_sub(last.range.offset)
            .filter(|&len| len > 0)
            .ok_or_else(|| failed("less than what is used of it".to_owned()))?;
        let range = Range::new(last.range.offset, len);
        let segments = before.iter().cloned().chain([Segment { disk, range }]);
        let linear = Self::new(segments.collect()).map_err(|e| failed(e.to_string()))?;
        Ok(Some(Arc::new(Self {
            grows: true,
            ..linear
        })))
    }
}

impl BlockDevice for Linear {
    fn geometry(&self) -> &Geometry {
        self.parts.geometry()
    }

    fn read(&self, range: Range) -> IoFuture<'_, IoBufs> {
        self.parts.read(range)
    }

    fn write(&self, range: Range, data: IoBufs, flags: WriteFlags) -> IoFuture<'_, ()> {
        self.parts.write(range, data, flags)
    }

    fn flush(&self) -> IoFuture<'_, ()> {
        self.parts.flush()
    }

    fn write_zeroes(&self, range: Range, flags: WriteFlags) -> IoFuture<'_, ()> {
        self.parts.write_zeroes(range, flags)
    }

    fn trim(&self, range: Range) -> IoFuture<'_, ()> {
        self.parts.trim(range)
    }

    fn extents(&self, range: Range) -> IoFuture<'_, Vec<Extent>> {
        self.parts.extents(range)
    }

    fn identity(&self) -> Option<Identity> {
        let segments = self.parts.segments();
        let mut map = String::new();
        for (index, Segment { range, .. }) in segments.iter().enumerate() {
            // The last one may grow.
            let len = range.len * u64::from(index + 1 < segments.len());
            map.push_str(&format!("{}+{len} ", range.offset));
        }
        let disks = segments.iter().map(|segment| segment.disk.identity());
        Identity::composed("linear", &map, disks)
    }

    fn settle(&self) -> IoFuture<'_, ()> {
        self.parts.settle()
    }

    fn connection_epoch(&self) -> u64 {
        self.parts.connection_epoch()
    }

    fn revalidate(&self) -> IoFuture<'_, Option<Node>> {
        if self.grows {
            return Box::pin(self.regrown());
        }
        Box::pin(std::future::ready(Ok(None)))
    }

    fn remap(&self, range: Range) -> Option<(&Node, Range)> {
        self.parts.single(range)
    }

    fn remap_start(&self, range: Range) -> Option<(&Node, Range)> {
        self.parts.start(range)
    }

    fn try_read(&self, range: Range, into: &mut [u8]) -> TryIo {
        self.parts.try_read(range, into)
    }

    fn try_write(&self, range: Range, data: &[u8]) -> TryIo {
        self.parts.try_write(range, data)
    }
}
