//! The bytes of a cache file, version 1 (`docs/formats/cache.md`). Pure.
//!
//! ```text
//! byte 0      4096     8192     table              data
//!      header header   marks …  slots × 256 bytes  slots × 128 KiB
//!
//! header  512 bytes: "outbcach"  u32 version = 1  u32 state (0 in use, 1 dropped)  uuid[16]  u64 sequence
//!         u32 block = 4096  u32 granule = 131072  u64 region = 64 MiB  u64 size of the disk  u64 slots
//!         u16 length of the identity  identity[255]                           … u32 CRC-32C at byte 508
//! marks   512 bytes: one bit for each of 4032 regions, lowest bit first; u32 CRC-32C at byte 508
//! entry   256 bytes: u64 granule + 1 (0: no entry)  u32 valid blocks  u32 CRC-32C  u32 checksum[32]
//! ```
//!
//! All numbers are little-endian. The CRC of marks and entries begins with the uuid and the place, that of a
//! block with the uuid, the granule and the block's number in it: bytes of an earlier cache, or in another
//! place, match nothing.
//!
//! # Invariants
//!
//! * No bytes panic, and no field is used before its checksum matched.
//! * No entry and no mark spans two sectors.

use crc::{CRC_32_ISCSI, Crc, Table};

use crate::fields::{Fields, put};
use crate::zeroes::is_zero;

/// First bytes of a cache file.
const MAGIC: [u8; 8] = *b"outbcach";
/// The only version there is.
const VERSION: u32 = 1;
/// Bytes that are valid or not, and have a checksum.
pub(super) const BLOCK_LEN: usize = 4096;
/// The same, as an offset.
pub(super) const BLOCK: u64 = BLOCK_LEN as u64;
/// Bytes of a slot: what a fill reads.
pub(super) const GRANULE: u64 = 128 * 1024;
/// Blocks of a granule.
pub(super) const BLOCKS: u32 = 32;
/// Bytes of the disk that one mark covers.
pub(super) const REGION: u64 = 64 << 20;
/// Bytes of a sector: the unit that a medium writes whole.
pub(super) const SECTOR_LEN: usize = 512;
/// The same, as an offset.
pub(super) const SECTOR: u64 = SECTOR_LEN as u64;
/// Bytes of a header.
pub(super) const HEADER_LEN: usize = 512;
/// From one copy of the header to the other, bytes.
pub(super) const HEADER_STEP_LEN: usize = 4096;
/// The same, as an offset.
pub(super) const HEADER_STEP: u64 = HEADER_STEP_LEN as u64;
/// Copies of the header.
pub(super) const HEADERS: u64 = 2;
/// Where the marks begin.
pub(super) const MARKS_AT: u64 = HEADER_STEP * HEADERS;
/// Regions in a sector of marks.
pub(super) const MARKS_PER_SECTOR: u64 = 4032;
/// Bytes of an entry of the table.
pub(super) const ENTRY_LEN: usize = 256;
/// Bytes of the table that are written together.
pub(super) const PAGE_LEN: usize = 4096;
/// The same, as an offset.
pub(super) const TABLE_PAGE: u64 = PAGE_LEN as u64;
/// Entries of such a page.
pub(super) const ENTRIES_PER_PAGE: u64 = TABLE_PAGE / ENTRY_LEN as u64;
/// Fewest slots of a cache.
pub(super) const SLOTS_MIN: u64 = 8;
/// Largest disk, bytes: 64 TiB, a million regions.
pub(super) const DISK_MAX: u64 = 1 << 46;
/// Most slots: 4 TiB, and 6 GiB of memory.
const SLOTS_MAX: u64 = 1 << 25;
/// Where the CRC of a header and of a sector of marks is.
const CRC_AT: usize = 508;
/// Where the opening of the disk is: zeroes in files of programs that do not know it.
const OPENING_AT: usize = 336;
/// Longest identity, bytes.
pub(super) const IDENTITY_MAX: usize = 255;

/// Both as the header has them.
const BLOCK_FIELD: u32 = 4096;
const GRANULE_FIELD: u32 = BLOCK_FIELD * BLOCKS;

const CASTAGNOLI: Crc<u32, Table<16>> = Crc::<u32, Table<16>>::new(&CRC_32_ISCSI);

