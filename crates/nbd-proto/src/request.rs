//! [`Request`]: one command of the transmission phase.
//!
//! The compact header has 28 bytes, the extended one 32, all big-endian:
//!
//! ```text
//!  0  u32 magic 0x25609513, extended 0x21e41c71
//!  4  u16 command flags
//!  6  u16 command
//!  8  u64 cookie
//! 16  u64 offset
//! 24  u32 len, extended u64
//! ```
//!
//! Behind it comes a payload of `len` bytes: of a write in compact form, and in extended form of what
//! has [`CommandFlags::PAYLOAD_LEN`].

use crate::consts::{EXTENDED_REQUEST_MAGIC, REQUEST_MAGIC};
use crate::flags::CommandFlags;
use crate::framing::Framing;

/// Length of a compact request header, bytes.
pub const REQUEST_LEN: usize = 28;
/// Length of an extended request header, bytes.
pub const EXTENDED_REQUEST_LEN: usize = 32;

/// The command of a request (`NBD_CMD_*`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Command {
    /// 0: read; the reply has a payload.
    Read,
    /// 1: write; the request has a payload.
    Write,
    /// 2: disconnect; there is no reply.
    Disconnect,
    /// 3: make acknowledged writes durable.
    Flush,
    /// 4: the bytes are no longer needed.
    Trim,
    /// 5: the bytes will be needed.
    Cache,
    /// 6: make the bytes zero.
    WriteZeroes,
    /// 7: report the status of the bytes.
    BlockStatus,
    /// Any other number.
    Unknown(u16),
}

impl From<u16> for Command {
    fn from(number: u16) -> Self {
        match number {
            0 => Self::Read,
            1 => Self::Write,
            2 => Self::Disconnect,
            3 => Self::Flush,
            4 => Self::Trim,
            5 => Self::Cache,
            6 => Self::WriteZeroes,
            7 => Self::BlockStatus,
            other => Self::Unknown(other),
        }
    }
}

impl From<Command> for u16 {
    fn from(command: Command) -> Self {
        match command {
            Command::Read => 0,
            Command::Write => 1,
            Command::Disconnect => 2,
            Command::Flush => 3,
            Command::Trim => 4,
            Command::Cache => 5,
            Command::WriteZeroes => 6,
            Command::BlockStatus => 7,
            Command::Unknown(number) => number,
        }
    }
}

/// One command, as it is on the wire: nothing is checked but the magic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// The client's name for it, returned in every reply.
    pub cookie: u64,
    /// What to do.
    pub command: Command,
    /// How; bits we do not know are kept, so that they can be refused.
    pub flags: CommandFlags,
    /// First byte on the export.
    pub offset: u64,
    /// Length, bytes: of the payload behind the header where there is one (see
    /// [`Self::payload_len`]), else of what the command concerns.
    pub len: u64,
}

/// The first bytes of a request are not a request's: the stream is out of step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("request with magic {magic:#010x} instead of {expected:#010x}")]
pub struct BadMagic {
    /// What came.
    pub magic: u32,
    /// What was due.
    pub expected: u32,
}

impl Framing {
    /// Length of the header of a request, bytes.
    #[must_use]
    pub const fn request_len(self) -> usize {
        match self {
            Self::Simple | Self::Structured => REQUEST_LEN,
            Self::Extended => EXTENDED_REQUEST_LEN,
        }
    }

    const fn request_magic(self) -> u32 {
        match self {
            Self::Simple | Self::Structured => REQUEST_MAGIC,
            Self::Extended => EXTENDED_REQUEST_MAGIC,
        }
    }
}

impl Request {
    /// Reads a compact header.
    ///
    /// # Errors
    /// [`BadMagic`]: the connection cannot go on.
    pub fn decode(bytes: &[u8; REQUEST_LEN]) -> Result<Self, BadMagic> {
        let len = u32::from_be_bytes(part(bytes, 24));
        Self::decode_shared(Framing::Structured, bytes, u64::from(len))
    }

    /// Reads an extended header.
    ///
    /// # Errors
    /// [`BadMagic`]: the connection cannot go on.
    pub fn decode_extended(bytes: &[u8; EXTENDED_REQUEST_LEN]) -> Result<Self, BadMagic> {
        let len = u64::from_be_bytes(part(bytes, 24));
        Self::decode_shared(Framing::Extended, bytes, len)
    }

