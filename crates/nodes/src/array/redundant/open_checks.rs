//! What is refused before an array is written: places that lie over each other, and what is not understood. Pure.

use block::Range;

use super::super::assembly::{Assembly, OtherKind};
use super::super::format::{Role, Superblock, features};
use super::super::member::Member;
use super::super::{ArrayError, ArrayOptions};
use super::bits::Bits;
use super::layout::Layout;
use super::open::{block_of, block_size, holders};
use super::placement::Places;
use super::row_section::RowSections;
use super::rows::NEXT_IN_PLACE;

/// Features of arrays that are not written, and what they are called.
const REFUSED: [(u32, &str); 3] = [
    (features::RESHAPE, "a reshape was going on"),
    (features::NEW_OFFSET, "its data is being moved"),
    (features::CLUSTERED, "several machines use it at once"),
];

/// Refuses to write what is not understood whole, or where it would lie on something else. Nothing is written of members that the array
/// went on without: their places are checked when they come back (`RedundantArray::refuse_misplaced`).
pub(super) fn refuse_writing(assembly: &Assembly) -> Result<(), ArrayError> {
    let block = block_size(assembly);
    let is_left_out =
        |kind: &OtherKind| matches!(kind, OtherKind::Stale { .. } | OtherKind::Failed);
    let others = assembly.others.iter();
    let others = others.filter(|other| !is_left_out(&other.kind));
    let others = others.map(|other| &other.member);
    let others = others.filter(|member| member.disk.geometry().block_size <= block);
    for member in holders(assembly).map(|(member, _)| member).chain(others) {
        let bitmap = |header| Bits::image_len(&header, block_of(block)) as u64;
        let places = Places {
            superblock: &placed_at_last(member, assembly),
            at: member.at,
            used: member.used(assembly.facts.member_size),
            bitmap: assembly.bitmap.map_or(0, bitmap),
            disk: member.disk.geometry().size,
            block: member.disk.geometry().block_size,
        };
        places.check(
            "the array is not written",
            &member.name,
            "open it read-only",
        )?;
    }
    for (member, _) in holders(assembly) {
        let mut understood = member.superblock.clone();
        if assembly.facts.reshape.is_some() {
            // Of a kind that is known, or it would not be there.
            understood.features &= !(features::RESHAPE | features::NEW_OFFSET);
        }
        if let Some(why) = not_understood(&understood) {
            return Err(ArrayError::refused(
                format!("the array is not written: {} says that {why}", member.name),
                "open it read-only",
            ));
        }
    }
    Ok(())
}

/// Refuses an array in the midst of a reshape of which it is not known where everything is, or of which that must be restored first.
pub(super) fn refuse_reshape(
    assembly: &Assembly,
    layout: &Layout,
    options: &ArrayOptions,
) -> Result<(), ArrayError> {
    let Some(reshape) = &assembly.facts.reshape else {
        return Ok(());
    };
    let is_in_place = layout.parity().is_some_and(RowSections::is_in_place);
    if is_in_place && options.read_only {
        return Err(ArrayError::refused(
            "a reshape was moving the array's rows to where they are, and some may be in its backup file alone: it is not read before these are restored",
            NEXT_IN_PLACE,
        ));
    }
    let is_critical = layout.parity().is_some_and(RowSections::is_critical);
    if is_critical && options.read_only {
        return Err(ArrayError::refused(
            "the array was stopped while the first rows of a reshape were moved, and is not read before these are restored",
            "open it for writing once: they are restored from the backup on its new members",
        ));
    }
    let block = u64::from(block_size(assembly));
    for (member, _) in holders(assembly) {
        let why = if member.superblock.data.offset < reshape.moved {
            "has no room in front of its data"
        } else if !reshape.moved.is_multiple_of(block) || !reshape.chunk.is_multiple_of(block) {
            "is one of disks with larger blocks"
        } else {
            continue;
        };
        return Err(ArrayError::refused(
            format!("the array was being reshaped, and {} {why}", member.name),
            "let mdadm finish that: `mdadm --assemble`",
        ));
    }
    Ok(())
}

/// What a member says, its data where they will be once a reshape has ended.
fn placed_at_last(member: &Member, assembly: &Assembly) -> Superblock {
    let of = &member.superblock;
    let moved = match (&assembly.facts.reshape, &of.role) {
        (Some(reshape), Role::Active(_)) => reshape.moved,
        _ => 0,
    };
    let start = of.data.offset.saturating_sub(moved);
    let data = Range::new(start, of.data.end() - start);
    // Partial parity logs were dropped when it began, also those of a member that a power cut left without knowing it.
    let ppl = of.ppl.filter(|_| assembly.facts.reshape.is_none());
    Superblock {
        data,
        ppl,
        ..of.clone()
    }
}

/// What a superblock says that nothing is written by; `None`: it is understood whole.
pub(in crate::array) fn not_understood(superblock: &Superblock) -> Option<String> {
    let known = REFUSED
        .iter()
        .find(|(bit, _)| superblock.features & bit != 0);
    match (known, superblock.unknown_features()) {
        (Some((_, why)), _) => Some((*why).to_owned()),
        (None, 0) => None,
        (None, unknown) => Some(format!("it uses unknown features {unknown:#x}")),
    }
}
