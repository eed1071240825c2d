//! Encryption: the key of the user seals the data key of a volume, and that seals data objects and the index. AES-256-GCM and HKDF-SHA-256,
//! by `ring`; nothing of a cipher is here.
//!
//! ```text
//! key of the user ──► HKDF with the volume's id ──► seals the data key, in the header
//! data key ─┬──► HKDF with ID/NAME of a data object ──► seals its blocks: nonce, ciphertext, tag
//!           └──► HKDF with 16 random bytes ──► seals one piece of the index: these bytes, ciphertext, tag
//! ```
//!
//! # Invariants
//!
//! * No nonce is used twice with one key. The blocks of an object have 96 random bits each, below a key of the object: also where its name is
//!   used again, which takes a copy of the store, a repeat among its 2,048 blocks and those of a copy is one in 2^73. A piece of the index has
//!   a key of its own, so its nonce is constant. The header's has 96 random bits, below a key of the volume.
//! * A block is sealed to its object, its offset there and its number on the disk: what was moved is refused as what was changed.
//! * No key is printed, also not by `Debug`.
//!
//! # What it does not do
//!
//! Keys stay in memory, and are not wiped from it. A piece of the index is sealed to the volume, not to its place (ADR 29).

use std::fmt;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use ring::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, Tag, UnboundKey};
use ring::hkdf::{HKDF_SHA256, Prk, Salt};
use ring::rand::{SecureRandom as _, SystemRandom};

use crate::format::{SEAL_LEN, SealedKey, VolumeId, from_hex, hex};

/// Bytes of a key.
const KEY_LEN: usize = 32;
const TAG_LEN: usize = 16;
/// Random bytes in front of a piece of the index, of which its key is made.
const SALT_LEN: usize = 16;
/// What a piece of the index is longer than what is in it.
pub(crate) const PIECE_SEAL_LEN: usize = SALT_LEN + TAG_LEN;
/// What keys are for: none of one is one of another.
const FOR_DATA_KEY: &[u8] = b"outboard volume 1: data key";
const FOR_OBJECT: &[u8] = b"outboard volume 1: data object ";
const FOR_PIECE: &[u8] = b"outboard volume 1: index ";
/// Most bytes of a key file: its digits and the end of a line.
const FILE_MAX: u64 = 2 * KEY_LEN as u64 + 2;

/// The key of a user, for any number of volumes.
#[derive(Clone, PartialEq, Eq)]
pub struct VolumeKey([u8; KEY_LEN]);

/// Why a file is no key.
#[derive(Debug, thiserror::Error)]
pub enum VolumeKeyError {
    /// It cannot be read.
    #[error(transparent)]
    Io(#[from] std::io::Error),
    /// Others than its owner can read it.
    #[error("others of this machine can read it, and a key is for its owner alone")]
    Mode,
    /// Something else is in it.
    #[error("it is not one line of 64 hexadecimal digits, in lower case")]
    Digits,
}

/// What was sealed with another key or for another place, or was changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("it is not what was sealed with this key")]
pub(crate) struct SealError;

impl fmt::Debug for VolumeKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("VolumeKey")
    }
}

/// Random bytes of the kernel.
///
/// # Panics
/// It has none.
fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    let filled = SystemRandom::new().fill(&mut bytes);
    filled.expect("the kernel has random bytes");
    bytes
}

/// The key that HKDF makes of `prk` for `purpose`.
fn derived(prk: &Prk, purpose: &[&[u8]]) -> SealingKey {
    let key = prk.expand(purpose, &AES_256_GCM);
    let key = key.expect("a key is shorter than what HKDF makes");
    SealingKey(LessSafeKey::new(UnboundKey::from(key)))
}

impl VolumeKey {
    /// Another one each time.
    #[must_use]
    pub fn random() -> Self {
        Self(random())
    }

    /// Reads a key file.
    ///
    /// # Errors
    /// There is none, others can read it, or it has something else.
    pub fn read(path: &Path) -> Result<Self, VolumeKeyError> {
        let found = std::fs::metadata(path)?;
        if found.permissions().mode() & 0o077 != 0 {
            return Err(VolumeKeyError::Mode);
        }
        if found.len() > FILE_MAX {
            return Err(VolumeKeyError::Digits);
        }
        let text = std::fs::read_to_string(path)?;
        let digits = from_hex(text.strip_suffix('\n').unwrap_or(&text));
        digits.map(Self).ok_or(VolumeKeyError::Digits)
    }

    /// As the line of a key file, for a file that its owner alone can read.
    #[must_use]
    pub fn to_line(&self) -> String {
        format!("{}\n", hex(&self.0))
    }

    fn sealing_key(&self, volume: VolumeId) -> SealingKey {
        let prk = Salt::new(HKDF_SHA256, &volume.0).extract(&self.0);
        derived(&prk, &[FOR_DATA_KEY])
    }

