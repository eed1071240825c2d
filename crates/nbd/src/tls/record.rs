//! Records of TLS 1.3 and 1.2: sealed and opened where they lie. Pure. How they look is in `record_format`.
//!
//! # Invariants
//!
//! * A key and a sequence number are used for one record only: [`RecordSealer::seal`] counts before it can
//!   fail, and a sealed record is sent as it is or not at all.
//! * Nothing of a record is believed before its tag was right, but for its length, which is bounded.

use nbd_proto::TlsVersion;
use ring::aead::{
    AES_128_GCM, AES_256_GCM, Aad, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, UnboundKey,
};
use rustls::ConnectionTrafficSecrets;

use super::record_format::{HEADER_LEN, RecordFormat, TAG_LEN};

/// Most content of a record.
pub(super) const CONTENT_MAX: usize = 1 << 14;

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

    pub(super) const fn from_code(code: u8) -> Option<Self> {
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

/// Bytes of a nonce that are never sent.
const IMPLICIT_LEN: usize = 4;

/// A key with its nonces.
struct Cipher {
    format: RecordFormat,
    key: LessSafeKey,
    iv: [u8; 12],
    sequence: u64,
}

impl Cipher {
    fn new(version: TlsVersion, sequence: u64, secrets: &ConnectionTrafficSecrets) -> Option<Self> {
        let (algorithm, key, iv) = match secrets {
            ConnectionTrafficSecrets::Aes128Gcm { key, iv } => (&AES_128_GCM, key, iv),
            ConnectionTrafficSecrets::Aes256Gcm { key, iv } => (&AES_256_GCM, key, iv),
            ConnectionTrafficSecrets::Chacha20Poly1305 { key, iv } => (&CHACHA20_POLY1305, key, iv),
            _ => return None,
        };
        let key = UnboundKey::new(algorithm, key.as_ref()).ok()?;
        Some(Self {
            format: RecordFormat::new(version, secrets)?,
            key: LessSafeKey::new(key),
            iv: iv.as_ref().try_into().ok()?,
            sequence,
        })
    }

    /// Number and nonce of the next record; never the same again.
    fn next_nonce(&mut self) -> (u64, [u8; NONCE_LEN]) {
        let sequence = self.sequence;
        let mut nonce = self.iv;
        for (byte, count) in nonce[IMPLICIT_LEN..].iter_mut().zip(sequence.to_be_bytes()) {
            *byte ^= count;
        }
        // Keys are changed long before (`REKEY_AFTER`).
        self.sequence = sequence.checked_add(1).expect("fewer records than 2^64");
        (sequence, nonce)
    }
}

/// Seals records.
pub(super) struct RecordSealer(Cipher);

impl RecordSealer {
    /// Goes on at record `sequence` of these secrets; `None` for a cipher that is not known here.
    pub(super) fn new(
        version: TlsVersion,
        sequence: u64,
        secrets: &ConnectionTrafficSecrets,
    ) -> Option<Self> {
        Cipher::new(version, sequence, secrets).map(Self)
    }

    /// How its records look.
    pub(super) const fn format(&self) -> RecordFormat {
        self.0.format
    }

    /// Records sealed with this key.
    pub(super) const fn sequence(&self) -> u64 {
        self.0.sequence
    }

    /// Seals `record`: its content lies at [`RecordFormat::content_at`], and before what else
    /// [`RecordFormat::overhead`] counts.
    ///
    /// # Panics
    /// If `record` is longer than a record can be, or shorter than an empty one.
    pub(super) fn seal(&mut self, content: ContentType, record: &mut [u8]) {
        let format = self.0.format;
        let len = record.len() - HEADER_LEN;
        let content_len = record.len() - format.overhead();
        assert!(content_len <= CONTENT_MAX, "laid out as records");
        let (header, rest) = record.split_at_mut(HEADER_LEN);
        let bytes = u16::try_from(len).expect("checked above").to_be_bytes();
        let outer = format.outer_type(content).code();
        header.copy_from_slice(&[outer, 3, 3, bytes[0], bytes[1]]);
        let (nonce_place, rest) = rest.split_at_mut(format.nonce_len());
        let (inner, tag_place) = rest.split_at_mut(rest.len() - TAG_LEN);
        if format == RecordFormat::Tls13 {
            inner[content_len] = content.code();
        }
        let (sequence, nonce) = self.0.next_nonce();
        if !nonce_place.is_empty() {
            nonce_place.copy_from_slice(&nonce[IMPLICIT_LEN..]);
        }
        let covered = format.associated_data(header, sequence, content_len);
        let nonce = Nonce::assume_unique_for_key(nonce);
        let sealed = self
            .0
            .key
            .seal_in_place_separate_tag(nonce, Aad::from(covered), inner);
        tag_place.copy_from_slice(sealed.expect("a record is short").as_ref());
    }
}

/// Opens records.
pub(super) struct RecordOpener(Cipher);

impl RecordOpener {
    /// Goes on at record `sequence` of these secrets; `None` for a cipher that is not known here.
    pub(super) fn new(
        version: TlsVersion,
        sequence: u64,
        secrets: &ConnectionTrafficSecrets,
    ) -> Option<Self> {
        Cipher::new(version, sequence, secrets).map(Self)
    }

    /// Opens one whole record where it lies.
    pub(super) fn open<'a>(
        &mut self,
        record: &'a mut [u8],
    ) -> Result<(ContentType, &'a [u8]), RecordError> {
        let format = self.0.format;
        let wrong_length = RecordError::Length(record.len());
        let content_len = record.len().checked_sub(format.overhead());
        let content_len = content_len.ok_or(wrong_length)?;
        let (header, rest) = record.split_at_mut(HEADER_LEN);
        let (sent_nonce, sealed) = rest.split_at_mut(format.nonce_len());
        let (sequence, mut nonce) = self.0.next_nonce();
        if !sent_nonce.is_empty() {
            nonce[IMPLICIT_LEN..].copy_from_slice(sent_nonce);
        }
        let covered = format.associated_data(header, sequence, content_len);
        let nonce = Nonce::assume_unique_for_key(nonce);
        let opened = self.0.key.open_in_place(nonce, Aad::from(covered), sealed);
        let inner: &[u8] = opened.map_err(|_| RecordError::Tag)?;
        if format != RecordFormat::Tls13 {
            if inner.len() > CONTENT_MAX {
                return Err(RecordError::Length(inner.len()));
            }
            let content = ContentType::from_code(header[0]).ok_or(RecordError::ContentType)?;
            return Ok((content, inner));
        }
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
