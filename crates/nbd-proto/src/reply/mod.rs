//! Encoders of replies, into fixed arrays so that the hot path never allocates.
//!
//! ```text
//! simple reply, 16 bytes       chunk of a structured reply, 20 bytes     extended chunk, 32 bytes
//!  0  u32 magic 0x67446698      0  u32 magic 0x668e33ef                   0  u32 magic 0x6e8a278c
//!  4  u32 error                 4  u16 chunk flags                        4  u16 chunk flags
//!  8  u64 cookie                6  u16 kind                               6  u16 kind
//!                               8  u64 cookie                             8  u64 cookie
//!                              16  u32 len of what follows               16  u64 offset of the request
//!                                                                        24  u64 len of what follows
//! ```
//!
//! The functions here write simple and structured replies; the methods of [`crate::Framing`] write what
//! was agreed on. The order and completeness of chunks is the server's business; what a client accepts
//! is in [`crate::ReplyDecoder`].

mod encode;
mod kind;
mod status;

pub use encode::{ChunkRange, ReplyHead, ReplyTo};
pub use kind::ChunkKind;
pub use status::{BadFilter, Extent, StatusFilter};

use crate::consts::{CHUNK_MAGIC, SIMPLE_REPLY_MAGIC, limits};
use crate::errno::WireError;
use crate::flags::ChunkFlags;
use crate::wire::{len32, truncated};

/// Length of a simple reply, bytes.
pub const SIMPLE_REPLY_LEN: usize = 16;
/// Length of a chunk's header, bytes.
pub const CHUNK_LEN: usize = 20;
/// Length of the header of a chunk of data with its offset, bytes.
pub const OFFSET_DATA_LEN: usize = CHUNK_LEN + 8;
/// Length of a whole chunk that says a run of bytes is zero.
pub const OFFSET_HOLE_LEN: usize = CHUNK_LEN + 12;

/// A simple reply. The data of a successful read follows it.
#[must_use]
pub fn simple_reply(cookie: u64, error: Option<WireError>) -> [u8; SIMPLE_REPLY_LEN] {
    let mut bytes = [0; SIMPLE_REPLY_LEN];
    bytes[..4].copy_from_slice(&SIMPLE_REPLY_MAGIC.to_be_bytes());
    bytes[4..8].copy_from_slice(&error.map_or(0, WireError::number).to_be_bytes());
    bytes[8..].copy_from_slice(&cookie.to_be_bytes());
    bytes
}

/// The header of a chunk with `payload_len` bytes behind it.
#[must_use]
pub fn chunk_header(
    cookie: u64,
    flags: ChunkFlags,
    kind: ChunkKind,
    payload_len: u32,
) -> [u8; CHUNK_LEN] {
    let mut bytes = [0; CHUNK_LEN];
    bytes[..4].copy_from_slice(&CHUNK_MAGIC.to_be_bytes());
    bytes[4..6].copy_from_slice(&flags.bits().to_be_bytes());
    bytes[6..8].copy_from_slice(&u16::from(kind).to_be_bytes());
    bytes[8..16].copy_from_slice(&cookie.to_be_bytes());
    bytes[16..].copy_from_slice(&payload_len.to_be_bytes());
    bytes
}

/// The header of a chunk of `data_len` bytes that belong at `offset`; the data follows it.
///
/// # Panics
/// If `data_len` is within 8 bytes of 4 GiB; payloads are capped far below.
#[must_use]
pub fn offset_data_header(
    cookie: u64,
    flags: ChunkFlags,
    offset: u64,
    data_len: u32,
) -> [u8; OFFSET_DATA_LEN] {
    let payload_len = data_len
        .checked_add(8)
        .expect("payloads are capped below 4 GiB");
    let mut bytes = [0; OFFSET_DATA_LEN];
    bytes[..CHUNK_LEN].copy_from_slice(&chunk_header(
        cookie,
        flags,
        ChunkKind::OffsetData,
        payload_len,
    ));
    bytes[CHUNK_LEN..].copy_from_slice(&offset.to_be_bytes());
    bytes
}

/// A whole chunk that says that `hole_len` bytes at `offset` are zero.
#[must_use]
pub fn offset_hole_chunk(
    cookie: u64,
    flags: ChunkFlags,
    offset: u64,
    hole_len: u32,
) -> [u8; OFFSET_HOLE_LEN] {
    let mut bytes = [0; OFFSET_HOLE_LEN];
    bytes[..CHUNK_LEN].copy_from_slice(&chunk_header(cookie, flags, ChunkKind::OffsetHole, 12));
    bytes[CHUNK_LEN..OFFSET_DATA_LEN].copy_from_slice(&offset.to_be_bytes());
    bytes[OFFSET_DATA_LEN..].copy_from_slice(&hole_len.to_be_bytes());
    bytes
}

/// A whole chunk that says why a request failed, and where if `offset` is known. The text is cut
/// at 4096 bytes, at a character.
#[must_use]
pub fn error_chunk(
    cookie: u64,
    flags: ChunkFlags,
    error: WireError,
    text: &str,
    offset: Option<u64>,
) -> Vec<u8> {
    let (kind, payload) = error_payload(error, text, offset);
    let header = chunk_header(cookie, flags, kind, len32(payload.len()));
    [&header[..], &payload].concat()
}

/// Kind and payload of an error chunk.
fn error_payload(error: WireError, text: &str, offset: Option<u64>) -> (ChunkKind, Vec<u8>) {
    let text = truncated(text, limits::STRING_MAX);
    let text_len = u16::try_from(text.len()).expect("texts are cut at 4096 bytes");
    let mut payload = Vec::with_capacity(4 + 2 + text.len() + 8);
    payload.extend_from_slice(&error.number().to_be_bytes());
    payload.extend_from_slice(&text_len.to_be_bytes());
    payload.extend_from_slice(text.as_bytes());
    let Some(offset) = offset else {
        return (ChunkKind::Error, payload);
    };
    payload.extend_from_slice(&offset.to_be_bytes());
    (ChunkKind::ErrorOffset, payload)
}
