//! Superblocks 1.0, 1.1 and 1.2: one structure at three places.

use block::Range;

use super::{
    Level, MAGIC, MEMBERS_MAX, Problem, Reshape, Role, SECTOR, Superblock, Version, bytes_of,
    features, fold_sum,
};
use crate::fields::Fields;

/// Bytes before the roles.
pub(super) const FIXED_LEN: usize = 256;
/// Where the checksum is.
pub(super) const CHECKSUM_AT: usize = 216;
/// Seconds are the low 40 bits of a time.
const SECONDS: u64 = (1 << 40) - 1;
const WRITE_MOSTLY: u8 = 1;
const FAIL_FAST: u8 = 2;

/// The bytes of the superblock that begins `bytes`, by what it says of its roles.
fn whole(bytes: &[u8]) -> Result<Option<&[u8]>, Problem> {
    if bytes.len() < FIXED_LEN {
        return Ok(None);
    }
    let fields = Fields::of(bytes);
    if fields.u32(0) != MAGIC || fields.u32(4) != 1 {
        return Ok(None);
    }
    let count = fields.u32(220);
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

/// The checksum of a superblock, whatever it has there.
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
    let expected = bytes_of(fields.u64(144), "place")?;
    if expected != at {
        return Err(Problem::Elsewhere { expected });
    }
    let members = fields.u32(92);
    if members > MEMBERS_MAX {
        let field = "number of members";
        let value = members.into();
        return Err(Problem::Field { field, value });
    }
    let roles: Vec<Role> = (FIXED_LEN..bytes.len())
        .step_by(2)
        .map(|at| role(fields.u16(at)))
        .collect();
    let own = usize::try_from(fields.u32(160)).ok();
    let own = own.and_then(|number| roles.get(number));
    let bits = fields.u32(8);
    let level = Level::of(fields.i32(72));
    let found = Superblock {
        version,
        array: fields.bytes(16),
        name: name(&fields.bytes::<32>(32)),
        created: fields.u64(64) & SECONDS,
        updated: fields.u64(192) & SECONDS,
        level,
        layout: fields.u32(76),
        chunk: u64::from(fields.u32(88)) * SECTOR,
        members,
        member_size: bytes_of(fields.u64(80), "size")?,
        data: data(fields)?,
        events: fields.u64(200),
        synced_to: synced_to(fields.u64(208)),
        rebuilt_to: (bits & features::RECOVERY_OFFSET != 0 && bits & features::JOURNAL == 0)
            .then(|| fields.u64(152).saturating_mul(SECTOR)),
        device: Some(fields.bytes(168)),
        number: fields.u32(160),
        role: own.copied().unwrap_or(Role::Spare),
        roles,
        bitmap_at: bitmap_at(fields, at, bits),
        bad_blocks: bad_blocks(fields, at),
        features: bits,
        write_mostly: fields.u8(184) & WRITE_MOSTLY != 0,
        fail_fast: fields.u8(184) & FAIL_FAST != 0,
        reshape: (bits & features::RESHAPE != 0).then(|| reshape(fields)),
    };
    Ok(Some(found))
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
    let offset = bytes_of(fields.u64(128), "data offset")?;
    let len = bytes_of(fields.u64(136), "data size")?;
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
    beside(at, fields.i32(96)).filter(|_| has)
}

fn bad_blocks(fields: Fields<'_>, at: u64) -> Option<Range> {
    let (offset, sectors) = (fields.i32(188), fields.u16(186));
    let start = beside(at, offset).filter(|_| offset != 0 && sectors != 0)?;
    Some(Range::new(start, u64::from(sectors) * SECTOR))
}

fn reshape(fields: Fields<'_>) -> Reshape {
    Reshape {
        position: fields.u64(104).saturating_mul(SECTOR),
        members_added: fields.i32(112),
        level: Level::of(fields.i32(100)),
        layout: fields.u32(116),
        chunk: u64::from(fields.u32(120)) * SECTOR,
    }
}
