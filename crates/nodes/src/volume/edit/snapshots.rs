//! Classic snapshots: creating, extending, merging and removing them. Pure.
//!
//! ```text
//! snap       { status READ, WRITE            the store, hidden: what differs from the origin }
//! snapshot0  { status READ, WRITE, VISIBLE   segment1: type snapshot, origin, cow_store = "snap" }
//! merging:   snapshot0 without VISIBLE, merging_store = "snap" in place of cow_store
//! ```
//!
//! # Invariants
//!
//! * A snapshot is added and removed with its store and its description in one text.
//! * At most one snapshot of an origin is being merged.
//!
//! # What it does not do
//!
//! It does not touch the store: the caller wipes its header before the text with it is committed, and merges its content
//! before it is removed.

use super::volumes::{NewVolume, remove_volumes};
use super::{EditError, GroupEdit, lacks, list_section, volume_section};
use crate::overlay::format::StoreLayout;
use crate::volume::format::text::{Section, TextValue};
use crate::volume::format::{LogicalVolume, SegmentLayout, SnapshotRelation};

/// Bounds of a chunk, bytes: those of the device-mapper.
const CHUNK_MIN: u64 = 4096;
const CHUNK_MAX: u64 = 512 * 1024;
/// Unit of `chunk_size` in the text, bytes.
const SECTOR: u64 = 512;
/// Chunks of a store that holds anything: header, table and one chunk of data.
const STORE_CHUNKS_MIN: u64 = 3;

/// A snapshot to create.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewSnapshot {
    /// Its name, which is that of its store.
    pub name: String,
    /// Of what.
    pub origin: String,
    /// Id of the store, with dashes.
    pub id: String,
    /// Id of the description, with dashes.
    pub description_id: String,
    /// Extents of the store.
    pub extents: u64,
    /// Bytes that are copied together.
    pub chunk: u64,
    /// Names of the physical volumes (`pv0`) that may be used; all if empty.
    pub on: Vec<String>,
    /// When it is created, in seconds since 1970.
    pub seconds: u64,
    /// On which machine.
    pub host: String,
}

impl GroupEdit {
    /// Extents of the store of a snapshot of `origin` that is never full. More are of no use.
    ///
    /// # Errors
    /// [`EditError`]: the volume is not there, or the chunk is none.
    pub fn store_extents_max(&self, origin: &str, chunk: u64) -> Result<u64, EditError> {
        let layout = store_layout(chunk)?;
        let size = self.group.bytes(self.volume(origin)?.extents());
        let chunks = layout.chunks_for(size.div_ceil(chunk));
        Ok(chunks.saturating_mul(chunk).div_ceil(self.group.extent))
    }

    /// Creates a snapshot. A store that would be larger than it ever has to be is made as large as that.
    ///
    /// # Errors
    /// [`EditError`]: the origin can have none, a bad name or size, or no space.
    pub fn create_snapshot(&mut self, new: &NewSnapshot) -> Result<(), EditError> {
        self.check_origin(&new.origin)?;
        let max = self.store_extents_max(&new.origin, new.chunk)?;
        let extents = new.extents.min(max);
        let least = STORE_CHUNKS_MIN * new.chunk;
        if extents > 0 && self.group.bytes(extents) < least {
            let what =
                format!("the store of a snapshot with such chunks has at least {least} bytes");
            return Err(EditError::Size(what));
        }
        let before = self.clone();
        let store = NewVolume {
            name: new.name.clone(),
            id: new.id.clone(),
            extents,
            stripes: 1,
            stripe_size: 0,
            on: new.on.clone(),
            seconds: new.seconds,
            host: new.host.clone(),
        };
        let added = self
            .create_volume(&store)
            .and_then(|()| self.add_description(new));
        if added.is_err() {
            *self = before;
        }
        added
    }

