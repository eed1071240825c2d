//! [`FaultPlan`]: what a disk does wrong, as plain data.

use std::path::PathBuf;
use std::time::Duration;

use block::{Errno, Operation, Range};

/// Requests in a million.
pub(super) const MILLION: u32 = 1_000_000;

/// What a disk does wrong. The default does nothing wrong.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FaultPlan {
    /// Decides what rates leave open. The same plan and requests go wrong in the same places.
    pub seed: u64,
    /// Which requests go wrong, and how. The first rule that hits a request decides.
    pub rules: Vec<FaultRule>,
    /// Size of a write cache that loses what it holds when the drive is pulled, bytes. `None`: what
    /// was acknowledged has reached the disk below.
    pub cache: Option<u64>,
    /// The drive is pulled as long as a file of this name exists.
    pub pulled_while: Option<PathBuf>,
}

/// What happens to a request that goes wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FaultEffect {
    /// It fails; the disk below never sees it.
    Fail(Errno),
    /// A write of which only leading sectors arrive, and that fails then. Other requests just fail.
    Tear(Errno),
    /// A write of which only leading sectors arrive, and that is acknowledged as if it were whole.
    /// Other requests pass.
    TearSilently,
    /// It is acknowledged and never carried out: a write that is lost, a flush that lies. Reads and
    /// questions for extents pass.
    Lose,
}

/// Which requests go wrong, and how.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FaultRule {
    /// What happens to them.
    pub effect: FaultEffect,
    /// Only requests of these kinds. Empty: all.
    pub on: Vec<Operation>,
    /// Only requests that touch this range. A flush touches none.
    pub at: Option<Range>,
    /// So many matching requests pass first.
    pub after: u64,
    /// At most so many go wrong.
    pub times: Option<u64>,
    /// The rule ends so long after the first request that `after` did not let pass.
    pub lasts: Option<Duration>,
    /// Of so many matching requests in a million, chosen by the seed.
    pub per_million: u32,
}

impl FaultRule {
    /// A rule that hits every request.
    #[must_use]
    pub const fn new(effect: FaultEffect) -> Self {
        Self {
            effect,
            on: Vec::new(),
            at: None,
            after: 0,
            times: None,
            lasts: None,
            per_million: MILLION,
        }
    }

    /// Whether it is about such a request at all.
    pub(super) fn matches(&self, operation: Operation, range: Option<Range>) -> bool {
        (self.on.is_empty() || self.on.contains(&operation))
            && self
                .at
                .is_none_or(|wanted| range.is_some_and(|range| range.overlaps(&wanted)))
    }
}
