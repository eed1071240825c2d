//! [`IndexMeta`]: what the index records of itself: the volume that it is of, and its last writer.

use super::{META_KEY, VolumeId, crc32c};

const VERSION: u8 = 1;
const CHECKED_LEN: usize = 1 + 16 + 4;
const LEN: usize = CHECKED_LEN + 4;

/// What the index records of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct IndexMeta {
    /// The volume.
    pub(crate) id: VolumeId,
    /// The last writer that opened it, counted from 1.
    pub(crate) generation: u32,
}

/// A record that is not understood.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum MetaFormatError {
    /// Of another version.
    #[error("it has version {0}, and this program reads version {VERSION}")]
    Version(u8),
    /// Bytes that were not written so.
    #[error("its checksum does not match")]
    Checksum,
}

impl IndexMeta {
    /// As bytes.
    pub(crate) fn encode(self) -> Vec<u8> {
        let mut bytes = vec![VERSION];
        bytes.extend_from_slice(&self.id.0);
        bytes.extend_from_slice(&self.generation.to_le_bytes());
        let checksum = crc32c(&[META_KEY, &bytes]);
        bytes.extend_from_slice(&checksum.to_le_bytes());
        bytes
    }

    /// The record with these bytes.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, MetaFormatError> {
        match bytes.first() {
            Some(&VERSION) | None => {}
            Some(&other) => return Err(MetaFormatError::Version(other)),
        }
        let bytes: &[u8; LEN] = bytes.try_into().map_err(|_| MetaFormatError::Checksum)?;
        let (checked, checksum) = bytes.split_at(CHECKED_LEN);
        if crc32c(&[META_KEY, checked]).to_le_bytes() != checksum {
            return Err(MetaFormatError::Checksum);
        }
        let (mut id, mut generation) = ([0; 16], [0; 4]);
        id.copy_from_slice(&checked[1..17]);
        generation.copy_from_slice(&checked[17..]);
        Ok(Self {
            id: VolumeId(id),
            generation: u32::from_le_bytes(generation),
        })
    }
}
