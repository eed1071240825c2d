//! Why a volume of RAID is not opened: one line each, with what to do next.

use block::IoError;

use crate::array::ArrayError;
use crate::array::format::Problem;

/// Why a volume of RAID is not opened. Nothing was written, but where a write failed.
#[derive(Debug, thiserror::Error)]
pub enum RaidError {
    /// An image cannot be read.
    #[error("{image} cannot be read: {source}")]
    Read {
        /// Which.
        image: String,
        /// Why.
        source: IoError,
    },
    /// The first metadata of an image cannot be written: the volume is as new as it was.
    #[error("the metadata of {image} cannot be written: {source}")]
    Write {
        /// Which.
        image: String,
        /// Why.
        source: IoError,
    },
    /// The metadata of an image cannot be.
    #[error("the metadata of {image} are damaged: {problem}")]
    Damaged {
        /// Which.
        image: String,
        /// What is wrong.
        problem: Problem,
    },
    /// What the images say does not make a volume that can be opened so.
    #[error("{what}")]
    Refused {
        /// What is wrong, and with which image.
        what: String,
        /// What to do next.
        next: Option<&'static str>,
    },
    /// The engine of arrays does not open it.
    #[error(transparent)]
    Array(#[from] ArrayError),
}

impl RaidError {
    /// A refusal.
    pub(super) fn refused(what: impl Into<String>, next: impl Into<Option<&'static str>>) -> Self {
        Self::Refused {
            what: what.into(),
            next: next.into(),
        }
    }

    /// What to do next.
    #[must_use]
    pub fn next(&self) -> Option<&str> {
        match self {
            Self::Read { .. } | Self::Write { .. } => None,
            Self::Damaged { .. } => Some("leave the disk of that image out: it is then missing"),
            Self::Refused { next, .. } => *next,
            Self::Array(error) => error.next(),
        }
    }
}
