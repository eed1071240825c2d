//! The superblock of device-mapper's `raid` targets, which LVM keeps in a volume of its own for each image. Pure.
//!
//! ```text
//! byte 0      superblock, 148 bytes; zeroes up to the end of its block
//! byte 4096   write-intent bitmap, as md has it, with a UUID of zeroes
//! ```
//!
//! It has no checksum, no UUID and no name: what belongs together is what LVM's metadata lists together. It is read as a
//! [`Superblock`], so that the engines of arrays need not know which of both formats a member has.
//!
//! # Invariants
//!
//! * No input panics; positions and counts are within [`IMAGES_MAX`].
//! * Unknown fields stay as they were read.
//!
//! # What it does not do
//!
//! It judges nothing: [`DmRaid::refusal`] says what must be refused when a volume is opened.

#[cfg(test)]
mod tests;

use block::Range;

use super::{Changes, Level, Problem, Role, SECTOR, Superblock, Version, bytes_of, features};
use crate::fields::{Fields, put};

/// Bytes of it that mean something.
pub const LEN: usize = 148;
/// Most images of a volume.
pub const IMAGES_MAX: usize = 253;
/// Where the bitmap is, byte of the metadata.
pub const BITMAP_AT: u64 = 4096;
const MAGIC: &[u8; 4] = b"DmRd";
/// No offset: all of it.
const ALL: u64 = u64::MAX;
/// The only compatible feature: fields behind byte 60 mean something.
const EXTENDED: u32 = 1;
/// Bits of the flags: a reshape, and one that goes backwards.
const RESHAPE_FLAGS: u32 = 3;
/// Words of the bit field of failed images, and where they are.
const FAILED_AT: [usize; 4] = [24, 120, 128, 136];

/// Where fields are.
mod field {
    pub(super) const COMPAT: usize = 4;
    pub(super) const IMAGES: usize = 8;
    pub(super) const POSITION: usize = 12;
    pub(super) const EVENTS: usize = 16;
    pub(super) const REBUILT_TO: usize = 32;
    pub(super) const SYNCED_TO: usize = 40;
    pub(super) const LEVEL: usize = 48;
    pub(super) const LAYOUT: usize = 52;
    pub(super) const CHUNK: usize = 56;
    pub(super) const FLAGS: usize = 60;
    pub(super) const RESHAPE_AT: usize = 64;
    pub(super) const NEW_LEVEL: usize = 72;
    pub(super) const NEW_LAYOUT: usize = 76;
    pub(super) const NEW_CHUNK: usize = 80;
    pub(super) const IMAGES_ADDED: usize = 84;
    pub(super) const ARRAY_SIZE: usize = 88;
    pub(super) const DATA_AT: usize = 96;
    pub(super) const NEW_DATA_AT: usize = 104;
    pub(super) const SIZE: usize = 112;
    pub(super) const INCOMPAT: usize = 144;
}

/// Which images have failed, by their positions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FailedImages([u64; 4]);

impl FailedImages {
    /// Whether the image at this position has failed. There is none behind [`IMAGES_MAX`].
    #[must_use]
    pub fn has(&self, position: usize) -> bool {
        let word = self.0.get(position / 64);
        word.is_some_and(|word| word & (1 << (position % 64)) != 0)
    }

    /// Whether any of the first `images` has failed.
    #[must_use]
    pub fn any(&self, images: usize) -> bool {
        (0..images).any(|position| self.has(position))
    }

    /// Records that the image at this position has failed, or has not.
    ///
    /// # Panics
    /// If there is no such position.
    pub fn put(&mut self, position: usize, failed: bool) {
        assert!(position < IMAGES_MAX, "position {position} of an image");
        let bit = 1 << (position % 64);
        let word = &mut self.0[position / 64];
        *word = if failed { *word | bit } else { *word & !bit };
    }
}

/// A reshape that was going on, or was requested.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NewForm {
    /// Level afterwards, md's number.
    pub level: i32,
    /// Layout afterwards.
    pub layout: u32,
    /// Chunk afterwards, bytes.
    pub chunk: u64,
    /// Images more (or fewer) afterwards.
    pub images_added: i32,
    /// Where data begins afterwards, byte of the image.
    pub data_at: u64,
}

