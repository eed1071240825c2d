//! Changing the snapshots of a group while its volumes are open.
//!
//! ```text
//! create   wipe the store ─► the origin preserves for it, at a moment without a write in flight, flushed ─► metadata
//! extend   metadata ─► the snapshot goes on in the larger store
//! remove   metadata ─► the origin preserves for it no more
//! merge    metadata ─► the origin, which is not in use, reads as the snapshot ─► its chunks (`merges.rs`) ─► metadata
//! ```
//!
//! # Invariants
//!
//! * Each text that a crash may leave is right: a snapshot that it names was preserved for from its first moment on.
//! * One change at a time, and no volume is opened meanwhile. Afterwards [`VolumeSet::group`] is what is on the disks.
//! * A change that failed while its text was written may have been made. No further one is made then: until the volumes
//!   are closed, the snapshots are treated so that either text is right.
//! * A merge begins while neither the origin nor the snapshot is in use. If that fails once its text may be on the disks, the
//!   origin is not opened until all volumes of the group are closed.

use std::sync::{Arc, PoisonError};

use block::IoError;

use super::VolumeSet;
use super::segments::OpenParts;
use crate::volume::VolumeError;
use crate::volume::edit::{EditError, EditStamp, GroupEdit, NewSnapshot};
use crate::volume::format::{VolumeGroup, VolumeProblem};
use crate::volume::group::{AssembledGroup, MemberPlace};
use crate::volume::scan::scan;
use crate::volume::snapshot::{SnapshotError, SnapshotState, SnapshotStore, wipe_store};
use crate::volume::update::{CommitReport, MetadataArea, UpdateError, commit};

/// A change of the snapshots of a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SnapshotChange {
    /// A new one.
    Create(NewSnapshot),
    /// So many extents more for the store of one, on these physical volumes; on all if none are named.
    Extend {
        /// The snapshot.
        name: String,
        /// How many.
        extents: u64,
        /// Names of physical volumes (`pv0`).
        on: Vec<String>,
    },
    /// One less.
    Remove {
        /// The snapshot.
        name: String,
    },
    /// One is merged into its origin from now on ([`VolumeSet::merge`], [`VolumeSet::finish_merge`]).
    Merge {
        /// The snapshot.
        name: String,
    },
}

/// Why the snapshots of an open group are not changed.
#[derive(Debug, thiserror::Error)]
pub enum OpenChangeError {
    /// The metadata cannot be changed so.
    #[error(transparent)]
    Edit(#[from] EditError),
    /// A volume cannot be opened.
    #[error(transparent)]
    Volume(#[from] VolumeError),
    /// The snapshot itself.
    #[error(transparent)]
    Snapshot(#[from] SnapshotError),
    /// The metadata cannot be written. Nothing was changed.
    #[error("{0}; nothing was changed")]
    Update(#[source] UpdateError),
    /// The metadata were not written to their end: the change was made or not.
    #[error("{0}; whether the change was made is seen when the volumes are opened again")]
    Unfinished(#[source] UpdateError),
    /// A disk cannot be read or written.
    #[error("{disk}: {source}")]
    Disk {
        /// Which.
        disk: String,
        /// Why.
        #[source]
        source: IoError,
    },
    /// The metadata on a disk cannot be read.
    #[error(
        "{disk}: {problem}; nothing was changed; outboard volume repair writes the metadata again"
    )]
    Metadata {
        /// Which.
        disk: String,
        /// What is wrong.
        problem: VolumeProblem,
    },
    /// The group was opened for reading.
    #[error("the group {0} is open read-only: its metadata are not changed")]
    ReadOnly(String),
    /// Not all disks are there.
    #[error("a disk of the group {0} is missing: its metadata are not changed")]
    Incomplete(String),
    /// The metadata were changed since they were read.
    #[error("the metadata of the group {group} are at change {now}, not {expected}: try again")]
    Changed {
        /// The group.
        group: String,
        /// What the caller has seen.
        expected: u64,
        /// What is there.
        now: u64,
    },
    /// An earlier change failed.
    #[error(
        "an earlier change of the group {0} failed: stop what uses its volumes, and check it with outboard volume check"
    )]
    Failed(String),
    /// Extents are being moved.
    #[error(
        "extents of the group {0} are being moved: wait for the end, or end it with outboard volume move {0} --abort"
    )]
    Moving(String),
    /// No move is running, and none was interrupted.
    #[error("no move of {0} was interrupted")]
    NoMove(String),
    /// A volume of which extents would be moved cannot go on there.
    #[error("extents of {from} cannot be moved to {to} while they are served: {why}")]
    Target {
        /// The disk with the old place.
        from: String,
        /// The disk with the new place.
        to: String,
        /// What it lacks.
        why: String,
    },
    /// Extents that are to be moved are in use otherwise.
    #[error(
        "extents of {disk} are in use in a way that they cannot be moved in while they are served: stop the server, and \
         name all disks of the group"
    )]
    Busy {
        /// The disk that they are on.
        disk: String,
    },
    /// A snapshot, or the origin of a merge, is in use.
    #[error("{0} is in use: end its export first")]
    InUse(String),
}

