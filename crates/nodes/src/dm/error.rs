//! [`TableError`]: why a table is refused, and where.

use super::table::TextPosition;
use crate::{PartError, StripeError};

/// A table that is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {problem}")]
pub struct TableError {
    /// Where.
    pub place: TextPosition,
    /// Why.
    pub problem: DmProblem,
}

/// Why a table is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DmProblem {
    /// Nothing but blanks and comments.
    #[error(
        "the table has no line: a line is START LENGTH TARGET ARGUMENTS, in sectors of 512 bytes"
    )]
    NoLine,
    /// More lines than a table may have.
    #[error("the table has more than {max} lines")]
    TooManyLines {
        /// How many it may have.
        max: usize,
    },
    /// The output of `dmsetup table` for all devices.
    #[error(
        "{found} is the name of a device: leave it out, as `dmsetup table NAME` prints the table"
    )]
    DeviceName {
        /// What stands there.
        found: String,
    },
    /// A word is missing.
    #[error("{what} is missing behind {target}")]
    Missing {
        /// What should stand there.
        what: &'static str,
        /// Of which target, or of the line.
        target: &'static str,
    },
    /// A word too many.
    #[error("{target} takes no more arguments, and here is {found:?}")]
    Extra {
        /// What stands there.
        found: String,
        /// The target.
        target: &'static str,
    },
    /// No number.
    #[error("{what} is a decimal number, {found:?} is none")]
    Number {
        /// What should stand there.
        what: &'static str,
        /// What does.
        found: String,
    },
    /// Lines do not follow each other.
    #[error("the line begins at sector {start}, and should at sector {expected}: {}", gap(*.start, *.expected))]
    NotContiguous {
        /// Where it begins.
        start: u64,
        /// Where the one before ends.
        expected: u64,
    },
    /// A line without sectors.
    #[error("a line has at least one sector")]
    NoSectors,
    /// Numbers that no disk can have.
    #[error("a disk cannot be that large")]
    TooLarge,
    /// No target of that name.
    #[error("there is no target {found:?}: outboard knows {known}")]
    UnknownTarget {
        /// What stands there.
        found: String,
        /// Those there are.
        known: String,
    },
    /// A target of the kernel that is not served.
    #[error("the target {name} is not served: {instead}")]
    Refused {
        /// Its name.
        name: &'static str,
        /// Why, and what to do.
        instead: &'static str,
    },
    /// Arguments that the target does not take, in its own words.
    #[error("{0}")]
    Arguments(String),
    /// A device that is too small.
    #[error("{device} has {size} sectors, and {needed} are needed")]
    PastEnd {
        /// Which.
        device: String,
        /// Its size, sectors.
        size: u64,
        /// What the line needs, sectors.
        needed: u64,
    },
    /// Devices that do not fit each other.
    #[error(transparent)]
    Part(PartError),
    /// Stripes that do not fit each other.
    #[error(transparent)]
    Stripe(StripeError),
}

impl DmProblem {
    /// This problem, there.
    pub(super) const fn at(self, place: TextPosition) -> TableError {
        TableError {
            place,
            problem: self,
        }
    }
}

const fn gap(start: u64, expected: u64) -> &'static str {
    if expected == 0 {
        "a table begins at sector 0"
    } else if start > expected {
        "lines follow each other without a gap; `zero` or `error` can fill it"
    } else {
        "lines do not overlap"
    }
}
