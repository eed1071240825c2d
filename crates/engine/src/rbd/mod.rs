//! [`Image`]: an image of Ceph's RADOS block device, by librbd, which is loaded when the first one is opened.
//!
//! # Invariants
//!
//! * An operation owns its buffers, its ticket and a share of the image until librbd has called its completion, whether or
//!   not its future is still there.
//! * An image that is open for writing has the exclusive lock, and does not give it to a client that requests it. A client
//!   that died is locked out by the cluster (its block list) before another one gets its lock.
//! * Closing may wait for the cluster, so it never runs on a core's thread, nor on one of librbd's. [`run`](crate::run) waits
//!   for it at its end, for a bounded time; so does an opening, since the lock is held until then.
//!
//! # What it does not do
//!
//! It repeats nothing and has no timeouts but that of the first connection: librbd itself waits for a cluster that does not
//! answer, and sends again what was in flight.

mod handles;
mod library;
mod name;
mod open;
mod request;

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;

use self::handles::Handles;
use self::library::ImageInfo;
use self::request::{Completion, RbdRequest, submit};
use crate::buffer::Buffer;
use crate::file::WriteBufs;
use crate::in_flight::Ticket;

pub(crate) use self::handles::wait_for_closes;
pub use self::name::{ImageName, NotAnImageName};

/// Which image, and how its cluster is reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImageSpec {
    /// The image.
    pub name: ImageName,
    /// The configuration of Ceph, if not where librados searches it.
    pub conf: Option<PathBuf>,
    /// The user, without `client.`; `admin` by default.
    pub id: Option<String>,
    /// The name of the cluster, by which the configuration is searched; `ceph` by default.
    pub cluster: Option<String>,
    /// Never written: no lock is taken. A snapshot always is.
    pub read_only: bool,
}

impl ImageSpec {
    /// Whether it is never written.
    #[must_use]
    pub const fn is_read_only(&self) -> bool {
        self.read_only || self.name.snapshot.is_some()
    }
}

/// Why an image cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum RbdError {
    /// The library is not here, or lacks a function.
    #[error("Ceph's client library cannot be loaded: {0}")]
    Library(String),
    /// A name or a path has a zero in it.
    #[error("{0:?} is no name for Ceph: it has a zero in it")]
    Zero(String),
    /// The configuration cannot be read.
    #[error("the configuration of Ceph, {path}, cannot be read: {source}")]
    Config {
        /// Where.
        path: String,
        /// Why.
        source: io::Error,
    },
    /// The cluster does not answer, or refuses the user.
    #[error("cannot connect to the Ceph cluster as client.{id}: {source}")]
    Connect {
        /// The user.
        id: String,
        /// Why.
        source: io::Error,
    },
    /// There is no such pool.
    #[error("cannot open the pool {pool}: {source}")]
    Pool {
        /// The pool.
        pool: String,
        /// Why.
        source: io::Error,
    },
    /// There is no such image or snapshot, or it cannot be opened.
    #[error("cannot open the image {name}: {source}")]
    Image {
        /// The image.
        name: ImageName,
        /// Why.
        source: io::Error,
    },
    /// Two writers could not be kept apart.
    #[error("the image {0} has no exclusive lock: nothing would keep two writers apart")]
    NoLock(ImageName),
    /// Another client has it open for writing.
    #[error("the image {name} is in use: the client at {owner} has it open for writing")]
    InUse {
        /// The image.
        name: ImageName,
        /// Address of the client.
        owner: String,
    },
}

impl RbdError {
    /// What to do next.
    #[must_use]
    pub const fn next(&self) -> &'static str {
        match self {
            Self::Library(_) => {
                "install the package librbd1 (Debian, Ubuntu), of Ceph 16 or later; a static binary cannot load it"
            }
            Self::Zero(_) => "write another name",
            Self::Config { .. } => "name the cluster's ceph.conf with conf=PATH",
            Self::Connect { .. } => {
                "conf=PATH names the cluster's ceph.conf, id=NAME the user; `rbd ls POOL` takes the same with -c and --id"
            }
            Self::Pool { .. } => "`ceph osd lspools` lists the pools",
            Self::Image { .. } => {
                "`rbd ls POOL` lists the images, `rbd snap ls POOL/IMAGE` the snapshots of one"
            }
            Self::NoLock(_) => {
                "run `rbd feature enable POOL/IMAGE exclusive-lock`, or open it with read-only=true"
            }
            Self::InUse { .. } => "end the other writer, or open it with read-only=true",
        }
    }
}

