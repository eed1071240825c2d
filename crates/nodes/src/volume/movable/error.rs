//! [`RelocateError`]: why bytes are not moved.

use block::IoError;

/// Why bytes are not moved. They are where they were.
#[derive(Debug, Clone, thiserror::Error)]
pub(in crate::volume) enum RelocateError {
    /// The old place cannot be read.
    #[error("{0}")]
    Read(IoError),
    /// The new place does not take them.
    #[error("{0}")]
    Write(IoError),
    /// Changes that were dropped do not settle.
    #[error("{0}")]
    Settle(IoError),
    /// The caller cancelled it.
    #[error("cancelled")]
    Cancelled,
}
