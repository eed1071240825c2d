//! Whether enough members are here. Pure.

use super::{Membership, Picture, Rules, Witness};
use crate::array::ArrayError;
use crate::array::format::{Level, features};

/// Refuses an array with data that cannot be had, that lacks members which worked when it was used last, or of
/// which what was being written may be wrong.
pub(super) fn check(
    witnesses: &[Witness],
    picture: &Picture,
    rules: &Rules,
) -> Result<(), ArrayError> {
    let fresh = &witnesses[picture.freshest].superblock;
    let in_sync = picture.in_sync(fresh.members);
    let holders = picture.holders(fresh.members);
    let name = called(witnesses, picture);
    let absent: Vec<usize> = (0..holders.len())
        .filter(|&p| holders[p].is_none())
        .collect();
    if !fresh.level.survives(fresh.layout, &in_sync) {
        let here = in_sync.iter().filter(|held| **held).count();
        let what = format!(
            "array {name} ({}) needs more than the {here} of its {} members that are here{}",
            fresh.level,
            fresh.members,
            aside(witnesses, picture, rules)
        );
        return Err(ArrayError::refused(what, next_of_too_few(picture, rules)));
    }
    let working = fresh.working();
    let lost: Vec<String> = absent
        .iter()
        .filter(|&&part| working.get(part) == Some(&true))
        .map(ToString::to_string)
        .collect();
    if lost.len() > rules.missing && !rules.run {
        let (parts, worked) = match lost.as_slice() {
            [only] => (format!("part {only} is"), "it"),
            _ => (format!("parts {} are", lost.join(", ")), "they"),
        };
        return Err(ArrayError::refused(
            format!(
                "{parts} missing of array {name}, and {worked} worked when it was used last{}",
                aside(witnesses, picture, rules)
            ),
            "name all members, or add run=true to start without",
        ));
    }
    journal(witnesses, picture, rules, &in_sync)?;
    dirty_and_degraded(witnesses, picture, rules, &in_sync)
}

/// An array that lacks its journal is only read, as in Linux; where members are missing, too, parity may not fit what was being
/// written.
fn journal(
    witnesses: &[Witness],
    picture: &Picture,
    rules: &Rules,
    in_sync: &[bool],
) -> Result<(), ArrayError> {
    let fresh = &witnesses[picture.freshest].superblock;
    let memberships = picture.memberships.iter();
    let journals = memberships.filter(|membership| **membership == Membership::Journal);
    let name = called(witnesses, picture);
    let is_whole = in_sync.iter().all(|held| *held);
    match (fresh.features & features::JOURNAL != 0, journals.count()) {
        (false, 0) | (true, 1) => Ok(()),
        (true, 0) if rules.force_dirty_degraded || rules.read_only && is_whole => Ok(()),
        (true, 0) => {
            let next = match is_whole {
                true => {
                    "name the disk of the journal, too; or open the array read-only, without what only the journal has"
                }
                false => {
                    "name the disk of the journal, too, or add force-dirty-degraded=true to read what there is: what was \
                     being written may be wrong where it is computed from parity"
                }
            };
            let aside = aside(witnesses, picture, rules);
            Err(ArrayError::refused(
                format!("the journal of array {name} is missing{aside}"),
                next,
            ))
        }
        _ => Err(ArrayError::refused(
            format!("array {name} cannot have all of the journals that are here"),
            "name the one that belongs to the array as it is now",
        )),
    }
}

/// What was being written when RAID 4, 5 or 6 stopped may have parity that does not fit.
fn dirty_and_degraded(
    witnesses: &[Witness],
    picture: &Picture,
    rules: &Rules,
    in_sync: &[bool],
) -> Result<(), ArrayError> {
    let fresh = &witnesses[picture.freshest].superblock;
    let has_parity = matches!(fresh.level, Level::Raid4 | Level::Raid5 | Level::Raid6);
    // Where parity alone is missing, no data are computed. A reshape has two forms.
    let is_parity_alone = |part: u32| {
        let (layout, members) = (fresh.layout, fresh.members);
        fresh.reshape.is_none() && fresh.level.is_parity_alone(layout, members, part)
    };
    let mut parts = (0..).zip(in_sync);
    let whole = parts.all(|(part, held)| *held || is_parity_alone(part));
    if !has_parity || whole || fresh.synced_to.is_none() || rules.force_dirty_degraded {
        return Ok(());
    }
    // Where parity fits up to some place, a resync had not ended: no log says more.
    let has_log = fresh.keeps_ppl() && fresh.synced_to == Some(0);
    if has_log && !rules.read_only {
        // What its logs say decides, once they were read.
        return Ok(());
    }
    let next = match has_log {
        true => {
            "open it for writing once, which repairs parity from its partial parity logs, or add \
             force-dirty-degraded=true to read it all the same"
        }
        false => "name all members, or add force-dirty-degraded=true to read it all the same",
    };
    let name = called(witnesses, picture);
    Err(ArrayError::refused(
        format!(
            "array {name} ({}) was being written when it stopped, and members are missing: what was \
             written last may be wrong where it is computed from parity",
            fresh.level
        ),
        next,
    ))
}

/// The array's name for messages.
fn called(witnesses: &[Witness], picture: &Picture) -> String {
    let name = &witnesses[picture.freshest].superblock.name;
    name.split_once(':')
        .map_or(name.as_str(), |(_, name)| name)
        .to_owned()
}

/// What is reported of the members that are not used.
fn aside(witnesses: &[Witness], picture: &Picture, rules: &Rules) -> String {
    let mut told: Vec<String> = Vec::new();
    let fresh = &witnesses[picture.freshest].superblock;
    for (witness, membership) in witnesses.iter().zip(&picture.memberships) {
        let name = &witness.name;
        told.extend(match membership {
            Membership::Stale { .. } | Membership::Split { .. } => Some(format!(
                "{name} is stale: it has seen {} events, the array {}",
                witness.superblock.events, fresh.events
            )),
            Membership::Rebuilding { .. } => Some(format!("{name} is only partly rebuilt")),
            Membership::Failed => Some(format!("{name} has failed")),
            Membership::Spare => Some(format!("{name} is a spare")),
            Membership::Replacement { .. } => Some(format!("{name} only replaces another member")),
            Membership::InSync { .. } | Membership::Journal => None,
        });
    }
    let unreachable = rules.unreachable.iter();
    told.extend(unreachable.map(|name| format!("{name} cannot be reached")));
    match told.is_empty() {
        true => String::new(),
        false => format!(" ({})", told.join("; ")),
    }
}

fn next_of_too_few(picture: &Picture, rules: &Rules) -> &'static str {
    let stale = |membership: &Membership| matches!(membership, Membership::Stale { .. });
    if !rules.unreachable.is_empty() {
        return "see that the servers of the other members run";
    }
    if picture.memberships.iter().any(stale) {
        return "find the missing members; or decide for the data of one that is stale: prefer=MEMBER";
    }
    "name all its members: `outboard inspect DISK…` shows what is on each"
}
