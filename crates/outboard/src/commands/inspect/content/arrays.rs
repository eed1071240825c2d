//! [`Array`]: what several members say together. Pure, but for the places it names.

use block::Range;
use nodes::array::format::{Level, Role, Superblock, layout_name};
use serde::Serialize;

use super::look::{Member, Place};
use super::{BitmapOf, Content, array_uuid};

/// An array, as far as the disks show it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Array {
    /// Its name, without the host's.
    pub(crate) name: String,
    /// Its UUID.
    pub(crate) uuid: String,
    /// The host that it was made for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) host: Option<String>,
    /// Kind of superblock.
    pub(crate) version: String,
    /// RAID level.
    pub(crate) level: String,
    /// How data and parity lie.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) layout: Option<String>,
    /// Chunk, bytes; 0 where there is none.
    pub(crate) chunk: u64,
    /// Bytes, where the superblocks tell.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) size: Option<u64>,
    /// Members of the complete array.
    pub(crate) parts: u32,
    /// Whether its data can be had from these disks.
    pub(crate) state: State,
    /// Whether nothing was being written.
    pub(crate) clean: bool,
    /// Changes of its state.
    pub(crate) events: u64,
    /// Chunk of its bitmap, bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) bitmap: Option<BitmapOf>,
    /// Members that were found.
    pub(crate) members: Vec<Seen>,
    /// Parts that no good member here holds.
    pub(crate) missing: Vec<Missing>,
    /// What it holds, where that can be seen.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) content: Option<Content>,
    /// What is not as it should be.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) remarks: Vec<String>,
}

/// Whether an array's data can be had.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum State {
    /// All parts are here.
    Complete,
    /// Some are not, and it can do without.
    Degraded,
    /// Too many are not.
    Incomplete,
}

/// A member that was found.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Seen {
    /// On which disk.
    pub(crate) disk: String,
    /// `0`, `spare`…
    pub(crate) role: String,
    /// How it stands.
    pub(crate) state: Standing,
    /// Its count of changes.
    pub(crate) events: u64,
    /// When its superblock was written, seconds since 1970.
    pub(crate) updated: u64,
}

/// How a member stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Standing {
    /// It holds its part.
    InSync,
    /// It is being rebuilt.
    Rebuilding,
    /// The array went on without it.
    Stale,
    /// It waits.
    Spare,
    /// The array says that it failed.
    Faulty,
    /// It keeps the journal.
    Journal,
}

/// A part that no good member here holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(crate) struct Missing {
    /// Which.
    pub(crate) part: u32,
    /// Whether the array was without it already, or it is only not among these disks.
    pub(crate) failed: bool,
}

/// A role in a word.
pub(crate) fn role(role: Role) -> String {
    match role {
        Role::Active(part) => part.to_string(),
        Role::Spare => "spare".to_owned(),
        Role::Faulty => "faulty".to_owned(),
        Role::Journal => "journal".to_owned(),
    }
}

/// Host and name.
fn name(superblock: &Superblock) -> (Option<String>, String) {
    match superblock.name.split_once(':') {
        Some((host, name)) => (Some(host.to_owned()), name.to_owned()),
        None => (None, superblock.name.clone()),
    }
}

/// Members by array, in the order in which they were seen.
fn sets(members: &[Member]) -> Vec<Vec<&Member>> {
    let mut sets: Vec<Vec<&Member>> = Vec::new();
    for member in members {
        let array = member.superblock.array;
        match sets.iter_mut().find(|set| set[0].superblock.array == array) {
            Some(set) => set.push(member),
            None => sets.push(vec![member]),
        }
    }
    sets
}

/// The member whose word counts: that with most changes, spares aside.
fn freshest<'a>(set: &[&'a Member]) -> &'a Member {
    let is_active = |m: &Member| matches!(m.superblock.role, Role::Active(_));
    let best = set.iter().rev().max_by_key(|member| {
        let superblock = &member.superblock;
        (is_active(member), superblock.events)
    });
    best.copied().expect("a set has members")
}

/// How `member` stands, by the word of `fresh`.
fn standing(member: &Superblock, fresh: &Superblock) -> Standing {
    let index = usize::try_from(member.number).ok();
    let told = index.and_then(|index| fresh.roles.get(index)).copied();
    // One event less is a superblock that was about to be written.
    let is_fresh = member.events.saturating_add(1) >= fresh.events;
    match (member.role, told.unwrap_or(Role::Faulty)) {
        (Role::Journal, _) => Standing::Journal,
        (Role::Spare, _) => Standing::Spare,
        (Role::Faulty, _) => Standing::Faulty,
        (Role::Active(_), Role::Active(_)) if is_fresh && member.rebuilt_to.is_some() => {
            Standing::Rebuilding
        }
        (Role::Active(own), Role::Active(told)) if is_fresh && own == told => Standing::InSync,
        (Role::Active(_), _) => Standing::Stale,
    }
}

