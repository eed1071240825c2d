//! [`IndexMeta`]: what the index records of itself: the volume that it is of, its last writer, and the local journal that may have
//! changes which are not in the store.
//!
//! # Invariants
//!
//! * A record with a journal has version 2, so that a program which knows no journals refuses the volume and writes nothing.

use super::journal::{JournalId, JournalOpening, JournalPosition};
use super::{META_KEY, VolumeId, crc32c};

const VERSION: u8 = 1;
const JOURNAL_VERSION: u8 = 2;
const CHECKSUM_LEN: usize = 4;
/// Bytes of a name of a journal's host or path; longer ones are cut.
const NAME_MAX: usize = 1024;

/// What the index records of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct IndexMeta {
    /// The volume.
    pub(crate) id: VolumeId,
    /// The last writer that opened it, counted from 1.
    pub(crate) generation: u32,
    /// The journal that is open.
    pub(crate) journal: Option<JournalRecord>,
}

/// A local journal that may have changes which are not in the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct JournalRecord {
    /// Which.
    pub(crate) opening: JournalOpening,
    /// The first of its records that is not in the store.
    pub(crate) next: JournalPosition,
    /// Counts the requests of snapshots that the writer carried out in this opening.
    pub(crate) publishes: u64,
    /// The machine that has it.
    pub(crate) host: String,
    /// Where it is there.
    pub(crate) path: String,
}

/// A record that is not understood.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum MetaFormatError {
    /// Of another version.
    #[error(
        "it has version {0}, and this program reads the versions {VERSION} and {JOURNAL_VERSION}"
    )]
    Version(u8),
    /// Bytes that were not written so.
    #[error("its checksum does not match")]
    Checksum,
}

/// Reads values of the record, one behind the other.
struct Values<'a>(&'a [u8]);

impl<'a> Values<'a> {
    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (first, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*first)
    }

    fn name(&mut self) -> Option<String> {
        let len = u16::from_le_bytes(self.array()?);
        let (name, rest) = self.0.split_at_checked(usize::from(len))?;
        self.0 = rest;
        String::from_utf8(name.to_vec()).ok()
    }
}

fn push_name(bytes: &mut Vec<u8>, name: &str) {
    let mut len = name.len().min(NAME_MAX);
    while !name.is_char_boundary(len) {
        len -= 1;
    }
    let len_bytes = u16::try_from(len).expect("a name is cut").to_le_bytes();
    bytes.extend_from_slice(&len_bytes);
    bytes.extend_from_slice(&name.as_bytes()[..len]);
}

impl IndexMeta {
    /// As bytes.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let version = match self.journal {
            None => VERSION,
            Some(_) => JOURNAL_VERSION,
        };
        let mut bytes = vec![version];
        bytes.extend_from_slice(&self.id.0);
        bytes.extend_from_slice(&self.generation.to_le_bytes());
        if let Some(journal) = &self.journal {
            bytes.extend_from_slice(&journal.opening.id.0);
            bytes.extend_from_slice(&journal.opening.generation.to_le_bytes());
            bytes.extend_from_slice(&journal.next.sequence.to_le_bytes());
            bytes.extend_from_slice(&journal.next.block.to_le_bytes());
            bytes.extend_from_slice(&journal.publishes.to_le_bytes());
            push_name(&mut bytes, &journal.host);
            push_name(&mut bytes, &journal.path);
        }
        let checksum = crc32c(&[META_KEY, &bytes]);
        bytes.extend_from_slice(&checksum.to_le_bytes());
        bytes
    }

    /// The record with these bytes.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, MetaFormatError> {
        let has_journal = match bytes.first() {
            Some(&VERSION) | None => false,
            Some(&JOURNAL_VERSION) => true,
            Some(&other) => return Err(MetaFormatError::Version(other)),
        };
        let (checked, checksum) = bytes
            .split_last_chunk::<CHECKSUM_LEN>()
            .ok_or(MetaFormatError::Checksum)?;
        if crc32c(&[META_KEY, checked]).to_le_bytes() != *checksum {
            return Err(MetaFormatError::Checksum);
        }
        Self::parse(checked, has_journal).ok_or(MetaFormatError::Checksum)
    }

    fn parse(checked: &[u8], has_journal: bool) -> Option<Self> {
        let mut values = Values(checked.get(1..)?);
        let id = VolumeId(values.array()?);
        let generation = u32::from_le_bytes(values.array()?);
        let journal = match has_journal {
            true => Some(JournalRecord::parse(&mut values)?),
            false => None,
        };
        values.0.is_empty().then_some(Self {
            id,
            generation,
            journal,
        })
    }
}

impl JournalRecord {
    fn parse(values: &mut Values<'_>) -> Option<Self> {
        Some(Self {
            opening: JournalOpening {
                id: JournalId(values.array()?),
                generation: u32::from_le_bytes(values.array()?),
            },
            next: JournalPosition {
                sequence: u64::from_le_bytes(values.array()?),
                block: u64::from_le_bytes(values.array()?),
            },
            publishes: u64::from_le_bytes(values.array()?),
            host: values.name()?,
            path: values.name()?,
        })
    }
}