/// An open image. Clones share it.
#[derive(Clone)]
pub struct Image {
    handles: Arc<Handles>,
    read_only: bool,
}

impl fmt::Debug for Image {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let read_only = &self.read_only;
        f.debug_struct("Image")
            .field("read_only", read_only)
            .finish_non_exhaustive()
    }
}

impl Image {
    /// Opens an image, and takes its lock if it is for writing. Blocks.
    ///
    /// # Errors
    /// [`RbdError`]
    pub fn open(spec: &ImageSpec) -> Result<Self, RbdError> {
        open::open(spec)
    }

    /// Whether it is never written.
    #[must_use]
    pub const fn is_read_only(&self) -> bool {
        self.read_only
    }

    /// Its size, as it is known now, and that of its objects, bytes. Blocks if it was changed.
    ///
    /// # Errors
    /// Those of librbd.
    pub fn sizes(&self) -> io::Result<(u64, u64)> {
        let mut info = ImageInfo::EMPTY;
        // SAFETY: the image is open, and `info` has the layout and the size that the library fills.
        checked(unsafe {
            (self.handles.library.stat)(self.handles.image, &raw mut info, size_of::<ImageInfo>())
        })?;
        Ok((info.size, info.object_size))
    }

    /// What distinguishes it from every other image of every cluster, and from its snapshots.
    #[must_use]
    pub fn facts(&self, snapshot: Option<&str>) -> Option<[String; 4]> {
        open::facts(&self.handles, snapshot)
    }

    /// The parts of `len` bytes at `offset` that have objects, in order, by offset and length; `None` where that is not
    /// known at once. Blocks.
    ///
    /// # Errors
    /// Those of librbd.
    pub fn allocated(&self, offset: u64, len: u64) -> io::Result<Option<Vec<(u64, u64)>>> {
        open::allocated(&self.handles, self.sizes()?, offset, len)
    }

    /// Reads `len` bytes. Starts at once, as all that follow.
    ///
    /// # Errors
    /// Those of librbd; `UnexpectedEof` behind the end of the image.
    pub async fn read(&self, len: usize, offset: u64, ticket: Ticket) -> io::Result<Bytes> {
        let buffer = Buffer::take(len);
        let read = submit(&self.handles, RbdRequest::Read { buffer, offset }, ticket);
        match read.await? {
            (RbdRequest::Read { buffer, .. }, count) if count == len => Ok(buffer.freeze()),
            _ => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }

    /// Writes all of `data`. On an error, part of it may have been written.
    pub fn write(&self, data: WriteBufs, offset: u64, ticket: Ticket) -> ImageChange {
        self.change(RbdRequest::Write { data, offset }, ticket)
    }

    /// Frees objects, and zeroes or keeps the rest of `len` bytes.
    pub fn discard(&self, offset: u64, len: u64, ticket: Ticket) -> ImageChange {
        self.change(RbdRequest::Discard { offset, len }, ticket)
    }

    /// Makes `len` bytes read as zeroes; `keeps_space` has them allocated.
    pub fn write_zeroes(
        &self,
        offset: u64,
        len: usize,
        keeps_space: bool,
        ticket: Ticket,
    ) -> ImageChange {
        let request = RbdRequest::WriteZeroes {
            offset,
            len,
            keeps_space,
        };
        self.change(request, ticket)
    }

    /// Makes what was written durable.
    pub fn flush(&self, ticket: Ticket) -> ImageChange {
        self.change(RbdRequest::Flush, ticket)
    }

    fn change(&self, request: RbdRequest, ticket: Ticket) -> ImageChange {
        ImageChange(submit(&self.handles, request, ticket))
    }
}

/// A change of an image that was started. It resolves to the error of librbd, if there is one; dropped, it runs to its end.
pub struct ImageChange(Completion);

impl Future for ImageChange {
    type Output = io::Result<()>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll(context).map_ok(drop)
    }
}

/// The error that a function of the library returned, if it did.
fn checked(result: i32) -> io::Result<()> {
    match result {
        ..0 => Err(io::Error::from_raw_os_error(result.saturating_neg())),
        _ => Ok(()),
    }
}
