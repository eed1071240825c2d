//! FUSE requests: bytes -> [`Call`]. Pure.
//!
//! One read of `/dev/fuse` gives one request (`include/uapi/linux/fuse.h`):
//!
//! ```text
//!  0 len u32 | 4 opcode u32 | 8 unique u64 | 16 nodeid u64 | 24 uid, gid, pid u32 | 36 extlen u16, pad | 40 body
//! ```
//!
//! Numbers have the host's byte order, and every machine outboard runs on is little-endian (asserted below).
//! Only what a loop device and an `open` ask for is decoded; the rest is [`Call::Other`].

const _: () = assert!(
    cfg!(target_endian = "little"),
    "FUSE structures are written little-endian here"
);

/// Bytes before the body of a request.
pub(crate) const IN_HEADER_LEN: usize = 40;
/// Bytes of a write request before its data, header included.
pub(crate) const WRITE_HEAD_LEN: usize = IN_HEADER_LEN + 40;

mod opcode {
    pub(super) const LOOKUP: u32 = 1;
    pub(super) const FORGET: u32 = 2;
    pub(super) const GETATTR: u32 = 3;
    pub(super) const OPEN: u32 = 14;
    pub(super) const READ: u32 = 15;
    pub(super) const WRITE: u32 = 16;
    pub(super) const STATFS: u32 = 17;
    pub(super) const RELEASE: u32 = 18;
    pub(super) const FSYNC: u32 = 20;
    pub(super) const FLUSH: u32 = 25;
    pub(super) const INIT: u32 = 26;
    pub(super) const INTERRUPT: u32 = 36;
    pub(super) const DESTROY: u32 = 38;
    pub(super) const BATCH_FORGET: u32 = 42;
    pub(super) const FALLOCATE: u32 = 43;
}

/// A request and the number for its reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Request<'a> {
    /// Names the request in its answer.
    pub(crate) unique: u64,
    /// The inode it is about; 1 is the root.
    pub(crate) node: u64,
    /// The operation.
    pub(crate) call: Call<'a>,
}

/// An operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Call<'a> {
    /// The first request: version and abilities of the kernel.
    Init {
        /// Protocol version.
        major: u32,
        /// Protocol version.
        minor: u32,
        /// Offered abilities.
        flags: u32,
        /// What the kernel would read ahead, bytes.
        max_readahead: u32,
    },
    /// A name in a directory.
    Lookup {
        /// Without its closing zero.
        name: &'a [u8],
    },
    /// Attributes of the inode.
    GetAttr,
    /// Opens the inode.
    Open,
    /// Reads.
    Read {
        /// Where.
        offset: u64,
        /// How much, bytes.
        size: u32,
    },
    /// Writes.
    Write {
        /// Where.
        offset: u64,
        /// What.
        data: &'a [u8],
    },
    /// Makes what was written durable.
    Fsync,
    /// Allocates, punches or zeroes.
    Fallocate {
        /// Where.
        offset: u64,
        /// How much, bytes.
        len: u64,
        /// `FALLOC_FL_*`.
        mode: u32,
    },
    /// A file descriptor was closed: nothing to do.
    Flush,
    /// The file was closed.
    Release,
    /// Size and block size of the filesystem.
    Statfs,
    /// The kernel takes this without an answer.
    Unanswered,
    /// The filesystem ends.
    Destroy,
    /// Anything else, by its number.
    Other(u32),
}

/// A request that cannot be what the kernel sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ProtoError {
    /// Shorter than its kind needs.
    #[error("a FUSE request of {len} bytes is too short")]
    Short {
        /// Bytes there are.
        len: usize,
    },
    /// The length inside is not the length read.
    #[error("a FUSE request says {announced} bytes and has {len}")]
    Length {
        /// Bytes there are.
        len: usize,
        /// Bytes it claims.
        announced: u32,
    },
}

/// Reads numbers off the front of a body.
struct Body<'a> {
    rest: &'a [u8],
    sources: usize,
}

impl<'a> Body<'a> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N], ProtoError> {
        let short = ProtoError::Short { len: self.sources };
        let (head, rest) = self.rest.split_first_chunk::<N>().ok_or(short)?;
        self.rest = rest;
        Ok(*head)
    }

    fn u32(&mut self) -> Result<u32, ProtoError> {
        self.take().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Result<u64, ProtoError> {
        self.take().map(u64::from_le_bytes)
    }
}

/// The number that names the request in its answer, as far as the header is there.
pub(crate) fn unique(bytes: &[u8]) -> Option<u64> {
    let (_, rest) = bytes.split_first_chunk::<8>()?;
    let (unique, _) = rest.split_first_chunk::<8>()?;
    Some(u64::from_le_bytes(*unique))
}

/// Decodes one request as it was read.
///
/// # Errors
/// [`ProtoError`].
pub(crate) fn decode(bytes: &[u8]) -> Result<Request<'_>, ProtoError> {
    let mut body = Body {
        rest: bytes,
        sources: bytes.len(),
    };
    let announced = body.u32()?;
    let code = body.u32()?;
    let unique = body.u64()?;
    let node = body.u64()?;
    body.take::<16>()?;
    if usize::try_from(announced) != Ok(bytes.len()) {
        let len = bytes.len();
        return Err(ProtoError::Length { len, announced });
    }
    let call = decode_call(code, body)?;
    Ok(Request { unique, node, call })
}

fn decode_call(code: u32, mut body: Body<'_>) -> Result<Call<'_>, ProtoError> {
    Ok(match code {
        opcode::INIT => Call::Init {
            major: body.u32()?,
            minor: body.u32()?,
            max_readahead: body.u32()?,
            flags: body.u32()?,
        },
        opcode::LOOKUP => Call::Lookup {
            name: body.rest.strip_suffix(b"\0").unwrap_or(body.rest),
        },
        opcode::READ => {
            body.u64()?;
            Call::Read {
                offset: body.u64()?,
                size: body.u32()?,
            }
        }
        opcode::WRITE => return decode_write(body),
        opcode::FALLOCATE => {
            body.u64()?;
            Call::Fallocate {
                offset: body.u64()?,
                len: body.u64()?,
                mode: body.u32()?,
            }
        }
        opcode::GETATTR => Call::GetAttr,
        opcode::OPEN => Call::Open,
        opcode::FSYNC => Call::Fsync,
        opcode::FLUSH => Call::Flush,
        opcode::RELEASE => Call::Release,
        opcode::STATFS => Call::Statfs,
        opcode::FORGET | opcode::BATCH_FORGET | opcode::INTERRUPT => Call::Unanswered,
        opcode::DESTROY => Call::Destroy,
        other => Call::Other(other),
    })
}

fn decode_write(mut body: Body<'_>) -> Result<Call<'_>, ProtoError> {
    body.u64()?;
    let offset = body.u64()?;
    let size = body.u32()?;
    body.take::<20>()?;
    let short = ProtoError::Short { len: body.sources };
    let size = usize::try_from(size).map_err(|_| short)?;
    let data = body.rest.get(..size).ok_or(short)?;
    Ok(Call::Write { offset, data })
}