/// What a superblock says. Offsets and sizes are bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DmRaid {
    /// Compatible features; 1 is the only one.
    pub compat: u32,
    /// Features that must be known; there are none.
    pub incompat: u32,
    /// Images of the volume.
    pub images: u32,
    /// The image's position.
    pub position: u32,
    /// Changes of the volume's state.
    pub events: u64,
    /// Images that have failed.
    pub failed: FailedImages,
    /// Up to where this image is rebuilt; `None`: all of it is.
    pub rebuilt_to: Option<u64>,
    /// Up to where the volume is in sync; `None`: all of it is.
    pub synced_to: Option<u64>,
    /// RAID level, md's number.
    pub level: i32,
    /// How data and parity lie, by the level's own numbers.
    pub layout: u32,
    /// Chunk; 0 for RAID 1.
    pub chunk: u64,
    /// Flags of a reshape.
    pub flags: u32,
    /// How far a reshape has come, bytes of the volume; `None`: there is none.
    pub reshape_at: Option<u64>,
    /// The form after a reshape; the present one where there is none.
    pub new: NewForm,
    /// Size of the volume; 0 in metadata from before kernel 4.8.
    pub array_size: u64,
    /// Where data begins, byte of the image.
    pub data_at: u64,
    /// Bytes of each image that are used; 0 in metadata from before kernel 4.8.
    pub image_size: u64,
}

/// Whether metadata was never written: LVM clears them when it makes an image.
#[must_use]
pub fn is_blank(bytes: &[u8]) -> bool {
    bytes.iter().take(LEN).all(|byte| *byte == 0)
}

/// `sectors` as bytes; `None`: all of it.
fn offset(sectors: u64, field: &'static str) -> Result<Option<u64>, Problem> {
    match sectors {
        ALL => Ok(None),
        sectors => bytes_of(sectors, field).map(Some),
    }
}

/// Bytes as sectors; `None`: all of it.
fn sectors(offset: Option<u64>) -> [u8; 8] {
    offset.map_or(ALL, |offset| offset / SECTOR).to_le_bytes()
}

/// Bytes of a chunk as sectors.
fn chunk_sectors(chunk: u64) -> u32 {
    u32::try_from(chunk / SECTOR).unwrap_or(u32::MAX)
}

impl DmRaid {
    /// Reads a superblock. `None`: there is none.
    ///
    /// # Errors
    /// [`Problem`]: a number in it cannot be.
    pub fn decode(bytes: &[u8]) -> Result<Option<Self>, Problem> {
        if bytes.len() < LEN || !bytes.starts_with(MAGIC) {
            return Ok(None);
        }
        let fields = Fields::of(bytes);
        let images = count(fields.u32(field::IMAGES), "number of images")?;
        let position = fields.u32(field::POSITION);
        count(position.saturating_add(1), "position")?;
        let compat = fields.u32(field::COMPAT);
        let mut failed = FailedImages::default();
        let known = if compat & EXTENDED == 0 { 1 } else { 4 };
        for (word, at) in failed.0.iter_mut().zip(FAILED_AT).take(known) {
            *word = fields.u64(at);
        }
        let plain = Self {
            compat,
            incompat: fields.u32(field::INCOMPAT),
            images,
            position,
            events: fields.u64(field::EVENTS),
            failed,
            rebuilt_to: offset(fields.u64(field::REBUILT_TO), "recovery offset")?,
            synced_to: offset(fields.u64(field::SYNCED_TO), "resync offset")?,
            level: fields.i32(field::LEVEL),
            layout: fields.u32(field::LAYOUT),
            chunk: u64::from(fields.u32(field::CHUNK)) * SECTOR,
            flags: 0,
            reshape_at: None,
            new: NewForm {
                level: fields.i32(field::LEVEL),
                layout: fields.u32(field::LAYOUT),
                chunk: u64::from(fields.u32(field::CHUNK)) * SECTOR,
                images_added: 0,
                data_at: 0,
            },
            array_size: 0,
            data_at: 0,
            image_size: 0,
        };
        if compat & EXTENDED == 0 {
            return Ok(Some(plain));
        }
        Ok(Some(Self {
            flags: fields.u32(field::FLAGS),
            reshape_at: offset(fields.u64(field::RESHAPE_AT), "reshape position")?,
            new: NewForm {
                level: fields.i32(field::NEW_LEVEL),
                layout: fields.u32(field::NEW_LAYOUT),
                chunk: u64::from(fields.u32(field::NEW_CHUNK)) * SECTOR,
                images_added: fields.i32(field::IMAGES_ADDED),
                data_at: bytes_of(fields.u64(field::NEW_DATA_AT), "new data offset")?,
            },
            array_size: bytes_of(fields.u64(field::ARRAY_SIZE), "array size")?,
            data_at: bytes_of(fields.u64(field::DATA_AT), "data offset")?,
            image_size: bytes_of(fields.u64(field::SIZE), "size")?,
            ..plain
        }))
    }