    /// Seals the data key of a volume, with what else is in its header.
    pub(crate) fn seal(&self, key: &DataKey, volume: VolumeId, header: &[u8]) -> SealedKey {
        let mut sealed = key.bytes.to_vec();
        self.sealing_key(volume).seal(&mut sealed, 0, header);
        let sealed = sealed.try_into();
        SealedKey(sealed.expect("a key and its seal"))
    }

    /// The data key of a volume with this header.
    ///
    /// # Errors
    /// Another key sealed it, or the header was changed.
    pub(crate) fn open(
        &self,
        sealed: &SealedKey,
        volume: VolumeId,
        header: &[u8],
    ) -> Result<DataKey, SealError> {
        let mut bytes = [0; KEY_LEN];
        self.sealing_key(volume)
            .open(&sealed.0, header, &mut bytes)?;
        Ok(DataKey::new(bytes))
    }
}

/// The key of a volume's data.
#[derive(Clone)]
pub(crate) struct DataKey {
    bytes: [u8; KEY_LEN],
    prk: Prk,
}

impl fmt::Debug for DataKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DataKey")
    }
}

impl DataKey {
    fn new(bytes: [u8; KEY_LEN]) -> Self {
        // All of it is random: there is nothing to be extracted.
        let prk = Prk::new_less_safe(HKDF_SHA256, &bytes);
        Self { bytes, prk }
    }

    /// Another one each time.
    pub(crate) fn random() -> Self {
        Self::new(random())
    }

    /// The key of a data object: `identity` is its volume's id and its name.
    pub(crate) fn of_object(&self, identity: &str) -> SealingKey {
        derived(&self.prk, &[FOR_OBJECT, identity.as_bytes()])
    }

    /// A piece of the index, sealed.
    pub(crate) fn seal_piece(&self, data: &[u8]) -> Vec<u8> {
        let salt: [u8; SALT_LEN] = random();
        let mut sealed = Vec::with_capacity(data.len() + PIECE_SEAL_LEN);
        sealed.extend_from_slice(&salt);
        sealed.extend_from_slice(data);
        let key = derived(&self.prk, &[FOR_PIECE, &salt]);
        let tag = key.0.seal_in_place_separate_tag(
            Nonce::assume_unique_for_key([0; NONCE_LEN]),
            Aad::empty(),
            &mut sealed[SALT_LEN..],
        );
        sealed.extend_from_slice(tag.expect("a piece is in memory").as_ref());
        sealed
    }

    /// What is in a piece of the index.
    ///
    /// # Errors
    /// [`SealError`].
    pub(crate) fn open_piece(&self, sealed: &[u8]) -> Result<Vec<u8>, SealError> {
        let (salt, data) = sealed.split_first_chunk::<SALT_LEN>().ok_or(SealError)?;
        let (data, tag) = data.split_last_chunk::<TAG_LEN>().ok_or(SealError)?;
        let key = derived(&self.prk, &[FOR_PIECE, salt]);
        let mut data = data.to_vec();
        let opened = key.0.open_in_place_separate_tag(
            Nonce::assume_unique_for_key([0; NONCE_LEN]),
            Aad::empty(),
            Tag::from(*tag),
            &mut data,
            0..,
        );
        opened.map_err(|_| SealError)?;
        Ok(data)
    }
}

/// A key that seals with random nonces.
pub(crate) struct SealingKey(LessSafeKey);

impl SealingKey {
    /// Seals what `bytes` has from `from` on, in place: [`SEAL_LEN`] bytes more.
    pub(crate) fn seal(&self, bytes: &mut Vec<u8>, from: usize, with: &[u8]) {
        let nonce: [u8; NONCE_LEN] = random();
        let len = bytes.len();
        bytes.resize(len + NONCE_LEN, 0);
        bytes.copy_within(from..len, from + NONCE_LEN);
        bytes[from..from + NONCE_LEN].copy_from_slice(&nonce);
        let tag = self.0.seal_in_place_separate_tag(
            Nonce::assume_unique_for_key(nonce),
            Aad::from(with),
            &mut bytes[from + NONCE_LEN..],
        );
        bytes.extend_from_slice(tag.expect("a block is in memory").as_ref());
    }

    /// Writes what was sealed into `into`, which is as long.
    ///
    /// # Errors
    /// [`SealError`].
    pub(crate) fn open(
        &self,
        sealed: &[u8],
        with: &[u8],
        into: &mut [u8],
    ) -> Result<(), SealError> {
        let (nonce, data) = sealed.split_first_chunk::<NONCE_LEN>().ok_or(SealError)?;
        let (data, tag) = data.split_last_chunk::<TAG_LEN>().ok_or(SealError)?;
        if data.len() != into.len() {
            return Err(SealError);
        }
        into.copy_from_slice(data);
        let opened = self.0.open_in_place_separate_tag(
            Nonce::assume_unique_for_key(*nonce),
            Aad::from(with),
            Tag::from(*tag),
            into,
            0..,
        );
        opened.map(drop).map_err(|_| SealError)
    }
}

const _: () = assert!(SEAL_LEN as usize == NONCE_LEN + TAG_LEN);
