//! [`VolumeClones`]: overlays on an object store. Each is a clone of the export's volume, which every server of the store can open: a
//! client's disk follows it.
//!
//! ```text
//! URI/export-root/addr-10.0.0.1     a volume, made when its client first connects
//! ```
//!
//! # Invariants
//!
//! * A clone is made of the snapshot that the export names, or else of the newest one, and stays one of that: later snapshots are for later
//!   clients.
//! * Of two servers that open a clone the last one has it: the index of the volume fences the other one.
//! * A volume at the place of a clone that is no clone of the export's volume is refused, and not taken from the server that has it open.
//! * A clone is closed, with its changes in the store, before its client is opened another one.
//!
//! # What it does not do
//!
//! A list makes no request to the store, so that metrics cost nothing: it has the clones that were there when the export was opened,
//! and those of clients that came since. What clones take is not in it: `outboard bucket status` has that.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use block::{Geometry, Node};
use bucket::{
    BucketError, BucketUri, BucketVolume, SnapshotUri, StoreOptions, VolumeFailure, VolumeOptions,
    VolumeUri, delete, ensure_clone, list_clones, list_snapshots, origin, shares_store,
};
use nbd::server::{
    CannotOpen, ClientDiskFigures, ClientFuture, ClientName, DiskFence, DiskPerClient, NamedBy,
    Nameless, Peer,
};
use nodes::{BlockSizeError, Blocks};

use super::file_name::{client_of_volume, volume_of_client, volume_of_export};
use super::{CANNOT_BE_OPENED, PerClientError, TOO_MANY, now, writable};
use crate::config::{ExportPlan, OverlayPlan};
use crate::graph::Disk;

/// The clones of an export's clients.
#[derive(Debug)]
pub(super) struct VolumeClones {
    /// What they are made of.
    origin: VolumeUri,
    /// The same volume, as its URI is written.
    image: String,
    /// Where they are.
    folder: BucketUri,
    store: StoreOptions,
    /// That of a clone which is made now.
    geometry: Geometry,
    named_by: NamedBy,
    clones_max: usize,
    known: Mutex<BTreeMap<ClientName, KnownClone>>,
}

/// A clone, as this server knows it.
#[derive(Debug, Default)]
struct KnownClone {
    /// It is open.
    volume: Option<BucketVolume>,
    /// When its client last came or went here, seconds since 1970.
    last_seen: Option<u64>,
}

/// Why a client gets no clone.
#[derive(Debug, thiserror::Error)]
enum CloneRefusal {
    #[error(transparent)]
    Store(#[from] BucketError),
    #[error(
        "{0} has no snapshot, and clones are made of snapshots; `outboard bucket snapshot create {0} NAME` makes one"
    )]
    NoSnapshot(BucketUri),
    #[error("there are {0} clones already, which is `overlays_max`")]
    TooMany(usize),
    #[error("{uri} is no clone of {image}, but {}", origin.as_deref().unwrap_or("a volume of its own"))]
    Foreign {
        uri: String,
        image: String,
        origin: Option<String>,
    },
    #[error(transparent)]
    Blocks(#[from] BlockSizeError),
    #[error("{clones} is not in the store of {volume}, and a clone is in that of its volume")]
    OtherStore {
        volume: BucketUri,
        clones: BucketUri,
    },
}

impl From<CloneRefusal> for CannotOpen {
    fn from(refusal: CloneRefusal) -> Self {
        let client_message = match &refusal {
            CloneRefusal::TooMany(_) => TOO_MANY,
            _ => CANNOT_BE_OPENED,
        };
        Self {
            client_message: client_message.to_owned(),
            cause: refusal.to_string(),
        }
    }
}

impl VolumeClones {
    /// Clones below `place` of the volume that `export` serves, which is open as `base`.
    pub(super) async fn open(
        export: &ExportPlan,
        plan: &OverlayPlan,
        place: &BucketUri,
        base: &Node,
    ) -> Result<Self, PerClientError> {
        let opened = Self::find(export, plan, place, base).await;
        opened.map_err(|refusal| PerClientError::Folder {
            export: export.name.clone(),
            why: refusal.to_string(),
        })
    }

    async fn find(
        export: &ExportPlan,
        plan: &OverlayPlan,
        place: &BucketUri,
        base: &Node,
    ) -> Result<Self, CloneRefusal> {
        let Disk::Bucket(disk) = export.disk.disk.without_blocks() else {
            unreachable!("a plan has clones of volumes only")
        };
        let (volume, folder) = (
            &disk.uri.volume,
            below(place, &volume_of_export(&export.name))?,
        );
        if !shares_store(volume, &folder) {
            return Err(CloneRefusal::OtherStore {
                volume: volume.clone(),
                clones: folder,
            });
        }
        let clones = Self {
            origin: disk.uri.clone(),
            image: volume.to_string(),
            folder,
            store: StoreOptions {
                ca_file: disk.ca.clone(),
                key_file: disk.key.clone(),
            },
            geometry: writable(base.geometry()),
            named_by: plan.named_by,
            clones_max: plan.overlays_max,
            known: Mutex::default(),
        };
        // Found missing now, and not by the first client.
        clones.snapshot().await?;
        let found = Box::pin(list_clones(volume, &clones.store)).await?;
        let prefix = format!("{}/", clones.folder);
        let names = found.iter().filter_map(|clone| {
            let name = clone.uri.strip_prefix(&prefix)?;
            Some((client_of_volume(name)?, KnownClone::default()))
        });
        clones.known().extend(names);
        Ok(clones)
    }

    fn known(&self) -> MutexGuard<'_, BTreeMap<ClientName, KnownClone>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The clone of a client, if it is open.
    fn volume(&self, name: &ClientName) -> Option<BucketVolume> {
        self.known().get(name)?.volume.clone()
    }