/// A random number that distinguishes a cache from every earlier one in the same file.
pub(super) type CacheId = [u8; 16];

/// Why the bytes of a file are refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CacheFormatError {
    /// Other bytes than those of a cache.
    #[error(
        "it is no cache file, and it is not empty: name another file; nothing of it was changed"
    )]
    NotACache,
    /// Another version.
    #[error("it is of version {0}, and only version {VERSION} is known; nothing of it was changed")]
    Version(u32),
    /// A field has an impossible value.
    #[error("its header is damaged: {0}; remove the file to start over")]
    Field(&'static str),
}

/// What a header states.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CacheHeader {
    /// Which cache.
    pub(super) id: CacheId,
    /// Its content must not be used.
    pub(super) is_dropped: bool,
    /// The header with the larger number is the newer one.
    pub(super) sequence: u64,
    /// Bytes of the disk.
    pub(super) disk_size: u64,
    /// Granules that the cache holds.
    pub(super) slots: u64,
    /// Identity of the disk; empty where it is unknown.
    pub(super) identity: String,
    /// The last opening of the disk that this is the cache of; 0 where they are not counted.
    pub(super) opening: u64,
}

/// Where everything is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CacheLayout {
    pub(super) disk_size: u64,
    pub(super) slots: u64,
}

impl CacheLayout {
    /// The layout of a cache of `disk_size` bytes in a file of at most `bytes`. `None`: there is no room for
    /// [`SLOTS_MIN`] slots, or the disk is too large.
    pub(super) fn within(disk_size: u64, bytes: u64) -> Option<Self> {
        if disk_size > DISK_MAX {
            return None;
        }
        let whole = disk_size.div_ceil(GRANULE).clamp(SLOTS_MIN, SLOTS_MAX);
        let layout = |slots| Self { disk_size, slots };
        // Rounding the table up costs less than one granule.
        let room = bytes.saturating_sub(layout(0).table_at());
        let mut slots = whole.min(room / (GRANULE + ENTRY_LEN as u64));
        while slots >= SLOTS_MIN && layout(slots).file_size() > bytes {
            slots -= 1;
        }
        (slots >= SLOTS_MIN).then(|| layout(slots))
    }

    pub(super) const fn regions(self) -> u64 {
        self.disk_size.div_ceil(REGION)
    }

    pub(super) const fn granules(self) -> u64 {
        self.disk_size.div_ceil(GRANULE)
    }

    /// Whether every granule has a slot: then each has its own, and none is ever evicted.
    pub(super) const fn is_whole(self) -> bool {
        self.slots >= self.granules()
    }

    pub(super) const fn mark_sectors(self) -> u64 {
        self.regions().div_ceil(MARKS_PER_SECTOR)
    }

    pub(super) const fn table_at(self) -> u64 {
        MARKS_AT + (self.mark_sectors() * SECTOR).next_multiple_of(TABLE_PAGE)
    }

    pub(super) const fn table_pages(self) -> u64 {
        self.slots.div_ceil(ENTRIES_PER_PAGE)
    }

    const fn data_at(self) -> u64 {
        (self.table_at() + self.table_pages() * TABLE_PAGE).next_multiple_of(BLOCK)
    }

    /// Where the data of a slot is.
    pub(super) fn slot_at(self, slot: u32) -> u64 {
        self.data_at() + u64::from(slot) * GRANULE
    }

    pub(super) const fn file_size(self) -> u64 {
        self.data_at() + self.slots * GRANULE
    }

    /// The blocks of `granule` that a cache may hold: whole ones. The last one of a disk may be short.
    pub(super) const fn whole_blocks(self, granule: u64) -> u32 {
        let left = self.disk_size.saturating_sub(granule * GRANULE);
        let count = left / BLOCK;
        if count >= BLOCKS as u64 {
            return u32::MAX;
        }
        (1 << count) - 1
    }
}

impl CacheHeader {
    pub(super) const fn layout(&self) -> CacheLayout {
        CacheLayout {
            disk_size: self.disk_size,
            slots: self.slots,
        }
    }

    /// Whether what was cached is so in this opening of the disk.
    pub(super) const fn is_followed_by(&self, opening: Option<u64>) -> bool {
        match opening {
            Some(opening) => self.opening.wrapping_add(1) == opening,
            None => self.opening == 0,
        }
    }

