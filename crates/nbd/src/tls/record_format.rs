//! [`RecordFormat`]: where the parts of a record lie, and what its tag covers besides them. Pure.
//!
//! ```text
//! TLS 1.3                      23   3 3 len(u16)            { content  type(u8)  zeroes… }  tag(16)
//! TLS 1.2, AES-GCM             type 3 3 len(u16)  nonce(8)  { content }                     tag(16)
//! TLS 1.2, ChaCha20-Poly1305   type 3 3 len(u16)            { content }                     tag(16)
//! ```
//!
//! What is in braces is encrypted. The tag covers the header, too: under TLS 1.2 as sequence number, type, version and length of
//! the content (RFC 5246, section 6.2.3.3; RFC 5288; RFC 7905), under TLS 1.3 as it is (RFC 8446, section 5.2).
//!
//! # Invariants
//!
//! * Under TLS 1.2 the sequence number is covered by the tag, so the nonce that a peer sends cannot make an old record new.

use nbd_proto::TlsVersion;
use rustls::ConnectionTrafficSecrets;

use super::record::{CONTENT_MAX, ContentType, RecordError};

/// Bytes before the encrypted part, but for a nonce.
pub(super) const HEADER_LEN: usize = 5;
/// Bytes of the tag behind it.
pub(super) const TAG_LEN: usize = 16;
/// Bytes of a nonce that is sent.
const EXPLICIT_NONCE_LEN: usize = 8;
/// Most bytes of a record of ours in addition to its content.
pub(super) const OVERHEAD_MAX: usize = HEADER_LEN + EXPLICIT_NONCE_LEN + TAG_LEN;
/// Bytes of a TLS 1.3 record in addition to its content.
pub(super) const OVERHEAD_TLS13: usize = HEADER_LEN + 1 + TAG_LEN;
/// Longest record that may be received, with its header.
pub(super) const WIRE_MAX: usize = HEADER_LEN + CONTENT_MAX + 256;

/// The layout of the records of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RecordFormat {
    Tls13,
    Tls12Gcm,
    Tls12ChaCha,
}

impl RecordFormat {
    /// That of a version with a cipher; `None` for a cipher that is not known here.
    pub(super) const fn new(
        version: TlsVersion,
        secrets: &ConnectionTrafficSecrets,
    ) -> Option<Self> {
        match (version, secrets) {
            (TlsVersion::Tls13, _) => Some(Self::Tls13),
            (
                TlsVersion::Tls12,
                ConnectionTrafficSecrets::Aes128Gcm { .. }
                | ConnectionTrafficSecrets::Aes256Gcm { .. },
            ) => Some(Self::Tls12Gcm),
            (TlsVersion::Tls12, ConnectionTrafficSecrets::Chacha20Poly1305 { .. }) => {
                Some(Self::Tls12ChaCha)
            }
            (TlsVersion::Tls12, _) => None,
        }
    }

    /// Whether keys can be updated.
    pub(super) const fn has_key_update(self) -> bool {
        matches!(self, Self::Tls13)
    }

    /// Whether a key that cannot be updated is used up one day: AES-GCM's is, ChaCha20's has no limit that matters
    /// (RFC 8446, section 5.5).
    pub(super) const fn has_key_limit(self) -> bool {
        matches!(self, Self::Tls13 | Self::Tls12Gcm)
    }

    /// Bytes of the nonce between header and encrypted part.
    pub(super) const fn nonce_len(self) -> usize {
        match self {
            Self::Tls12Gcm => EXPLICIT_NONCE_LEN,
            Self::Tls13 | Self::Tls12ChaCha => 0,
        }
    }

    /// Where the content begins.
    pub(super) const fn content_at(self) -> usize {
        HEADER_LEN + self.nonce_len()
    }

    /// Bytes of a record of ours in addition to its content.
    pub(super) const fn overhead(self) -> usize {
        match self {
            Self::Tls13 => OVERHEAD_TLS13,
            Self::Tls12Gcm | Self::Tls12ChaCha => self.content_at() + TAG_LEN,
        }
    }

    /// The type that a record shows in the clear.
    pub(super) const fn outer_type(self, content: ContentType) -> ContentType {
        match self {
            Self::Tls13 => ContentType::Data,
            Self::Tls12Gcm | Self::Tls12ChaCha => content,
        }
    }

    /// What the tag of record number `sequence` covers besides its `content_len` bytes of content.
    pub(super) fn associated_data(
        self,
        header: &[u8],
        sequence: u64,
        content_len: usize,
    ) -> AssociatedData {
        let mut bytes = [0; ASSOCIATED_MAX];
        if self == Self::Tls13 {
            bytes[..HEADER_LEN].copy_from_slice(header);
            return AssociatedData {
                bytes,
                len: HEADER_LEN,
            };
        }
        let content_len =
            u16::try_from(content_len).expect("less than the record, which has a u16");
        bytes[..8].copy_from_slice(&sequence.to_be_bytes());
        bytes[8..11].copy_from_slice(&header[..3]);
        bytes[11..].copy_from_slice(&content_len.to_be_bytes());
        AssociatedData {
            bytes,
            len: ASSOCIATED_MAX,
        }
    }

    /// The length of the record that `bytes` begin with, header and all; `None`: too few bytes.
    pub(super) fn wire_len(self, bytes: &[u8]) -> Result<Option<usize>, RecordError> {
        match *bytes {
            [first, ..] if !self.is_outer_type(first) => Err(RecordError::Plain(first)),
            [_, _, _, high, low, ..] => {
                let len = HEADER_LEN + usize::from(u16::from_be_bytes([high, low]));
                if (self.overhead()..=WIRE_MAX).contains(&len) {
                    Ok(Some(len))
                } else {
                    Err(RecordError::Length(len))
                }
            }
            _ => Ok(None),
        }
    }

    fn is_outer_type(self, code: u8) -> bool {
        let content = ContentType::from_code(code);
        content.is_some_and(|content| self.outer_type(content) == content)
    }
}

const ASSOCIATED_MAX: usize = 13;

/// Bytes that a tag covers and that are not encrypted.
pub(super) struct AssociatedData {
    bytes: [u8; ASSOCIATED_MAX],
    len: usize,
}

impl AsRef<[u8]> for AssociatedData {
    fn as_ref(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}
