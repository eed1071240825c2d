//! The handshake, fixed newstyle, from the greeting to the first byte of transmission. The client knows the older ones too.
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
//!
//! `STARTTLS` answered with `ACK` puts the rest of the handshake, from the next option on, and all of
//! transmission under TLS. Both machines then wait for `tls_started`, forget what was agreed on before,
//! and end the session if bytes arrive in between: an attacker may have injected them to be taken for bytes of the
//! other side (CVE-2021-3716).

pub(crate) mod client;
mod frame;
pub(crate) mod server;

use crate::consts::limits;
use crate::context::MetaContext;
use crate::flags::TransmissionFlags;
use crate::framing::Framing;
use crate::writers::{DiskIdentity, WriterAccess};

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

/// Which handshake led to transmission. In the order in which they were invented.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum HandshakeStyle {
    /// One export without a name; no options.
    Oldstyle,
    /// `EXPORT_NAME` is the only option.
    Newstyle,
    /// Options are answered one by one, errors included.
    FixedNewstyle,
}

impl HandshakeStyle {
    /// The name that libnbd gives it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Oldstyle => "oldstyle",
            Self::Newstyle => "newstyle",
            Self::FixedNewstyle => "newstyle-fixed",
        }
    }
}

/// What both sides agreed on; transmission follows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Negotiated {
    /// The export, with the flags as the client saw them.
    pub export: ExportInfo,
    /// The requested name; empty for the default export.
    pub requested_name: String,
    /// Which handshake it was.
    pub style: HandshakeStyle,
    /// How requests and replies look.
    pub framing: Framing,
    /// The metadata contexts that `BLOCK_STATUS` reports; without any the command is not allowed.
    pub contexts: Vec<MetaContext>,
    /// Whether the session is under TLS.
    pub tls: bool,
    /// Whether both sides agreed to leave out the zeroes behind the answer to `EXPORT_NAME`.
    pub no_zeroes: bool,
    /// Whether the client requested the block sizes and so promised to respect them.
    pub block_sizes_agreed: bool,
    /// On the client's side, the identity that the server reported; empty if it was not requested.
    pub disk: DiskIdentity,
    /// The identity of the client, if it sent one.
    pub writer: Option<WriterAccess>,
}

/// The flags without those that mean nothing in this framing or without others.
pub(crate) fn meaningful(mut flags: TransmissionFlags, framing: Framing) -> TransmissionFlags {
    if !framing.is_chunked() {
        flags -= TransmissionFlags::SEND_DF;
    }
    if !framing.is_extended() {
        flags -= TransmissionFlags::BLOCK_STATUS_PAYLOAD;
    }
    if !flags.contains(TransmissionFlags::SEND_WRITE_ZEROES) {
        flags -= TransmissionFlags::SEND_FAST_ZERO;
    }
    flags
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