    fn place(&self, name: &ClientName) -> Result<BucketUri, BucketError> {
        below(&self.folder, &volume_of_client(name))
    }

    /// The snapshot that a clone is made of now.
    async fn snapshot(&self) -> Result<SnapshotUri, CloneRefusal> {
        let VolumeUri { volume, snapshot } = self.origin.clone();
        let name = match snapshot {
            Some(name) => name,
            None => {
                let mut all = Box::pin(list_snapshots(&volume, &self.store)).await?;
                let newest = all.pop().and_then(|newest| newest.name.parse().ok());
                newest.ok_or_else(|| CloneRefusal::NoSnapshot(volume.clone()))?
            }
        };
        Ok(SnapshotUri { volume, name })
    }

    /// Opens the clone of a client, and makes it where there is none.
    async fn clone_of(&self, name: &ClientName) -> Result<Node, CloneRefusal> {
        let uri = self.place(name)?;
        let left = self
            .known()
            .get_mut(name)
            .and_then(|known| known.volume.take());
        if let Some(left) = left {
            // By a task that ended without it. Its failure is in the log.
            drop(left.close().await);
        }
        let options = VolumeOptions {
            store: self.store.clone(),
            // Its client goes on with another server when this one fails.
            is_standby: true,
            ..VolumeOptions::default()
        };
        // Before it is opened: that takes a volume from the server that has it.
        let origin = match Box::pin(origin(&uri, &self.store)).await {
            Err(BucketError::NoVolume { .. }) => {
                self.make(name, &uri).await?;
                Box::pin(origin(&uri, &self.store)).await?
            }
            found => found?,
        };
        let image = origin.as_deref().and_then(|origin| origin.rsplit_once('@'));
        if image.is_none_or(|(image, _)| image != self.image) {
            let (uri, image) = (uri.to_string(), self.image.clone());
            return Err(CloneRefusal::Foreign { uri, image, origin });
        }
        let volume = Box::pin(BucketVolume::open(&uri, &options)).await?;
        let disk: Node = Arc::new(volume.clone());
        let block_size = self.geometry.block_size;
        let disk = match disk.geometry().block_size == block_size {
            true => disk,
            false => Arc::new(Blocks::new(disk, block_size)?),
        };
        let known = KnownClone {
            volume: Some(volume),
            last_seen: Some(now()),
        };
        self.known().insert(name.clone(), known);
        Ok(disk)
    }

    async fn make(&self, name: &ClientName, uri: &BucketUri) -> Result<(), CloneRefusal> {
        let count = self.known().keys().filter(|known| *known != name).count();
        if count >= self.clones_max {
            return Err(CloneRefusal::TooMany(count));
        }
        let snapshot = self.snapshot().await?;
        Box::pin(ensure_clone(&snapshot, uri, &self.store)).await?;
        let client = name.to_string();
        tracing::info!(client, "{uri} is made, a clone of {snapshot}");
        Ok(())
    }
}

impl DiskPerClient for VolumeClones {
    fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    fn name(&self, peer: &Peer) -> Result<ClientName, Nameless> {
        self.named_by.name(peer)
    }

    fn image(&self) -> &str {
        &self.image
    }

    fn open<'a>(&'a self, name: &'a ClientName) -> ClientFuture<'a, Result<Node, CannotOpen>> {
        Box::pin(async move { Ok(self.clone_of(name).await?) })
    }

    fn fence(&self) -> Option<&dyn DiskFence> {
        Some(self)
    }

    fn closed<'a>(&'a self, name: &'a ClientName) -> ClientFuture<'a, ()> {
        Box::pin(async move {
            let volume = self.known().get_mut(name).and_then(|known| {
                known.last_seen = Some(now());
                known.volume.take()
            });
            if let Some(volume) = volume
                && let Err(error) = volume.close().await
            {
                tracing::warn!("{error}");
            }
        })
    }

    fn remove<'a>(
        &'a self,
        name: &'a ClientName,
        _image: &'a str,
    ) -> ClientFuture<'a, Result<(), String>> {
        Box::pin(async move {
            let uri = self.place(name).map_err(|error| error.to_string())?;
            let deleted = Box::pin(delete(&uri, &self.store)).await;
            deleted.map_err(|error| error.to_string())?;
            self.known().remove(name);
            Ok(())
        })
    }

    fn list(&self) -> Vec<ClientDiskFigures> {
        let figures = |(name, known): (&ClientName, &KnownClone)| ClientDiskFigures {
            name: name.clone(),
            connections: 0,
            bytes: None,
            quota: None,
            last_seen: known.last_seen,
            image: self.origin.to_string(),
            image_id: self.image.clone(),
            is_older: false,
        };
        self.known().iter().map(figures).collect()
    }
}

impl DiskFence for VolumeClones {
    fn lost(&self, name: &ClientName) -> ClientFuture<'static, bool> {
        let failed = self.volume(name).map(|volume| volume.failed());
        Box::pin(async {
            match failed {
                Some(failed) => matches!(failed.await, VolumeFailure::Fenced),
                None => false,
            }
        })
    }

    fn confirm<'a>(&'a self, name: &'a ClientName) -> ClientFuture<'a, Result<bool, CannotOpen>> {
        Box::pin(async move {
            let Some(volume) = self.volume(name) else {
                return Ok(false);
            };
            match volume.confirm().await {
                Ok(()) => Ok(true),
                Err(BucketError::Failed { .. }) => Ok(false),
                Err(error) => Err(CloneRefusal::from(error).into()),
            }
        })
    }
}

/// A folder within a folder of a store.
fn below(folder: &BucketUri, name: &str) -> Result<BucketUri, BucketError> {
    Ok(format!("{folder}/{name}").parse()?)
}
