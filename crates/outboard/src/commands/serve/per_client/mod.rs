//! An overlay for each client of an export, over one image that all of them share: [`PerClient`] keeps them in a folder of this machine,
//! `clones.rs` on an object store.
//!
//! # Invariants
//!
//! * The image is opened once, for reading: all clients share one file and one page cache.
//! * An overlay is opened over the image that it was made over and over no other. An image that is
//!   changed while it is served gets no overlay any more until that was noticed by a reload, which
//!   takes it for another one.
//! * Paths of the server are never sent to clients.

#[cfg(feature = "bucket")]
mod clones;
mod file_name;
mod folder;
mod image;
mod record;
#[cfg(test)]
mod tests;

use std::path::Path;
use std::sync::Arc;
use std::time::UNIX_EPOCH;

use block::{Geometry, IoError, Node, Support};
use nbd::server::{
    CannotOpen, ClientDiskFigures, ClientFuture, ClientName, DiskPerClient, NamedBy, Nameless, Peer,
};
use nodes::{Overlay, OverlayError, OverlayOptions};

use self::folder::{FolderError, OverlayFolder};
use self::image::BaseImage;
use crate::config::{ExportPlan, OverlayPlace, OverlayPlan};
use crate::graph::NamedDisk;

/// Why an export's overlays cannot be served.
#[derive(Debug, thiserror::Error)]
pub(super) enum PerClientError {
    /// The image cannot be read.
    #[error("the image of export {export:?} cannot be read: {source}")]
    Image {
        /// The export of the overlay.
        export: String,
        /// Why.
        source: IoError,
    },
    /// Their folder cannot be used.
    #[error("export {export:?} cannot keep overlays: {why}")]
    Folder {
        /// The export of the overlay.
        export: String,
        /// Why.
        why: String,
    },
}

/// The overlays of an export's clients.
#[derive(Debug)]
pub(super) struct PerClient {
    base: Node,
    image: BaseImage,
    folder: Arc<OverlayFolder>,
    geometry: Geometry,
    named_by: NamedBy,
    quota: u64,
}

/// Overlays of the clients of `export` over `base`, its disk.
pub(super) async fn open(
    export: &ExportPlan,
    plan: &OverlayPlan,
    base: Node,
) -> Result<Arc<dyn DiskPerClient>, PerClientError> {
    match &plan.place {
        OverlayPlace::Folder(folder) => {
            let overlays = Box::pin(PerClient::open(export, plan, folder, base)).await?;
            Ok(Arc::new(overlays))
        }
        #[cfg(feature = "bucket")]
        OverlayPlace::Store(place) => {
            let clones = clones::VolumeClones::open(export, plan, place, &base);
            Ok(Arc::new(Box::pin(clones).await?))
        }
    }
}

impl PerClient {
    /// Overlays of the clients of `export` over `base`, its disk, in `folder`.
    async fn open(
        export: &ExportPlan,
        plan: &OverlayPlan,
        folder: &Path,
        base: Node,
    ) -> Result<Self, PerClientError> {
        let name = &export.name;
        let image = BaseImage::of(&base, expression(&export.disk)).await;
        let image = image.map_err(|source| PerClientError::Image {
            export: name.clone(),
            source,
        })?;
        let (directory, owner) = (folder.to_owned(), name.clone());
        let (record, max) = (image.record().clone(), plan.overlays_max);
        let open = engine::blocking(move || OverlayFolder::open(&directory, owner, record, max));
        let folder = open.await.map_err(|e| PerClientError::Folder {
            export: name.clone(),
            why: e.to_string(),
        })?;
        Ok(Self {
            geometry: Geometry {
                preferred_block_size: base
                    .geometry()
                    .preferred_block_size
                    .max(OverlayOptions::default().chunk),
                ..writable(base.geometry())
            },
            base,
            image,
            folder: Arc::new(folder),
            named_by: plan.named_by,
            quota: plan.quota,
        })
    }

