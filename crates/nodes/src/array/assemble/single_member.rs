//! What is wrong with one member by itself. Pure.

use super::{Rules, Witness, layout_of};
use crate::array::ArrayError;
use crate::array::format::bitmap;
use crate::array::format::ppl::PplSpace;
use crate::array::format::{Level, Role, Superblock, Version, features, layout_name, r5l};

/// Bits of features that are always refused, what they mean, and what to do.
const REFUSED: [(u32, &str, &str); 1] = [(
    features::CLUSTERED,
    "a cluster's",
    "several machines may write to it: use it on one of them",
)];

/// Refuses what cannot be opened, or not so.
pub(super) fn check(witness: &Witness, rules: &Rules) -> Result<(), ArrayError> {
    let superblock = &witness.superblock;
    let name = &witness.name;
    let unknown = superblock.unknown_features();
    if unknown != 0 {
        return Err(ArrayError::refused(
            format!("{name} has features that are not known here: {unknown:#x}"),
            "open it with the kernel that made it",
        ));
    }
    for (bit, what, next) in REFUSED {
        if superblock.features & bit != 0 {
            return Err(ArrayError::refused(
                format!("the array of {name} is {what}"),
                next,
            ));
        }
    }
    if let Some(why) = reshape_problem(superblock) {
        return Err(ArrayError::refused(
            format!("the array of {name} was being reshaped, half done, and {why}"),
            "let mdadm finish that: `mdadm --assemble`",
        ));
    }
    partial_parity(witness, rules)?;
    journal(witness)?;
    shape(witness)?;
    room(witness)?;
    bitmap(witness, rules)
}

/// Why a reshape is not one that is continued here; `None`: it is, or there is none.
fn reshape_problem(superblock: &Superblock) -> Option<&'static str> {
    let Some(reshape) = superblock.reshape else {
        let moves = features::RESHAPE | features::RESHAPE_BACKWARDS | features::NEW_OFFSET;
        return (superblock.features & moves != 0).then_some("does not say how");
    };
    let has_parity = matches!(superblock.level, Level::Raid4 | Level::Raid5 | Level::Raid6);
    let (before, after) = (reshape.parts_before(superblock.members), superblock.members);
    let fits = |layout, parts| facts_can_be(superblock.level, layout, parts);
    if !has_parity || reshape.level != superblock.level {
        Some("its level changes")
    } else if reshape.backwards || reshape.data_moved > 0 {
        Some("goes from its end to its beginning")
    } else if superblock.data.offset < reshape.data_moved.unsigned_abs() {
        Some("moves its data before the beginning of the disk")
    } else if superblock.keeps_ppl() || superblock.features & features::JOURNAL != 0 {
        Some("keeps a log of one form")
    } else if !fits(superblock.layout, before) || !fits(reshape.layout, after) {
        Some("has a form that cannot be")
    } else {
        let chunks = [superblock.chunk, reshape.chunk];
        let can_be = |chunk: &u64| chunk.is_power_of_two() && *chunk >= 512;
        (!chunks.iter().all(can_be)).then_some("has chunks that cannot be")
    }
}

/// A partial parity log that cannot be kept as it must be is refused for writing.
fn partial_parity(witness: &Witness, rules: &Rules) -> Result<(), ArrayError> {
    let superblock = &witness.superblock;
    if rules.read_only || !superblock.keeps_ppl() {
        return Ok(());
    }
    let why = if superblock.level != Level::Raid5 {
        "its level has none"
    } else if superblock.features & features::BITMAP != 0 {
        "it has a bitmap, too"
    } else if PplSpace::of(superblock).is_none() {
        "there is no room for it"
    } else {
        return Ok(());
    };
    Err(ArrayError::refused(
        format!(
            "{} keeps a partial parity log (PPL) that cannot be: {why}",
            witness.name
        ),
        "open it read-only",
    ))
}

/// A journal that Linux would not use, or that cannot be kept, is refused: it may hold the only copy of what was written last.
fn journal(witness: &Witness) -> Result<(), ArrayError> {
    let superblock = &witness.superblock;
    let has_journal = superblock.features & features::JOURNAL != 0;
    let logs = features::BITMAP | features::PPL | features::MULTIPLE_PPLS;
    let why = if !has_journal && superblock.role == Role::Journal {
        "its other members say that they have none"
    } else if !has_journal {
        return Ok(());
    } else if superblock.level.parities() == 0 {
        "its level has none"
    } else if superblock.features & logs != 0 {
        "it has a bitmap or partial parity logs, too"
    } else if !superblock.chunk.is_multiple_of(r5l::PAGE) {
        "its chunks are not made of pages of 4096 bytes"
    } else if usize::try_from(superblock.members).is_ok_and(|count| count > r5l::MEMBERS_MAX) {
        "it has too many members"
    } else {
        return Ok(());
    };
    Err(ArrayError::refused(
        format!("the array of {} cannot have a journal: {why}", witness.name),
        "assemble it with mdadm, and remove the journal there",
    ))
}

