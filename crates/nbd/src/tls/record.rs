//! TLS 1.3 records (RFC 8446, section 5): sealed and opened where they lie. Pure.
//!
//! ```text
//! 23 3 3 len(u16)  { content  type(u8)  zeroes… }encrypted  tag(16)
//! ```
//!
//! # Invariants
//!
//! * A key and a sequence number are used for one record only: [`RecordSealer::seal`] counts before it can
//!   fail, and a sealed record is sent as it is or not at all.
//! * Nothing of a record is believed before its tag was right, but for its length, which is bounded.

use ring::aead::{
    AES_128_GCM, AES_256_GCM, Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey,
};
use rustls::ConnectionTrafficSecrets;

/// Bytes before the encrypted part.
pub(super) const HEADER_LEN: usize = 5;
/// Bytes of the tag behind it.
const TAG_LEN: usize = 16;
/// Bytes of a record of ours in addition to its content.
pub(super) const OVERHEAD: usize = HEADER_LEN + 1 + TAG_LEN;
/// Most content of a record.
pub(super) const CONTENT_MAX: usize = 1 << 14;
/// Longest record that may be received, with its header.
pub(super) const WIRE_MAX: usize = HEADER_LEN + CONTENT_MAX + 256;

/// What a record carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ContentType {
    Alert,
    Handshake,
    Data,
}

impl ContentType {
    const fn code(self) -> u8 {
        match self {
            Self::Alert => 21,
            Self::Handshake => 22,
            Self::Data => 23,
        }
    }

    const fn from_code(code: u8) -> Option<Self> {
        match code {
            21 => Some(Self::Alert),
            22 => Some(Self::Handshake),
            23 => Some(Self::Data),
            _ => None,
        }
    }
}

/// Why received bytes are no record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum RecordError {
    #[error("bytes outside TLS (the first is {0:#04x})")]
    Plain(u8),
    #[error("a TLS record of {0} bytes")]
    Length(usize),
    #[error("a TLS record that was changed on its way")]
    Tag,
    #[error("a TLS record without content, or of an unknown kind")]
    ContentType,
}

/// A key with its nonces.
struct Cipher {
    key: LessSafeKey,
    iv: [u8; 12],
    sequence: u64,
}

impl Cipher {
    fn new(sequence: u64, secrets: &ConnectionTrafficSecrets) -> Option<Self> {
        let (algorithm, key, iv) = match secrets {
            ConnectionTrafficSecrets::Aes128Gcm { key, iv } => (&AES_128_GCM, key, iv),
            ConnectionTrafficSecrets::Aes256Gcm { key, iv } => (&AES_256_GCM, key, iv),
            ConnectionTrafficSecrets::Chacha20Poly1305 { key, iv } => (&CHACHA20_POLY1305, key, iv),
            _ => return None,
        };
        let key = UnboundKey::new(algorithm, key.as_ref()).ok()?;
        Some(Self {
            key: LessSafeKey::new(key),
            iv: iv.as_ref().try_into().ok()?,
            sequence,
        })
    }

    /// The nonce of the next record; never the same again.
    fn next_nonce(&mut self) -> Nonce {
        let mut nonce = self.iv;
        for (byte, count) in nonce[4..].iter_mut().zip(self.sequence.to_be_bytes()) {
            *byte ^= count;
        }
        // Keys are changed long before (`REKEY_AFTER`).
        self.sequence = self
            .sequence
            .checked_add(1)
            .expect("fewer records than 2^64");
        Nonce::assume_unique_for_key(nonce)
    }
}

/// Seals records.
pub(super) struct RecordSealer(Cipher);

impl RecordSealer {
    /// Goes on at record `sequence` of these secrets; `None` for a cipher that is not known here.
    pub(super) fn new(sequence: u64, secrets: &ConnectionTrafficSecrets) -> Option<Self> {
        Cipher::new(sequence, secrets).map(Self)
    }

    /// Records sealed with this key.
    pub(super) const fn sequence(&self) -> u64 {
        self.0.sequence
    }

    /// Seals `record`: its content lies behind [`HEADER_LEN`] bytes, and before what else
    /// [`OVERHEAD`] counts.
    ///
    /// # Panics
    /// If `record` is longer than a record can be, or shorter than an empty one.
    pub(super) fn seal(&mut self, content: ContentType, record: &mut [u8]) {
        let len = record.len() - HEADER_LEN;
        assert!(
            record.len() - OVERHEAD <= CONTENT_MAX,
            "laid out as records"
        );
        let (header, rest) = record.split_at_mut(HEADER_LEN);
        let bytes = u16::try_from(len).expect("checked above").to_be_bytes();
        header.copy_from_slice(&[ContentType::Data.code(), 3, 3, bytes[0], bytes[1]]);
        let (inner, tag_place) = rest.split_at_mut(len - TAG_LEN);
        inner[len - TAG_LEN - 1] = content.code();
        let nonce = self.0.next_nonce();
        let sealed = self
            .0
            .key
            .seal_in_place_separate_tag(nonce, Aad::from(&*header), inner);
        tag_place.copy_from_slice(sealed.expect("a record is short").as_ref());
    }
}

/// Opens records.
pub(super) struct RecordOpener(Cipher);

impl RecordOpener {
    /// Goes on at record `sequence` of these secrets; `None` for a cipher that is not known here.
    pub(super) fn new(sequence: u64, secrets: &ConnectionTrafficSecrets) -> Option<Self> {
        Cipher::new(sequence, secrets).map(Self)
    }

    /// Opens one whole record where it lies.
    pub(super) fn open<'a>(
        &mut self,
        record: &'a mut [u8],
    ) -> Result<(ContentType, &'a [u8]), RecordError> {
        let (header, sealed) = record.split_at_mut(HEADER_LEN);
        let nonce = self.0.next_nonce();
        let opened = self.0.key.open_in_place(nonce, Aad::from(&*header), sealed);
        let inner: &[u8] = opened.map_err(|_| RecordError::Tag)?;
        // Zeroes behind the type are padding.
        let end = inner.iter().rposition(|&byte| byte != 0);
        let end = end.ok_or(RecordError::ContentType)?;
        if end > CONTENT_MAX {
            return Err(RecordError::Length(end));
        }
        let content = ContentType::from_code(inner[end]).ok_or(RecordError::ContentType)?;
        Ok((content, &inner[..end]))
    }
}

/// The length of the record that `bytes` begin with, header and all; `None`: too few bytes.
pub(super) fn wire_len(bytes: &[u8]) -> Result<Option<usize>, RecordError> {
    match *bytes {
        [first, ..] if first != ContentType::Data.code() => Err(RecordError::Plain(first)),
        [_, _, _, high, low, ..] => {
            let len = HEADER_LEN + usize::from(u16::from_be_bytes([high, low]));
            if (HEADER_LEN + 1 + TAG_LEN..=WIRE_MAX).contains(&len) {
                Ok(Some(len))
            } else {
                Err(RecordError::Length(len))
            }
        }
        _ => Ok(None),
    }
}