/// A change on its way.
struct PendingChange {
    after: AssembledGroup,
    text: String,
    areas: Vec<MetadataArea>,
}

impl VolumeSet {
    /// Changes the snapshots of the group while its volumes are open. Its metadata are at change `sequence`.
    ///
    /// # Errors
    /// [`OpenChangeError`]; unless it is `Unfinished` the metadata are as before, or a snapshot that was extended goes on in what
    /// it had.
    pub async fn change_snapshots(
        &self,
        sequence: u64,
        change: &SnapshotChange,
        stamp: &EditStamp,
    ) -> Result<CommitReport, OpenChangeError> {
        // No volume is opened before the change has ended.
        let mut parts = self.parts.lock().await;
        let group = self.group();
        self.check_change(&group, sequence, &parts)?;
        let pending = self.prepare(&group, change, stamp).await?;
        if let SnapshotChange::Create(new) = change {
            self.begin_snapshot(&pending.after, new, &mut parts).await?;
        }
        let report = match self.write(&pending, &mut parts).await {
            Err(error @ OpenChangeError::Update(_)) => {
                if let SnapshotChange::Create(new) = change {
                    self.drop_snapshot(&new.name, &mut parts).await?;
                }
                return Err(error);
            }
            Err(error) => {
                self.note_broken_merge(&group, change, &mut parts);
                return Err(error);
            }
            Ok(report) => report,
        };
        let after = self.group();
        let followed = self.follow(&after, change, &mut parts).await;
        if followed.is_err() {
            self.note_broken_merge(&group, change, &mut parts);
        }
        followed.map(|()| report)
    }

    /// Refuses a change that is based on other metadata, or during another one.
    pub(super) fn check_change(
        &self,
        group: &AssembledGroup,
        sequence: u64,
        parts: &OpenParts,
    ) -> Result<(), OpenChangeError> {
        let name = || group.group.name.clone();
        if parts.has_failed_change {
            return Err(OpenChangeError::Failed(name()));
        }
        if parts.is_moving {
            return Err(OpenChangeError::Moving(name()));
        }
        if group.group.sequence != sequence {
            return Err(OpenChangeError::Changed {
                group: name(),
                expected: sequence,
                now: group.group.sequence,
            });
        }
        if self.access.read_only {
            return Err(OpenChangeError::ReadOnly(name()));
        }
        let is_there = |place: &MemberPlace| matches!(place, MemberPlace::Found(_));
        match group.places.iter().all(is_there) {
            true => Ok(()),
            false => Err(OpenChangeError::Incomplete(name())),
        }
    }

    /// Makes the text, and finds where it goes. Nothing is written.
    async fn prepare(
        &self,
        group: &AssembledGroup,
        change: &SnapshotChange,
        stamp: &EditStamp,
    ) -> Result<PendingChange, OpenChangeError> {
        let mut edit = GroupEdit::open(group.group.clone())?;
        match change {
            SnapshotChange::Create(new) => edit.create_snapshot(new)?,
            SnapshotChange::Extend { name, extents, on } => {
                self.refuse_open(name)?;
                self.refuse_invalid(name)?;
                edit.extend_snapshot(name, *extents, on)?;
            }
            SnapshotChange::Remove { name } => {
                self.refuse_open(name)?;
                edit.remove_snapshot(name)?;
            }
            SnapshotChange::Merge { name } => {
                self.refuse_open(name)?;
                if let Some(relation) = group.group.snapshot_with_store(name) {
                    self.refuse_open(relation.origin)?;
                }
                self.refuse_invalid(name)?;
                if !edit.begin_merge(name)? {
                    let name = name.clone();
                    return Err(SnapshotError::Merging { name }.into());
                }
            }
        }
        self.pending(group, edit, stamp).await
    }

    /// Writes the text that `edit` of the group ends in.
    pub(super) async fn write_edit(
        &self,
        edit: GroupEdit,
        stamp: &EditStamp,
        parts: &mut OpenParts,
    ) -> Result<CommitReport, OpenChangeError> {
        let pending = self.pending(&self.group(), edit, stamp).await?;
        self.write(&pending, parts).await
    }

    /// Writes the text, which is the group's from here on.
    async fn write(
        &self,
        pending: &PendingChange,
        parts: &mut OpenParts,
    ) -> Result<CommitReport, OpenChangeError> {
        let report = match commit(&pending.areas, &pending.text).await {
            Ok(report) => report,
            Err(error @ UpdateError::Write { .. }) => {
                parts.has_failed_change = true;
                return Err(OpenChangeError::Unfinished(error));
            }
            Err(error) => return Err(OpenChangeError::Update(error)),
        };
        let mut group = self.group.write().unwrap_or_else(PoisonError::into_inner);
        *group = Arc::new(pending.after.clone());
        Ok(report)
    }

    /// The text that `edit` ends in, and where it goes. Nothing is written.
    async fn pending(
        &self,
        group: &AssembledGroup,
        edit: GroupEdit,
        stamp: &EditStamp,
    ) -> Result<PendingChange, OpenChangeError> {
        let areas = self.areas(group).await?;
        let text = edit.finish(stamp)?;
        let after = VolumeGroup::of(&text).map_err(EditError::from)?;
        Ok(PendingChange {
            after: AssembledGroup {
                group: after,
                ..group.clone()
            },
            text,
            areas,
        })
    }

