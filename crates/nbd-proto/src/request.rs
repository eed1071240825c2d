//! [`Request`]: one command of the transmission phase.
//!
//! The compact header, 28 bytes, all big-endian:
//!
//! ```text
//!  0  u32 magic 0x25609513     8  u64 cookie
//!  4  u16 command flags       16  u64 offset
//!  6  u16 command             24  u32 len
//! ```
//!
//! `len` is 64 bits here because the extended header, which shares everything else, has room for it.

use crate::consts::REQUEST_MAGIC;
use crate::flags::CommandFlags;

/// Length of a compact request header, bytes.
pub const REQUEST_LEN: usize = 28;

/// What a request asks for (`NBD_CMD_*`).
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
    /// 7: tell the state of the bytes.
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
    /// Length, bytes; for a write that of the payload behind the header.
    pub len: u64,
}

/// The first bytes of a request are not a request's: the stream is out of step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("request with magic {0:#010x} instead of {REQUEST_MAGIC:#010x}")]
pub struct BadMagic(pub u32);

impl Request {
    /// Reads a compact header.
    ///
    /// # Errors
    /// [`BadMagic`]: the connection cannot go on.
    pub fn decode(bytes: &[u8; REQUEST_LEN]) -> Result<Self, BadMagic> {
        let magic = u32::from_be_bytes(part(bytes, 0));
        if magic != REQUEST_MAGIC {
            return Err(BadMagic(magic));
        }
        Ok(Self {
            flags: CommandFlags::from_bits_retain(u16::from_be_bytes(part(bytes, 4))),
            command: Command::from(u16::from_be_bytes(part(bytes, 6))),
            cookie: u64::from_be_bytes(part(bytes, 8)),
            offset: u64::from_be_bytes(part(bytes, 16)),
            len: u64::from(u32::from_be_bytes(part(bytes, 24))),
        })
    }

    /// Writes a compact header.
    ///
    /// # Panics
    /// If `len` needs more than 32 bits: who sends compact requests splits before.
    #[must_use]
    pub fn encode(&self) -> [u8; REQUEST_LEN] {
        let len = u32::try_from(self.len).expect("compact requests are split below 4 GiB");
        let mut bytes = [0; REQUEST_LEN];
        bytes[..4].copy_from_slice(&REQUEST_MAGIC.to_be_bytes());
        bytes[4..6].copy_from_slice(&self.flags.bits().to_be_bytes());
        bytes[6..8].copy_from_slice(&u16::from(self.command).to_be_bytes());
        bytes[8..16].copy_from_slice(&self.cookie.to_be_bytes());
        bytes[16..24].copy_from_slice(&self.offset.to_be_bytes());
        bytes[24..].copy_from_slice(&len.to_be_bytes());
        bytes
    }
}

/// `N` bytes from `at`. Both are constants of the layout above.
fn part<const N: usize>(bytes: &[u8; REQUEST_LEN], at: usize) -> [u8; N] {
    let mut field = [0; N];
    field.copy_from_slice(&bytes[at..at + N]);
    field
}
