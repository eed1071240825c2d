//! [`BuildError`]: why a disk was not opened, where that is in the expression, and what to do next.

use std::error::Error;
use std::path::PathBuf;

use nbd::client::ClientError;
use nodes::array::ArrayError;
use nodes::volume::VolumeError;
use nodes::{CacheError, OpenError, OverlayError};

use crate::graph::ExpressionError;
use crate::graph::error::SourceMark;

/// A disk that could not be opened.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BuildError {
    /// A file.
    #[error("{source}")]
    File {
        /// Where it is named.
        mark: SourceMark,
        /// Why.
        source: OpenError,
    },
    /// Bytes of a file that another disk has.
    #[error("{} would be {} at once", path.display(), if *both_write { "written by two disks" } else { "read by one disk and written by another" })]
    Twice {
        /// Its path.
        path: PathBuf,
        /// Whether both would write.
        both_write: bool,
        /// Where it was opened.
        first: SourceMark,
        /// Where it would be opened again.
        second: SourceMark,
    },
    /// A file that is open here in another way.
    #[error("{} is open here already, in another way", path.display())]
    Unlike {
        /// Its path.
        path: PathBuf,
        /// Where it was opened.
        first: SourceMark,
        /// Where it would be opened otherwise.
        second: SourceMark,
    },
    /// An overlay that would be written to what it must keep.
    #[error("{} is the overlay's BASE too, or a part of it", path.display())]
    OwnBase {
        /// The path of TOP.
        path: PathBuf,
        /// Where it is named.
        mark: SourceMark,
    },
    /// A table that leads back to itself.
    #[error("the table {} leads back to itself", path.display())]
    Circle {
        /// The table.
        path: PathBuf,
        /// Where it is named.
        mark: SourceMark,
    },
    /// Tables of tables of tables.
    #[error("tables may name tables {max} deep at most")]
    TooDeep {
        /// The bound.
        max: usize,
        /// Where the first beyond it is named.
        mark: SourceMark,
    },
    /// A remote disk.
    #[error("{source}")]
    Remote {
        /// Where it is named.
        mark: SourceMark,
        /// Why.
        source: Box<ClientError>,
    },
    /// Disks that do not make another one.
    #[error("{source}")]
    Node {
        /// Where the call stands.
        mark: SourceMark,
        /// Why.
        source: Box<dyn Error + Send + Sync>,
        /// What the user can do about it, if that does not say so.
        next: Option<&'static str>,
    },
    /// Disks that make no array that can be opened.
    #[error("{source}")]
    Array {
        /// Where the call stands.
        mark: SourceMark,
        /// Why.
        source: ArrayError,
    },
    /// A volume that cannot be opened.
    #[error("{source}")]
    Volume {
        /// Where what is wrong stands: the name, a disk, or the call.
        mark: SourceMark,
        /// Why.
        source: Box<VolumeError>,
        /// What the user can do about it, if that does not say so.
        next: Option<String>,
    },
    /// A table that cannot be read, or makes no sense.
    #[error("{}: {source}", path.display())]
    Text {
        /// The table.
        path: PathBuf,
        /// Where it is named.
        mark: SourceMark,
        /// Why.
        source: Box<dyn Error + Send + Sync>,
    },
    /// A disk that a table names in the wrong way.
    #[error("{}, line {line}: in the disk `{}`, {source}", path.display(), source.mark.text)]
    Name {
        /// The table.
        path: PathBuf,
        /// Its line, from 1.
        line: usize,
        /// Why.
        source: Box<ExpressionError>,
    },
    /// A disk that a table names and that could not be opened.
    #[error("{}, line {line}: {source}", path.display())]
    Table {
        /// The table.
        path: PathBuf,
        /// Its line, from 1.
        line: usize,
        /// Why.
        source: Box<Self>,
    },
}

impl BuildError {
    /// Where in the expressions.
    pub(crate) fn marks(&self) -> Vec<&SourceMark> {
        match self {
            Self::File { mark, .. }
            | Self::OwnBase { mark, .. }
            | Self::Circle { mark, .. }
            | Self::TooDeep { mark, .. }
            | Self::Remote { mark, .. }
            | Self::Text { mark, .. }
            | Self::Array { mark, .. }
            | Self::Volume { mark, .. }
            | Self::Node { mark, .. } => vec![mark],
            Self::Name { source, .. } => vec![&source.mark],
            Self::Twice { first, second, .. } | Self::Unlike { first, second, .. } => {
                vec![first, second]
            }
            Self::Table { source, .. } => source.marks(),
        }
    }

    /// Why the server of a remote disk does not let this host write, if that is because another one does.
    pub(super) fn writer_refusal(&self) -> Option<&ClientError> {
        match self {
            Self::Remote { source, .. } => {
                let is_it = |error: &&ClientError| {
                    matches!(error, ClientError::Busy { .. } | ClientError::Fenced { .. })
                };
                Some(&**source).filter(is_it)
            }
            _ => None,
        }
    }

    /// Whether a disk that this process has open is in the way.
    pub(crate) fn is_own_conflict(&self) -> bool {
        match self {
            Self::Twice { .. } | Self::Unlike { .. } => true,
            Self::File { source, .. } => is_own(source),
            Self::Node { source, .. } => opened_by_node(&**source).is_some_and(is_own),
            Self::Table { source, .. } => source.is_own_conflict(),
            Self::OwnBase { .. }
            | Self::Circle { .. }
            | Self::TooDeep { .. }
            | Self::Remote { .. }
            | Self::Text { .. }
            | Self::Array { .. }
            | Self::Volume { .. }
            | Self::Name { .. } => false,
        }
    }

    /// The other process that has a file open, if that is in the way.
    pub(crate) fn in_use_by(&self) -> Option<u32> {
        match self {
            Self::File {
                source: OpenError::InUse { holder, .. },
                ..
            } => holder.process.filter(|id| *id != std::process::id()),
            Self::Table { source, .. } => source.in_use_by(),
            _ => None,
        }
    }

    /// What the user can do about it, if the message does not say so.
    pub(crate) fn next(&self) -> Option<&str> {
        match self {
            Self::File { .. } | Self::Remote { .. } | Self::Text { .. } | Self::Name { .. } => None,
            Self::Twice { .. } => Some("make it read-only in both: file(PATH, read-only=true)"),
            Self::Unlike { .. } => Some("write direct=true in both, or in neither"),
            Self::OwnBase { .. } => {
                Some("name another file for TOP: it is made if it is not there")
            }
            Self::Circle { .. } | Self::TooDeep { .. } => {
                Some("name files and devices in the table")
            }
            Self::Array { source, .. } => source.next(),
            Self::Volume { next, .. } => next.as_deref(),
            Self::Node { next, .. } => *next,
            Self::Table { source, .. } => source.next(),
        }
    }
}

/// Whether this process itself has the file.
fn is_own(error: &OpenError) -> bool {
    matches!(
        error,
        OpenError::InUse { holder, .. } if holder.process == Some(std::process::id())
    )
}

/// Why a node could not open the file that it keeps its data in.
fn opened_by_node<'a>(source: &'a (dyn Error + Send + Sync + 'static)) -> Option<&'a OpenError> {
    if let Some(OverlayError::Open(source)) = source.downcast_ref() {
        return Some(source);
    }
    match source.downcast_ref() {
        Some(CacheError::Open(source)) => Some(source),
        _ => None,
    }
}