    fn refuse_open(&self, snapshot: &str) -> Result<(), OpenChangeError> {
        match self.is_open(snapshot) {
            true => Err(OpenChangeError::InUse(snapshot.to_owned())),
            false => Ok(()),
        }
    }

    fn refuse_invalid(&self, snapshot: &str) -> Result<(), OpenChangeError> {
        let known = self.open_snapshots();
        let status = known.iter().find(|(owner, _)| owner.name == snapshot);
        match status.map(|(_, status)| &status.state) {
            Some(SnapshotState::Invalid(reason)) => Err(SnapshotError::Lost {
                name: snapshot.to_owned(),
                reason: reason.clone(),
            }
            .into()),
            _ => Ok(()),
        }
    }

    /// The metadata areas of all disks, which have the text that this group was read from.
    async fn areas(&self, group: &AssembledGroup) -> Result<Vec<MetadataArea>, OpenChangeError> {
        let mut areas = Vec::new();
        for index in 0..group.group.members.len() {
            let disk_name = self.disk_name(index);
            let Some(disk) = self.disk(index) else {
                return Err(OpenChangeError::Incomplete(group.group.name.clone()));
            };
            let found = scan(&disk).await.map_err(|source| OpenChangeError::Disk {
                disk: disk_name.clone(),
                source,
            })?;
            let bad = |problem| OpenChangeError::Metadata {
                disk: disk_name.clone(),
                problem,
            };
            let Some(found) = found else {
                return Err(OpenChangeError::Incomplete(group.group.name.clone()));
            };
            let found = found.map_err(bad)?;
            for area in found.areas {
                let text = area.text.map_err(bad)?;
                let sequence = text.map_or(0, |text| text.group.sequence);
                if sequence > group.group.sequence {
                    return Err(OpenChangeError::Changed {
                        group: group.group.name.clone(),
                        expected: group.group.sequence,
                        now: sequence,
                    });
                }
                areas.push(MetadataArea {
                    name: disk_name.clone(),
                    disk: disk.clone(),
                    area: area.area,
                    reset: false,
                });
            }
        }
        Ok(areas)
    }

    /// Wipes the store of a new snapshot; if its origin is open, that preserves for it from here on.
    async fn begin_snapshot(
        &self,
        after: &AssembledGroup,
        new: &NewSnapshot,
        parts: &mut OpenParts,
    ) -> Result<(), OpenChangeError> {
        let cow = self.open_store_of(after, &new.name, parts).await?;
        let begun = async {
            wipe_store(&cow)
                .await
                .map_err(|source| OpenChangeError::Disk {
                    disk: format!("the store of {}", new.name),
                    source,
                })?;
            let Some(origin) = self.origins.find(&new.origin) else {
                return Ok(());
            };
            let store = SnapshotStore {
                name: new.name.clone(),
                cow: cow.clone(),
                chunk: new.chunk,
                merging: false,
            };
            origin.create_snapshot(store).await?;
            Ok(())
        };
        let begun = begun.await;
        if begun.is_err() {
            // Its extents may be another store's next time.
            parts.forget(&new.name);
        }
        begun
    }

    /// The origin of a snapshot preserves for it no more.
    async fn drop_snapshot(
        &self,
        name: &str,
        parts: &mut OpenParts,
    ) -> Result<(), OpenChangeError> {
        parts.forget(name);
        match self.open_origin_of(name) {
            None => Ok(()),
            Some(origin) => Ok(origin.remove_snapshot(name).await?),
        }
    }

    /// What is open follows the new metadata.
    async fn follow(
        &self,
        after: &AssembledGroup,
        change: &SnapshotChange,
        parts: &mut OpenParts,
    ) -> Result<(), OpenChangeError> {
        match change {
            SnapshotChange::Create(_) => Ok(()),
            SnapshotChange::Remove { name } => self.drop_snapshot(name, parts).await,
            SnapshotChange::Extend { name, .. } => {
                parts.forget(name);
                let Some(origin) = self.open_origin_of(name) else {
                    return Ok(());
                };
                let cow = self.open_store_of(after, name, parts).await?;
                Ok(origin.extend_snapshot(name, cow).await?)
            }
            SnapshotChange::Merge { name } => {
                let Some(origin) = self.open_origin_of(name) else {
                    return Ok(());
                };
                let cow = self.open_store_of(after, name, parts).await?;
                Ok(origin.begin_merge(name, cow).await?)
            }
        }
    }

    /// A merge that did not begin, of which the text may be on the disks: the origin must not be written as if it were not.
    fn note_broken_merge(
        &self,
        group: &AssembledGroup,
        change: &SnapshotChange,
        parts: &mut OpenParts,
    ) {
        let SnapshotChange::Merge { name } = change else {
            return;
        };
        let relation = group.group.snapshot_with_store(name);
        parts.broken_merge = relation.map(|relation| relation.origin.to_owned());
        parts.has_failed_change = true;
    }
}