    fn add_description(&mut self, new: &NewSnapshot) -> Result<(), EditError> {
        let origin_extents = self.volume(&new.origin)?.extents();
        let name = self.free_description_name();
        let segment = Section::default()
            .with_number("start_extent", 0)
            .with_number("extent_count", origin_extents)
            .with_text("type", "snapshot")
            .with_number("chunk_size", new.chunk / SECTOR)
            .with_text("origin", &new.origin)
            .with_text("cow_store", &new.name);
        let mut section = Section::default()
            .with_text("id", &new.description_id)
            .with("status", TextValue::texts(["READ", "WRITE", "VISIBLE"]))
            .with("flags", TextValue::List(Vec::new()))
            .with_number("creation_time", new.seconds)
            .with_text("creation_host", &new.host)
            .with_number("segment_count", 1);
        section.set_section("segment1", segment);
        self.change_extents(|root| {
            let status = TextValue::texts(["READ", "WRITE"]);
            volume_section(root, &new.name)?.set("status", status);
            list_section(root, "logical_volumes")?.set_section(&name, section);
            Ok(())
        })
    }

    /// The first name of a description that is free.
    fn free_description_name(&self) -> String {
        let mut names = (0_u32..).map(|number| format!("snapshot{number}"));
        let free = names.find(|name| self.refuse_existing(name).is_ok());
        free.expect("a group has fewer volumes than there are numbers")
    }

    /// Makes the store of a snapshot larger by `extents`, at most up to what it ever has to be.
    ///
    /// # Errors
    /// [`EditError`]: no snapshot, one that is being merged, or no space.
    pub fn extend_snapshot(
        &mut self,
        name: &str,
        extents: u64,
        on: &[String],
    ) -> Result<(), EditError> {
        let relation = self.snapshot(name)?;
        refuse_merging(&relation)?;
        let store = self.changeable_store(name)?;
        let max = self.store_extents_max(relation.origin, relation.chunk_size)?;
        let room = max.saturating_sub(store.extents());
        if room == 0 {
            let what = format!(
                "the store of the snapshot {name} has room for all of {} already",
                relation.origin
            );
            return Err(EditError::Size(what));
        }
        self.grow(name, extents.min(room), on)
    }

    /// Begins the merge of a snapshot into its origin; returns whether it had not begun yet. From the text with it on
    /// the origin reads as the snapshot.
    ///
    /// # Errors
    /// [`EditError`]: no snapshot, or another one is being merged into the origin.
    pub fn begin_merge(&mut self, name: &str) -> Result<bool, EditError> {
        let relation = self.snapshot(name)?;
        self.changeable_store(name)?;
        self.check_origin_kind(relation.origin)?;
        if relation.merging {
            return Ok(false);
        }
        self.refuse_merge_into(relation.origin)?;
        let description = self.description(name)?;
        self.change_extents(|root| {
            let section = volume_section(root, &description)?;
            section.set("status", TextValue::texts(["READ", "WRITE"]));
            let mut segments = section.sections_mut().map(|(_, segment)| segment);
            let segment = segments.next().ok_or_else(|| lacks("segment1"))?;
            match segment.rename("cow_store", "merging_store") {
                true => Ok(()),
                false => Err(lacks("cow_store")),
            }
        })?;
        Ok(true)
    }

    /// Removes a snapshot with its store. What it differs in from its origin is lost.
    ///
    /// # Errors
    /// [`EditError`]: no snapshot, or one that is being merged.
    pub fn remove_snapshot(&mut self, name: &str) -> Result<(), EditError> {
        let relation = self.snapshot(name)?;
        refuse_merging(&relation)?;
        self.drop_snapshot(name)
    }

    /// Removes a snapshot with its store after all of it was merged.
    ///
    /// # Errors
    /// [`EditError`]: no snapshot, or one that is not being merged.
    pub fn finish_merge(&mut self, name: &str) -> Result<(), EditError> {
        match self.snapshot(name)?.merging {
            true => self.drop_snapshot(name),
            false => Err(EditError::NoSnapshot(name.to_owned())),
        }
    }

    fn drop_snapshot(&mut self, name: &str) -> Result<(), EditError> {
        self.changeable_store(name)?;
        let description = self.description(name)?;
        self.change_extents(|root| remove_volumes(root, &[name, &description]))
    }

