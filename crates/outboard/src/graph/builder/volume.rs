//! `volume(PV, …, name=GROUP/VOLUME)`: logical volumes of LVM.
//!
//! # Invariants
//!
//! * Volumes of one group over the same disks share what they are made of ([`OpenGroups`]), so that an origin and its
//!   snapshots can be served side by side. What one of them has claimed the others do not claim again.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use nodes::volume::group::{self, FoundPhysicalVolume, VolumeAccess};
use nodes::volume::open::{VolumeSet, VolumeUse};
use nodes::volume::{self, VolumeError};

use super::built_disk::BuiltDisk;
use super::claims::{FileClaim, Footprint};
use super::compose::made;
use super::{BuildError, BuildPlace, Builder, Result, refuse_collision};
use crate::graph::catalog::similar;
use crate::graph::disk;
use crate::graph::syntax::Span;

/// The groups of which volumes are open in this process, as far as their disks are written in the same way.
#[derive(Debug, Clone, Default)]
pub(crate) struct OpenGroups(Arc<Mutex<Vec<SharedGroup>>>);

impl OpenGroups {
    fn lock(&self) -> MutexGuard<'_, Vec<SharedGroup>> {
        // The list is right at every moment.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether both are the same list.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// The groups that are open.
    pub(crate) fn sets(&self) -> Vec<Arc<VolumeSet>> {
        let groups = self.lock();
        let open = groups.iter().filter_map(|group| group.set.upgrade());
        open.collect()
    }

    /// The group that `volume` is in, if it is open.
    fn find(
        &self,
        volume: &disk::Volume,
        access: &VolumeAccess,
    ) -> Option<(SharedGroup, Arc<VolumeSet>)> {
        let mut groups = self.lock();
        groups.retain(|group| group.set.strong_count() > 0);
        let mut open = groups.iter();
        open.find_map(|group| Some((group.clone(), group.set_of(volume, access)?)))
    }

    /// The claims of more bytes of a group: the store of a new snapshot, or where extents are moved to. `None`: the group is not
    /// among these.
    pub(crate) fn claim_more(
        &self,
        set: &Arc<VolumeSet>,
        uses: &[VolumeUse],
    ) -> Option<Vec<FileClaim>> {
        let is_it = |group: &&SharedGroup| std::ptr::eq(group.set.as_ptr(), Arc::as_ptr(set));
        let group = self.lock().iter().find(is_it).cloned()?;
        let claims = group.footprint(uses).into_claims();
        self.claim(set, uses);
        Some(claims)
    }

    /// Records what a volume of the group has claimed.
    fn claim(&self, set: &Arc<VolumeSet>, uses: &[VolumeUse]) {
        let mut groups = self.lock();
        let is_it = |group: &&mut SharedGroup| std::ptr::eq(group.set.as_ptr(), Arc::as_ptr(set));
        if let Some(group) = groups.iter_mut().find(is_it) {
            group.claimed.extend(uses);
        }
    }
}

/// A volume that a disk is made of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OpenedVolume {
    /// Id of its group.
    pub(crate) group: String,
    /// Its name there.
    pub(crate) name: String,
}

/// A group of which volumes are open.
#[derive(Debug, Clone)]
struct SharedGroup {
    /// The disks, as they are written, in alphabetical order.
    disks: Vec<String>,
    /// How many groups they have.
    groups: usize,
    access: VolumeAccess,
    set: Weak<VolumeSet>,
    /// What each member of the group is made of.
    members: Vec<Option<Footprint>>,
    /// The bytes that its volumes have.
    claimed: Vec<VolumeUse>,
}

impl SharedGroup {
    /// Its volumes, if it is the group that `volume` is in, and still open.
    fn set_of(&self, volume: &disk::Volume, access: &VolumeAccess) -> Option<Arc<VolumeSet>> {
        let set = self.set.upgrade()?;
        let open = set.group();
        let group = &open.group;
        let is_named = match &volume.group {
            Some(name) => *name == group.name || *name == group.id,
            None => true,
        };
        let is_it = self.groups == 1
            && is_named
            && self.access == *access
            && self.disks == sorted(&volume.names);
        is_it.then_some(set)
    }

    /// Which bytes of which files are where in a volume, those left out that other volumes of the group have.
    fn footprint(&self, uses: &[VolumeUse]) -> Footprint {
        let mut footprint = Footprint::default();
        for used in uses {
            let Some(member) = &self.members[used.member] else {
                continue;
            };
            if self.claimed.iter().any(|known| known.is_same_place(used)) {
                continue;
            }
            let part = member.window(used.range);
            match used.at {
                Some(at) => footprint.add(at, part),
                None => footprint.add(0, part.scattered()),
            }
        }
        footprint
    }
}

impl Builder {
    /// The volumes that were opened.
    pub(crate) fn volumes(&self) -> &[OpenedVolume] {
        &self.volumes
    }

