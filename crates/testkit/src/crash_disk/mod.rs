//! [`CrashDisk`]: a disk with a volatile cache, and every image a power cut may leave of it.
//!
//! # Fault model
//!
//! * A write that no flush made durable survives a cut or not, each on its own, in any
//!   combination, whole or torn at [`SECTOR`] boundaries. Zeroing and trimming are
//!   writes like others.
//! * A flush makes durable what had resolved when it started; a write still in flight then may be
//!   lost.
//! * A FUA write is durable when it resolves; older cached data of its sectors is gone with it.
//! * A sector is never mixed, and a durable sector never goes back to older content.
//! * Content does not rot: other disks do that.
//!
//! With [`CrashDisk::interleaved`] requests stay in flight for some polls, so that a cut (or
//! another request) can come between their steps.

mod state;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use block::{
    BlockDevice, Extent, Geometry, Identity, IoBufs, IoFuture, Operation, Range, WriteFlags,
};

use self::state::{CrashState, SectorContent, WriteId};
use crate::data::{moments, single};
use crate::image::{SECTOR, TrimLeaves, admit, assert_filled, to_usize};
use crate::mem_disk::zeroed_kind;

/// Polls that an interleaved step stays in flight, at most.
const PENDING_POLLS_MAX: u8 = 3;

/// What the disk reports as durable and is not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Lies {
    /// Flushes do nothing.
    pub flush: bool,
    /// FUA writes stay in the cache.
    pub fua: bool,
}

/// There are more possible images than requested.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a cut may leave more than {max} images: take some by seed instead")]
pub struct TooManyImages {
    /// The limit that was given.
    pub max: usize,
}

/// A disk in memory that can be cut from power.
pub struct CrashDisk {
    geometry: Geometry,
    lies: Lies,
    trim_leaves: TrimLeaves,
    identity: Option<Identity>,
    interleaving: Option<Mutex<fastrand::Rng>>,
    /// Changes that have landed and were cancelled before they were answered.
    dropped: Mutex<Vec<WriteId>>,
    state: Mutex<CrashState>,
}

impl CrashDisk {
    /// A disk of `size` durable zeroes.
    ///
    /// # Panics
    /// If `size` is no multiple of a sector.
    #[must_use]
    pub fn new(size: u64) -> Self {
        Self::from_bytes(vec![0; to_usize(size)])
    }

    /// A disk with this durable content.
    ///
    /// # Panics
    /// If its length is no multiple of a sector.
    #[must_use]
    pub fn from_bytes(bytes: Vec<u8>) -> Self {
        let size = bytes.len() as u64;
        assert!(
            size.is_multiple_of(SECTOR),
            "a crash disk has whole sectors"
        );
        Self {
            geometry: Geometry::native(size),
            lies: Lies::default(),
            trim_leaves: TrimLeaves::default(),
            identity: None,
            interleaving: None,
            dropped: Mutex::default(),
            state: Mutex::new(CrashState::new(bytes)),
        }
    }

    /// Makes the disk lie.
    #[must_use]
    pub const fn lying(mut self, lies: Lies) -> Self {
        self.lies = lies;
        self
    }

    /// Gives the disk an identity: what a cut leaves of it, opened again, is the same disk.
    #[must_use]
    pub fn identified(mut self, identity: Identity) -> Self {
        self.identity = Some(identity);
        self
    }

    /// Chooses what trimmed ranges read as.
    #[must_use]
    pub const fn trims_leave(mut self, leaves: TrimLeaves) -> Self {
        self.trim_leaves = leaves;
        self
    }

    /// Keeps requests in flight for a few polls, chosen by `seed`.
    #[must_use]
    pub fn interleaved(mut self, seed: u64) -> Self {
        self.interleaving = Some(Mutex::new(fastrand::Rng::with_seed(seed)));
        self
    }

    /// What a cut now may leave, chosen by `seed`. The disk itself goes on.
    #[must_use]
    pub fn crash(&self, seed: u64) -> Vec<u8> {
        self.state().image_by_seed(seed)
    }

    /// All images that a cut now may leave, none twice.
    ///
    /// # Errors
    /// [`TooManyImages`] if there are more than `max`.
    pub fn crash_images(&self, max: usize) -> Result<Vec<Vec<u8>>, TooManyImages> {
        self.state().all_images(max).ok_or(TooManyImages { max })
    }

