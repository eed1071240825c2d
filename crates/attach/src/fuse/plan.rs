//! A FUSE request -> what to do. Pure.
//!
//! The filesystem is a directory with one file, whose bytes are the disk's. What can be answered
//! from what is known is answered here; the rest becomes an [`Act`] on the disk with a checked range.

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

/// Smallest unit of discards told to the loop device.
const DISCARD_UNIT_MIN: u32 = 4096;

/// What one request comes to.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Step<'a> {
    /// Answer at once with this body.
    Answer(Vec<u8>),
    /// Answer at once with this errno.
    Refuse(i32),
    /// Ask the disk, then answer.
    Disk(Act<'a>),
    /// No answer is wanted.
    Nothing,
    /// Answer with an empty body and end.
    End,
}

/// What is asked of the disk.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Act<'a> {
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

/// What to do about `request` on a disk of this geometry whose file is called `name`.
pub(crate) fn plan<'a>(request: &Request<'a>, geometry: &Geometry, name: &str) -> Step<'a> {
    let shape = shape(geometry);
    match request.call {
        Call::Init { major, .. } if major < MAJOR => Step::Refuse(errno::EPROTO),
        Call::Init { major, .. } if major > MAJOR => Step::Answer(reply::init_version()),
        Call::Init {
            flags,
            max_readahead,
            ..
        } => Step::Answer(reply::init(flags, max_readahead)),
        Call::Lookup { name: asked } if request.node == ROOT && asked == name.as_bytes() => {
            Step::Answer(reply::entry(shape))
        }
        Call::Lookup { .. } => Step::Refuse(errno::ENOENT),
        Call::GetAttr => Step::Answer(reply::attr(request.node, shape)),
        Call::Open if request.node == DISK => Step::Answer(reply::open()),
        Call::Open => Step::Refuse(errno::EPERM),
        Call::Flush | Call::Release => Step::Answer(Vec::new()),
        Call::Statfs => Step::Answer(reply::statfs(shape)),
        Call::Read { offset, size } => plan_read(Range::new(offset, u64::from(size)), geometry),
        Call::Write { .. } | Call::Fallocate { .. } if geometry.read_only => {
            Step::Refuse(errno::EROFS)
        }
        Call::Write { offset, data } => {
            let range = Range::new(offset, data.len() as u64);
            checked(range, geometry, errno::ENOSPC, |range| {
                Act::Write(range, data)
            })
        }
        Call::Fallocate { offset, len, mode } => {
            plan_fallocate(Range::new(offset, len), mode, geometry)
        }
        Call::Fsync => match geometry.flush {
            Support::None => Step::Answer(Vec::new()),
            Support::Emulated | Support::Native => Step::Disk(Act::Flush),
        },
        Call::Unanswered => Step::Nothing,
        Call::Destroy => Step::End,
        Call::Other(_) => Step::Refuse(errno::ENOSYS),
    }
}

fn checked<'a>(
    range: Range,
    geometry: &Geometry,
    past_end: i32,
    act: impl FnOnce(Range) -> Act<'a>,
) -> Step<'a> {
    match range.check(geometry.size, geometry.block_size) {
        Ok(range) => Step::Disk(act(range)),
        Err(block::RangeError::PastEnd { .. }) => Step::Refuse(past_end),
        Err(block::RangeError::Unaligned { .. }) => Step::Refuse(errno::EINVAL),
    }
}

/// A file's read ends at its end, short or empty.
fn plan_read<'a>(asked: Range, geometry: &Geometry) -> Step<'a> {
    let left = geometry.size.saturating_sub(asked.offset);
    let range = Range::new(asked.offset, asked.len.min(left));
    if range.is_empty() {
        return Step::Answer(Vec::new());
    }
    checked(range, geometry, errno::EINVAL, Act::Read)
}

/// The loop device punches holes for discards and for zeroes that may be unmapped, and expects
/// zeroes of both; so neither is a trim. Where zeroing is not fast the kernel does without.
fn plan_fallocate<'a>(range: Range, mode: u32, geometry: &Geometry) -> Step<'a> {
    let flags = match mode & !FALLOC_KEEP_SIZE {
        FALLOC_PUNCH_HOLE => WriteFlags::empty(),
        FALLOC_ZERO_RANGE => WriteFlags::NO_HOLE,
        _ => return Step::Refuse(errno::EOPNOTSUPP),
    };
    match geometry.write_zeroes {
        Support::Native => checked(range, geometry, errno::ENOSPC, |range| {
            Act::Zero(range, flags)
        }),
        Support::None | Support::Emulated => Step::Refuse(errno::EOPNOTSUPP),
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
