//! Why an array is not opened, or not changed: one line each, with what to do next.

use block::IoError;

/// Why an array is not opened, or not changed. Nothing was written, but where a write failed.
#[derive(Debug, thiserror::Error)]
pub enum ArrayError {
    /// A member cannot be read.
    #[error("{member} cannot be read: {source}")]
    Read {
        /// Which.
        member: String,
        /// Why.
        source: IoError,
    },
    /// A member cannot be written: what was begun is not whole.
    #[error("{member} cannot be written: {source}")]
    Write {
        /// Which.
        member: String,
        /// Why.
        source: IoError,
    },
    /// What the members say does not make an array that can be opened so.
    #[error("{what}")]
    Refused {
        /// What is wrong, and with which member.
        what: String,
        /// What to do next.
        next: Option<String>,
    },
}

impl ArrayError {
    /// A refusal.
    pub(super) fn refused(what: impl Into<String>, next: impl Into<Option<&'static str>>) -> Self {
        Self::Refused {
            what: what.into(),
            next: next.into().map(str::to_owned),
        }
    }

    /// The same, where what to do next names things.
    pub(super) fn refused_with(what: impl Into<String>, next: impl Into<String>) -> Self {
        Self::Refused {
            what: what.into(),
            next: Some(next.into()),
        }
    }

    /// What to do next.
    #[must_use]
    pub fn next(&self) -> Option<&str> {
        match self {
            Self::Read { .. } | Self::Write { .. } => None,
            Self::Refused { next, .. } => next.as_deref(),
        }
    }
}