    /// What reads give now.
    #[must_use]
    pub fn live(&self) -> Vec<u8> {
        self.state().live().to_vec()
    }

    /// What survives a cut for certain, where nothing newer does.
    #[must_use]
    pub fn durable(&self) -> Vec<u8> {
        self.state().durable().to_vec()
    }

    fn state(&self) -> MutexGuard<'_, CrashState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stays pending for some polls if the disk is interleaved.
    async fn linger(&self) {
        let polls = self.interleaving.as_ref().map_or(0, |rng| {
            let mut rng = rng.lock().unwrap_or_else(PoisonError::into_inner);
            rng.u8(0..=PENDING_POLLS_MAX)
        });
        moments(polls).await;
    }

    async fn change(&self, range: Range, content: SectorContent<'_>, fua: bool) {
        self.linger().await;
        let id = self.state().apply(range, content);
        let mut under_way = UnderWay {
            disk: self,
            id: Some(id),
        };
        self.linger().await;
        under_way.id = None;
        let mut state = self.state();
        state.resolve(id);
        if fua && !self.lies.fua {
            state.make_durable(&[id]);
        }
    }
}

/// A change that has landed; `id` until it is answered.
struct UnderWay<'a> {
    disk: &'a CrashDisk,
    id: Option<WriteId>,
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        let mut dropped = self
            .disk
            .dropped
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        dropped.extend(self.id);
    }
}

impl fmt::Debug for CrashDisk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CrashDisk")
            .field("size", &self.geometry.size)
            .field("lies", &self.lies)
            .finish_non_exhaustive()
    }
}

impl BlockDevice for CrashDisk {
    fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    fn read(&self, range: Range) -> IoFuture<'_, IoBufs> {
        Box::pin(async move {
            admit(&self.geometry, Operation::Read, range)?;
            self.linger().await;
            Ok(single(self.state().read(range)))
        })
    }

    fn write(&self, range: Range, data: IoBufs, flags: WriteFlags) -> IoFuture<'_, ()> {
        Box::pin(async move {
            admit(&self.geometry, Operation::Write, range)?;
            assert_filled(range, &data);
            let fua = flags.contains(WriteFlags::FUA);
            self.change(range, SectorContent::Data(&data), fua).await;
            Ok(())
        })
    }

    fn flush(&self) -> IoFuture<'_, ()> {
        Box::pin(async move {
            let resolved = self.state().resolved();
            self.linger().await;
            if !self.lies.flush {
                self.state().make_durable(&resolved);
            }
            Ok(())
        })
    }

    fn write_zeroes(&self, range: Range, flags: WriteFlags) -> IoFuture<'_, ()> {
        Box::pin(async move {
            admit(&self.geometry, Operation::WriteZeroes, range)?;
            let content = SectorContent::Zeroes(zeroed_kind(flags));
            let fua = flags.contains(WriteFlags::FUA);
            self.change(range, content, fua).await;
            Ok(())
        })
    }

    fn trim(&self, range: Range) -> IoFuture<'_, ()> {
        Box::pin(async move {
            admit(&self.geometry, Operation::Trim, range)?;
            let content = SectorContent::Trimmed(self.trim_leaves);
            self.change(range, content, false).await;
            Ok(())
        })
    }

    fn extents(&self, range: Range) -> IoFuture<'_, Vec<Extent>> {
        Box::pin(async move {
            admit(&self.geometry, Operation::Extents, range)?;
            Ok(self.state().extents(range))
        })
    }

    fn identity(&self) -> Option<Identity> {
        self.identity.clone()
    }

    /// A dropped request does nothing more: there is nothing to wait for. What had landed of it is as good as answered:
    /// a flush from here on covers it.
    fn settle(&self) -> IoFuture<'_, ()> {
        Box::pin(async {
            let dropped = self.dropped.lock();
            let dropped = std::mem::take(&mut *dropped.unwrap_or_else(PoisonError::into_inner));
            let mut state = self.state();
            dropped.into_iter().for_each(|id| state.resolve(id));
            Ok(())
        })
    }
}
