//! Superblocks 1.0, 1.1 and 1.2: one structure at three places.

use block::Range;

use super::{
    Level, MAGIC, MEMBERS_MAX, Problem, Reshape, Role, SECTOR, Superblock, Version, bytes_of,
    features, fold_sum,
};
use crate::fields::Fields;

mod write;

pub(super) use self::write::{encode, len, patch};

/// Bytes before the roles.
pub(super) const FIXED_LEN: usize = 256;
/// Where the checksum is.
pub(super) const CHECKSUM_AT: usize = 216;
/// Seconds are the low 40 bits of a time.
const SECONDS: u64 = (1 << 40) - 1;
const WRITE_MOSTLY: u8 = 1;
const FAIL_FAST: u8 = 2;
/// Where the place of a bitmap or of a partial parity log is, of a superblock with neither: logs are made again once a reshape has ended. As a
/// log it would have 1 MiB, and no place. Without the features Linux reads the field as little as mdadm does, and both keep it (`super_1_validate` and
/// `super_1_sync` of drivers/md/md.c, super1.c); the bytes that are reserved, `pad0` and `pad3`, must be 0 (`super_1_load`).
const AWAITS_PPL: [u8; 4] = [0, 0, 0, 8];

/// Where the fields are that are both read and written.
mod field {
    pub(super) const FEATURES: usize = 8;
    pub(super) const ARRAY: usize = 16;
    pub(super) const NAME: usize = 32;
    pub(super) const CREATED: usize = 64;
    pub(super) const LEVEL: usize = 72;
    pub(super) const LAYOUT: usize = 76;
    pub(super) const SIZE: usize = 80;
    pub(super) const CHUNK: usize = 88;
    pub(super) const MEMBERS: usize = 92;
    pub(super) const BITMAP_AT: usize = 96;
    pub(super) const PPL_AT: usize = 96;
    pub(super) const PPL_LEN: usize = 98;
    pub(super) const RESHAPE_LEVEL: usize = 100;
    pub(super) const RESHAPE_AT: usize = 104;
    pub(super) const MEMBERS_ADDED: usize = 112;
    pub(super) const RESHAPE_LAYOUT: usize = 116;
    pub(super) const RESHAPE_CHUNK: usize = 120;
    pub(super) const DATA_MOVED: usize = 124;
    pub(super) const DATA_AT: usize = 128;
    pub(super) const DATA_LEN: usize = 136;
    pub(super) const PLACE: usize = 144;
    pub(super) const REBUILT_TO: usize = 152;
    pub(super) const NUMBER: usize = 160;
    pub(super) const CORRECTED: usize = 164;
    pub(super) const DEVICE: usize = 168;
    pub(super) const FLAGS: usize = 184;
    pub(super) const BAD_BLOCKS_SHIFT: usize = 185;
    pub(super) const BAD_BLOCKS_LEN: usize = 186;
    pub(super) const BAD_BLOCKS_AT: usize = 188;
    pub(super) const UPDATED: usize = 192;
    pub(super) const EVENTS: usize = 200;
    pub(super) const SYNCED_TO: usize = 208;
    pub(super) const ROLES: usize = 220;
}

/// The bytes of the superblock that begins `bytes`, by what it says of its roles.
fn whole(bytes: &[u8]) -> Result<Option<&[u8]>, Problem> {
    if bytes.len() < FIXED_LEN {
        return Ok(None);
    }
    let fields = Fields::of(bytes);
    if fields.u32(0) != MAGIC || fields.u32(4) != 1 {
        return Ok(None);
    }
    let count = fields.u32(field::ROLES);
    let problem = Problem::Field {
        field: "number of roles",
        value: count.into(),
    };
    if count > MEMBERS_MAX {
        return Err(problem);
    }
    let len = usize::try_from(count).map_err(|_| problem)? * 2 + FIXED_LEN;
    bytes.get(..len).map(Some).ok_or(problem)
}

