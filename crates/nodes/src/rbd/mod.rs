//! `rbd`: an image of Ceph's RADOS block device.
//!
//! # Invariants
//!
//! * At most one client writes to an image: it is open for writing with its exclusive lock only. Once the cluster has locked
//!   this client out, every request fails with [`Fenced`] as its cause, until the image is opened again.
//! * FUA is a write and a flush. After one failed flush every later one fails.
//! * An operation that was cancelled runs to its end in librbd, and is counted until then: [`settle`](BlockDevice::settle)
//!   waits for it.
//! * What has no object is reported as a hole only where the image has a valid index of its objects and no parent.
//!
//! # What it does not do
//!
//! It has no timeouts: while the cluster does not answer, requests wait, as those of other clients of Ceph. Its size is what
//! was found when it was opened; revalidation makes [another node](BlockDevice::revalidate).

mod plan;
#[cfg(test)]
mod tests;

use std::future::ready;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use block::{
    BlockDevice, Errno, Extent, Fenced, Geometry, Identity, IoBufs, IoError, IoFuture, Node,
    Operation, Range, Support, WriteFlags,
};
use engine::rbd::{Image, ImageSpec, RbdError};
use engine::{InFlight, Ticket};
use smallvec::smallvec;
use tokio::sync::Mutex;

use crate::file::{SyncEnd, Syncs};
use crate::guard::{admit, assert_len, len_of};

/// Largest unit at which requests are preferred, bytes: what librbd discards at least.
const PREFERRED_MAX: u64 = 64 << 10;

/// An image, or a snapshot of one. Needs a running engine.
#[derive(Debug)]
pub struct Rbd {
    image: Image,
    geometry: Geometry,
    shared: Arc<SharedImage>,
}

/// What a node and those of other sizes have together.
#[derive(Debug)]
struct SharedImage {
    name: String,
    identity: Option<Identity>,
    in_flight: InFlight,
    syncs: Arc<Syncs>,
    /// Why nothing works any more.
    locked_out: OnceLock<Fenced>,
    /// One search for objects at a time: each occupies a thread.
    searching: Mutex<()>,
}

impl Rbd {
    /// Opens an image. One that is to be written gets its exclusive lock; a client that died with it is waited for until the
    /// cluster has noticed that.
    ///
    /// # Errors
    /// [`RbdError`]
    pub async fn open(spec: ImageSpec) -> Result<Self, RbdError> {
        let name = format!("rbd:{}", spec.name);
        let failed = spec.name.clone();
        let (image, found) = engine::blocking(move || {
            let image = Image::open(&spec)?;
            let sizes = image.sizes().map_err(|source| RbdError::Image {
                name: failed,
                source,
            })?;
            let facts = image.facts(spec.name.snapshot.as_deref());
            Ok::<_, RbdError>((image, (sizes, facts)))
        })
        .await?;
        let (sizes, facts) = found;
        let shared = SharedImage {
            syncs: Syncs::new(PathBuf::from(&name)),
            identity: facts.map(|facts| {
                let facts: Vec<&[u8]> = facts.iter().map(String::as_bytes).collect();
                Identity::of("rbd", &facts)
            }),
            name,
            in_flight: InFlight::new(),
            locked_out: OnceLock::new(),
            searching: Mutex::new(()),
        };
        Ok(Self {
            geometry: geometry(sizes, image.is_read_only()),
            image,
            shared: Arc::new(shared),
        })
    }

    fn admit(&self, operation: Operation, range: Option<Range>) -> Result<(), IoError> {
        if let Some(range) = range {
            admit(&self.geometry, operation, range)?;
        }
        self.shared.admit(operation, range)
    }

    /// The error of a request that librbd failed.
    fn failed(&self, error: io::Error, operation: Operation, range: Option<Range>) -> IoError {
        self.shared.notice(&error, self.geometry.read_only);
        let locked_out = self.shared.admit(operation, range).err();
        locked_out.unwrap_or_else(|| IoError::from_os(error, operation, range))
    }

    /// Carries a change out, and makes it durable if it has to be.
    fn change(
        &self,
        (operation, range): (Operation, Option<Range>),
        change: ImageWork,
        is_durable: bool,
    ) -> IoFuture<'_, ()> {
        Box::pin(async move {
            self.admit(operation, range)?;
            let job = ImageJob {
                image: self.image.clone(),
                shared: self.shared.clone(),
                range: range.unwrap_or(Range::new(0, 0)),
                change,
            };
            if !is_durable {
                let done = job.carry_out().await;
                return done.map_err(|error| self.failed(error, operation, range));
            }
            let ended = self
                .shared
                .syncs
                .run(Box::pin(job.durably()), operation, range);
            let locked_out = |error| self.shared.admit(operation, range).err().unwrap_or(error);
            ended.await.map_err(locked_out)
        })
    }
}

/// What is changed.
enum ImageWork {
    Write(IoBufs),
    Zero {
        keeps_space: bool,
    },
    Discard,
    /// Nothing: it is only made durable.
    Nothing,
}

/// A change of an image, which may outlive the request for it.
struct ImageJob {
    image: Image,
    shared: Arc<SharedImage>,
    range: Range,
    change: ImageWork,
}