    /// The bytes of it. `before`: as it was read, zeroes for a new one; what is behind it stays.
    ///
    /// # Panics
    /// If there are fewer than [`LEN`] bytes.
    #[must_use]
    pub fn encode(&self, before: &[u8]) -> Vec<u8> {
        let mut bytes = before.to_vec();
        let b = bytes.as_mut_slice();
        put(b, 0, *MAGIC);
        put(b, field::COMPAT, self.compat.to_le_bytes());
        put(b, field::IMAGES, self.images.to_le_bytes());
        put(b, field::POSITION, self.position.to_le_bytes());
        put(b, field::EVENTS, self.events.to_le_bytes());
        put(b, field::REBUILT_TO, sectors(self.rebuilt_to));
        put(b, field::SYNCED_TO, sectors(self.synced_to));
        put(b, field::LEVEL, self.level.to_le_bytes());
        put(b, field::LAYOUT, self.layout.to_le_bytes());
        put(b, field::CHUNK, chunk_sectors(self.chunk).to_le_bytes());
        put(b, FAILED_AT[0], self.failed.0[0].to_le_bytes());
        put(b, field::INCOMPAT, self.incompat.to_le_bytes());
        if self.compat & EXTENDED == 0 {
            return bytes;
        }
        for (word, at) in self.failed.0.iter().zip(FAILED_AT).skip(1) {
            put(b, at, word.to_le_bytes());
        }
        put(b, field::FLAGS, self.flags.to_le_bytes());
        put(b, field::RESHAPE_AT, sectors(self.reshape_at));
        put(b, field::NEW_LEVEL, self.new.level.to_le_bytes());
        put(b, field::NEW_LAYOUT, self.new.layout.to_le_bytes());
        let chunk = chunk_sectors(self.new.chunk);
        put(b, field::NEW_CHUNK, chunk.to_le_bytes());
        put(b, field::IMAGES_ADDED, self.new.images_added.to_le_bytes());
        put(
            b,
            field::ARRAY_SIZE,
            (self.array_size / SECTOR).to_le_bytes(),
        );
        put(b, field::DATA_AT, (self.data_at / SECTOR).to_le_bytes());
        let data_at = self.new.data_at / SECTOR;
        put(b, field::NEW_DATA_AT, data_at.to_le_bytes());
        put(b, field::SIZE, (self.image_size / SECTOR).to_le_bytes());
        bytes
    }

    /// Whether it has the fields that kernels since 4.8 write.
    #[must_use]
    pub const fn is_extended(&self) -> bool {
        self.compat & EXTENDED != 0
    }

    /// Why a volume with this superblock is not opened; `None`: nothing in it is unknown.
    #[must_use]
    pub fn refusal(&self) -> Option<String> {
        if self.incompat != 0 {
            return Some(format!("it uses the unknown features {:#x}", self.incompat));
        }
        if self.compat & !EXTENDED != 0 {
            return Some(format!("it uses the unknown features {:#x}", self.compat));
        }
        let unknown = self.flags & !RESHAPE_FLAGS;
        if unknown != 0 {
            return Some(format!("it has the unknown flags {unknown:#x}"));
        }
        if self.flags != 0 {
            return Some("a reshape was going on".to_owned());
        }
        None
    }

