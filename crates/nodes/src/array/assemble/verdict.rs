//! [`Verdict`] of a set of members that makes an array. Pure.

use super::{Picture, Rules, Standing, UsedBitmap, Verdict, Witness};
use crate::array::assembly::{Facts, OtherKind};

/// The holders.
pub(super) fn of(witnesses: &[Witness], picture: &Picture, facts: Facts, rules: &Rules) -> Verdict {
    let holders = picture.holders(facts.parts);
    let rebuilt_to = |index: usize| match picture.standings[index] {
        Standing::Rebuilding { to, .. } => Some(to),
        _ => None,
    };
    let parts = holders
        .iter()
        .map(|holder| holder.map(|index| (index, rebuilt_to(index))))
        .collect();
    let has_none = |index: &usize| !holders.contains(&Some(*index));
    let others = (0..witnesses.len())
        .filter(has_none)
        .map(|index| (index, other(picture.standings[index])))
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
const fn other(standing: Standing) -> OtherKind {
    match standing {
        // It holds nothing that is relied on.
        Standing::Spare | Standing::Replacement { .. } => OtherKind::Spare,
        Standing::Stale { part } => OtherKind::Stale {
            part,
            by_bitmap: false,
        },
        // One that would hold a part has one that the array does not have.
        Standing::InSync { .. }
        | Standing::Rebuilding { .. }
        | Standing::Failed
        | Standing::Split { .. }
        | Standing::Journal => OtherKind::Failed,
    }
}

fn remarks(witnesses: &[Witness], picture: &Picture, rules: &Rules) -> Vec<String> {
    let fresh = &witnesses[picture.freshest];
    let mut remarks = Vec::new();
    for (witness, standing) in witnesses.iter().zip(&picture.standings) {
        let name = &witness.name;
        let seen = witness.superblock.events;
        remarks.extend(match standing {
            Standing::Stale { .. } => Some(format!(
                "{name} is stale: it has seen {seen} events, the array {}",
                fresh.superblock.events
            )),
            Standing::Split { .. } => Some(format!(
                "{name} is to be copied anew, all of it: the side of {} is preferred",
                fresh.name
            )),
            Standing::Failed => Some(format!("{name} has failed")),
            Standing::Replacement { .. } => Some(format!(
                "{name} was to take the place of another member and is not used"
            )),
            _ => None,
        });
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
