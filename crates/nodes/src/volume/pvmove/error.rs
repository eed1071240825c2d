//! [`PvmoveError`]: why a move of extents stopped.

use block::IoError;

use crate::copy::CopyError;
use crate::volume::edit::EditError;
use crate::volume::update::UpdateError;

/// Why a move of extents stopped. The volumes have all their bytes, and the move can be resumed or ended.
#[derive(Debug, thiserror::Error)]
pub enum PvmoveError {
    /// The metadata cannot be changed so.
    #[error(transparent)]
    Edit(#[from] EditError),
    /// The metadata were not written.
    #[error(transparent)]
    Update(#[from] UpdateError),
    /// A disk did not take the metadata, others did.
    #[error("{disk} did not take the metadata: {source}")]
    Metadata {
        /// The disk: its metadata are outdated.
        disk: String,
        /// Why.
        #[source]
        source: IoError,
    },
    /// Data were not copied.
    #[error("extents of {from} cannot be copied to {to}: {source}")]
    Copy {
        /// The disk with the old place.
        from: String,
        /// The disk with the new place.
        to: String,
        /// Why.
        #[source]
        source: CopyError,
    },
    /// Extents that the metadata name are not there.
    #[error("the disk of {member} is missing, or ends before its extents do")]
    NoPlace {
        /// The physical volume.
        member: String,
    },
}
