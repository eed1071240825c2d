//! [`join`]: the superblock of a disk that becomes a member of an array that is there. Pure.

use block::Range;

use super::places;
use crate::array::ArrayError;
use crate::array::format::bitmap::{self, Shape};
use crate::array::format::{PLACE_LEN, Role, Superblock, Version, features, numbers_max};

/// A disk that is to become a member.
#[derive(Debug, Clone, Copy)]
pub(in crate::array) struct Joining<'a> {
    /// What it is called in messages.
    pub(in crate::array) name: &'a str,
    /// Its size, bytes.
    pub(in crate::array) size: u64,
    /// Its smallest block, bytes.
    pub(in crate::array) block: u32,
    /// Its number: one that no member has.
    pub(in crate::array) number: u32,
    /// Its own UUID.
    pub(in crate::array) device: [u8; 16],
    /// Reads prefer others.
    pub(in crate::array) write_mostly: bool,
    /// Errors fail it at once.
    pub(in crate::array) fail_fast: bool,
}

/// The superblock of a disk as a spare of an array, and where: as `of`, a member that has its superblock at byte `at`, says
/// it, with data, bitmap and log at the same distances (Linux keeps one distance of the bitmap for all). `bits`:
/// how those of the array's bitmap lie.
///
/// # Errors
/// It is too small, or superblocks have no such number.
pub(in crate::array) fn join(
    of: &Superblock,
    at: u64,
    bits: Option<&Shape>,
    joining: &Joining<'_>,
) -> Result<(Superblock, u64), ArrayError> {
    let most = numbers_max(of.version);
    if usize::try_from(joining.number).is_ok_and(|number| number >= most) {
        let what = format!("superblocks {} have room for {most} members", of.version);
        return Err(ArrayError::refused(what, "remove one first"));
    }
    let disk = joining.size / 512 * 512;
    let needed = of.member_size.max(1);
    let too_small = || {
        let name = joining.name;
        let what = format!(
            "{name} is too small: it has {disk} bytes, and {needed} of data and what belongs to them are needed"
        );
        ArrayError::refused(what, "use a larger one")
    };
    let place = places::superblock(of.version, disk).ok_or_else(too_small)?;
    let moved =
        |far: u64| place.checked_add_signed(far.cast_signed().wrapping_sub(at.cast_signed()));
    let bitmap_at = match of.bitmap_at {
        Some(far) => Some(moved(far).ok_or_else(too_small)?),
        None => None,
    };
    let log = of
        .bad_blocks
        .and_then(|log| Some(Range::new(moved(log.offset)?, log.len)));
    let ppl = match of.ppl {
        Some(log) => Some(Range::new(
            moved(log.offset).ok_or_else(too_small)?,
            log.len,
        )),
        None => None,
    };
    let data = match of.version {
        Version::V0_90 { .. } => Range::new(0, place),
        // What lies nearest behind the data ends them.
        Version::V1_0 => {
            let logs = [log, ppl].map(|log| Some(log?.offset));
            let ends = [bitmap_at, logs[0], logs[1], Some(place)];
            let end = ends.into_iter().flatten().min().unwrap_or(place);
            Range::new(of.data.offset, end.saturating_sub(of.data.offset))
        }
        Version::V1_1 | Version::V1_2 | Version::DmRaid => {
            Range::new(of.data.offset, disk.saturating_sub(of.data.offset))
        }
    };
    if data.len < needed {
        return Err(too_small());
    }
    let superblock = Superblock {
        ppl,
        ..spare(of, joining, data, bitmap_at, log)
    };
    if let Some(bits) = bits {
        let placed = bitmap::place(&superblock, place, bits, disk, joining.block);
        placed.map_err(|problem| {
            let name = joining.name;
            let what = format!("{name} cannot have the array's bitmap: {problem}");
            ArrayError::refused(what, "use a disk like the others")
        })?;
    }
    Ok((superblock, place))
}

fn spare(
    of: &Superblock,
    joining: &Joining<'_>,
    data: Range,
    bitmap_at: Option<u64>,
    log: Option<Range>,
) -> Superblock {
    let mut roles = of.roles.clone();
    let number = usize::try_from(joining.number).expect("numbers are small");
    if roles.len() <= number {
        roles.resize(number + 1, Role::Faulty);
    }
    roles[number] = Role::Spare;
    let own = features::RECOVERY_OFFSET | features::RECOVERY_BITMAP | features::BAD_BLOCKS;
    Superblock {
        data,
        device: of.device.map(|_| joining.device),
        number: joining.number,
        role: Role::Spare,
        roles,
        rebuilt_to: None,
        bitmap_at,
        bad_blocks: log.filter(|log| log.len <= PLACE_LEN),
        bad_blocks_shift: 0,
        corrected: 0,
        features: of.features & !own,
        write_mostly: joining.write_mostly,
        fail_fast: joining.fail_fast,
        ..of.clone()
    }
}
