//! [`Array`]: the array that several members form. [`nodes::array::Picture`], which also opens arrays, assigns the
//! members; the content of an array is read by opening it read-only.

use std::sync::Arc;

use indicatif::BinaryBytes;
use nodes::array::format::{Reshape, Role, Superblock, features, layout_name};
use nodes::array::{self, ArrayOptions, Candidate, Picture};
use serde::Serialize;

use crate::arrays::untrusted_report::UntrustedReport;

use super::scan::{ContentSource, Member, NamedNode};
use super::{BitmapOf, DiskContent, array_uuid};

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
    /// Bytes, if the superblocks have it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) size: Option<u64>,
    /// Members of the complete array.
    pub(crate) parts: u32,
    /// Whether its data can be had from these disks.
    pub(crate) state: ArrayCompleteness,
    /// Whether nothing was being written.
    pub(crate) clean: bool,
    /// Whether copies or parity may differ: a resync was interrupted, or is still to begin.
    pub(crate) resync_pending: bool,
    /// Changes of its state.
    pub(crate) events: u64,
    /// Chunk of its bitmap, bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) bitmap: Option<BitmapOf>,
    /// Whether members keep partial parity logs.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) ppl: bool,
    /// Whether it has a journal.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) journal: bool,
    /// Where it may be wrong if it is read by force: it was being written, and lacks members.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) untrusted: Option<UntrustedReport>,
    /// Members that were found.
    pub(crate) members: Vec<FoundMember>,
    /// Parts that no good member here holds.
    pub(crate) missing: Vec<MissingSlot>,
    /// What it holds, where that can be seen.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) content: Option<DiskContent>,
    /// What is not as it should be.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) remarks: Vec<String>,
}

/// Whether an array's data can be had.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum ArrayCompleteness {
    /// All parts are here.
    Complete,
    /// Some are not, and it can do without.
    Degraded,
    /// Too many are not.
    Incomplete,
}

/// A member that was found.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct FoundMember {
    /// On which disk.
    pub(crate) disk: String,
    /// Where that is among the disks that were named.
    #[serde(skip)]
    pub(crate) source: Option<ContentSource>,
    /// `0`, `spare`…
    pub(crate) role: String,
    /// How it stands.
    pub(crate) state: FoundMemberState,
    /// Its count of changes.
    pub(crate) events: u64,
    /// When its superblock was written, seconds since 1970.
    pub(crate) updated: u64,
}

/// How a member stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum FoundMemberState {
    /// It holds its part.
    InSync,
    /// It is being rebuilt.
    Rebuilding,
    /// The array went on without it.
    Stale,
    /// It was written without the others, and they without it.
    Split,
    /// It is to take the place of a member that still works.
    Replacement,
    /// It waits.
    Spare,
    /// The array says that it failed.
    Faulty,
    /// It keeps the journal.
    Journal,
}

/// A part that no good member here holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(crate) struct MissingSlot {
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

/// How a member stands, in a word.
const fn standing(standing: array::Membership) -> FoundMemberState {
    match standing {
        array::Membership::InSync { .. } => FoundMemberState::InSync,
        array::Membership::Rebuilding { .. } => FoundMemberState::Rebuilding,
        array::Membership::Replacement { .. } => FoundMemberState::Replacement,
        array::Membership::Stale { .. } => FoundMemberState::Stale,
        array::Membership::Split { .. } => FoundMemberState::Split,
        array::Membership::Spare => FoundMemberState::Spare,
        array::Membership::Failed => FoundMemberState::Faulty,
        array::Membership::Journal => FoundMemberState::Journal,
    }
}

/// How the members of a set stand to each other.
fn picture(set: &[&Member]) -> Picture {
    let superblocks: Vec<&Superblock> = set.iter().map(|member| &member.superblock).collect();
    Picture::of(&superblocks, None).expect("a set has members")
}

/// What became of opening an array.
#[derive(Debug)]
pub(crate) struct OpenedArray {
    /// The array's UUID.
    key: String,
    /// Where its content can be looked at; or why it cannot.
    place: Result<NamedNode, String>,
    /// Its size, if it is open.
    size: Option<u64>,
    /// Its superblocks or its bitmap say that members may differ.
    resync_pending: bool,
    /// It is refused; where it may be wrong if it is read by force.
    untrusted: Option<UntrustedReport>,
    remarks: Vec<String>,
    /// What was seen in it.
    content: Option<DiskContent>,
}

impl OpenedArray {
    /// Where its content is to be looked at.
    pub(super) fn place(&self) -> Option<NamedNode> {
        self.place.as_ref().ok().cloned()
    }

    /// Keeps what was seen.
    pub(super) fn holds(&mut self, content: DiskContent) {
        self.content = Some(content);
    }
}

/// Opens the arrays that are not in `known`, as far as possible: read-only, with the members that are available.
pub(super) async fn open(members: &[Member], known: &[OpenedArray]) -> Vec<OpenedArray> {
    let mut opened = Vec::new();
    for set in sets(members) {
        let key = array_uuid(&set[0].superblock.array);
        if !known.iter().any(|known| known.key == key) {
            opened.push(open_set(key, &set).await);
        }
    }
    opened
}