    pub(super) async fn volume(
        &mut self,
        volume: &disk::Volume,
        place: &BuildPlace<'_>,
    ) -> Result<BuiltDisk> {
        let wrong = |source: VolumeError| wrong(volume, place, source);
        let access = VolumeAccess {
            read_only: place.read_only,
            ignore_owner: volume.ignore_owner,
            system_id: volume.system_id.clone(),
            force: volume.force,
        };
        let (group, set, children) = match self.groups.find(volume, &access) {
            Some((group, set)) => (group, set, Vec::new()),
            None => {
                let (group, set, children) = self.open_group(volume, access, place).await?;
                self.groups.lock().push(group.clone());
                (group, set, children)
            }
        };
        let uses = set.uses(&volume.name).map_err(wrong)?;
        let footprint = group.footprint(&uses);
        // Opening a volume for writing may write.
        let mut claims = self.held.clone();
        claims.extend(footprint.clone().into_claims());
        refuse_collision(&claims)?;
        let opened = Box::pin(set.open(&volume.name)).await.map_err(wrong)?;
        for remark in &opened.remarks {
            tracing::warn!("volume {}: {remark}", volume.name);
        }
        self.groups.claim(&set, &uses);
        self.volumes.push(OpenedVolume {
            group: set.group().group.id.clone(),
            name: volume.name.clone(),
        });
        self.arrays.extend(opened.arrays);
        let about = format!("{} {}/{}", opened.kind, set.group().group.name, volume.name);
        let footprint = if opened.is_only_read {
            footprint.kept()
        } else {
            footprint
        };
        let built = made("volume", about, opened.disk, children, footprint);
        Ok(BuiltDisk {
            read_only: built.read_only || place.kept || opened.is_only_read,
            ..built
        })
    }

    /// Opens the disks of a group.
    async fn open_group(
        &mut self,
        volume: &disk::Volume,
        access: VolumeAccess,
        place: &BuildPlace<'_>,
    ) -> Result<(SharedGroup, Arc<VolumeSet>, Vec<BuiltDisk>)> {
        let wrong = |source: VolumeError| wrong(volume, place, source);
        let mut children = Vec::with_capacity(volume.disks.len());
        let mut found = Vec::with_capacity(volume.disks.len());
        for (index, disk) in volume.disks.iter().enumerate() {
            let child = self.child(disk, place).await?;
            found.push(physical(volume, index, &child, place).await?);
            children.push(child);
        }
        let groups = group::assemble(&found);
        if groups.is_empty() {
            return Err(wrong(VolumeError::no_metadata(&found)));
        }
        let group = group::select(&groups, volume.group.as_deref()).map_err(wrong)?;
        for remark in &group.remarks {
            tracing::warn!("group {}: {remark}", group.group.name);
        }
        let places = (0..group.places.len()).map(|index| group.disk_of(index));
        let places: Vec<Option<&BuiltDisk>> = places.map(|place| Some(&children[place?])).collect();
        let disks = group.disks(|index| children[index].disk().clone());
        let set = VolumeSet::new(group.clone(), disks, access.clone()).map_err(wrong)?;
        let shared = SharedGroup {
            disks: sorted(&volume.names),
            groups: groups.len(),
            access,
            set: Arc::downgrade(&set),
            members: places
                .iter()
                .map(|child| child.map(|child| child.footprint.clone()))
                .collect(),
            claimed: Vec::new(),
        };
        Ok((shared, set, children))
    }
}

/// What is on the disk at `index` of the volume's disks.
async fn physical(
    volume: &disk::Volume,
    index: usize,
    child: &BuiltDisk,
    place: &BuildPlace<'_>,
) -> Result<FoundPhysicalVolume> {
    let name = volume.names[index].clone();
    let wrong = |source: VolumeError| BuildError::Volume {
        mark: place.mark(volume.spans[index]),
        next: source.next().map(str::to_owned),
        source: Box::new(source),
    };
    let disk = child.disk();
    let examined = volume::examine(disk).await;
    let error = match examined {
        Ok(Some(Ok(physical))) => {
            return Ok(FoundPhysicalVolume {
                name,
                size: disk.geometry().size,
                volume: physical,
            });
        }
        Ok(Some(Err(problem))) => VolumeError::Label {
            disk: name,
            problem,
        },
        Ok(None) => VolumeError::NoLabel { disk: name },
        Err(source) => VolumeError::Read { disk: name, source },
    };
    Err(wrong(error))
}

fn sorted(names: &[String]) -> Vec<String> {
    let mut names = names.to_vec();
    names.sort();
    names
}

/// Why the volume is not opened, at its place, with the name that was probably meant.
fn wrong(volume: &disk::Volume, place: &BuildPlace<'_>, source: VolumeError) -> BuildError {
    let meant = source.wrong_name().and_then(|(name, found)| {
        let names = found.iter().map(String::as_str);
        similar(name, names)
    });
    let span: Span = if source.is_about_name() {
        volume.name_span
    } else {
        volume.span
    };
    let next = match meant {
        Some(name) => Some(format!("did you mean {name}?")),
        None => source.next().map(str::to_owned),
    };
    BuildError::Volume {
        mark: place.mark(span),
        next,
        source: Box::new(source),
    }
}
