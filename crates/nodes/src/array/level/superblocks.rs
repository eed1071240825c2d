//! [`LevelChange`]: another level of an array, by superblocks that no engine writes meanwhile.
//!
//! # Invariants
//!
//! * All members are read and understood before the first is written.
//! * A superblock is written once: it has the old level or the new one, and counts one event more with the new one.
//! * Where one cannot be written, those that were get the old level back, with the events that they counted.
//! * The superblock of a member that is released is left to the caller, which removes it when all others have the new level.

use super::super::ArrayError;
use super::super::assembly::{Assembly, OtherKind};
use super::super::external_input::seconds;
use super::super::format::{Changes, Level, Role, features};
use super::super::member::Member;
use super::{LevelForm, catch_up, finish, refuse_version, takeover, write_bytes, write_superblock};

/// A level that an array is to have.
#[derive(Debug)]
pub(super) struct LevelChange {
    of: LevelForm,
    form: LevelForm,
}

/// What came of it.
#[derive(Debug)]
pub(super) struct WrittenLevel {
    /// Members that do not belong to the array any more, with their superblocks.
    pub(super) released: Vec<Member>,
    /// What members kept, and keep no more: the level has none.
    pub(super) dropped: Option<&'static str>,
    /// The superblocks of all others before.
    before: Vec<Vec<u8>>,
}

impl WrittenLevel {
    /// Members get the level back that they had before.
    pub(super) async fn undo(&self, assembly: &mut Assembly) {
        restore(assembly, &self.before).await;
    }
}

impl LevelChange {
    /// What it takes.
    ///
    /// # Errors
    /// The array does not become one of that level, is not at rest, or something is missing.
    pub(super) fn plan(assembly: &Assembly, level: Level) -> Result<Self, ArrayError> {
        let of = form_of(assembly)?;
        let form = takeover(of, level)?;
        refuse(assembly, &form)?;
        Ok(Self { of, form })
    }

    /// Writes superblocks, durably.
    ///
    /// # Errors
    /// One cannot be written: the others have the old level, or where that cannot be written either, the next open of the array for
    /// writing gives all of them one level.
    pub(super) async fn write(self, assembly: &mut Assembly) -> Result<WrittenLevel, ArrayError> {
        let Self { of, form } = self;
        let (from, level) = (of.level, form.level);
        // What a cut left is made whole before something else begins.
        finish(assembly).await?;
        catch_up(assembly).await?;
        let released = match of.parts > form.parts {
            true => release(assembly),
            false => Vec::new(),
        };
        let drops_bitmap = level == Level::Raid0 && assembly.bitmap.is_some();
        let has_ppl = |member: &Member| member.superblock.keeps_ppl();
        let drops_ppl = holders(assembly).any(has_ppl);
        let roles = roles(assembly, &released, form.parts);
        let events = assembly.events.checked_add(1);
        let events =
            events.ok_or_else(|| ArrayError::refused("the superblocks count no further", None))?;
        let before: Vec<Vec<u8>> = assembly.members_mut().map(|m| m.bytes.clone()).collect();
        for written in 0..before.len() {
            let Some(member) = assembly.members_mut().nth(written) else {
                break;
            };
            let changes = Changes {
                events: Some(events),
                updated: Some(seconds()),
                synced_to: Some(None),
                roles: Some(&roles),
                members: Some(form.parts),
                bitmap_at: drops_bitmap.then_some(None),
                form: Some(form.form(from, member.superblock.data)),
                ..Changes::default()
            };
            if let Err(error) = write_superblock(member, &changes).await {
                // Of the last one it is not known what it has.
                restore(assembly, &before[..=written]).await;
                return Err(error);
            }
        }
        Ok(WrittenLevel {
            released,
            dropped: match (drops_bitmap, drops_ppl) {
                (true, _) => Some("bitmap"),
                (_, true) => Some("partial parity logs"),
                _ => None,
            },
            before,
        })
    }
}

/// Writes superblocks as they were `before`, of the first members.
async fn restore(assembly: &mut Assembly, before: &[Vec<u8>]) {
    for (member, bytes) in assembly.members_mut().zip(before) {
        if let Err(error) = write_bytes(member, bytes.clone()).await {
            tracing::error!(
                "{error}: the next open of the array for writing gives all of its members one level"
            );
        }
    }
}

