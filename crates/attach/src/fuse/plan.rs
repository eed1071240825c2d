//! A FUSE request -> what to do. Pure.
//!
//! The filesystem is a directory with one file, whose bytes are the disk's. What can be answered
//! from what is known is answered here; the rest becomes a [`DiskRequest`] on the disk with a checked range.

use block::{Errno, Geometry, Range, Support, WriteFlags};

use super::proto::{Call, Request};
use super::reply::{self, DISK, FileShape, MAJOR, ROOT};

/// Linux's numbers of the errors answered here (fixed by its ABI).
pub(crate) mod errno {
    pub(crate) const EPERM: i32 = 1;
    pub(crate) const ENOENT: i32 = 2;
    pub(crate) const EIO: i32 = 5;
    pub(crate) const ENOMEM: i32 = 12;
    pub(crate) const EINVAL: i32 = 22;
    pub(crate) const ENOSPC: i32 = 28;
    pub(crate) const EROFS: i32 = 30;
    pub(crate) const ENOSYS: i32 = 38;
    pub(crate) const EPROTO: i32 = 71;
    pub(crate) const EOVERFLOW: i32 = 75;
    pub(crate) const EOPNOTSUPP: i32 = 95;
}

const FALLOC_KEEP_SIZE: u32 = 1;
const FALLOC_PUNCH_HOLE: u32 = 2;
const FALLOC_ZERO_RANGE: u32 = 16;

/// Smallest unit of discards, reported to the loop device.
const DISCARD_UNIT_MIN: u32 = 4096;

/// What one request comes to.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum RequestPlan<'a> {
    /// Answer at once with this body.
    Answer(Vec<u8>),
    /// Answer at once with this errno.
    Refuse(i32),
    /// Submit to the disk, then answer.
    Disk(DiskRequest<'a>),
    /// No answer is wanted.
    Nothing,
    /// Answer with an empty body and end.
    End,
}

/// A request to the disk.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum DiskRequest<'a> {
    /// Read, then answer with the bytes.
    Read(Range),
    /// Write, then answer with the length.
    Write(Range, &'a [u8]),
    /// Flush, then answer with nothing.
    Flush,
    /// Zero, then answer with nothing.
    Zero(Range, WriteFlags),
}

/// What the file looks like.
pub(crate) fn shape(geometry: &Geometry) -> FileShape {
    FileShape {
        size: geometry.size,
        block_size: geometry.preferred_block_size.max(DISCARD_UNIT_MIN),
    }
}

/// Plans `request` for a disk of this geometry and the file name `name`.
pub(crate) fn plan<'a>(request: &Request<'a>, geometry: &Geometry, name: &str) -> RequestPlan<'a> {
    let shape = shape(geometry);
    match request.call {
        Call::Init { major, .. } if major < MAJOR => RequestPlan::Refuse(errno::EPROTO),
        Call::Init { major, .. } if major > MAJOR => RequestPlan::Answer(reply::init_version()),
        Call::Init {
            flags,
            max_readahead,
            ..
        } => RequestPlan::Answer(reply::init(flags, max_readahead)),
        Call::Lookup { name: asked } if request.node == ROOT && asked == name.as_bytes() => {
            RequestPlan::Answer(reply::entry(shape))
        }
        Call::Lookup { .. } => RequestPlan::Refuse(errno::ENOENT),
        Call::GetAttr => RequestPlan::Answer(reply::attr(request.node, shape)),
        Call::Open if request.node == DISK => RequestPlan::Answer(reply::open()),
        Call::Open => RequestPlan::Refuse(errno::EPERM),
        Call::Flush | Call::Release => RequestPlan::Answer(Vec::new()),
        Call::Statfs => RequestPlan::Answer(reply::statfs(shape)),
        Call::Read { offset, size } => plan_read(Range::new(offset, u64::from(size)), geometry),
        Call::Write { .. } | Call::Fallocate { .. } if geometry.read_only => {
            RequestPlan::Refuse(errno::EROFS)
        }
        Call::Write { offset, data } => {
            let range = Range::new(offset, data.len() as u64);
            checked(range, geometry, errno::ENOSPC, |range| {
                DiskRequest::Write(range, data)
            })
        }
        Call::Fallocate { offset, len, mode } => {
            plan_fallocate(Range::new(offset, len), mode, geometry)
        }
        Call::Fsync => match geometry.flush {
            Support::None => RequestPlan::Answer(Vec::new()),
            Support::Emulated | Support::Native => RequestPlan::Disk(DiskRequest::Flush),
        },
        Call::Unanswered => RequestPlan::Nothing,
        Call::Destroy => RequestPlan::End,
        Call::Other(_) => RequestPlan::Refuse(errno::ENOSYS),
    }
}

fn checked<'a>(
    range: Range,
    geometry: &Geometry,
    past_end: i32,
    act: impl FnOnce(Range) -> DiskRequest<'a>,
) -> RequestPlan<'a> {
    match range.check(geometry.size, geometry.block_size) {
        Ok(range) => RequestPlan::Disk(act(range)),
        Err(block::RangeError::PastEnd { .. }) => RequestPlan::Refuse(past_end),
        Err(block::RangeError::Unaligned { .. }) => RequestPlan::Refuse(errno::EINVAL),
    }
}

/// A file's read ends at its end, short or empty.
fn plan_read<'a>(asked: Range, geometry: &Geometry) -> RequestPlan<'a> {
    let left = geometry.size.saturating_sub(asked.offset);
    let range = Range::new(asked.offset, asked.len.min(left));
    if range.is_empty() {
        return RequestPlan::Answer(Vec::new());
    }
    checked(range, geometry, errno::EINVAL, DiskRequest::Read)
}

/// The loop device punches holes for discards and for zeroes that may be unmapped, and expects
/// zeroes of both; so neither is a trim. Where zeroing is not fast the kernel does without.
fn plan_fallocate<'a>(range: Range, mode: u32, geometry: &Geometry) -> RequestPlan<'a> {
    let flags = match mode & !FALLOC_KEEP_SIZE {
        FALLOC_PUNCH_HOLE => WriteFlags::empty(),
        FALLOC_ZERO_RANGE => WriteFlags::NO_HOLE,
        _ => return RequestPlan::Refuse(errno::EOPNOTSUPP),
    };
    match geometry.write_zeroes {
        Support::Native => checked(range, geometry, errno::ENOSPC, |range| {
            DiskRequest::Zero(range, flags)
        }),
        Support::None | Support::Emulated => RequestPlan::Refuse(errno::EOPNOTSUPP),
    }
}

/// The errno that says `error` to the kernel.
pub(crate) const fn errno_of(error: Errno) -> i32 {
    match error {
        Errno::Io | Errno::ShuttingDown => errno::EIO,
        Errno::NoSpace => errno::ENOSPC,
        Errno::Invalid => errno::EINVAL,
        Errno::NotSupported => errno::EOPNOTSUPP,
        Errno::NotPermitted => errno::EPERM,
        Errno::OutOfMemory => errno::ENOMEM,
        Errno::Overflow => errno::EOVERFLOW,
    }
}
