//! The handshake, fixed newstyle, from the greeting to the first byte of transmission.
//!
//! ```text
//! server                                 client
//! NBDMAGIC IHAVEOPT flags(u16)  ->
//!                               <-       flags(u32)
//!                               <-       IHAVEOPT option len data      repeated
//! magic option type len data    ->                                     one or more for each option
//! ```
//!
//! `GO` answered with `ACK`, or `EXPORT_NAME`, ends it. Both machines work the same way: feed bytes
//! to `receive`, which says how many it took, and empty `next_event` before feeding more.

pub(crate) mod client;
mod frame;
pub(crate) mod server;

use crate::consts::limits;
use crate::flags::TransmissionFlags;

/// What is known of an export after `INFO`, `GO` or `EXPORT_NAME`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExportInfo {
    /// The server's own name for it.
    pub name: String,
    /// A text for people; may be empty.
    pub description: String,
    /// Size, bytes.
    pub size: u64,
    /// What it can do.
    pub flags: TransmissionFlags,
    /// Unit of offsets and lengths, bytes, a power of two up to 65536.
    pub block_size_min: u32,
    /// Unit at which requests are fast, bytes, a power of two of at least 512.
    pub block_size_preferred: u32,
    /// Longest payload of a request, bytes.
    pub block_size_max: u32,
}

impl ExportInfo {
    /// An export of `size` bytes with the protocol's default block sizes and without a description.
    #[must_use]
    pub fn new(name: impl Into<String>, size: u64, flags: TransmissionFlags) -> Self {
        Self {
            name: name.into(),
            description: String::new(),
            size,
            flags,
            block_size_min: 1,
            block_size_preferred: limits::BLOCK_SIZE_PREFERRED_DEFAULT,
            block_size_max: limits::PAYLOAD_DEFAULT,
        }
    }
}

/// What both sides agreed on; transmission follows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Negotiated {
    /// The export, with the flags as the client saw them.
    pub export: ExportInfo,
    /// The name the client asked for; empty for the default export.
    pub requested_name: String,
    /// Whether replies are structured.
    pub structured: bool,
    /// Whether both sides agreed to leave out the zeroes behind the answer to `EXPORT_NAME`.
    pub no_zeroes: bool,
    /// Whether the client asked for the block sizes and so promised to keep them.
    pub block_sizes_agreed: bool,
}

/// Moves what `buffer` lacks to hold `needed` bytes there from `bytes`, counting it in `taken`, and
/// gives the whole item once it is complete.
fn gather(buffer: &mut Vec<u8>, needed: usize, bytes: &[u8], taken: &mut usize) -> Option<Vec<u8>> {
    let missing = needed - buffer.len();
    let part = &bytes[*taken..bytes.len().min(*taken + missing)];
    buffer.extend_from_slice(part);
    *taken += part.len();
    (part.len() == missing).then(|| std::mem::take(buffer))
}
