//! Members that a power cut left with the level before: what they are, and their superblocks made those of the others.

use super::super::ArrayError;
use super::super::assembly::Assembly;
use super::super::format::{self, Changes, Form, Level, Role, Superblock, features};
use super::super::member::Member;
use super::{LevelForm, is_written, takeover, wipe_member, write_superblock};

/// What `member` says once it knows of the level that `fresh` has; `None`: it has that already, or is not one that it leads to.
pub(in crate::array) fn with_level(member: &Superblock, fresh: &Superblock) -> Option<Superblock> {
    if member.level == fresh.level || member.reshape.is_some() || fresh.reshape.is_some() {
        return None;
    }
    if !is_written(member.version) {
        return None;
    }
    let role = role_of(fresh, member.number)?;
    let role_of_fresh = role_of(member, fresh.number)?;
    let is_behind = member.events.checked_add(1) == Some(fresh.events);
    // Spares hold nothing: md lets them count fewer.
    let is_spare = member.role == Role::Spare && member.events < fresh.events;
    let parts = fresh.members;
    if !follows(member.role, role, parts) || !follows(role_of_fresh, fresh.role, parts) {
        // Each of them was used without the other.
        return None;
    }
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

fn role_of(superblock: &Superblock, number: u32) -> Option<Role> {
    superblock.roles.get(usize::try_from(number).ok()?).copied()
}

/// Whether a member of role `before` has role `after` once the array has another level, and so many `parts`.
fn follows(before: Role, after: Role, parts: u32) -> bool {
    match (before, after) {
        (Role::Active(part), Role::Spare | Role::Faulty) => u32::from(part) >= parts,
        (Role::Spare, Role::Active(part)) => u32::from(part) + 1 == parts,
        // Level 0 has no spares.
        (Role::Spare, Role::Faulty) => true,
        (before, after) => before == after,
    }
}

/// Whether a change to level 0 released the member: its superblock is removed.
fn is_released(superblock: &Superblock) -> bool {
    superblock.level == Level::Raid0 && !matches!(superblock.role, Role::Active(_))
}

/// Writes the level that the array has to members that a power cut left with the one before. They count the same events then.
pub(in crate::array) async fn finish(assembly: &mut Assembly) -> Result<(), ArrayError> {
    let events = assembly.events;
    let synced_to = assembly.synced_to;
    let mut released = Vec::new();
    for member in assembly.members_mut() {
        if level_on_disk(member).is_none_or(|level| level == member.superblock.level) {
            continue;
        }
        if is_released(&member.superblock) {
            released.push(member.name.clone());
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
    let is_left = |name: &String| released.contains(name);
    for other in assembly
        .others
        .iter()
        .filter(|other| is_left(&other.member.name))
    {
        tracing::info!("{} is released", other.member.name);
        wipe_member(&other.member).await?;
    }
    assembly.others.retain(|other| !is_left(&other.member.name));
    Ok(())
}

/// Has members that a power cut left one commit behind count what the others count, so that the next commit leaves none two behind.
pub(super) async fn catch_up(assembly: &mut Assembly) -> Result<(), ArrayError> {
    let (events, synced_to) = (assembly.events, assembly.synced_to);
    let parts = assembly.parts.iter();
    let holders = parts.filter_map(|part| part.member.as_ref());
    let fresh = holders.max_by_key(|member| member.superblock.events);
    let Some(roles) = fresh.map(|member| member.superblock.roles.clone()) else {
        return Ok(());
    };
    for member in assembly.members_mut() {
        if member.superblock.events == events {
            continue;
        }
        let changes = Changes {
            events: Some(events),
            synced_to: Some(synced_to),
            roles: Some(&roles),
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
