//! Opening the volumes of the groups that were found, to look into them: read-only, with the disks that are available.

use std::collections::HashMap;
use std::sync::Arc;

use nodes::volume::VolumeError;
use nodes::volume::group::{self, AssembledGroup, FoundPhysicalVolume, MemberPlace, VolumeAccess};
use nodes::volume::open::VolumeSet;

use super::scan::{NamedNode, Physical};
use crate::snapshots::report::SnapshotReport;

/// Volumes of one group that are looked into.
const VOLUMES_MAX: usize = 256;

/// A volume that can be looked into, or why it cannot.
#[derive(Debug)]
pub(super) struct OpenedVolume {
    /// Its unique key.
    pub(super) key: String,
    /// Where its content is.
    pub(super) place: Result<NamedNode, VolumeError>,
}

/// The groups that these physical volumes form.
pub(super) fn assemble(physical: &[Physical]) -> Vec<AssembledGroup> {
    let found = physical.iter().map(|physical| FoundPhysicalVolume {
        name: physical.place.name.clone(),
        size: physical.place.disk.geometry().size,
        volume: physical.volume.clone(),
    });
    let found: Vec<FoundPhysicalVolume> = found.collect();
    group::assemble(&found)
}

/// The unique key of a volume.
pub(super) fn key(group: &AssembledGroup, volume: &str) -> String {
    format!("{}/{volume}", group.group.id)
}

/// The disk that is shown for a member: of several with one id the first.
pub(super) fn shown_disk(place: &MemberPlace) -> Option<usize> {
    match place {
        MemberPlace::Found(disk) | MemberPlace::MarkedMissing(disk) => Some(*disk),
        MemberPlace::Duplicate(disks) => disks.first().copied(),
        MemberPlace::Missing => None,
    }
}

/// Opens the volumes with keys that are not among `known`.
pub(super) async fn open(physical: &[Physical], known: impl Fn(&str) -> bool) -> Vec<OpenedVolume> {
    let mut opened = Vec::new();
    for group in assemble(physical) {
        let names = group.volume_names().into_iter().take(VOLUMES_MAX);
        let names: Vec<String> = names.filter(|name| !known(&key(&group, name))).collect();
        if names.is_empty() {
            continue;
        }
        let below: Vec<&NamedNode> = group
            .places
            .iter()
            .filter_map(shown_disk)
            .map(|disk| &physical[disk].place)
            .collect();
        let set = match set_of(group.clone(), physical) {
            Ok(set) => set,
            Err(error) => {
                // The first volume carries the error of its group.
                let key = key(&group, &names[0]);
                opened.push(OpenedVolume {
                    key,
                    place: Err(error),
                });
                continue;
            }
        };
        for name in names {
            let key = key(&group, &name);
            let place = Box::pin(set.open(&name)).await.map(|volume| {
                let shown = format!("{}/{name}", group.group.name);
                NamedNode::volume(shown, (&group.group.id, &name), volume.disk, &below)
            });
            opened.push(OpenedVolume { key, place });
        }
    }
    opened
}

/// How full the stores of the snapshots are that can be read, by the keys of the snapshots.
pub(super) async fn read_stores(physical: &[Physical]) -> HashMap<String, SnapshotReport> {
    let mut stores = HashMap::new();
    for group in assemble(physical) {
        if group.group.snapshots().next().is_none() {
            continue;
        }
        let Ok(set) = set_of(group.clone(), physical) else {
            continue;
        };
        for (owner, status) in Box::pin(set.snapshot_status()).await {
            let report = SnapshotReport::of(&group.group, &owner, &status);
            stores.insert(key(&group, &owner.name), report);
        }
    }
    stores
}

/// The volumes of a group over the disks that were found. Of copies of a disk the first is used: nothing is written.
fn set_of(mut group: AssembledGroup, physical: &[Physical]) -> Result<Arc<VolumeSet>, VolumeError> {
    for place in &mut group.places {
        if let MemberPlace::Duplicate(disks) = place {
            *place = MemberPlace::Found(disks[0]);
        }
    }
    group.conflict = None;
    let disks = group.disks(|index| physical[index].place.disk.clone());
    let access = VolumeAccess {
        read_only: true,
        ignore_owner: true,
        ..VolumeAccess::default()
    };
    VolumeSet::new(group, disks, access)
}