    /// Reads the header at the front of `bytes`, of [`Framing::request_len`] bytes. `None`: it is not
    /// whole.
    ///
    /// # Errors
    /// [`BadMagic`]: the connection cannot go on.
    pub fn decode_as(framing: Framing, bytes: &[u8]) -> Result<Option<Self>, BadMagic> {
        let request = match framing {
            Framing::Simple | Framing::Structured => bytes.first_chunk().map(Self::decode),
            Framing::Extended => bytes.first_chunk().map(Self::decode_extended),
        };
        request.transpose()
    }

    /// All but the length, which lies behind what both headers share.
    fn decode_shared(framing: Framing, bytes: &[u8], len: u64) -> Result<Self, BadMagic> {
        let magic = u32::from_be_bytes(part(bytes, 0));
        let expected = framing.request_magic();
        if magic != expected {
            return Err(BadMagic { magic, expected });
        }
        Ok(Self {
            flags: CommandFlags::from_bits_retain(u16::from_be_bytes(part(bytes, 4))),
            command: Command::from(u16::from_be_bytes(part(bytes, 6))),
            cookie: u64::from_be_bytes(part(bytes, 8)),
            offset: u64::from_be_bytes(part(bytes, 16)),
            len,
        })
    }

    /// Writes a compact header.
    ///
    /// # Panics
    /// If `len` needs more than 32 bits: senders of compact requests split longer ones.
    #[must_use]
    pub fn encode(&self) -> [u8; REQUEST_LEN] {
        let len = u32::try_from(self.len).expect("compact requests are split below 4 GiB");
        let mut bytes = [0; REQUEST_LEN];
        self.encode_shared(Framing::Structured, &mut bytes);
        bytes[24..].copy_from_slice(&len.to_be_bytes());
        bytes
    }

    /// Writes an extended header. The caller has set [`CommandFlags::PAYLOAD_LEN`] where a payload
    /// follows; a write always has one.
    #[must_use]
    pub fn encode_extended(&self) -> [u8; EXTENDED_REQUEST_LEN] {
        let mut bytes = [0; EXTENDED_REQUEST_LEN];
        self.encode_shared(Framing::Extended, &mut bytes);
        bytes[24..].copy_from_slice(&self.len.to_be_bytes());
        bytes
    }

    /// Writes the header that `framing` has to the end of `out`; in extended form a write gets its
    /// [`CommandFlags::PAYLOAD_LEN`].
    ///
    /// # Panics
    /// If the header is compact and `len` needs more than 32 bits.
    pub fn encode_to(&self, framing: Framing, out: &mut Vec<u8>) {
        if !framing.is_extended() {
            return out.extend_from_slice(&self.encode());
        }
        let mut request = *self;
        if request.command == Command::Write {
            request.flags |= CommandFlags::PAYLOAD_LEN;
        }
        out.extend_from_slice(&request.encode_extended());
    }

    fn encode_shared(&self, framing: Framing, bytes: &mut [u8]) {
        bytes[..4].copy_from_slice(&framing.request_magic().to_be_bytes());
        bytes[4..6].copy_from_slice(&self.flags.bits().to_be_bytes());
        bytes[6..8].copy_from_slice(&u16::from(self.command).to_be_bytes());
        bytes[8..16].copy_from_slice(&self.cookie.to_be_bytes());
        bytes[16..24].copy_from_slice(&self.offset.to_be_bytes());
    }

    /// Bytes of payload behind the header, which a server must read or skip to stay in step, even if it
    /// refuses the request.
    #[must_use]
    pub const fn payload_len(&self, framing: Framing) -> u64 {
        let has_payload = match framing {
            Framing::Simple | Framing::Structured => matches!(self.command, Command::Write),
            Framing::Extended => self.flags.contains(CommandFlags::PAYLOAD_LEN),
        };
        if has_payload { self.len } else { 0 }
    }
}

/// `N` bytes from `at`. Both are constants of the layout above.
fn part<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let mut field = [0; N];
    field.copy_from_slice(&bytes[at..at + N]);
    field
}
