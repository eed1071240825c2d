//! [`References`]: the data objects that an index refers to; those that are in the store; and both of a volume with all its checkpoints.

use std::collections::{BTreeMap, BTreeSet};
use std::time::SystemTime;

use slatedb::Checkpoint;

use super::list;
use crate::error::BucketError;
use crate::format::{DataObject, VolumeHeader, data_object};
use crate::run_map::{BlockSource, RunMap};
use crate::store::StoreAccess;
use crate::volume::{FoundMeta, IndexCheckpoints, IndexHandle, ScanError, open_checkpoint};

/// What is referred to of a data object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct ObjectUse {
    /// The end of the last block, bytes.
    pub(super) end: u64,
    /// The bytes of the blocks, as they are stored.
    pub(super) bytes: u64,
}

/// The data objects that are referred to.
#[derive(Debug, Default)]
pub(super) struct References {
    /// By object.
    pub(super) objects: BTreeMap<DataObject, ObjectUse>,
}

/// All that a volume, its snapshots and the commands at work refer to.
#[derive(Debug)]
pub(super) struct VolumeReferences {
    /// The last generation that had opened the volume for writing before.
    pub(super) last_generation: u32,
    /// What the volume refers to.
    pub(super) volume: References,
    /// What its snapshots, its clones, readers and commands at work refer to.
    pub(super) held: References,
    /// When the last of the checkpoints expires that do: of readers, and of commands that are at work or were interrupted.
    pub(super) expires: Option<SystemTime>,
}

impl References {
    /// Adds what a run refers to.
    pub(super) fn add_run(&mut self, map: &RunMap) {
        for source in map.sources() {
            if let BlockSource::Stored(stored) = source {
                let used = self.objects.entry(stored.object).or_default();
                used.end = used.end.max(stored.end());
                used.bytes += u64::from(stored.len);
            }
        }
    }

    /// Adds what an index refers to, and closes it.
    async fn add_index(
        &mut self,
        access: &StoreAccess,
        index: &IndexHandle,
    ) -> Result<(), BucketError> {
        let add = async {
            let mut scan = index.scan(0..u64::MAX).await?;
            while let Some((_, map)) = scan.next().await? {
                self.add_run(&map);
            }
            Ok::<(), ScanError>(())
        };
        let added = add.await;
        index.close(&access.uri).await;
        added.map_err(|error| error.about(&access.uri))
    }

    /// Adds what a checkpoint refers to.
    async fn add_checkpoint(
        &mut self,
        access: &StoreAccess,
        header: &VolumeHeader,
        checkpoint: &Checkpoint,
    ) -> Result<(), BucketError> {
        let (index, _) = open_checkpoint(access, header, checkpoint).await?;
        self.add_index(access, &index).await
    }
}

impl VolumeReferences {
    /// Those of a volume, of which `index` is open, with its last generation. Without its log, a checkpoint that is made later refers to
    /// nothing else but objects of later commits than are in the index now: it is read before the checkpoints are listed.
    pub(super) async fn find(
        access: &StoreAccess,
        header: &VolumeHeader,
        (index, meta): (IndexHandle, FoundMeta),
    ) -> Result<Self, BucketError> {
        let mut volume = References::default();
        volume.add_index(access, &index).await?;
        let mut held = References::default();
        let checkpoints = IndexCheckpoints::of(access);
        let mut scanned = BTreeSet::new();
        let mut found = checkpoints.in_use().await?;
        let expires = found.iter().filter_map(|one| one.expire_time).max();
        while let Some(checkpoint) = found.pop() {
            // Checkpoints of one manifest have the same index.
            if scanned.contains(&checkpoint.manifest_id) {
                continue;
            }
            let added = held.add_checkpoint(access, header, &checkpoint).await;
            match added {
                Ok(()) => {
                    scanned.insert(checkpoint.manifest_id);
                }
                Err(error) => {
                    // It may have been removed, and a snapshot been made of it before.
                    found = checkpoints.in_use().await?;
                    if found.iter().any(|one| one.id == checkpoint.id) {
                        return Err(error);
                    }
                }
            }
        }
        Ok(Self {
            last_generation: meta.generation,
            volume,
            held,
            expires: expires.map(SystemTime::from),
        })
    }
}

impl VolumeReferences {
    /// Whether anything refers to an object.
    pub(super) fn contains(&self, object: &DataObject) -> bool {
        let has = |references: &References| references.objects.contains_key(object);
        has(&self.volume) || has(&self.held)
    }

    /// All objects.
    pub(super) fn all(&self) -> BTreeSet<DataObject> {
        let objects = [&self.volume, &self.held].into_iter();
        objects
            .flat_map(|one| one.objects.keys().copied())
            .collect()
    }
}

/// The data objects of a volume that are in its own folder; of a clone not those of its origins.
#[derive(Debug, Default)]
pub(super) struct ListedData {
    /// Their lengths, bytes.
    pub(super) objects: BTreeMap<DataObject, u64>,
    /// What else lies there.
    pub(super) foreign: Vec<String>,
}

impl ListedData {
    /// Lists them.
    pub(super) async fn list(access: &StoreAccess) -> Result<Self, BucketError> {
        let mut listed = Self::default();
        for object in list(access, &access.names.data()).await? {
            let name = object.location.filename().and_then(data_object);
            match name.filter(|name| access.names.origin_of(name.generation).is_none()) {
                Some(name) => {
                    listed.objects.insert(name, object.size);
                }
                None => listed.foreign.push(object.location.to_string()),
            }
        }
        Ok(listed)
    }
}
