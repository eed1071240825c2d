//! [`SnapshotName`], [`SnapshotUri`] and [`VolumeUri`]: a volume, or a snapshot of it, as they are written: `s3://BUCKET/PATH/VOLUME@NAME`. Pure.

use std::fmt;
use std::str::FromStr;

use crate::uri::{BucketUri, BucketUriError, is_kept};

/// Characters of a name, at most.
const NAME_MAX: usize = 100;

/// The name of a snapshot, which is one of its volume's only.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SnapshotName(String);

/// A name that no snapshot can have.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is no name of a snapshot: 1 to {NAME_MAX} letters, digits and - _ . = + , and not a dot at its start"
)]
pub struct SnapshotNameError(String);

impl SnapshotName {
    /// As text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for SnapshotName {
    type Err = SnapshotNameError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let is_name = (1..=NAME_MAX).contains(&text.len())
            && !text.starts_with('.')
            && text.chars().all(is_kept);
        is_name
            .then(|| Self(text.to_owned()))
            .ok_or_else(|| SnapshotNameError(text.to_owned()))
    }
}

impl fmt::Display for SnapshotName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A volume, or one of its snapshots.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct VolumeUri {
    /// The volume.
    pub volume: BucketUri,
    /// The snapshot of it; else it is the volume as it is.
    pub snapshot: Option<SnapshotName>,
}

impl FromStr for VolumeUri {
    type Err = BucketUriError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let Some((volume, name)) = split(text) else {
            let volume = text.parse()?;
            return Ok(Self {
                volume,
                snapshot: None,
            });
        };
        let volume = volume.parse().map_err(|error| match error {
            // It may be a secret key, which has slashes: it is not repeated.
            BucketUriError::Name(_) => BucketUriError::Extra('@'),
            error => error,
        })?;
        let snapshot = name.parse().map_err(BucketUriError::Snapshot)?;
        Ok(Self {
            volume,
            snapshot: Some(snapshot),
        })
    }
}

/// A snapshot of a volume.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SnapshotUri {
    /// The volume.
    pub volume: BucketUri,
    /// The name of the snapshot.
    pub name: SnapshotName,
}

impl FromStr for SnapshotUri {
    type Err = BucketUriError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let VolumeUri { volume, snapshot } = text.parse()?;
        let name = snapshot.ok_or_else(|| BucketUriError::NotASnapshot(text.to_owned()))?;
        Ok(Self { volume, name })
    }
}

impl fmt::Display for SnapshotUri {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.volume, self.name)
    }
}

/// The URI of a volume and the name behind it, if there is one. An `@` before the last slash would be one of credentials.
fn split(text: &str) -> Option<(&str, &str)> {
    let (folder, name) = text.rsplit_once('/')?;
    let at = name.find('@').filter(|_| !folder.ends_with(":/"))?;
    let at = folder.len() + 1 + at;
    Some((&text[..at], &text[at + 1..]))
}

/// Whether this is a snapshot.
pub(crate) fn is_snapshot(text: &str) -> bool {
    split(text).is_some() && text.parse::<VolumeUri>().is_ok()
}

impl fmt::Display for VolumeUri {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.snapshot {
            Some(name) => write!(f, "{}@{name}", self.volume),
            None => self.volume.fmt(f),
        }
    }
}
