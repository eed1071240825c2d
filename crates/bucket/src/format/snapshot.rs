//! [`SnapshotRecord`]: what a checkpoint of the index is for, in its name.
//!
//! # Invariants
//!
//! * A checkpoint that never expires is a snapshot, also if its name is not understood: another version of this program made it. It is
//!   not read, and the volume is not deleted.

use super::is_size;
use crate::snapshot_name::SnapshotName;

/// What the name of a snapshot's checkpoint begins with; then its version, the size of the volume in bytes, and the name.
const PREFIX: &str = "outboard-snapshot/1/";
/// The checkpoint of a snapshot that is being made. It expires.
pub(crate) const PENDING: &str = "outboard-snapshot-pending";
/// A checkpoint by which a command requests that the writer writes all its changes into tables. It expires.
pub(crate) const FLUSH_REQUEST: &str = "outboard-flush-request";

/// What a snapshot is of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SnapshotRecord {
    /// Its name.
    pub(crate) name: SnapshotName,
    /// The size that the volume had, bytes.
    pub(crate) size: u64,
}

impl SnapshotRecord {
    /// As the name of a checkpoint.
    pub(crate) fn encode(&self) -> String {
        format!("{PREFIX}{}/{}", self.size, self.name)
    }

    /// The record that a checkpoint has as its name, if it is one.
    pub(crate) fn decode(text: &str) -> Option<Self> {
        let (size, name) = text.strip_prefix(PREFIX)?.split_once('/')?;
        let is_plain = size.bytes().all(|byte| byte.is_ascii_digit());
        let size = is_plain.then(|| size.parse().ok())??;
        is_size(size).then_some(())?;
        Some(Self {
            name: name.parse().ok()?,
            size,
        })
    }
}
