//! What members contradict each other in. Pure.

use engine::clock::Calendar;

use super::picture::{lists, own_part};
use super::{Membership, Picture, Rules, Witness, layout_of};
use crate::array::ArrayError;
use crate::array::format::{Role, Superblock, Version};

/// Refuses members of different arrays.
pub(super) fn same_array(first: &Witness, other: &Witness) -> Result<(), ArrayError> {
    let (a, b) = (&first.superblock, &other.superblock);
    if a.array == b.array {
        return Ok(());
    }
    let called = |superblock: &Superblock| match superblock.version {
        Version::V0_90 { .. } => format!("array {}", uuid(&superblock.array)),
        _ => format!("array {} ({})", superblock.name, uuid(&superblock.array)),
    };
    Err(ArrayError::refused(
        format!(
            "{} belongs to {}, {} to {}",
            first.name,
            called(a),
            other.name,
            called(b)
        ),
        "name the members of one array",
    ))
}

/// md's way of writing a UUID.
fn uuid(bytes: &[u8; 16]) -> String {
    let words = bytes.chunks_exact(4).map(|word| {
        let bytes = word.iter().map(|byte| format!("{byte:02x}"));
        bytes.collect::<String>()
    });
    words.collect::<Vec<_>>().join(":")
}

/// Refuses a member that is there twice, be it a copy.
pub(super) fn no_copies(witnesses: &[Witness]) -> Result<(), ArrayError> {
    for (index, one) in witnesses.iter().enumerate() {
        for other in &witnesses[index + 1..] {
            let (a, b) = (&one.superblock, &other.superblock);
            // Superblocks 0.90 have no UUID of their own: one that was replaced has the same number.
            let same = match (a.device, b.device) {
                (Some(a), Some(b)) => a == b,
                _ => a.number == b.number && a.events == b.events && own_part(a).is_some(),
            };
            if same {
                let what = if one.name == other.name {
                    format!("{} is named twice", one.name)
                } else {
                    format!(
                        "{} and {} are the same member: one is a copy, or another way to the other",
                        one.name, other.name
                    )
                };
                return Err(ArrayError::refused(what, "name one of them"));
            }
        }
    }
    Ok(())
}

/// Refuses members that have another form than the freshest one. A spare with another one holds nothing: it has failed
/// ([`Membership::Failed`]). Nor does a stale member: the array went on without it, and got another form since.
pub(super) fn agreement(witnesses: &[Witness], picture: &Picture) -> Result<(), ArrayError> {
    let fresh = &witnesses[picture.freshest];
    let has_no_part = |one: &Witness, membership: &Membership| {
        let is_stale = matches!(membership, Membership::Stale { .. });
        let is_older = one.superblock.events < fresh.superblock.events;
        one.superblock.role == Role::Spare || is_stale && is_older
    };
    let all = witnesses.iter().zip(&picture.memberships);
    let holders = all.filter(|(one, membership)| !has_no_part(one, membership));
    for (other, _) in holders {
        if let Some(found) = FormDifference::of(&fresh.superblock, &other.superblock) {
            return Err(ArrayError::refused(
                found.between(fresh, other),
                "leave the one out that does not belong to the array as it is now",
            ));
        }
    }
    Ok(())
}

/// In what the forms of an array differ by two superblocks of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FormDifference {
    Level,
    Layout,
    Chunk,
    Reshape,
    MemberSize,
}

impl FormDifference {
    /// What differs first.
    pub(super) fn of(fresh: &Superblock, other: &Superblock) -> Option<Self> {
        let is_active = matches!(other.role, Role::Active(_));
        let moves_elsewhere = match (&fresh.reshape, &other.reshape) {
            (Some(a), Some(b)) => {
                (a.layout, a.chunk, a.members_added) != (b.layout, b.chunk, b.members_added)
                    || is_active && a.data_moved != b.data_moved
            }
            _ => false,
        };
        match () {
            () if fresh.level != other.level => Some(Self::Level),
            () if layout_of(fresh) != layout_of(other) => Some(Self::Layout),
            () if fresh.chunk != other.chunk => Some(Self::Chunk),
            () if moves_elsewhere => Some(Self::Reshape),
            () if fresh.member_size != other.member_size => Some(Self::MemberSize),
            () => None,
        }
    }