    /// The bytes of it.
    pub(super) fn encode(&self) -> [u8; HEADER_LEN] {
        let mut bytes = [0; HEADER_LEN];
        let identity = &self.identity.as_bytes()[..self.identity.len().min(IDENTITY_MAX)];
        put(&mut bytes, 0, MAGIC);
        put(&mut bytes, 8, VERSION.to_le_bytes());
        put(&mut bytes, 12, u32::from(self.is_dropped).to_le_bytes());
        put(&mut bytes, 16, self.id);
        put(&mut bytes, 32, self.sequence.to_le_bytes());
        put(&mut bytes, 40, BLOCK_FIELD.to_le_bytes());
        put(&mut bytes, 44, GRANULE_FIELD.to_le_bytes());
        put(&mut bytes, 48, REGION.to_le_bytes());
        put(&mut bytes, 56, self.disk_size.to_le_bytes());
        put(&mut bytes, 64, self.slots.to_le_bytes());
        let len = u8::try_from(identity.len()).unwrap_or(0);
        put(&mut bytes, 72, u16::from(len).to_le_bytes());
        bytes[74..74 + usize::from(len)].copy_from_slice(&identity[..len.into()]);
        put(&mut bytes, OPENING_AT, self.opening.to_le_bytes());
        let crc = CASTAGNOLI.checksum(&bytes[..CRC_AT]);
        put(&mut bytes, CRC_AT, crc.to_le_bytes());
        bytes
    }
}

/// What one copy of the header is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum HeaderCopy {
    /// Zeroes.
    Blank,
    /// A header that its checksum does not match: a write of it was torn.
    Torn,
    /// A header.
    Valid(CacheHeader),
}

/// Parses one copy of the header.
pub(super) fn parse_header(bytes: &[u8; HEADER_LEN]) -> Result<HeaderCopy, CacheFormatError> {
    if is_zero(bytes) {
        return Ok(HeaderCopy::Blank);
    }
    let fields = Fields::of(bytes);
    if fields.bytes::<8>(0) != MAGIC {
        return Err(CacheFormatError::NotACache);
    }
    if fields.u32(CRC_AT) != CASTAGNOLI.checksum(&bytes[..CRC_AT]) {
        return Ok(HeaderCopy::Torn);
    }
    if fields.u32(8) != VERSION {
        return Err(CacheFormatError::Version(fields.u32(8)));
    }
    let field = |is_right: bool, what| is_right.then_some(()).ok_or(CacheFormatError::Field(what));
    field(fields.u32(12) <= 1, "its state is unknown")?;
    field(
        fields.u32(40) == BLOCK_FIELD,
        "its blocks have another size",
    )?;
    field(
        fields.u32(44) == GRANULE_FIELD,
        "its granules have another size",
    )?;
    field(fields.u64(48) == REGION, "its regions have another size")?;
    let (disk_size, slots) = (fields.u64(56), fields.u64(64));
    field(disk_size <= DISK_MAX, "its disk is too large")?;
    field(
        (SLOTS_MIN..=SLOTS_MAX).contains(&slots),
        "its number of slots is impossible",
    )?;
    let len = usize::from(fields.u16(72));
    field(len <= IDENTITY_MAX, "its identity is too long")?;
    let identity = str::from_utf8(&bytes[74..74 + len]);
    let identity = identity.map_err(|_| CacheFormatError::Field("its identity is no text"))?;
    Ok(HeaderCopy::Valid(CacheHeader {
        id: fields.bytes(16),
        is_dropped: fields.u32(12) == 1,
        sequence: fields.u64(32),
        disk_size,
        slots,
        identity: identity.to_owned(),
        opening: fields.u64(OPENING_AT),
    }))
}

/// What both copies mean together: the newer one. `None`: the file holds nothing, or only what is left of a
/// cache that was being made.
pub(super) fn newest_header(
    copies: [&[u8; HEADER_LEN]; 2],
) -> Result<Option<CacheHeader>, CacheFormatError> {
    let parsed = copies.map(parse_header);
    let valid = parsed.iter().filter_map(|copy| match copy {
        Ok(HeaderCopy::Valid(header)) => Some(header),
        Ok(HeaderCopy::Blank | HeaderCopy::Torn) | Err(_) => None,
    });
    if let Some(newest) = valid.max_by_key(|header| header.sequence) {
        return Ok(Some(newest.clone()));
    }
    let refused = parsed.into_iter().find_map(Result::err);
    refused.map_or(Ok(None), Err)
}

