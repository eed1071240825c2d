//! Requests about the arrays of a server. Plain data.

use std::fmt;

use nodes::array::ConsistencyPolicy;
use serde::{Deserialize, Serialize};

/// A change of one array.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ArrayRequest {
    /// The export that is backed by it.
    pub(crate) export: String,
    /// Its UUID, as mdadm writes it: a name may have come to mean another array meanwhile.
    pub(crate) uuid: String,
    /// The change.
    pub(crate) step: ArrayStep,
}

/// What can be done with an array.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum ArrayStep {
    /// Make a disk a member.
    Add {
        /// The disk, as an expression; its paths are absolute.
        disk: String,
        /// Reads prefer others.
        write_mostly: bool,
        /// Errors fail it at once.
        fail_fast: bool,
        /// Overwrite what is on it.
        force: bool,
    },
    /// Take a member back that was away.
    ReAdd {
        /// The disk, as an expression; its paths are absolute.
        disk: String,
    },
    /// Declare a member failed.
    Fail {
        /// Its name.
        member: String,
    },
    /// Forget a member that failed, or a spare.
    Remove {
        /// Its name.
        member: String,
    },
    /// Make a spare a copy of a member, and give it that member's place.
    Replace {
        /// The member's name.
        member: String,
        /// The spare's; any if there is none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        with: Option<String>,
    },
    /// Change the count of parts.
    Grow {
        /// How many.
        parts: u32,
    },
    /// Give an array with parity another form; what is not given stays.
    Reshape {
        /// Members of the complete array.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        parts: Option<u32>,
        /// Layout, by the level's own numbers.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        layout: Option<u32>,
        /// Chunk, bytes.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        chunk: Option<u64>,
        /// The backup file, where rows are moved in place; an absolute path.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        backup_file: Option<String>,
    },
    /// Give an array with parity another level while it is used.
    Level {
        /// md's number of it.
        level: i32,
    },
    /// Give a redundant array another consistency policy while it is used.
    Policy {
        /// mdadm's name of it.
        policy: NewPolicy,
    },
    /// Use all of members that were enlarged.
    Resize {
        /// What is new is not resynced.
        assume_clean: bool,
    },
    /// Compare all copies.
    Scrub {
        /// Repair differences.
        repair: bool,
    },
    /// End a scrub early.
    StopScrub,
    /// End the export, mark the array clean and close it.
    Stop {
        /// Also if clients are connected.
        force: bool,
    },
}

/// A consistency policy that an array can get while it is used, by mdadm's names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "snake_case")]
pub(crate) enum NewPolicy {
    /// Partial parity logs, of level 5: they close the write hole.
    Ppl,
    /// A write-intent bitmap: after a power cut its chunks are resynced.
    Bitmap,
    /// Neither: after a power cut everything is resynced.
    Resync,
}

impl From<NewPolicy> for ConsistencyPolicy {
    fn from(policy: NewPolicy) -> Self {
        match policy {
            NewPolicy::Ppl => Self::Ppl,
            NewPolicy::Bitmap => Self::Bitmap,
            NewPolicy::Resync => Self::Resync,
        }
    }
}

impl fmt::Display for ArrayStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Add { disk, .. } => write!(f, "to add {disk}"),
            Self::ReAdd { disk } => write!(f, "to take {disk} back"),
            Self::Fail { member } => write!(f, "to fail {member}"),
            Self::Remove { member } => write!(f, "to remove {member}"),
            Self::Replace { member, with: None } => write!(f, "to replace {member}"),
            Self::Replace {
                member,
                with: Some(with),
            } => write!(f, "to replace {member} with {with}"),
            Self::Grow { parts } => write!(f, "to have {parts} copies"),
            Self::Reshape {
                parts: Some(parts), ..
            } => write!(f, "to be reshaped to {parts} members"),
            Self::Reshape { .. } => f.write_str("to be reshaped"),
            Self::Level { level } => write!(f, "to become level {level}"),
            Self::Policy { policy } => {
                let name = ConsistencyPolicy::from(*policy).name();
                write!(f, "the consistency policy {name}")
            }
            Self::Resize { .. } => f.write_str("to use all of its members"),
            Self::Scrub { repair: false } => f.write_str("a scrub"),
            Self::Scrub { repair: true } => f.write_str("a scrub that repairs"),
            Self::StopScrub => f.write_str("to end a scrub"),
            Self::Stop { .. } => f.write_str("to stop"),
        }
    }
}
