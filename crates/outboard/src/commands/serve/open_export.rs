//! The disks of a server: opened one by one, each knowing which files the others have.

use std::sync::Arc;

use nbd::server::ExportDisk;
use nodes::array::{Array, Candidate};
use nodes::volume::open::{VolumeSet, VolumeUse};

use super::per_client::{self, PerClientError};
use crate::config::ExportPlan;
use crate::failure::Failure;
use crate::graph::NamedDisk;
use crate::graph::builder::{BuildError, Builder, FileClaim, OpenGroups, OpenedVolume};

/// An export's disk and the bytes of files that it has.
#[derive(Debug)]
pub(super) struct OpenExport {
    /// The export's name.
    pub(super) name: String,
    /// Until the server takes it: nothing else may keep a disk open.
    disk: Option<ExportDisk>,
    /// Number of the image that its clients have overlays over.
    image: Option<String>,
    /// The arrays that it is made of, until they are watched.
    arrays: Vec<Arc<Array>>,
    written: Vec<FileClaim>,
    /// The volume groups of all exports.
    groups: OpenGroups,
    /// The volumes that it is made of.
    volumes: Vec<OpenedVolume>,
}

/// Why an export cannot be served.
#[derive(Debug, thiserror::Error)]
pub(super) enum OpenFailure {
    /// Its disk.
    #[error(transparent)]
    Disk(#[from] BuildError),
    /// The overlays of its clients.
    #[error(transparent)]
    Overlays(#[from] PerClientError),
}

impl OpenFailure {
    /// Whether a disk that this process has open is in the way.
    pub(super) fn is_own_conflict(&self) -> bool {
        matches!(self, Self::Disk(error) if error.is_own_conflict())
    }

    /// How the disk is written that has the bytes already.
    pub(super) fn rival(&self) -> Option<&str> {
        match self {
            Self::Disk(BuildError::Twice { first, .. } | BuildError::Unlike { first, .. }) => {
                Some(&first.text)
            }
            _ => None,
        }
    }
}

impl From<OpenFailure> for Failure {
    fn from(failure: OpenFailure) -> Self {
        match failure {
            OpenFailure::Disk(error) => error.into(),
            OpenFailure::Overlays(error) => Self::new(error),
        }
    }
}

impl OpenExport {
    /// Hands the disk over; `None` if that was done before.
    pub(super) fn take(&mut self) -> Option<ExportDisk> {
        self.disk.take()
    }

    /// Hands the arrays over that the disk stands on.
    pub(super) fn take_arrays(&mut self) -> Vec<Arc<Array>> {
        std::mem::take(&mut self.arrays)
    }

    /// The volume groups of all exports.
    pub(super) const fn groups(&self) -> &OpenGroups {
        &self.groups
    }

    /// Claims more bytes of a group, if this export is open over it; whether it is.
    pub(super) fn claim(&mut self, set: &Arc<VolumeSet>, uses: &[VolumeUse]) -> bool {
        match self.groups.claim_more(set, uses) {
            None => false,
            Some(claims) => {
                self.written.extend(claims);
                true
            }
        }
    }

    /// Whether it is made of this volume.
    pub(super) fn has(&self, volume: &OpenedVolume) -> bool {
        self.volumes.contains(volume)
    }

    /// Whether it is made of volumes of the group of this id.
    pub(super) fn has_group(&self, id: &str) -> bool {
        self.volumes.iter().any(|volume| volume.group == id)
    }

    /// Whether both have volumes of one group.
    pub(super) fn shares_group(&self, other: &Self) -> bool {
        other
            .volumes
            .iter()
            .any(|volume| self.has_group(&volume.group))
    }

    /// Takes over what `before` has claimed: the group of both is still open, and claims nothing twice.
    pub(super) fn keep_claims(&mut self, before: &Self) {
        self.written.extend(before.written.iter().cloned());
    }

    /// Number of the image that its clients have overlays over.
    pub(super) fn image(&self) -> Option<&str> {
        self.image.as_deref()
    }
}

/// Disks being opened.
#[derive(Debug, Default)]
pub(super) struct Opening {
    written: Vec<FileClaim>,
    groups: OpenGroups,
    opened: Vec<OpenExport>,
}

impl Opening {
    /// Claims of the exports that are `open`, without those that are `leaving`: their locks show whether they block a
    /// new disk.
    pub(super) fn with_claims_of(open: &[OpenExport], leaving: &[String]) -> Self {
        let staying = open.iter().filter(|open| !leaving.contains(&open.name));
        Self {
            written: staying.flat_map(|open| open.written.clone()).collect(),
            groups: open
                .first()
                .map(|open| open.groups.clone())
                .unwrap_or_default(),
            opened: Vec::new(),
        }
    }

    /// Opens one more.
    pub(super) async fn open(&mut self, export: &ExportPlan) -> Result<(), OpenFailure> {
        let known = self.written.len();
        // What is below overlays is never written; what stands by is opened for writing later.
        let read_only = export.read_only || export.overlay.is_some() || export.is_standby;
        let mut builder = Builder::new(read_only).with_claims(self.written.clone());
        builder = builder.with_groups(self.groups.clone());
        if export.overlay.is_none() {
            builder = builder.with_every_byte();
        }
        let disk = Box::pin(builder.build(&export.disk)).await?;
        if disk.geometry().size == 0 {
            tracing::warn!(
                "export {:?} has no bytes: {} is empty; `outboard disk create PATH SIZE` makes an image",
                export.name,
                export.disk.text
            );
        }
        let (disk, image) = match &export.overlay {
            #[cfg(feature = "bucket")]
            None if export.is_standby => (super::standby::standby(export, disk), None),
            None => (disk.into(), None),
            Some(plan) => {
                let overlays = Box::pin(per_client::open(export, plan, disk)).await?;
                let image = overlays.image().to_owned();
                (ExportDisk::PerClient(overlays), Some(image))
            }
        };
        let arrays = builder.arrays().to_vec();
        let volumes = builder.volumes().to_vec();
        self.written = builder.claims();
        self.opened.push(OpenExport {
            name: export.name.clone(),
            disk: Some(disk),
            image,
            arrays,
            written: self.written[known..].to_vec(),
            groups: self.groups.clone(),
            volumes,
        });
        Ok(())
    }

    /// Opens one more disk for the arrays of an export that is open.
    pub(super) async fn member(
        open: &mut [OpenExport],
        export: &str,
        disk: &NamedDisk,
    ) -> Result<Candidate, BuildError> {
        for opened in open.iter_mut() {
            // What members had that are gone.
            opened.written.retain(FileClaim::is_alive);
        }
        let held: Vec<FileClaim> = open.iter().flat_map(|open| open.written.clone()).collect();
        let known = held.len();
        let mut builder = Builder::new(false).with_claims(held);
        let candidate = Box::pin(builder.candidate(disk)).await?;
        if let Some(opened) = open.iter_mut().find(|open| open.name == export) {
            opened.written.extend_from_slice(&builder.claims()[known..]);
        }
        Ok(candidate)
    }

    /// The disks that were opened, in that order.
    pub(super) fn done(self) -> Vec<OpenExport> {
        self.opened
    }
}
