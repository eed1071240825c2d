//! [`FaultState`]: which request goes wrong, and whether the drive is there. Pure.
//!
//! # Invariants
//!
//! * The same plan and requests, in the same order, go wrong in the same places.
//! * A flush that a rule failed stays failed, and so does one after acknowledged writes were lost
//!   with a pulled drive: no later flush reports success.

use std::time::Duration;

use block::{Errno, Operation, Range};

use super::plan::{FaultEffect, FaultPlan, FaultRule, MILLION};
use crate::chance::below;

/// Rules that a disk has at most; more of them are not taken.
pub(super) const RULES_MAX: usize = 1024;
/// Smallest piece of a write that is not torn, bytes.
const SECTOR: u64 = 512;

/// What becomes of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FaultVerdict {
    /// It is carried out.
    Pass,
    /// It fails.
    Fail(Errno),
    /// Only so many leading bytes of a write arrive; then it fails, or is acknowledged.
    Tear { kept: u64, then: Option<Errno> },
    /// It is acknowledged and not carried out.
    Lose,
}

/// Why a drive is not there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Puller {
    /// The handle.
    Hand,
    /// The file that pulls the drive while it exists.
    Flag,
}

/// A rule and how far it has come.
#[derive(Debug)]
struct Armed {
    rule: FaultRule,
    passed: u64,
    hits: u64,
    since: Option<Duration>,
}

impl Armed {
    const fn new(rule: FaultRule) -> Self {
        Self {
            rule,
            passed: 0,
            hits: 0,
            since: None,
        }
    }

    /// Whether a matching request at `now` goes wrong; `chance` is below a million.
    fn hits(&mut self, now: Duration, chance: u32) -> bool {
        if self.passed < self.rule.after {
            self.passed += 1;
            return false;
        }
        let since = *self.since.get_or_insert(now);
        let over = |lasts| now.saturating_sub(since) >= lasts;
        let spent = self.rule.times.is_some_and(|times| self.hits >= times);
        if spent || self.rule.lasts.is_some_and(over) || chance >= self.rule.per_million {
            return false;
        }
        self.hits += 1;
        true
    }
}

/// The drive.
#[derive(Debug)]
pub(super) struct FaultState {
    seed: u64,
    rules: Vec<Armed>,
    drawn: u64,
    requests: u64,
    hits: u64,
    flush_failed: Option<Errno>,
    by_hand: bool,
    by_flag: bool,
    lost: bool,
}

impl FaultState {
    pub(super) fn new(plan: &FaultPlan) -> Self {
        let mut state = Self {
            seed: plan.seed,
            rules: Vec::new(),
            drawn: 0,
            requests: 0,
            hits: 0,
            flush_failed: None,
            by_hand: false,
            by_flag: false,
            lost: false,
        };
        for rule in &plan.rules {
            state.add(rule.clone());
        }
        state
    }

    /// Adds a rule behind the others.
    pub(super) fn add(&mut self, rule: FaultRule) {
        if self.rules.len() < RULES_MAX {
            self.rules.push(Armed::new(rule));
        }
    }

    /// Removes all rules.
    pub(super) fn clear(&mut self) {
        self.rules.clear();
    }

    /// Requests that came, and those that went wrong by a rule.
    pub(super) const fn counts(&self) -> (u64, u64) {
        (self.requests, self.hits)
    }

    pub(super) const fn is_pulled(&self) -> bool {
        self.by_hand || self.by_flag
    }

    /// Pulls the drive, or lets go of it; whether that took it away.
    pub(super) const fn set_pulled(&mut self, puller: Puller, pulled: bool) -> bool {
        let before = self.is_pulled();
        match puller {
            Puller::Hand => self.by_hand = pulled,
            Puller::Flag => self.by_flag = pulled,
        }
        !before && self.is_pulled()
    }

    /// Acknowledged writes went with the drive.
    pub(super) const fn lose(&mut self) {
        self.lost = true;
    }

    /// Acknowledged writes could not be written down.
    pub(super) fn fail_flushes(&mut self, errno: Errno) {
        self.flush_failed.get_or_insert(errno);
    }

    /// Whether acknowledged writes went with the drive, at some time.
    pub(super) const fn has_lost(&self) -> bool {
        self.lost
    }

    /// Decides on a request to a drive that is there; `unit` is its block size.
    pub(super) fn decide(
        &mut self,
        operation: Operation,
        range: Option<Range>,
        unit: u32,
        now: Duration,
    ) -> FaultVerdict {
        self.requests += 1;
        if let (Operation::Flush, Some(errno)) = (operation, self.flush_failed) {
            return FaultVerdict::Fail(errno);
        }
        let Some(effect) = self.hit(operation, range, now) else {
            return FaultVerdict::Pass;
        };
        self.hits += 1;
        let verdict = match (effect, operation) {
            (FaultEffect::Fail(errno), _) => FaultVerdict::Fail(errno),
            (FaultEffect::Tear(errno), Operation::Write) => self.tear(range, unit, Some(errno)),
            (FaultEffect::Tear(errno), _) => FaultVerdict::Fail(errno),
            (FaultEffect::TearSilently, Operation::Write) => self.tear(range, unit, None),
            (FaultEffect::TearSilently, _) => FaultVerdict::Pass,
            (FaultEffect::Lose, Operation::Read | Operation::Extents | Operation::Measure) => {
                FaultVerdict::Pass
            }
            (FaultEffect::Lose, _) => FaultVerdict::Lose,
        };
        if let (Operation::Flush, FaultVerdict::Fail(errno)) = (operation, verdict) {
            self.flush_failed = Some(errno);
        }
        verdict
    }

    /// What the first rule does to it that hits.
    fn hit(
        &mut self,
        operation: Operation,
        range: Option<Range>,
        now: Duration,
    ) -> Option<FaultEffect> {
        for index in 0..self.rules.len() {
            if !self.rules[index].rule.matches(operation, range) {
                continue;
            }
            let chance = self.draw(MILLION.into());
            let chance = u32::try_from(chance).expect("below a million");
            if self.rules[index].hits(now, chance) {
                return Some(self.rules[index].rule.effect);
            }
        }
        None
    }

    /// Some of the sectors of `range`, never all.
    fn tear(&mut self, range: Option<Range>, unit: u32, then: Option<Errno>) -> FaultVerdict {
        let unit = SECTOR.max(unit.into());
        let units = range.map_or(0, |range| range.len.div_ceil(unit));
        let kept = self.draw(units) * unit;
        FaultVerdict::Tear { kept, then }
    }

    fn draw(&mut self, bound: u64) -> u64 {
        self.drawn += 1;
        below(self.seed, self.drawn, bound)
    }
}