/// The checksum of a superblock, independent of the one in it.
pub(super) fn checksum(superblock: &[u8]) -> u32 {
    let words = superblock.chunks(4).enumerate().map(|(index, word)| {
        if index == CHECKSUM_AT / 4 {
            return 0;
        }
        // An odd number of roles leaves two bytes behind the last word.
        let mut whole = [0; 4];
        whole[..word.len()].copy_from_slice(word);
        u32::from_le_bytes(whole)
    });
    fold_sum(words)
}

pub(super) fn decode(
    version: Version,
    at: u64,
    bytes: &[u8],
) -> Result<Option<Superblock>, Problem> {
    let Some(bytes) = whole(bytes)? else {
        return Ok(None);
    };
    let fields = Fields::of(bytes);
    let (stored, computed) = (fields.u32(CHECKSUM_AT), checksum(bytes));
    if stored != computed {
        return Err(Problem::Checksum { stored, computed });
    }
    let expected = bytes_of(fields.u64(field::PLACE), "place")?;
    if expected != at {
        return Err(Problem::Elsewhere { expected });
    }
    let members = fields.u32(field::MEMBERS);
    if members > MEMBERS_MAX {
        let field = "number of members";
        let value = members.into();
        return Err(Problem::Field { field, value });
    }
    let roles: Vec<Role> = (FIXED_LEN..bytes.len())
        .step_by(2)
        .map(|at| role(fields.u16(at)))
        .collect();
    let own = usize::try_from(fields.u32(field::NUMBER)).ok();
    let own = own.and_then(|number| roles.get(number));
    let bits = fields.u32(field::FEATURES);
    let level = Level::of(fields.i32(field::LEVEL));
    let found = Superblock {
        version,
        array: fields.bytes(field::ARRAY),
        name: name(&fields.bytes::<32>(field::NAME)),
        created: fields.u64(field::CREATED) & SECONDS,
        updated: fields.u64(field::UPDATED) & SECONDS,
        level,
        layout: fields.u32(field::LAYOUT),
        chunk: u64::from(fields.u32(field::CHUNK)) * SECTOR,
        members,
        member_size: bytes_of(fields.u64(field::SIZE), "size")?,
        data: data(fields)?,
        events: fields.u64(field::EVENTS),
        synced_to: synced_to(fields.u64(field::SYNCED_TO)),
        // The member with the journal has the tail of that there.
        rebuilt_to: (bits & features::RECOVERY_OFFSET != 0 && own != Some(&Role::Journal))
            .then(|| fields.u64(field::REBUILT_TO).saturating_mul(SECTOR)),
        device: Some(fields.bytes(field::DEVICE)),
        number: fields.u32(field::NUMBER),
        role: own.copied().unwrap_or(Role::Spare),
        roles,
        bitmap_at: bitmap_at(fields, at, bits),
        ppl: ppl(fields, at, bits),
        bad_blocks: bad_blocks(fields, at),
        bad_blocks_shift: fields.u8(field::BAD_BLOCKS_SHIFT),
        corrected: fields.u32(field::CORRECTED),
        features: bits,
        write_mostly: fields.u8(field::FLAGS) & WRITE_MOSTLY != 0,
        fail_fast: fields.u8(field::FLAGS) & FAIL_FAST != 0,
        reshape: (bits & features::RESHAPE != 0).then(|| reshape(fields, bits)),
    };
    Ok(Some(found))
}

/// Where a reader of the journal begins by the superblock of the member that keeps it, byte of the journal.
pub(super) fn journal_tail(bytes: &[u8]) -> u64 {
    let sectors = bytes.get(field::REBUILT_TO..field::REBUILT_TO + 8);
    sectors.map_or(0, |field| Fields::of(field).u64(0).saturating_mul(SECTOR))
}