    fn snapshot(&self, name: &str) -> Result<SnapshotRelation<'_>, EditError> {
        self.volume(name)?;
        let found = self.group.snapshot_with_store(name);
        found.ok_or_else(|| EditError::NoSnapshot(name.to_owned()))
    }

    /// The name of the volume that says that `store` is one.
    fn description(&self, store: &str) -> Result<String, EditError> {
        let mut users = self.users(store);
        let found = users.find(|user| is_description(user));
        let found = found.map(|user| user.name.clone());
        found.ok_or_else(|| EditError::NoSnapshot(store.to_owned()))
    }

    /// A store that may be changed: linear or striped, and used by its description alone.
    fn changeable_store(&self, name: &str) -> Result<&LogicalVolume, EditError> {
        let store = self.volume(name)?;
        if let Some(user) = self.users(name).find(|user| !is_description(user)) {
            return Err(EditError::InUse {
                name: name.to_owned(),
                user: user.name.clone(),
            });
        }
        let is_description_single =
            self.users(name).count() == 1 && self.users(name).all(|user| user.segments.len() == 1);
        if !is_description_single {
            let what = format!("{name} is the store of several snapshots");
            return Err(EditError::Damaged(what));
        }
        self.refuse_kind(store)?;
        self.refuse_moving(store)?;
        Ok(store)
    }

    /// Refuses a volume that can have no snapshot.
    fn check_origin(&self, name: &str) -> Result<(), EditError> {
        self.check_origin_kind(name)?;
        self.refuse_merge_into(name)
    }

    fn check_origin_kind(&self, name: &str) -> Result<(), EditError> {
        let volume = self.volume(name)?;
        if let Some(relation) = self.group.snapshot_with_store(name) {
            return Err(EditError::SnapshotOf {
                name: name.to_owned(),
                origin: relation.origin.to_owned(),
            });
        }
        let can_have = |layout: &SegmentLayout| {
            matches!(
                layout,
                SegmentLayout::Striped { .. }
                    | SegmentLayout::Raid { .. }
                    | SegmentLayout::Error
                    | SegmentLayout::Zero
            )
        };
        let mut segments = volume.segments.iter();
        if let Some(other) = segments.find(|segment| !can_have(&segment.layout)) {
            return Err(EditError::OriginKind {
                name: name.to_owned(),
                kind: other.kind.clone(),
            });
        }
        self.refuse_flags(volume)
    }

    fn refuse_merge_into(&self, origin: &str) -> Result<(), EditError> {
        let mut snapshots = self.group.snapshots();
        match snapshots.find(|one| one.origin == origin && one.merging) {
            Some(merging) => refuse_merging(&merging),
            None => Ok(()),
        }
    }

    /// Why a volume with snapshots, or a snapshot, is not changed as others are.
    pub(super) fn snapshot_refusal(&self, name: &str) -> Option<EditError> {
        if let Some(relation) = self.group.snapshot_with_store(name) {
            return Some(EditError::SnapshotOf {
                name: name.to_owned(),
                origin: relation.origin.to_owned(),
            });
        }
        let snapshots = self.group.snapshots().filter(|one| one.origin == name);
        let snapshots: Vec<String> = snapshots.map(|one| one.store.to_owned()).collect();
        (!snapshots.is_empty()).then(|| EditError::HasSnapshots {
            name: name.to_owned(),
            snapshots,
        })
    }
}

fn refuse_merging(relation: &SnapshotRelation<'_>) -> Result<(), EditError> {
    match relation.merging {
        false => Ok(()),
        true => Err(EditError::Merging {
            name: relation.store.to_owned(),
            origin: relation.origin.to_owned(),
        }),
    }
}

fn is_description(volume: &LogicalVolume) -> bool {
    let mut segments = volume.segments.iter();
    segments.all(|segment| matches!(segment.layout, SegmentLayout::Snapshot { .. }))
}

fn store_layout(chunk: u64) -> Result<StoreLayout, EditError> {
    let is_good = (CHUNK_MIN..=CHUNK_MAX).contains(&chunk);
    let layout = u32::try_from(chunk).ok().filter(|_| is_good);
    layout.and_then(StoreLayout::new).ok_or_else(|| {
        EditError::Size(format!(
            "a chunk is a power of two from {CHUNK_MIN} to {CHUNK_MAX} bytes, {chunk} is none"
        ))
    })
}