/// Where the content of arrays can be looked at: mirrors, whose members hold all of it.
pub(super) fn places(members: &[Member]) -> Vec<Place> {
    let place = |set: Vec<&Member>| {
        let fresh = &freshest(&set).superblock;
        if fresh.level != Level::Raid1 || fresh.reshape.is_some() {
            return None;
        }
        let good = |m: &&&Member| standing(&m.superblock, fresh) == Standing::InSync;
        let member = set.iter().find(good)?;
        let data = member.superblock.data;
        let len = data.len.min(member.superblock.member_size);
        let range = Range::new(data.offset, len);
        let name = format!("md/{}", name(fresh).1);
        let key = array_uuid(&fresh.array);
        Place::made_of(name, key, &[(&member.place, range)])
    };
    sets(members).into_iter().filter_map(place).collect()
}

/// Puts arrays together; `inner` is what was seen in them.
pub(super) fn assemble(members: &[Member], inner: &[(String, Content)]) -> Vec<Array> {
    let sets = sets(members);
    sets.iter().map(|set| array(set, inner)).collect()
}

fn array(set: &[&Member], inner: &[(String, Content)]) -> Array {
    let fresh_member = freshest(set);
    let fresh = &fresh_member.superblock;
    let (host, name) = name(fresh);
    let stand = |member: &&Member| standing(&member.superblock, fresh);
    let held = |part: u32| {
        set.iter().any(|member| {
            let role = member.superblock.role;
            matches!(role, Role::Active(own) if u32::from(own) == part)
                && stand(member) == Standing::InSync
        })
    };
    let present: Vec<bool> = (0..fresh.members).map(held).collect();
    let missing = present.iter().zip(fresh.working()).zip(0..);
    let missing = missing.filter(|((present, _), _)| !**present);
    let missing: Vec<Missing> = missing
        .map(|((_, working), part)| Missing {
            part,
            failed: !working,
        })
        .collect();
    let uuid = array_uuid(&fresh.array);
    let content = inner.iter().find(|(found, _)| *found == uuid);
    let content = content.map(|(_, content)| content.clone());
    Array {
        name,
        uuid,
        host,
        version: fresh.version.to_string(),
        level: fresh.level.to_string(),
        layout: layout_name(fresh.level, fresh.layout),
        chunk: fresh.chunk,
        size: fresh.array_size(),
        parts: fresh.members,
        state: match missing.is_empty() {
            true => State::Complete,
            false if fresh.level.survives(fresh.layout, &present) => State::Degraded,
            false => State::Incomplete,
        },
        clean: fresh.synced_to.is_none(),
        events: fresh.events,
        bitmap: fresh_member.bitmap.clone(),
        members: set.iter().map(|member| seen(member, fresh)).collect(),
        missing,
        content,
        remarks: remarks(set, fresh),
    }
}

fn seen(member: &Member, fresh: &Superblock) -> Seen {
    Seen {
        disk: member.place.name.clone(),
        role: role(member.superblock.role),
        state: standing(&member.superblock, fresh),
        events: member.superblock.events,
        updated: member.superblock.updated,
    }
}

fn remarks(set: &[&Member], fresh: &Superblock) -> Vec<String> {
    let mut remarks = Vec::new();
    for member in set {
        let place = &member.place.name;
        let superblock = &member.superblock;
        if standing(superblock, fresh) == Standing::Stale {
            remarks.push(format!(
                "{place} is stale: it has seen {} changes, the array {}",
                superblock.events, fresh.events
            ));
        }
        let facts = |s: &Superblock| (s.level, s.layout, s.chunk);
        if facts(superblock) != facts(fresh) {
            remarks.push(format!("{place} has another level, layout or chunk"));
        }
    }
    for (index, member) in set.iter().enumerate() {
        for other in &set[index + 1..] {
            remarks.extend(between(member, other));
        }
    }
    if let Some(reshape) = &fresh.reshape {
        let level = reshape.level;
        remarks.push(format!("it was being reshaped into {level}, half done"));
    }
    if fresh.unknown_features() != 0 {
        let bits = fresh.unknown_features();
        remarks.push(format!("it has features that are not known: {bits:#x}"));
    }
    remarks
}

/// What two members contradict each other in.
fn between(one: &Member, other: &Member) -> Option<String> {
    let names = format!("{} and {}", one.place.name, other.place.name);
    let (a, b) = (&one.superblock, &other.superblock);
    if a.number == b.number && a.device == b.device {
        return Some(format!("{names} are the same member: one is a copy"));
    }
    let disowns = |a: &Superblock, b: &Superblock| {
        let index = usize::try_from(b.number).ok();
        let told = index.and_then(|index| a.roles.get(index));
        !matches!(told, Some(Role::Active(_)))
    };
    let both = [a, b].iter().all(|s| matches!(s.role, Role::Active(_)));
    (both && disowns(a, b) && disowns(b, a)).then(|| {
        format!("{names} each say that the other failed: both were written to, and they differ")
    })
}
