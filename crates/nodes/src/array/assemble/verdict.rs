//! [`Verdict`] of a set of members that makes an array. Pure.

use super::{Membership, Picture, Rules, UsedBitmap, Verdict, Witness};
use crate::array::assembly::{Facts, OtherKind};
use crate::array::format::features;

/// The holders.
pub(super) fn of(witnesses: &[Witness], picture: &Picture, facts: Facts, rules: &Rules) -> Verdict {
    let holders = picture.holders(facts.parts);
    let rebuilt_to = |index: usize| match picture.memberships[index] {
        Membership::Rebuilding { to, .. } => Some(to),
        _ => None,
    };
    let parts = holders
        .iter()
        .map(|holder| holder.map(|index| (index, rebuilt_to(index))))
        .collect();
    let has_none = |index: &usize| !holders.contains(&Some(*index));
    let others = (0..witnesses.len())
        .filter(has_none)
        .map(|index| (index, other(picture.memberships[index])))
        .collect();
    let mut remarks = remarks(witnesses, picture, rules);
    let bitmap = used_bitmap(witnesses, picture, &mut remarks);
    Verdict {
        facts,
        freshest: picture.freshest,
        parts,
        others,
        bitmap,
        remarks,
    }
}

/// What a member is that holds no part.
const fn other(membership: Membership) -> OtherKind {
    match membership {
        Membership::Spare => OtherKind::Spare,
        Membership::Replacement { part, to } => OtherKind::Replacement { part, to },
        Membership::Stale { part } => OtherKind::Stale {
            part,
            by_bitmap: false,
        },
        // One that would hold a part has one that the array does not have.
        Membership::InSync { .. }
        | Membership::Rebuilding { .. }
        | Membership::Failed
        | Membership::Split { .. } => OtherKind::Failed,
        Membership::Journal => OtherKind::Journal,
    }
}

fn remarks(witnesses: &[Witness], picture: &Picture, rules: &Rules) -> Vec<String> {
    let fresh = &witnesses[picture.freshest];
    let mut remarks = Vec::new();
    for (witness, membership) in witnesses.iter().zip(&picture.memberships) {
        let name = &witness.name;
        let seen = witness.superblock.events;
        remarks.extend(match membership {
            Membership::Stale { .. } => Some(format!(
                "{name} is stale: it has seen {seen} events, the array {}",
                fresh.superblock.events
            )),
            Membership::Split { .. } => Some(format!(
                "{name} is to be rebuilt completely: the side of {} is preferred",
                fresh.name
            )),
            Membership::Failed => Some(format!("{name} has failed")),
            _ => None,
        });
    }
    let has_journal = picture.memberships.contains(&Membership::Journal);
    if fresh.superblock.features & features::JOURNAL != 0 && !has_journal {
        remarks.push("the journal is missing: what only it has is not read".to_owned());
    }
    let unreachable = rules.unreachable.iter();
    remarks.extend(unreachable.map(|name| format!("{name} cannot be reached")));
    remarks
}

/// The freshest member's bitmap, if it can be used.
fn used_bitmap(
    witnesses: &[Witness],
    picture: &Picture,
    remarks: &mut Vec<String>,
) -> Option<UsedBitmap> {
    let fresh = &witnesses[picture.freshest];
    let mut without = |why: String| {
        let name = &fresh.name;
        remarks.push(format!("{name}: {why}; it is not used"));
        None
    };
    let found = match fresh.bitmap.as_ref()? {
        Ok(found) => found,
        Err(problem) => return without(problem.to_string()),
    };
    if let Err(problem) = found.shape(&fresh.superblock) {
        return without(problem.to_string());
    }
    Some(UsedBitmap {
        of: picture.freshest,
        stale: found.is_stale(fresh.superblock.events),
    })
}