/// Whether partial parity logs are to be made again once a reshape has ended.
pub(super) fn awaits_ppl(bytes: &[u8]) -> bool {
    if !matches!(whole(bytes), Ok(Some(_))) {
        return false;
    }
    let fields = Fields::of(bytes);
    let kept = features::BITMAP | features::PPL | features::MULTIPLE_PPLS | features::JOURNAL;
    fields.u32(field::FEATURES) & kept == 0
        && Level::of(fields.i32(field::LEVEL)) == Level::Raid5
        && fields.bytes(field::PPL_AT) == AWAITS_PPL
}

const fn role(number: u16) -> Role {
    match number {
        0xffff => Role::Spare,
        0xfffd => Role::Journal,
        0..=0xfeff => Role::Active(number),
        _ => Role::Faulty,
    }
}

fn name(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|byte| *byte == 0);
    String::from_utf8_lossy(&bytes[..end.unwrap_or(bytes.len())]).into_owned()
}

fn data(fields: Fields<'_>) -> Result<Range, Problem> {
    let offset = bytes_of(fields.u64(field::DATA_AT), "data offset")?;
    let len = bytes_of(fields.u64(field::DATA_LEN), "data size")?;
    if i64::try_from(offset + len).is_err() {
        let field = "end of data";
        let value = offset + len;
        return Err(Problem::Field { field, value });
    }
    Ok(Range::new(offset, len))
}

/// All ones: nothing is to be synced.
const fn synced_to(sectors: u64) -> Option<u64> {
    if sectors == u64::MAX {
        return None;
    }
    Some(sectors.saturating_mul(SECTOR))
}

/// `sectors` away from a superblock at byte `at`.
fn beside(at: u64, sectors: i32) -> Option<u64> {
    let distance = i64::from(sectors) * SECTOR.cast_signed();
    at.checked_add_signed(distance)
}

fn bitmap_at(fields: Fields<'_>, at: u64, bits: u32) -> Option<u64> {
    let has = bits & features::BITMAP != 0 && bits & (features::PPL | features::MULTIPLE_PPLS) == 0;
    beside(at, fields.i32(field::BITMAP_AT)).filter(|_| has)
}

/// Offset, signed, and length in sectors: where others have the offset of a bitmap.
fn ppl(fields: Fields<'_>, at: u64, bits: u32) -> Option<Range> {
    let has = bits & (features::PPL | features::MULTIPLE_PPLS) != 0;
    let offset = fields.u16(field::PPL_AT).cast_signed();
    let sectors = u64::from(fields.u16(field::PPL_LEN));
    let start = beside(at, offset.into()).filter(|_| has && offset != 0 && sectors != 0)?;
    Some(Range::new(start, sectors * SECTOR))
}

fn bad_blocks(fields: Fields<'_>, at: u64) -> Option<Range> {
    let (offset, sectors) = (
        fields.i32(field::BAD_BLOCKS_AT),
        fields.u16(field::BAD_BLOCKS_LEN),
    );
    let start = beside(at, offset).filter(|_| offset != 0 && sectors != 0)?;
    Some(Range::new(start, u64::from(sectors) * SECTOR))
}

fn reshape(fields: Fields<'_>, bits: u32) -> Reshape {
    let members_added = fields.i32(field::MEMBERS_ADDED);
    Reshape {
        position: fields.u64(field::RESHAPE_AT).saturating_mul(SECTOR),
        members_added,
        level: Level::of(fields.i32(field::RESHAPE_LEVEL)),
        layout: fields.u32(field::RESHAPE_LAYOUT),
        chunk: u64::from(fields.u32(field::RESHAPE_CHUNK)) * SECTOR,
        data_moved: match bits & features::NEW_OFFSET {
            0 => 0,
            _ => i64::from(fields.i32(field::DATA_MOVED)) * SECTOR.cast_signed(),
        },
        backwards: members_added < 0 || bits & features::RESHAPE_BACKWARDS != 0,
    }
}
