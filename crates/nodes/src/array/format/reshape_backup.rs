//! Backups of rows that a reshape writes over, by mdadm (`struct mdp_backup_super` of its Grow.c): in a file, or in the last bytes of new
//! members. Pure; little-endian.
//!
//! ```text
//! 0    16  "md_backup_data-1", or -2 with the second range
//! 16   16  UUID of the array, as the bytes of its superblock have it
//! 32    8  when it was written, seconds
//! 40    8  where the data are on the disk or in the file
//! 48   16  the first range of the array, sectors: start, length
//! 64    4  checksum of the bytes before
//! 72    8  where the data of the second range are, sectors behind those of the first
//! 80   16  the second range
//! 96    4  checksum of the bytes before
//! 128   8  "outboard" where that wrote it: mdadm has zeroes there, and reads nothing
//!
//! file         header │ 4 KiB │ data
//! new member   … header │ 4 KiB │ data │ header │ end of the bytes that the array uses
//! ```
//!
//! The checksum adds up the first byte again and again: it is the same for all that begin with `m`. mdadm counts it so.

use block::Range;

use super::{Problem, SECTOR, Superblock, Version};
use crate::fields::{Fields, put};

/// Bytes of a header.
pub(in crate::array) const LEN: usize = 512;
/// Bytes from a header to its data, and what the header behind these takes.
pub(in crate::array) const PLACE_LEN: u64 = 4096;
const MAGIC: &[u8; 15] = b"md_backup_data-";
/// What headers of our own have.
const MARK: &[u8; 8] = b"outboard";
/// Seconds by which a backup may be older than the superblocks of its array, and by which it may be younger, as mdadm has it.
const OLDER_MAX: u64 = 2 * 60 * 60;
const YOUNGER_MAX: u64 = 10 * 60;

/// Where the fields are.
mod field {
    pub(super) const ARRAY: usize = 16;
    pub(super) const WRITTEN: usize = 32;
    pub(super) const DATA_AT: usize = 40;
    pub(super) const START: usize = 48;
    pub(super) const LENGTH: usize = 56;
    pub(super) const CHECKSUM: usize = 64;
    pub(super) const SECOND_AT: usize = 72;
    pub(super) const SECOND_START: usize = 80;
    pub(super) const SECOND_LENGTH: usize = 88;
    pub(super) const SECOND_CHECKSUM: usize = 96;
    pub(super) const MARK: usize = 128;
}

/// What a header says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::array) struct ReshapeBackup {
    /// The array's UUID, as [`backup_uuid`] gives it.
    pub(in crate::array) array: [u8; 16],
    /// When it was written, seconds since 1970.
    pub(in crate::array) written: u64,
    /// Bytes of the array, with where they are.
    pub(in crate::array) first: SavedRange,
    /// Others, if there are any.
    pub(in crate::array) second: Option<SavedRange>,
    /// Whether outboard wrote it.
    pub(in crate::array) is_ours: bool,
}

/// Bytes of the array, and where a copy of them begins, byte of the disk or file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::array) struct SavedRange {
    pub(in crate::array) range: Range,
    pub(in crate::array) at: u64,
}

/// The UUID of the array of a superblock as backups have it: superblocks 0.90 have four numbers, in the order of the machine.
pub(in crate::array) fn backup_uuid(of: &Superblock) -> [u8; 16] {
    let mut uuid = of.array;
    if of.version == (Version::V0_90 { big_endian: false }) {
        uuid.chunks_exact_mut(4).for_each(<[u8]>::reverse);
    }
    uuid
}

/// Eight times what was counted, and the first byte, once for each byte before the checksum.
fn checksum(bytes: &[u8], len: usize) -> u32 {
    let first = u32::from(bytes[0]);
    (0..len).fold(0, |sum: u32, _| sum.wrapping_shl(3).wrapping_add(first))
}

