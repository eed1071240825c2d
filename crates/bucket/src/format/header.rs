//! [`VolumeHeader`]: what a volume is. JSON, so that a person can read it in the store.
//!
//! # Invariants
//!
//! * Each change is another object, with the next version as its name, created on condition that it is not there: two changes
//!   at the same time cannot both succeed, and a reader uses the one with the largest version.
//! * The size never gets smaller.
//! * A header of a clone has version 2, so that a program which knows no clones refuses it by name and searches no wrong folder; one of a
//!   volume with compressed or encrypted data has version 3.
//! * The sealed key authenticates everything else that the header has ([`VolumeHeader::authenticated`]).

use serde::{Deserialize, Serialize};

use super::clone::{OriginJson, origins};
use super::encoding::EncryptionJson;
use super::json::{to_bytes, versioned};
use super::{BLOCK, Compression, Origin, RUN, SealedKey};

/// What it is, at the start of the object.
const FORMAT: &str = "outboard volume";
/// The version of a volume that has nothing of another one.
const VERSION: u32 = 1;
/// The version of a clone.
const CLONE_VERSION: u32 = 2;
/// The version of a volume with compressed or encrypted data, also of a clone.
const ENCODED_VERSION: u32 = 3;

/// What distinguishes a volume from every other one: 128 random bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct VolumeId(pub(crate) [u8; 16]);

/// What a volume is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct VolumeHeader {
    /// Which it is.
    pub(crate) id: VolumeId,
    /// Its size, bytes: whole blocks.
    pub(crate) size: u64,
    /// Of a clone: the volumes of which it has data objects, that of its own snapshot last.
    pub(crate) origins: Vec<Origin>,
    /// What data is compressed with when it is written.
    pub(crate) compression: Option<Compression>,
    /// Of an encrypted volume: its data key.
    pub(crate) sealed_key: Option<SealedKey>,
}

/// A header that is not understood.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HeaderFormatError {
    /// No header at all.
    #[error("it is no header of a volume: {0}")]
    Json(String),
    /// Of another version.
    #[error(
        "it has version {0}, and this program reads the versions {VERSION} to {ENCODED_VERSION}"
    )]
    Version(u32),
    /// Of blocks or runs of another size.
    #[error("it has blocks of {0} and runs of {1} bytes, and this program has {BLOCK} and {RUN}")]
    Units(u64, u64),
    /// A size that no volume has.
    #[error("{0} bytes is no size of a volume")]
    Size(u64),
    /// An id that is none.
    #[error("its id is no 32 hexadecimal digits")]
    Id,
    /// Origins that no clone has, or that another volume has.
    #[error("its origins are not those of a clone")]
    Origins,
    /// Compressed in a way that this program does not have.
    #[error("its data is compressed with {0:?}, and this program has lz4")]
    Compression(String),
    /// Encrypted in a way that this program does not have.
    #[error("its data is encrypted with {0:?}, and this program has {cipher}", cipher = super::encoding::CIPHER)]
    Cipher(String),
    /// A key of another length, or no digits.
    #[error("its sealed key is not understood")]
    SealedKey,
    /// Compression or encryption of a version that has neither, or none of version 3.
    #[error("its compression and encryption are not those of its version")]
    Encoding,
}

/// As JSON.
#[derive(Debug, Serialize, Deserialize)]
struct HeaderJson {
    format: String,
    version: u32,
    id: String,
    size: u64,
    block: u64,
    run: u64,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    origins: Vec<OriginJson>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    compression: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    encryption: Option<EncryptionJson>,
}

impl VolumeHeader {
    /// The last generation of its origins, which is that of no writer of its own.
    pub(crate) fn origin_generation(&self) -> u32 {
        self.origins.last().map_or(0, |origin| origin.generation)
    }

    /// As the bytes of an object.
    pub(crate) fn encode(&self) -> Vec<u8> {
        to_bytes(&self.to_json(false))
    }

    /// What its sealed key authenticates: all of it, but for the digits of that key.
    pub(crate) fn authenticated(&self) -> Vec<u8> {
        to_bytes(&self.to_json(true))
    }

    fn to_json(&self, is_blank: bool) -> HeaderJson {
        let is_encoded = self.compression.is_some() || self.sealed_key.is_some();
        let version = match (is_encoded, self.origins.is_empty()) {
            (true, _) => ENCODED_VERSION,
            (false, true) => VERSION,
            (false, false) => CLONE_VERSION,
        };
        HeaderJson {
            format: FORMAT.to_owned(),
            version,
            id: self.id.to_string(),
            size: self.size,
            block: BLOCK,
            run: RUN,
            origins: self.origins.iter().map(Origin::to_json).collect(),
            compression: self.compression.map(|compression| compression.to_string()),
            encryption: self.sealed_key.map(|key| key.to_json(is_blank)),
        }
    }

    /// The header with these bytes.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, HeaderFormatError> {
        let (json, version) = versioned(bytes, FORMAT).map_err(HeaderFormatError::Json)?;
        let version = match u32::try_from(version) {
            Ok(known @ VERSION..=ENCODED_VERSION) => known,
            Ok(other) => return Err(HeaderFormatError::Version(other)),
            Err(_) => return Err(HeaderFormatError::Json("it has no version".to_owned())),
        };
        let json: HeaderJson = serde_json::from_value(json)
            .map_err(|error| HeaderFormatError::Json(error.to_string()))?;
        if (json.block, json.run) != (BLOCK, RUN) {
            return Err(HeaderFormatError::Units(json.block, json.run));
        }
        if !is_size(json.size) {
            return Err(HeaderFormatError::Size(json.size));
        }
        let id = VolumeId::parse(&json.id).ok_or(HeaderFormatError::Id)?;
        let is_encoded = json.compression.is_some() || json.encryption.is_some();
        if is_encoded != (version == ENCODED_VERSION) {
            return Err(HeaderFormatError::Encoding);
        }
        let origins = match (version, &json.origins[..]) {
            (VERSION | ENCODED_VERSION, []) => Vec::new(),
            (VERSION, _) => return Err(HeaderFormatError::Origins),
            (_, json) => origins(json).ok_or(HeaderFormatError::Origins)?,
        };
        let compression = json.compression.as_deref().map(|name| {
            let other = |_| HeaderFormatError::Compression(name.to_owned());
            name.parse().map_err(other)
        });
        let sealed_key = json.encryption.as_ref().map(SealedKey::from_json);
        Ok(Self {
            id,
            size: json.size,
            origins,
            compression: compression.transpose()?,
            sealed_key: sealed_key.transpose()?,
        })
    }
}

/// Largest volume, bytes: what a signed offset of the kernel can address.
const SIZE_MAX: u64 = 1 << 62;

/// Whether a volume can have this size.
pub(crate) const fn is_size(size: u64) -> bool {
    size > 0 && size.is_multiple_of(BLOCK) && size <= SIZE_MAX
}

/// Others each time.
pub(crate) fn random_bytes() -> [u8; 16] {
    let mut bytes = [0; 16];
    let filled = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty());
    assert_eq!(filled, Ok(bytes.len()), "the kernel has random bytes");
    bytes
}

impl VolumeId {
    /// Another one each time.
    pub(crate) fn random() -> Self {
        Self(random_bytes())
    }

    pub(super) fn parse(text: &str) -> Option<Self> {
        let is_hex = text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        let number = is_hex.then(|| u128::from_str_radix(text, 16).ok())??;
        Some(Self(number.to_be_bytes()))
    }
}

impl std::fmt::Display for VolumeId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:032x}", u128::from_be_bytes(self.0))
    }
}