fn holders(assembly: &Assembly) -> impl Iterator<Item = &Member> {
    let parts = assembly.parts.iter();
    parts.filter_map(|part| part.member.as_ref())
}

/// The form that it has, where each member uses as much.
fn form_of(assembly: &Assembly) -> Result<LevelForm, ArrayError> {
    let form = LevelForm::of_all(holders(assembly).map(|member| &member.superblock));
    form.ok_or_else(|| {
        ArrayError::refused(
            "the members differ in size: only a stripe that uses as much of each changes its level",
            "make a new array and copy it",
        )
    })
}

/// Refuses what is not at rest, or keeps what the level cannot have.
fn refuse(assembly: &Assembly, form: &LevelForm) -> Result<(), ArrayError> {
    let refused = |what: String, next: &'static str| Err(ArrayError::refused(what, next));
    let facts = &assembly.facts;
    refuse_version(facts.version)?;
    if facts.reshape.is_some() || assembly.synced_to.is_some() {
        return refused(
            "the array was not stopped, or is to be resynced".to_owned(),
            "open it once and wait: outboard array wait",
        );
    }
    // A member with parity alone that leaves may be missing.
    let stays = usize::try_from(form.parts).unwrap_or(usize::MAX);
    for (number, part) in assembly.parts.iter().enumerate().take(stays) {
        if part.member.is_none() || part.rebuilt_to.is_some() {
            let what = format!("part {number} is missing, or is not rebuilt");
            return refused(what, "add a disk and wait until it is rebuilt");
        }
    }
    for other in &assembly.others {
        let name = &other.member.name;
        let what = match other.kind {
            OtherKind::Spare => continue,
            OtherKind::Journal => "keeps a journal, which knows one level alone",
            OtherKind::Replacement { .. } => "replaces another member",
            OtherKind::Stale { .. } | OtherKind::Failed => "is no member any more",
        };
        return refused(
            format!("{name} {what}"),
            "remove it first (remove), or leave it out",
        );
    }
    // What the bitmap says matters not: all members hold the same.
    let others = assembly.others.iter().map(|other| &other.member);
    for member in holders(assembly).chain(others) {
        let (name, disk) = (&member.name, member.disk.geometry());
        if disk.read_only {
            return refused(format!("{name} is read-only"), "open it for writing");
        }
        if member.superblock.features & features::JOURNAL != 0 {
            let next = "remove it first, with mdadm: --grow --consistency-policy=resync";
            return refused(format!("the array of {name} has a journal"), next);
        }
        if !member.bad.is_empty() {
            return refused(
                format!("{name} has bad blocks"),
                "replace it first (replace)",
            );
        }
        if !form.chunk.is_multiple_of(disk.block_size.max(1).into()) {
            let what = format!(
                "{name} has blocks larger than chunks of {} bytes",
                form.chunk
            );
            return refused(what, "make a new array and copy it");
        }
    }
    Ok(())
}

/// Takes members out of an array that keeps parity no more: the one with parity, and spares.
fn release(assembly: &mut Assembly) -> Vec<Member> {
    let last = assembly.parts.pop().and_then(|part| part.member);
    let others = std::mem::take(&mut assembly.others).into_iter();
    last.into_iter()
        .chain(others.map(|other| other.member))
        .collect()
}

/// The roles of all members by their numbers: those that were released have none, also where they are not here.
fn roles(assembly: &Assembly, released: &[Member], parts: u32) -> Vec<Role> {
    let fresh = holders(assembly).max_by_key(|member| member.superblock.events);
    let mut roles = fresh.map_or_else(Vec::new, |member| member.superblock.roles.clone());
    for member in released {
        let number = usize::try_from(member.superblock.number).unwrap_or(usize::MAX);
        if let Some(role) = roles.get_mut(number) {
            *role = Role::Faulty;
        }
    }
    for role in &mut roles {
        if matches!(role, Role::Active(part) if u32::from(*part) >= parts) {
            *role = Role::Faulty;
        }
    }
    roles
}