impl ImageJob {
    async fn carry_out(self) -> io::Result<()> {
        let Self {
            image,
            shared,
            range,
            change,
        } = self;
        let ticket = || shared.in_flight.ticket();
        if let ImageWork::Write(data) = change {
            return image.write(data, range.offset, ticket()).await;
        }
        for Range { offset, len } in plan::pieces(range) {
            let piece = match change {
                ImageWork::Zero { keeps_space } => {
                    let len = Range::new(offset, len).len_usize();
                    image.write_zeroes(offset, len, keeps_space, ticket())
                }
                _ => image.discard(offset, len, ticket()),
            };
            piece.await?;
        }
        Ok(())
    }

    async fn durably(self) -> SyncEnd {
        let (image, shared) = (self.image.clone(), self.shared.clone());
        let end = match self.carry_out().await {
            Ok(()) => SyncEnd::Synced(image.flush(shared.in_flight.ticket()).await),
            Err(error) => SyncEnd::WriteFailed(error),
        };
        if let SyncEnd::Synced(Err(error)) | SyncEnd::WriteFailed(error) = &end {
            shared.notice(error, image.is_read_only());
        }
        end
    }
}

impl SharedImage {
    /// Refuses all once this client is locked out.
    fn admit(&self, operation: Operation, range: Option<Range>) -> Result<(), IoError> {
        match self.locked_out.get() {
            Some(fenced) => Err(IoError::new(Errno::Io, operation, range).because(fenced.clone())),
            None => Ok(()),
        }
    }

    /// Records an error that says that this client is locked out.
    fn notice(&self, error: &io::Error, read_only: bool) {
        if !plan::is_locked_out(error, read_only) {
            return;
        }
        self.locked_out.get_or_init(|| {
            let why = format!(
                "{}: the cluster has locked this client out ({error}): another client took the exclusive lock over, or an administrator took it away",
                self.name
            );
            tracing::error!("{why}; every request fails until the image is opened again");
            Fenced(why)
        });
    }
}

fn geometry((size, object_size): (u64, u64), read_only: bool) -> Geometry {
    let preferred = object_size.clamp(4096, PREFERRED_MAX);
    Geometry {
        read_only,
        preferred_block_size: u32::try_from(preferred).unwrap_or(4096),
        fua: Support::Emulated,
        ..Geometry::native(size)
    }
}

impl BlockDevice for Rbd {
    fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    fn read(&self, range: Range) -> IoFuture<'_, IoBufs> {
        Box::pin(async move {
            let what = (Operation::Read, Some(range));
            self.admit(what.0, what.1)?;
            let read = self
                .image
                .read(range.len_usize(), range.offset, Ticket::none());
            let data = read
                .await
                .map_err(|error| self.failed(error, what.0, what.1))?;
            // What was on its way when the lock was lost may be older than what its new owner wrote.
            self.admit(what.0, what.1)?;
            Ok(smallvec![data])
        })
    }

    fn write(&self, range: Range, data: IoBufs, flags: WriteFlags) -> IoFuture<'_, ()> {
        assert_len(range, len_of(&data));
        let is_durable = flags.contains(WriteFlags::FUA);
        let change = match range.is_empty() {
            true => ImageWork::Discard,
            false => ImageWork::Write(data),
        };
        self.change((Operation::Write, Some(range)), change, is_durable)
    }

    fn flush(&self) -> IoFuture<'_, ()> {
        self.change((Operation::Flush, None), ImageWork::Nothing, true)
    }

    fn write_zeroes(&self, range: Range, flags: WriteFlags) -> IoFuture<'_, ()> {
        let what = (Operation::WriteZeroes, Some(range));
        let keeps_space = flags.contains(WriteFlags::NO_HOLE);
        if keeps_space && flags.contains(WriteFlags::FAST_ZERO) {
            // Zeroes are written then.
            let refused = self.admit(what.0, what.1);
            let slow = IoError::new(Errno::NotSupported, what.0, what.1);
            return Box::pin(ready(Err(refused.err().unwrap_or(slow))));
        }
        let is_durable = flags.contains(WriteFlags::FUA);
        self.change(what, ImageWork::Zero { keeps_space }, is_durable)
    }

    fn trim(&self, range: Range) -> IoFuture<'_, ()> {
        self.change((Operation::Trim, Some(range)), ImageWork::Discard, false)
    }

    fn extents(&self, range: Range) -> IoFuture<'_, Vec<Extent>> {
        Box::pin(async move {
            let what = (Operation::Extents, Some(range));
            self.admit(what.0, what.1)?;
            if range.is_empty() {
                return Ok(Vec::new());
            }
            let _searching = self.shared.searching.lock().await;
            let image = self.image.clone();
            let found = engine::blocking(move || image.allocated(range.offset, range.len)).await;
            let allocated = found.map_err(|error| self.failed(error, what.0, what.1))?;
            Ok(plan::extents(range, allocated))
        })
    }

    fn identity(&self) -> Option<Identity> {
        self.shared.identity.clone()
    }

    fn settle(&self) -> IoFuture<'_, ()> {
        Box::pin(async move {
            self.shared.in_flight.settled().await;
            Ok(())
        })
    }

    fn revalidate(&self) -> IoFuture<'_, Option<Node>> {
        Box::pin(async move {
            let image = self.image.clone();
            let sizes = engine::blocking(move || image.sizes()).await;
            let sizes = sizes.map_err(|error| self.failed(error, Operation::Measure, None))?;
            if sizes.0 == self.geometry.size {
                return Ok(None);
            }
            let node = Self {
                image: self.image.clone(),
                geometry: geometry(sizes, self.geometry.read_only),
                shared: self.shared.clone(),
            };
            Ok(Some(Arc::new(node) as Node))
        })
    }
}
