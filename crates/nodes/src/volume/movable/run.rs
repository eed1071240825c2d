//! [`Run`]: bytes that lie together, and their changes on a disk that may do less than the one before it did.
//!
//! # Invariants
//!
//! * What the disk does not do is done by other requests: a volume can do what it could where it was.

use std::sync::Arc;

use block::{IoBufs, IoError, Range, WriteFlags};

use super::place::Place;
use crate::guard::flush;
use crate::zeroes::zeroes;

/// Longest write of zeroes, bytes.
const ZEROES_MAX: u64 = 1 << 20;

/// Bytes that lie together.
#[derive(Debug, Clone)]
pub(super) struct Run {
    /// Where in the disk that can be moved.
    pub(super) range: Range,
    /// What they lie on.
    pub(super) place: Arc<Place>,
    /// Where on its disk.
    pub(super) below: Range,
}

impl Run {
    pub(super) async fn write(&self, data: IoBufs, flags: WriteFlags) -> Result<(), IoError> {
        let disk = &self.place.disk;
        if !flags.contains(WriteFlags::FUA) || disk.geometry().fua.any() {
            return disk.write(self.below, data, flags).await;
        }
        let flags = flags.difference(WriteFlags::FUA);
        disk.write(self.below, data, flags).await?;
        flush(disk).await
    }

    pub(super) async fn write_zeroes(&self, flags: WriteFlags) -> Result<(), IoError> {
        let disk = &self.place.disk;
        let geometry = disk.geometry();
        let is_durable = flags.contains(WriteFlags::FUA);
        if geometry.write_zeroes.any() && (!is_durable || geometry.fua.any()) {
            return disk.write_zeroes(self.below, flags).await;
        }
        let below = self.below;
        let mut at = below.offset;
        while at < below.end() {
            let range = Range::new(at, ZEROES_MAX.min(below.end() - at));
            let data = zeroes(range.len_usize());
            disk.write(range, data, WriteFlags::empty()).await?;
            at = range.end();
        }
        match is_durable {
            true => flush(disk).await,
            false => Ok(()),
        }
    }

    pub(super) async fn trim(&self) -> Result<(), IoError> {
        match self.place.disk.geometry().trim.any() {
            true => self.place.disk.trim(self.below).await,
            false => Ok(()),
        }
    }
}