fn crc_at(id: &CacheId, place: u64) -> crc::Digest<'static, u32, Table<16>> {
    static CRC: Crc<u32, Table<16>> = CASTAGNOLI;
    let mut digest = CRC.digest();
    digest.update(id);
    digest.update(&place.to_le_bytes());
    digest
}

/// The checksum of block `block` of `granule`.
pub(super) fn block_crc(id: &CacheId, granule: u64, block: u32, data: &[u8]) -> u32 {
    let mut digest = crc_at(id, granule);
    digest.update(&block.to_le_bytes());
    digest.update(data);
    digest.finalize()
}

/// What an entry of the table states of its slot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SlotEntry {
    pub(super) granule: u64,
    pub(super) valid: u32,
    pub(super) crcs: [u32; BLOCKS as usize],
}

/// The bytes of the entry of `slot`.
pub(super) fn encode_entry(id: &CacheId, slot: u32, entry: &SlotEntry) -> [u8; ENTRY_LEN] {
    let mut bytes = [0; ENTRY_LEN];
    put(&mut bytes, 0, (entry.granule + 1).to_le_bytes());
    put(&mut bytes, 8, entry.valid.to_le_bytes());
    for (crc, at) in entry.crcs.iter().zip((16..).step_by(4)) {
        put(&mut bytes, at, crc.to_le_bytes());
    }
    let crc = entry_crc(id, slot, &bytes);
    put(&mut bytes, 12, crc.to_le_bytes());
    bytes
}

fn entry_crc(id: &CacheId, slot: u32, bytes: &[u8; ENTRY_LEN]) -> u32 {
    let mut digest = crc_at(id, slot.into());
    digest.update(&bytes[..12]);
    digest.update(&bytes[16..]);
    digest.finalize()
}

/// The entry of `slot`; `None` where there is none, or its checksum does not match.
pub(super) fn parse_entry(id: &CacheId, slot: u32, bytes: &[u8; ENTRY_LEN]) -> Option<SlotEntry> {
    let fields = Fields::of(bytes);
    let granule = fields.u64(0).checked_sub(1)?;
    if fields.u32(12) != entry_crc(id, slot, bytes) {
        return None;
    }
    let mut crcs = [0; BLOCKS as usize];
    for (crc, at) in crcs.iter_mut().zip((16..).step_by(4)) {
        *crc = fields.u32(at);
    }
    Some(SlotEntry {
        granule,
        valid: fields.u32(8),
        crcs,
    })
}

/// A sector of marks.
pub(super) fn encode_marks(id: &CacheId, sector: u64, bits: &[bool]) -> [u8; SECTOR_LEN] {
    let mut bytes = [0; SECTOR_LEN];
    for (n, _) in bits.iter().enumerate().filter(|(_, bit)| **bit) {
        bytes[n / 8] |= 1 << (n % 8);
    }
    let crc = marks_crc(id, sector, &bytes);
    put(&mut bytes, CRC_AT, crc.to_le_bytes());
    bytes
}

fn marks_crc(id: &CacheId, sector: u64, bytes: &[u8; SECTOR_LEN]) -> u32 {
    let mut digest = crc_at(id, sector);
    digest.update(&bytes[..CRC_AT]);
    digest.finalize()
}

/// Which regions of a sector are marked: all of them where its checksum does not match.
pub(super) fn parse_marks(id: &CacheId, sector: u64, bytes: &[u8; SECTOR_LEN]) -> Vec<bool> {
    let is_intact = Fields::of(bytes).u32(CRC_AT) == marks_crc(id, sector, bytes);
    let bit = |n: u64| {
        let byte = bytes.get(usize::try_from(n / 8).unwrap_or(usize::MAX));
        byte.is_none_or(|byte| byte & (1 << (n % 8)) != 0)
    };
    (0..MARKS_PER_SECTOR)
        .map(|n| !is_intact || bit(n))
        .collect()
}
