//! [`Cause`]: why a part is the limit, where that is known. Pure.
//!
//! # Invariants
//!
//! * A cause belongs to the only part that a verdict names.
//! * The cause is found in what was measured; its advice names the file, the program or the option to change.
//!
//! # What it does not do
//!
//! It names no part: see [`super::verdict`].

use serde::{Deserialize, Serialize};

use super::{CpuUse, Quota};

/// Waiting for a core that something else has is reported from here on.
pub(super) const CROWDED: f64 = 0.15;
/// A quota that stopped its processes in this part of its periods is the limit.
pub(super) const THROTTLED: f64 = 0.5;

/// Why a part is the limit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Cause {
    /// One thread computes all the time.
    Computes,
    /// Other programs, or other threads, have the core.
    Starved,
    /// A quota of its cgroup stops it.
    Quota(Quota),
    /// It neither computes nor waits for its disk: a rate limit of its own, or one request at a time.
    WaitsByItself,
}

impl Cause {
    /// Why a processor is the limit.
    pub(super) fn of_processor(cpu: &CpuUse) -> Self {
        let is_crowded = cpu.waiting >= CROWDED && cpu.waiting >= cpu.running / 2.0;
        match &cpu.quota {
            Some(quota) if quota.throttled >= THROTTLED => Self::Quota(quota.clone()),
            _ if is_crowded => Self::Starved,
            _ => Self::Computes,
        }
    }

    /// What to do about it, at `who`'s end.
    pub(super) fn advice(&self, who: &str) -> Option<String> {
        match self {
            Self::Computes => None,
            Self::Starved => Some(format!(
                "Move what else runs on the core of {who}, or give it a core of its own."
            )),
            Self::Quota(quota) => Some(format!(
                "Raise the quota in {}: it lets {who} have {:.2} cores, and more of them would be used.",
                quota.file, quota.cores
            )),
            Self::WaitsByItself => Some(
                "Look at the server's own settings: a rate limit (nbdkit's rate or delay filter, a throttle), or requests \
                 that it takes one at a time (threads, connections)."
                    .to_owned(),
            ),
        }
    }
}