impl ReshapeBackup {
    /// The header that `bytes` begin with; `None`: there is none.
    ///
    /// # Errors
    /// It is damaged, or a number in it cannot be.
    pub(in crate::array) fn decode(bytes: &[u8]) -> Result<Option<Self>, Problem> {
        let Some(bytes) = bytes.get(..LEN) else {
            return Ok(None);
        };
        let has_second = match bytes.strip_prefix(MAGIC).map(|rest| rest[0]) {
            Some(b'1') => false,
            Some(b'2') => true,
            _ => return Ok(None),
        };
        let fields = Fields::of(bytes);
        let sums = [
            (field::CHECKSUM, true),
            (field::SECOND_CHECKSUM, has_second),
        ];
        for (at, _) in sums.into_iter().filter(|(_, counts)| *counts) {
            let (stored, computed) = (fields.u32(at), checksum(bytes, at));
            if stored != computed {
                return Err(Problem::Checksum { stored, computed });
            }
        }
        let data_at = in_bytes(fields, field::DATA_AT, "place of the backup")?;
        let saved = |start, length, behind| {
            let offset = in_bytes(fields, start, "start of the backup")?;
            let len = in_bytes(fields, length, "length of the backup")?;
            let range = Range::new(offset, len);
            let at = data_at + behind;
            Ok(SavedRange { range, at })
        };
        let second_at = in_bytes(fields, field::SECOND_AT, "place of the second backup")?;
        let second = || saved(field::SECOND_START, field::SECOND_LENGTH, second_at);
        Ok(Some(Self {
            array: fields.bytes(field::ARRAY),
            written: fields.u64(field::WRITTEN),
            first: saved(field::START, field::LENGTH, 0)?,
            second: has_second.then(second).transpose()?,
            is_ours: fields.bytes(field::MARK) == *MARK,
        }))
    }

    /// The header, [`LEN`] bytes. Where it has a second range, that lies behind where the data of the first do.
    pub(in crate::array) fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![0; LEN];
        let b = bytes.as_mut_slice();
        let SavedRange { range, at } = self.first;
        b[..MAGIC.len()].copy_from_slice(MAGIC);
        b[MAGIC.len()] = if self.second.is_some() { b'2' } else { b'1' };
        put(b, field::ARRAY, self.array);
        put(b, field::WRITTEN, self.written.to_le_bytes());
        let put_bytes = |b: &mut [u8], to, bytes: u64| put(b, to, (bytes / SECTOR).to_le_bytes());
        put_bytes(b, field::DATA_AT, at);
        put_bytes(b, field::START, range.offset);
        put_bytes(b, field::LENGTH, range.len);
        let sum = checksum(b, field::CHECKSUM);
        put(b, field::CHECKSUM, sum.to_le_bytes());
        if let Some(second) = self.second {
            put_bytes(b, field::SECOND_AT, second.at - at);
            put_bytes(b, field::SECOND_START, second.range.offset);
            put_bytes(b, field::SECOND_LENGTH, second.range.len);
            let sum = checksum(b, field::SECOND_CHECKSUM);
            put(b, field::SECOND_CHECKSUM, sum.to_le_bytes());
        }
        if self.is_ours {
            put(b, field::MARK, *MARK);
        }
        bytes
    }

    /// A header that names no rows: nothing is being moved. `at`: where data will be.
    pub(in crate::array) const fn empty(array: [u8; 16], written: u64, at: u64) -> Self {
        let range = Range::new(0, 0);
        Self {
            array,
            written,
            first: SavedRange { range, at },
            second: None,
            is_ours: true,
        }
    }

    /// The ranges that it has, which are not empty.
    pub(in crate::array) fn ranges(&self) -> impl Iterator<Item = SavedRange> {
        let all = std::iter::once(self.first).chain(self.second);
        all.filter(|saved| !saved.range.is_empty())
    }

    /// Whether it may be of the reshape of an array with superblocks that were `updated` then, seconds since 1970.
    pub(in crate::array) const fn is_of(&self, updated: u64) -> bool {
        updated <= self.written.saturating_add(OLDER_MAX)
            && self.written <= updated.saturating_add(YOUNGER_MAX)
    }

    /// Where the bytes of the array from `position` on are, one range behind the other, as far as it has them.
    pub(in crate::array) fn from(&self, position: u64) -> Vec<SavedRange> {
        let mut found = Vec::new();
        let mut from = position;
        let has = |from: u64| {
            move |saved: &SavedRange| saved.range.offset <= from && from < saved.range.end()
        };
        while let Some(saved) = self.ranges().find(has(from)) {
            let range = Range::new(from, saved.range.end() - from);
            let at = saved.at + (from - saved.range.offset);
            found.push(SavedRange { range, at });
            from = range.end();
        }
        found
    }
}

/// A field with sectors, in bytes; places and lengths that are added up do not overflow.
fn in_bytes(fields: Fields<'_>, at: usize, field: &'static str) -> Result<u64, Problem> {
    let value = fields.u64(at);
    let bytes = value.checked_mul(SECTOR);
    let bytes = bytes.filter(|bytes| *bytes < 1 << 61);
    bytes.ok_or(Problem::Field { field, value })
}
