//! [`BucketUri`]: where a volume is, as it is written: `s3://BUCKET/PATH/VOLUME`, `file:///PATH/VOLUME`. Pure.
//!
//! # Invariants
//!
//! * A URI has no credentials, query or fragment: they come from the environment, and are in no log.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use crate::snapshot_name::{SnapshotNameError, is_snapshot};

/// Where a volume is.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum BucketUri {
    /// A bucket of an S3 store, and what the names of the volume's objects begin with.
    S3 {
        /// The bucket.
        bucket: String,
        /// The folder of the volume.
        path: String,
    },
    /// A folder of this machine.
    File(PathBuf),
}

/// A URI of no volume.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BucketUriError {
    /// Another scheme.
    #[error("`{0}` is no URI of a volume: write s3://BUCKET/PATH/VOLUME or file:///PATH/VOLUME")]
    Scheme(String),
    /// Credentials, a query or a fragment.
    #[error("a URI of a volume has no `{0}`: credentials and endpoints come from the environment")]
    Extra(char),
    /// A host in a URI of a file.
    #[error("a file URI of a volume begins with file:/// and has no host")]
    Host,
    /// No bucket.
    #[error("the URI names no bucket: write s3://BUCKET/PATH/VOLUME")]
    NoBucket,
    /// No volume.
    #[error("the URI names no volume behind the bucket: write s3://BUCKET/PATH/VOLUME")]
    NoVolume,
    /// A name that object stores or paths do not keep as it is.
    #[error("`{0}` is no name in the path of a volume: letters, digits and - _ . = + , are")]
    Name(String),
    /// A snapshot, where only a volume will do.
    #[error("`{0}` is a snapshot: write the volume alone, without `@` and the name")]
    NotAVolume(String),
    /// A volume, where only a snapshot of one will do.
    #[error("`{0}` is a volume: write the snapshot of it, VOLUME@NAME")]
    NotASnapshot(String),
    /// A name of no snapshot behind the `@`.
    #[error(transparent)]
    Snapshot(SnapshotNameError),
}

/// Schemes of volumes.
pub const SCHEMES: [&str; 2] = ["s3", "file"];

impl FromStr for BucketUri {
    type Err = BucketUriError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let no_scheme = || BucketUriError::Scheme(text.to_owned());
        let (scheme, rest) = text.split_once("://").ok_or_else(no_scheme)?;
        if let Some(extra) = rest.chars().find(|c| matches!(c, '@' | '?' | '#' | '%')) {
            return Err(match is_snapshot(text) {
                true => BucketUriError::NotAVolume(text.to_owned()),
                false => BucketUriError::Extra(extra),
            });
        }
        match scheme.to_ascii_lowercase().as_str() {
            "file" => {
                let path = rest.strip_prefix('/').ok_or(BucketUriError::Host)?;
                let path = folder(path)?;
                Ok(Self::File(PathBuf::from(format!("/{path}"))))
            }
            "s3" => {
                let (bucket, path) = rest.split_once('/').unwrap_or((rest, ""));
                if bucket.is_empty() {
                    return Err(BucketUriError::NoBucket);
                }
                Ok(Self::S3 {
                    bucket: checked(bucket)?.to_owned(),
                    path: folder(path)?,
                })
            }
            _ => Err(BucketUriError::Scheme(text.to_owned())),
        }
    }
}

impl BucketUri {
    /// The folder of the volume in its store: a bucket, or all folders of this machine.
    pub(crate) fn folder(&self) -> String {
        match self {
            Self::S3 { path, .. } => path.clone(),
            Self::File(path) => {
                let path = path.display().to_string();
                path.trim_start_matches('/').to_owned()
            }
        }
    }
}

/// Whether this is the folder of a volume as it is written, without slashes at its ends.
pub(crate) fn is_folder(path: &str) -> bool {
    folder(path).is_ok_and(|folder| folder == path)
}

/// The folder of a volume, without slashes at its ends.
fn folder(path: &str) -> Result<String, BucketUriError> {
    let path = path.strip_suffix('/').unwrap_or(path);
    if path.is_empty() {
        return Err(BucketUriError::NoVolume);
    }
    let names: Vec<&str> = path.split('/').map(checked).collect::<Result<_, _>>()?;
    Ok(names.join("/"))
}

/// Whether object stores and paths keep this character as it is.
pub(crate) fn is_kept(c: char) -> bool {
    c.is_ascii_alphanumeric() || "-_.=+,".contains(c)
}

fn checked(name: &str) -> Result<&str, BucketUriError> {
    let is_name = !name.is_empty() && name != "." && name != ".." && name.chars().all(is_kept);
    is_name
        .then_some(name)
        .ok_or_else(|| BucketUriError::Name(name.to_owned()))
}

impl fmt::Display for BucketUri {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::S3 { bucket, path } => write!(f, "s3://{bucket}/{path}"),
            Self::File(path) => write!(f, "file://{}", path.display()),
        }
    }
}