async fn open_set(key: String, set: &[&Member]) -> OpenedArray {
    let candidate =
        |member: &&Member| Candidate::local(&member.place.name, member.place.disk.clone());
    let options = ArrayOptions {
        read_only: true,
        run: true,
        background: false,
        ..ArrayOptions::default()
    };
    let candidates = || set.iter().map(candidate).collect();
    let opened = array::open(candidates(), options.clone()).await;
    let mut untrusted = None;
    if opened.is_err() {
        let options = ArrayOptions {
            force_dirty_degraded: true,
            ..options
        };
        if let Ok(forced) = array::open(candidates(), options).await {
            untrusted = forced.status().untrusted;
        }
    }
    let failed = |error: array::ArrayError| match error.next() {
        Some(next) => format!("{error}; {next}"),
        None => error.to_string(),
    };
    let fresh = &set[picture(set).freshest].superblock;
    let places: Vec<&NamedNode> = set.iter().map(|member| &member.place).collect();
    let called = format!("md/{}", name(fresh).1);
    let status = opened.as_ref().ok().map(|array| array.status());
    let remarks = opened
        .as_ref()
        .map_or_else(|_| Vec::new(), |array| array.remarks().to_vec());
    let place = opened
        .map(|array: Arc<array::Array>| NamedNode::over(called, &key, array, &places))
        .map_err(failed);
    OpenedArray {
        key,
        place,
        size: status.as_ref().map(|status| status.size),
        resync_pending: status.is_some_and(|status| status.resync_pending),
        untrusted: untrusted.as_ref().map(UntrustedReport::from),
        remarks,
        content: None,
    }
}

/// Puts arrays together; `opened` is what was seen in them.
pub(super) fn assemble(members: &[Member], opened: &[OpenedArray]) -> Vec<Array> {
    let sets = sets(members);
    sets.iter().map(|set| array(set, opened)).collect()
}

fn array(set: &[&Member], opened: &[OpenedArray]) -> Array {
    let picture = picture(set);
    let fresh = &set[picture.freshest].superblock;
    let (host, name) = name(fresh);
    let uuid = array_uuid(&fresh.array);
    let opened = opened.iter().find(|opened| opened.key == uuid);
    let present = picture.in_sync(fresh.members);
    let missing = present.iter().zip(fresh.working()).zip(0..);
    let missing = missing.filter(|((present, _), _)| !**present);
    let missing: Vec<MissingSlot> = missing
        .map(|((_, working), part)| MissingSlot {
            part,
            failed: !working,
        })
        .collect();
    let state = match missing.is_empty() {
        true => ArrayCompleteness::Complete,
        false if fresh.level.survives(fresh.layout, &present) => ArrayCompleteness::Degraded,
        false => ArrayCompleteness::Incomplete,
    };
    let members = set.iter().zip(&picture.memberships);
    let mut remarks = remarks(set, &picture, state, opened);
    remarks.extend(fresh.reshape.map(|reshape| reshaped(fresh, &reshape)));
    let untrusted = opened.and_then(|opened| opened.untrusted.as_ref());
    remarks.extend(
        untrusted.map(|places| format!("read by force, it may be wrong: {}", places.words())),
    );
    Array {
        name,
        uuid,
        host,
        version: fresh.version.to_string(),
        level: fresh.level.to_string(),
        layout: layout_name(fresh.level, fresh.layout),
        chunk: fresh.chunk,
        size: opened.and_then(|opened| opened.size).or(fresh.array_size()),
        parts: fresh.members,
        state,
        clean: fresh.synced_to.is_none(),
        resync_pending: opened.is_some_and(|opened| opened.resync_pending),
        events: fresh.events,
        bitmap: set[picture.freshest].bitmap.clone(),
        ppl: fresh.keeps_ppl(),
        journal: fresh.features & features::JOURNAL != 0,
        untrusted: opened.and_then(|opened| opened.untrusted.clone()),
        members: members
            .map(|(member, stands)| seen(member, *stands))
            .collect(),
        missing,
        content: opened.and_then(|opened| opened.content.clone()),
        remarks,
    }
}

fn seen(member: &Member, stands: array::Membership) -> FoundMember {
    FoundMember {
        disk: member.place.name.clone(),
        source: member.place.source.clone(),
        role: role(member.superblock.role),
        state: standing(stands),
        events: member.superblock.events,
        updated: member.superblock.updated,
    }
}

/// What a reshape that was going on changes, and how far it has come.
fn reshaped(fresh: &Superblock, reshape: &Reshape) -> String {
    let layout = |layout| layout_name(fresh.level, layout).unwrap_or_default();
    let chunk = |chunk| BinaryBytes(chunk).to_string();
    let changes = [
        (
            "members",
            reshape.parts_before(fresh.members).to_string(),
            fresh.members.to_string(),
        ),
        ("layout", layout(fresh.layout), layout(reshape.layout)),
        ("chunk", chunk(fresh.chunk), chunk(reshape.chunk)),
    ];
    let changes = changes.into_iter().filter(|(_, from, to)| from != to);
    let changes = changes.map(|(what, from, to)| format!("{what} from {from} to {to}"));
    let changes: Vec<String> = changes.collect();
    let position = BinaryBytes(reshape.position);
    format!(
        "a reshape was going on ({}), and had come to {position}",
        changes.join(", ")
    )
}

/// The remarks of the opened array, or why it cannot be opened. That too few members are available is part of its
/// state instead.
fn remarks(
    set: &[&Member],
    picture: &Picture,
    state: ArrayCompleteness,
    opened: Option<&OpenedArray>,
) -> Vec<String> {
    let Some(opened) = opened else {
        return Vec::new();
    };
    let Err(why) = &opened.place else {
        return opened.remarks.clone();
    };
    let events = set[picture.freshest].superblock.events;
    let stale = set
        .iter()
        .zip(&picture.memberships)
        .filter_map(|(member, stands)| {
            let (name, own) = (&member.place.name, member.superblock.events);
            matches!(stands, array::Membership::Stale { .. })
                .then(|| format!("{name} is stale: it has seen {own} events, the array {events}"))
        });
    let mut remarks: Vec<String> = stale.collect();
    if state != ArrayCompleteness::Incomplete {
        remarks.push(format!("it cannot be opened: {why}"));
    }
    remarks
}
