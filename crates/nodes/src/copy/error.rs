//! [`CopyError`]: why a copy did not come to its end.

use block::IoError;

/// Why a copy ended early. The target holds a part of it then, but for
/// [`TooSmall`](Self::TooSmall) and [`ReadOnly`](Self::ReadOnly).
#[derive(Debug, Clone, thiserror::Error)]
pub enum CopyError {
    /// The target has no room. Nothing was written.
    #[error("the target has {target} bytes, and the source has {source_size}")]
    TooSmall {
        /// Size of the source, bytes.
        source_size: u64,
        /// Size of the target, bytes.
        target: u64,
    },
    /// The target cannot be written. Nothing was.
    #[error("the target is read-only")]
    ReadOnly,
    /// The source failed.
    #[error("the source: {0}")]
    Source(IoError),
    /// The target failed.
    #[error("the target: {0}")]
    Target(IoError),
    /// The target holds something else than the source.
    #[error("byte {offset} differs")]
    Differs {
        /// The first byte that does.
        offset: u64,
    },
    /// The engine is ending.
    #[error("the program is ending")]
    Ending,
}
