//! [`UpdateError`]: why the metadata of a group were not changed.

use block::IoError;

use super::plan::PlanError;
use crate::volume::format::VolumeProblem;

/// Why the metadata of a group were not changed, or may not have been.
#[derive(Debug, thiserror::Error)]
pub enum UpdateError {
    /// There is nowhere to write them.
    #[error("no physical volume of the group has a metadata area in use")]
    NoArea,
    /// The new text is none that LVM would take.
    #[error("the new metadata would make no sense: {0}")]
    Text(#[source] VolumeProblem),
    /// They have no room; nothing was written.
    #[error("{disk}: {source}; nothing was changed")]
    Plan {
        /// The disk.
        disk: String,
        /// Why.
        #[source]
        source: PlanError,
    },
    /// The header of an area is damaged; nothing was written.
    #[error("{disk}: {source}; nothing was changed")]
    Header {
        /// The disk.
        disk: String,
        /// Why.
        #[source]
        source: VolumeProblem,
    },
    /// A disk cannot be read; nothing was written.
    #[error("{disk} cannot be read: {source}; nothing was changed")]
    Read {
        /// The disk.
        disk: String,
        /// Why.
        #[source]
        source: IoError,
    },
    /// No disk took the new metadata.
    #[error("no disk took the new metadata: {disk}: {source}")]
    Write {
        /// The last disk that failed.
        disk: String,
        /// Why.
        #[source]
        source: IoError,
    },
    /// A label could not be written.
    #[error("the label of {disk} cannot be written: {source}")]
    Label {
        /// The disk.
        disk: String,
        /// Why.
        #[source]
        source: IoError,
    },
    /// The place for the metadata of an image could not be cleared; the group is as it was.
    #[error("{disk} did not take the metadata of an image: {source}; nothing was changed")]
    Clear {
        /// The disk.
        disk: String,
        /// Why.
        #[source]
        source: IoError,
    },
}