    async fn overlay(&self, name: &ClientName) -> Result<Node, OverlayRefusal> {
        if !self.image.is_unchanged() {
            return Err(OverlayRefusal::Changed(self.image.record().disk.clone()));
        }
        let (folder, owner) = (self.folder.clone(), name.clone());
        let place = engine::blocking(move || folder.prepare(&owner, now())).await?;
        let options = OverlayOptions {
            size_max: Some(self.quota),
            ..OverlayOptions::default()
        };
        let overlay = Overlay::open(self.base.clone(), &place.path, options).await?;
        if place.is_new {
            // A flush that the client sees succeed includes the overlay's directory entry.
            let folder = self.folder.clone();
            engine::blocking(move || folder.sync()).await?;
        }
        Ok(Arc::new(overlay))
    }
}

/// The answer to a client that gets no overlay because of `overlays_max`.
const TOO_MANY: &str = "there are as many overlays as there may be";
/// The answer to a client that gets none for another reason.
const CANNOT_BE_OPENED: &str = "your overlay cannot be opened; see the server's log";

/// Why a client gets no overlay.
#[derive(Debug, thiserror::Error)]
enum OverlayRefusal {
    #[error(
        "{0} was changed while it is served, and the overlays over it are of what it was; put it \
         back, or reload to start with new overlays over what it is"
    )]
    Changed(String),
    #[error(transparent)]
    Folder(#[from] FolderError),
    #[error(transparent)]
    Overlay(#[from] OverlayError),
}

impl From<OverlayRefusal> for CannotOpen {
    fn from(refusal: OverlayRefusal) -> Self {
        let client_message = match &refusal {
            OverlayRefusal::Changed(_) => "the image changed on the server",
            OverlayRefusal::Folder(FolderError::TooMany(_)) => TOO_MANY,
            OverlayRefusal::Folder(_) | OverlayRefusal::Overlay(_) => CANNOT_BE_OPENED,
        };
        Self {
            client_message: client_message.to_owned(),
            cause: refusal.to_string(),
        }
    }
}

impl DiskPerClient for PerClient {
    fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    fn name(&self, peer: &Peer) -> Result<ClientName, Nameless> {
        self.named_by.name(peer)
    }

    fn image(&self) -> &str {
        self.image.id()
    }

    fn open<'a>(&'a self, name: &'a ClientName) -> ClientFuture<'a, Result<Node, CannotOpen>> {
        Box::pin(async move { Ok(self.overlay(name).await?) })
    }

    fn closed<'a>(&'a self, name: &'a ClientName) -> ClientFuture<'a, ()> {
        Box::pin(async move {
            let (folder, owner) = (self.folder.clone(), name.clone());
            if let Err(e) = engine::blocking(move || folder.seen(&owner, now())).await {
                tracing::warn!("{e}");
            }
        })
    }

    fn remove<'a>(
        &'a self,
        name: &'a ClientName,
        image: &'a str,
    ) -> ClientFuture<'a, Result<(), String>> {
        Box::pin(async move {
            let folder = self.folder.clone();
            let (owner, image) = (name.clone(), image.to_owned());
            let lock = folder.lock(&owner, &image).await;
            let lock = lock.map_err(|e| e.to_string())?;
            let removed = engine::blocking(move || folder.remove(&owner, &image, lock)).await;
            removed.map_err(|e| e.to_string())
        })
    }

    fn list(&self) -> Vec<ClientDiskFigures> {
        let figures = |found: folder::FoundOverlay| ClientDiskFigures {
            is_older: found.record.image.id != self.image.id(),
            name: found.record.client,
            connections: 0,
            bytes: Some(found.bytes),
            quota: Some(self.quota),
            last_seen: Some(found.record.last_seen),
            image: found.record.image.disk,
            image_id: found.record.image.id,
        };
        self.folder.list().into_iter().map(figures).collect()
    }
}

/// A disk as it is written, without the export's name before it.
fn expression(disk: &NamedDisk) -> &str {
    let name = disk.name.as_deref();
    let behind = name.and_then(|name| disk.text.trim_start().strip_prefix(name));
    let behind = behind.and_then(|rest| rest.trim_start().strip_prefix('='));
    behind.unwrap_or(&disk.text).trim()
}

/// What an overlay is, over such a disk.
fn writable(base: &Geometry) -> Geometry {
    Geometry {
        read_only: false,
        flush: Support::Native,
        fua: Support::Native,
        trim: Support::Native,
        write_zeroes: Support::Native,
        ..base.clone()
    }
}

/// Seconds since 1970.
fn now() -> u64 {
    let since = engine::clock::wall().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}