/// Level, layout, chunk and count of members.
fn shape(witness: &Witness) -> Result<(), ArrayError> {
    let Superblock {
        level,
        chunk,
        members,
        ..
    } = witness.superblock;
    let layout = layout_of(&witness.superblock);
    let of = format!("the array of {}", witness.name);
    let refused = |what: String, next: &'static str| Err(ArrayError::refused(what, next));
    match level {
        Level::Other(-100) => {
            let next = "assemble it with mdadm: containers are not opened here";
            return refused(format!("{} is of a container", witness.name), next);
        }
        Level::Other(_) => {
            return refused(format!("{of} is of {level}"), "use it with the kernel");
        }
        Level::Raid10 if layout >> 17 == 1 => {
            let next = "copy it with a kernel that has it";
            return refused(
                format!("{of} has the first variant of far sets, which is broken"),
                next,
            );
        }
        _ => {}
    }
    if !facts_can_be(level, layout, members) {
        let layout = layout_name(level, layout).unwrap_or_else(|| format!("layout {layout:#x}"));
        let next = "see `outboard inspect` for what the other disks say";
        return refused(
            format!("{of} cannot be {level} of {members} members, {layout}"),
            next,
        );
    }
    let needs_chunk = !matches!(level, Level::Raid1 | Level::Linear);
    if !chunk.is_multiple_of(512) || (needs_chunk && chunk == 0) {
        let next = "see `outboard inspect` for what the other disks say";
        return refused(format!("{of} has chunks of {chunk} bytes"), next);
    }
    Ok(())
}

/// Whether there is such an array at all.
fn facts_can_be(level: Level, layout: u32, members: u32) -> bool {
    let enough = match level {
        Level::Linear | Level::Raid0 | Level::Raid1 | Level::Raid10 => 1,
        Level::Raid4 | Level::Raid5 => 2,
        Level::Raid6 => 3,
        Level::Other(_) => return false,
    };
    let known = match level {
        Level::Raid5 => layout <= 5,
        Level::Raid6 => layout <= 5 || (8..=10).contains(&layout) || (16..=20).contains(&layout),
        Level::Raid0 => layout <= 2,
        Level::Raid10 => {
            let (near, far) = (layout & 0xff, layout >> 8 & 0xff);
            near > 0 && far > 0 && near * far <= members && matches!(layout >> 17, 0 | 2)
        }
        _ => true,
    };
    members >= enough && known
}

/// Whether the data are on the disk at all.
fn room(witness: &Witness) -> Result<(), ArrayError> {
    let Witness {
        name,
        size,
        superblock,
        ..
    } = witness;
    let next = "is it a copy that was cut short, or the wrong partition?";
    if !superblock.fits(*size) {
        let needs = superblock.data.offset.saturating_add(superblock.data.len);
        return Err(ArrayError::refused(
            format!("{name} has {size} bytes, its superblock records {needs}"),
            next,
        ));
    }
    let needs_room = !matches!(superblock.role, Role::Spare | Role::Journal);
    if superblock.member_size > superblock.data.len && needs_room {
        let (len, needs) = (superblock.data.len, superblock.member_size);
        return Err(ArrayError::refused(
            format!("{name} has room for {len} bytes of data, the array needs {needs}"),
            next,
        ));
    }
    Ok(())
}

/// A bitmap that cannot be kept as it must be is refused for writing.
fn bitmap(witness: &Witness, rules: &Rules) -> Result<(), ArrayError> {
    let name = &witness.name;
    if rules.read_only {
        return Ok(());
    }
    if witness.superblock.version == (Version::V0_90 { big_endian: true }) {
        return Err(ArrayError::refused(
            format!("{name} was made by a machine of the other byte order"),
            "open it read-only",
        ));
    }
    let is_kept = |version: u32| matches!(version, 3 | 4);
    match &witness.bitmap {
        Some(Ok(found)) if !is_kept(found.version) => {
            let problem = bitmap::Problem::Version(found.version);
            Err(ArrayError::refused(
                format!("{name}: {problem}"),
                "open it read-only, or take the bitmap away: `mdadm --grow --bitmap=none`",
            ))
        }
        _ => Ok(()),
    }
}
