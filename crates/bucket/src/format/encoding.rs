//! [`Compression`] and [`SealedKey`]: how the data of a volume is encoded in its store, as the header has it. Pure.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::HeaderFormatError;

/// What data is compressed with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Compression {
    /// LZ4, each block by itself.
    Lz4,
}

/// A text that is the name of no compression.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no compression: there is lz4")]
pub struct CompressionError(String);

impl FromStr for Compression {
    type Err = CompressionError;

    fn from_str(text: &str) -> Result<Self, CompressionError> {
        match text {
            "lz4" => Ok(Self::Lz4),
            other => Err(CompressionError(other.to_owned())),
        }
    }
}

impl fmt::Display for Compression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lz4 => f.write_str("lz4"),
        }
    }
}

/// The cipher of every encrypted volume.
pub(crate) const CIPHER: &str = "aes-256-gcm";

/// The data key of a volume, sealed with the key of its user: nonce, ciphertext, tag.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct SealedKey(pub(crate) [u8; Self::LEN]);

impl fmt::Debug for SealedKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SealedKey")
    }
}

/// As JSON.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct EncryptionJson {
    cipher: String,
    key: String,
}

impl SealedKey {
    /// Bytes of it.
    pub(crate) const LEN: usize = 12 + 32 + 16;

    /// `is_blank`: without its digits, as what the seal authenticates has it.
    pub(super) fn to_json(self, is_blank: bool) -> EncryptionJson {
        let digits = match is_blank {
            true => String::new(),
            false => hex(&self.0),
        };
        EncryptionJson {
            cipher: CIPHER.to_owned(),
            key: digits,
        }
    }

    pub(super) fn from_json(json: &EncryptionJson) -> Result<Self, HeaderFormatError> {
        if json.cipher != CIPHER {
            return Err(HeaderFormatError::Cipher(json.cipher.clone()));
        }
        let key = from_hex(&json.key).ok_or(HeaderFormatError::SealedKey)?;
        Ok(Self(key))
    }
}

/// Lower-case hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The bytes of lower-case hexadecimal digits, if these are so many.
pub(crate) fn from_hex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let digit = |digit: u8| match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    };
    let (pairs, []) = text.as_bytes().as_chunks::<2>() else {
        return None;
    };
    let bytes = pairs.iter();
    let bytes = bytes.map(|[high, low]| Some(digit(*high)? << 4 | digit(*low)?));
    bytes.collect::<Option<Vec<u8>>>()?.try_into().ok()
}
