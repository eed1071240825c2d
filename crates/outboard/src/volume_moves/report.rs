//! [`MoveReport`]: a move of extents and how far it is, as JSON and in words. Pure.

use indicatif::HumanBytes;
use nodes::volume::open::{LiveMove, LiveMoveState};
use serde::{Deserialize, Serialize};

/// How a move stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum MoveProgress {
    /// Extents are being copied.
    Running,
    /// All are at their new place.
    Done,
    /// It was ended: what was not moved is where it was.
    Aborted,
    /// It was interrupted, and can be resumed or ended.
    Stopped,
    /// It ended by itself.
    Failed,
}

/// A move of extents.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct MoveReport {
    /// Name of the volume group.
    pub(crate) group: String,
    /// The disk that extents are moved away from.
    pub(crate) from: String,
    /// The disks that they are moved to.
    pub(crate) to: Vec<String>,
    /// How it stands.
    pub(crate) state: MoveProgress,
    /// Why it ended by itself.
    pub(crate) why: Option<String>,
    /// Bytes to move in all.
    pub(crate) bytes: u64,
    /// Bytes that were copied.
    pub(crate) copied: u64,
}

impl MoveReport {
    /// A move of the group `group`.
    pub(crate) fn of(group: &str, live: &LiveMove) -> Self {
        let (state, why) = match live.state() {
            LiveMoveState::Running => (MoveProgress::Running, None),
            LiveMoveState::Done => (MoveProgress::Done, None),
            LiveMoveState::Aborted => (MoveProgress::Aborted, None),
            LiveMoveState::Stopped => (MoveProgress::Stopped, None),
            LiveMoveState::Failed(why) => (MoveProgress::Failed, Some(why)),
        };
        Self {
            group: group.to_owned(),
            from: live.from.clone(),
            to: live.to.clone(),
            state,
            why,
            bytes: live.bytes,
            copied: live.copied(),
        }
    }

    /// One line about it.
    pub(crate) fn line(&self) -> String {
        format!("move of {}: {}", self.group, self.progress())
    }

    /// How far it is.
    pub(crate) fn progress(&self) -> String {
        let (from, to, bytes) = (&self.from, self.to.join(" and "), HumanBytes(self.bytes));
        match (self.state, &self.why) {
            (MoveProgress::Running, _) => {
                let copied = HumanBytes(self.copied);
                format!("{copied} of {bytes} copied from {from} to {to}")
            }
            (MoveProgress::Done, _) => format!("{bytes} moved from {from} to {to}"),
            (MoveProgress::Aborted, _) => format!("the move away from {from} was ended"),
            (MoveProgress::Stopped, _) => format!("the move away from {from} was interrupted"),
            (MoveProgress::Failed, why) => {
                let why = why.as_deref().unwrap_or("unknown");
                format!("the move away from {from} failed: {why}")
            }
        }
    }
}