    /// The difference in words.
    fn between(self, fresh: &Witness, other: &Witness) -> String {
        let (a, b) = (&fresh.superblock, &other.superblock);
        let (one, two) = (&fresh.name, &other.name);
        match self {
            Self::Level => format!("by {one} the array is {}, by {two} {}", a.level, b.level),
            Self::Layout => format!(
                "by {one} the array has layout {:#x}, by {two} {:#x}",
                layout_of(a),
                layout_of(b)
            ),
            Self::Chunk => format!(
                "by {one} the array has chunks of {} bytes, by {two} of {}",
                a.chunk, b.chunk
            ),
            Self::Reshape => format!("{one} and {two} were being reshaped into different forms"),
            Self::MemberSize => format!(
                "by {one} the array uses {} bytes of each member, by {two} {}",
                a.member_size, b.member_size
            ),
        }
    }
}

/// Refuses two members that hold the same part by all superblocks.
pub(super) fn one_for_each_part(
    witnesses: &[Witness],
    picture: &Picture,
) -> Result<(), ArrayError> {
    let holds = || {
        let all = picture.memberships.iter().enumerate();
        all.filter_map(|(index, membership)| Some((index, membership.holds()?)))
    };
    for (one, part) in holds() {
        let Some((other, _)) = holds().find(|(other, held)| *other > one && *held == part) else {
            continue;
        };
        let (one, other) = (&witnesses[one].name, &witnesses[other].name);
        return Err(ArrayError::refused(
            format!("{one} and {other} both hold part {part}"),
            "leave one of them out",
        ));
    }
    Ok(())
}

/// Refuses members that were written each without the others, unless one side is preferred.
pub(super) fn no_split(
    witnesses: &[Witness],
    picture: &Picture,
    rules: &Rules,
) -> Result<(), ArrayError> {
    let is_split = |membership: &Membership| matches!(membership, Membership::Split { .. });
    let split: Vec<usize> = picture
        .memberships
        .iter()
        .enumerate()
        .filter(|(_, membership)| is_split(membership))
        .map(|(index, _)| index)
        .collect();
    if split.is_empty() || rules.prefer.is_some() {
        return Ok(());
    }
    let fresh = picture.freshest;
    let beside = |center: usize, index: usize| {
        let (a, b) = (&witnesses[center].superblock, &witnesses[index].superblock);
        index == center || (lists(a, b) && lists(b, a))
    };
    let other = split[0];
    let side = |center: usize| -> Vec<usize> {
        (0..witnesses.len())
            .filter(|&index| beside(center, index))
            .collect()
    };
    let (ours, theirs) = (side(fresh), side(other));
    let (one, two) = (&witnesses[fresh].name, &witnesses[other].name);
    Err(ArrayError::refused_with(
        format!(
            "the array was used in two ways, and they differ: {}; {}",
            story(witnesses, &ours),
            story(witnesses, &theirs)
        ),
        format!(
            "select the side to keep: prefer={one} or prefer={two}; the other side is then rebuilt, \
             and what only it has is lost (look at each alone first, read-only)"
        ),
    ))
}

/// What one side has seen.
fn story(witnesses: &[Witness], side: &[usize]) -> String {
    let names: Vec<&str> = side.iter().map(|&i| witnesses[i].name.as_str()).collect();
    let newest = side
        .iter()
        .map(|&index| &witnesses[index].superblock)
        .max_by_key(|superblock| superblock.events)
        .expect("a side has a member");
    format!(
        "{} without the rest ({} events, last written {})",
        names.join(" and "),
        newest.events,
        Calendar::of(newest.updated)
    )
}