    /// As the engines of arrays read it; data are where the image has them. What md has and this format has not is
    /// empty: UUIDs, names, times.
    #[must_use]
    pub fn superblock(&self) -> Superblock {
        let level = Level::of(self.level);
        let role = |position: usize| match self.failed.has(position) {
            true => Role::Faulty,
            false => Role::Active(u16::try_from(position).expect("images are few")),
        };
        let roles: Vec<Role> = (0..self.images as usize).map(role).collect();
        let own = roles.get(self.position as usize).copied();
        let has_bitmap = level != Level::Raid0;
        Superblock {
            version: Version::DmRaid,
            array: [0; 16],
            name: String::new(),
            created: 0,
            updated: 0,
            level,
            layout: self.layout,
            chunk: self.chunk,
            members: self.images,
            member_size: self.image_size,
            data: Range::new(self.data_at, self.image_size),
            events: self.events,
            synced_to: self.synced_to,
            rebuilt_to: self.rebuilt_to,
            device: None,
            number: self.position,
            role: own.unwrap_or(Role::Faulty),
            roles,
            bitmap_at: has_bitmap.then_some(BITMAP_AT),
            ppl: None,
            bad_blocks: None,
            bad_blocks_shift: 0,
            corrected: 0,
            features: if has_bitmap { features::BITMAP } else { 0 },
            write_mostly: false,
            fail_fast: false,
            reshape: None,
        }
    }

    /// That of an image that has seen nothing: of `images` of a level, the one at `position`.
    #[must_use]
    pub fn new(images: u32, position: u32, level: Level) -> Self {
        let level = level.number();
        Self {
            compat: EXTENDED,
            incompat: 0,
            images,
            position,
            events: 0,
            failed: FailedImages::default(),
            rebuilt_to: None,
            synced_to: Some(0),
            level,
            layout: 0,
            chunk: 0,
            flags: 0,
            reshape_at: None,
            new: NewForm {
                level,
                layout: 0,
                chunk: 0,
                images_added: 0,
                data_at: 0,
            },
            array_size: 0,
            data_at: 0,
            image_size: 0,
        }
    }

    /// The same with no other form to come.
    #[must_use]
    pub fn with_present_form(self) -> Self {
        let new = NewForm {
            level: self.level,
            layout: self.layout,
            chunk: self.chunk,
            images_added: 0,
            data_at: self.data_at,
        };
        Self { new, ..self }
    }

    /// That of a member which is described as the engines do.
    #[must_use]
    pub fn of(superblock: &Superblock) -> Self {
        let new = Self::new(superblock.members, superblock.number, superblock.level);
        let (layout, chunk) = (superblock.layout, superblock.chunk);
        let mut failed = FailedImages::default();
        for (position, role) in superblock.roles.iter().enumerate().take(IMAGES_MAX) {
            failed.put(position, !matches!(role, Role::Active(_)));
        }
        let own = Self {
            events: superblock.events,
            failed,
            rebuilt_to: superblock.rebuilt_to,
            synced_to: superblock.synced_to,
            layout,
            chunk,
            array_size: superblock.array_size().unwrap_or(0),
            data_at: superblock.data.offset,
            image_size: superblock.member_size,
            ..new
        };
        own.with_present_form()
    }
}

/// A number of images.
fn count(images: u32, field: &'static str) -> Result<u32, Problem> {
    let value = u64::from(images);
    if images == 0 || value > IMAGES_MAX as u64 {
        return Err(Problem::Field { field, value });
    }
    Ok(images)
}

/// Changes a superblock; all roles but active ones count as failed.
pub(super) fn patch(bytes: &[u8], changes: &Changes<'_>) -> Vec<u8> {
    let known = DmRaid::decode(bytes);
    let Ok(Some(mut own)) = known else {
        panic!("a superblock was read before it is changed");
    };
    if let Some(roles) = changes.roles {
        for (position, role) in roles.iter().enumerate() {
            own.failed.put(position, !matches!(role, Role::Active(_)));
        }
    }
    own.events = changes.events.unwrap_or(own.events);
    own.synced_to = changes.synced_to.unwrap_or(own.synced_to);
    own.rebuilt_to = changes.rebuilt_to.unwrap_or(own.rebuilt_to);
    own.position = changes.number.unwrap_or(own.position);
    own.images = changes.members.unwrap_or(own.images);
    own.encode(bytes)
}
