//! Members that a power cut left with the level before: what they are, and their superblocks made those of the others.

use super::super::ArrayError;
use super::super::assembly::Assembly;
use super::super::format::{self, Changes, Form, Level, Role, Superblock, features};
use super::super::member::Member;
use super::{LevelForm, takeover, write_superblock};

/// What `member` says once it knows of the level that `fresh` has; `None`: it has that already, or is not one that it leads to.
pub(in crate::array) fn with_level(member: &Superblock, fresh: &Superblock) -> Option<Superblock> {
    if member.level == fresh.level || member.reshape.is_some() || fresh.reshape.is_some() {
        return None;
    }
    let number = usize::try_from(member.number).ok()?;
    let role = *fresh.roles.get(number)?;
    let is_behind = member.events.checked_add(1) == Some(fresh.events);
    let is_spare =
        (member.role, role) == (Role::Spare, Role::Spare) && member.events < fresh.events;
    let after = takeover(LevelForm::of(member), fresh.level).ok()?;
    if !(is_behind || is_spare) || after != LevelForm::of(fresh) {
        return None;
    }
    let mut known = Superblock {
        level: fresh.level,
        layout: fresh.layout,
        chunk: fresh.chunk,
        members: fresh.members,
        member_size: fresh.member_size,
        roles: fresh.roles.clone(),
        role,
        ..member.clone()
    };
    if fresh.level == Level::Raid0 {
        known.data.len = after.member_size;
    }
    known.features &= !features::RAID0_LAYOUT;
    if !fresh.keeps_ppl() {
        known.features &= !(features::PPL | features::MULTIPLE_PPLS);
        known.ppl = None;
    }
    if fresh.bitmap_at.is_none() {
        known.features &= !features::BITMAP;
        known.bitmap_at = None;
    }
    if matches!(role, Role::Active(_)) && member.role != role {
        // It was a spare, and nothing was written to it as a member.
        known.rebuilt_to = Some(0);
        known.features |= features::RECOVERY_OFFSET;
    }
    Some(known)
}

/// Writes the level that the array has to members that a power cut left with the one before. They count the same events then.
pub(in crate::array) async fn finish(assembly: &mut Assembly) -> Result<(), ArrayError> {
    let events = assembly.events;
    let synced_to = assembly.synced_to;
    let parts = assembly.parts.iter_mut();
    let held = parts.filter_map(|part| part.member.as_mut());
    let others = assembly.others.iter_mut().map(|other| &mut other.member);
    for member in held.chain(others) {
        if level_on_disk(member).is_none_or(|level| level == member.superblock.level) {
            continue;
        }
        let known = member.superblock.clone();
        tracing::info!(
            "{} gets the level of the array, {}",
            member.name,
            known.level
        );
        let changes = Changes {
            events: Some(events),
            synced_to: Some(synced_to),
            roles: Some(&known.roles),
            members: Some(known.members),
            rebuilt_to: Some(known.rebuilt_to),
            bitmap_at: known.bitmap_at.is_none().then_some(None),
            form: Some(Form {
                level: known.level,
                layout: known.layout,
                chunk: known.chunk,
                data: known.data,
                member_size: known.member_size,
                drops_ppl: !known.keeps_ppl(),
                reshape: None,
            }),
            ..Changes::default()
        };
        write_superblock(member, &changes).await?;
        member.superblock.events = events;
    }
    Ok(())
}

/// The level that the superblock of a member has as it was read.
fn level_on_disk(member: &Member) -> Option<Level> {
    let decoded = format::decode(member.superblock.version, member.at, &member.bytes);
    decoded.ok().flatten().map(|found| found.level)
}
