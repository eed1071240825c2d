//! How an attachment is taken down: what is known, and what each step came to -> the next step. Pure.
//!
//! ```text
//! unmount --busy--> refused (nothing was changed)      forced: sync, unmount lazily
//!    |  |                                              its server gone: cut, unmount lazily
//!    |  '--no end--> cut the device from the disk, unmount again, then lazily
//! flush the device --no end--> cut
//! clear the device --no end--> cut, clear again -> remove the directory that attach made
//! ```
//!
//! # Invariants
//!
//! * Nothing is changed before a refusal.
//! * The device is cleared after it was unmounted and flushed, or cut off because that had no end.
//! * Data that may not have reached the disk is in the report.
//! * It ends: every step is planned at most once, a clear at most twice, an unmount at most three times.

use std::collections::VecDeque;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::users;

/// What is known before the first step.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct TeardownFacts {
    /// Where the device is mounted by `attach`, if it still is.
    pub(crate) mounted: Option<PathBuf>,
    /// Where else it is mounted.
    pub(crate) elsewhere: Vec<PathBuf>,
    /// What stands on it: devices and swap.
    pub(crate) holders: Vec<String>,
    /// Programs that have it open.
    pub(crate) programs: Vec<String>,
    /// Whether there is a device at all.
    pub(crate) device: bool,
    /// The directory that `attach` made.
    pub(crate) created: Option<PathBuf>,
    /// Why the disk below cannot be reached just now.
    pub(crate) unreachable: Option<String>,
    /// Why the device is cut off already: its process is dead.
    pub(crate) cut: Option<String>,
    /// Whether it takes no writes, so that nothing can be lost.
    pub(crate) read_only: bool,
    /// Whether `--force` was given.
    pub(crate) force: bool,
}

/// One thing to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum TeardownAction {
    /// Unmount, flushing what the filesystem holds.
    Unmount(PathBuf),
    /// Write what the filesystem holds, as far as programs that still use it allow.
    Sync(PathBuf),
    /// Take the mount out of sight; it ends when its last user does.
    UnmountLazily(PathBuf),
    /// Write what the device's page cache holds, and flush the disk.
    Flush,
    /// Cut the device from the disk: what waits fails.
    Cut,
    /// Take the device down.
    Clear,
    /// Remove the directory.
    RemoveDir(PathBuf),
}

/// What it came to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum TeardownOutcome {
    /// Done.
    Done,
    /// In use: the names of its users.
    Busy(String),
    /// No end within the time allowed.
    NoEnd,
    /// It failed: why.
    Failed(String),
}

/// Why nothing was done.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TeardownRefusal {
    /// Programs use the mount.
    #[error("{} is in use ({used_by}); end that, or detach with --force", dir.display())]
    Busy {
        /// The mount.
        dir: PathBuf,
        /// Its users.
        used_by: String,
    },
    /// The device is mounted where attach did not mount it.
    #[error("it is also mounted on {}; unmount that first, or detach with --force", dir.display())]
    MountedElsewhere {
        /// Where.
        dir: PathBuf,
    },
    /// Programs have the device itself open.
    #[error("programs have it open ({used_by}); end them, or detach with --force")]
    Open {
        /// Which.
        used_by: String,
    },
    /// Other devices, or swap, stand on it.
    #[error("{holders} stands on it; take that down first")]
    Held {
        /// Which.
        holders: String,
    },
}

/// What came of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct TeardownReport {
    /// What may not have reached the disk, and why.
    pub(crate) lost: Vec<String>,
    /// What is still there, and why.
    pub(crate) left: Vec<String>,
}

/// A teardown under way.
#[derive(Debug)]
pub(crate) struct Teardown {
    facts: TeardownFacts,
    queue: VecDeque<TeardownAction>,
    cut: bool,
    report: TeardownReport,
}

impl Teardown {
    /// Plans the steps.
    ///
    /// # Errors
    /// [`TeardownRefusal`].
    pub(crate) fn new(facts: TeardownFacts) -> Result<Self, TeardownRefusal> {
        if !facts.holders.is_empty() {
            let holders = facts.holders.join(", ");
            return Err(TeardownRefusal::Held { holders });
        }
        if let (Some(dir), false) = (facts.elsewhere.first(), facts.force) {
            let dir = dir.clone();
            return Err(TeardownRefusal::MountedElsewhere { dir });
        }
        let open_by = users::list(facts.programs.clone());
        let insists = facts.force || facts.cut.is_some() || facts.unreachable.is_some();
        if !open_by.is_empty() && !insists {
            return Err(TeardownRefusal::Open { used_by: open_by });
        }
        let mut queue: VecDeque<_> = facts
            .mounted
            .iter()
            .cloned()
            .map(TeardownAction::Unmount)
            .collect();
        queue.extend(facts.elsewhere.iter().cloned().map(TeardownAction::Unmount));
        if facts.device {
            if !facts.read_only && facts.cut.is_none() {
                queue.push_back(TeardownAction::Flush);
            }
            queue.push_back(TeardownAction::Clear);
        }
        queue.extend(facts.created.iter().cloned().map(TeardownAction::RemoveDir));
        let mut teardown = Self {
            cut: facts.cut.is_some(),
            queue,
            report: TeardownReport::default(),
            facts,
        };
        if let Some(why) = teardown.facts.cut.clone() {
            teardown.lose(&why);
        } else if !open_by.is_empty() {
            teardown.lose(&format!("programs still had it open ({open_by})"));
        }
        Ok(teardown)
    }

    /// The next step; `None` at the end.
    pub(crate) fn next(&mut self) -> Option<TeardownAction> {
        self.queue.pop_front()
    }

    /// What the last step came to.
    ///
    /// # Errors
    /// [`TeardownRefusal::Busy`]: the teardown ends, and nothing was changed.
    pub(crate) fn apply(
        &mut self,
        action: TeardownAction,
        outcome: TeardownOutcome,
    ) -> Result<(), TeardownRefusal> {
        match (action, outcome) {
            (_, TeardownOutcome::Done) => {}
            (TeardownAction::Unmount(dir), outcome) => return self.not_unmounted(dir, outcome),
            (TeardownAction::Flush, TeardownOutcome::NoEnd) => self.cut_off("its flush had no end"),
            (TeardownAction::Flush, TeardownOutcome::Failed(why) | TeardownOutcome::Busy(why)) => {
                self.lose(&format!("its flush failed: {why}"));
            }
            // The clear that follows ends what still waits.
            (TeardownAction::Cut | TeardownAction::Sync(_), _) => {}
            (TeardownAction::UnmountLazily(dir), outcome) => {
                self.leave(&dir.display().to_string(), &outcome)
            }
            (TeardownAction::Clear, TeardownOutcome::NoEnd) if !self.cut => {
                self.queue.push_front(TeardownAction::Clear);
                self.cut_off("the close of the device had no end");
            }
            (TeardownAction::Clear, outcome) => self.leave("the device", &outcome),
            (TeardownAction::RemoveDir(dir), outcome) => {
                self.leave(&dir.display().to_string(), &outcome)
            }
        }
        Ok(())
    }

    /// What came of it.
    pub(crate) fn finish(self) -> TeardownReport {
        self.report
    }

    fn not_unmounted(
        &mut self,
        dir: PathBuf,
        outcome: TeardownOutcome,
    ) -> Result<(), TeardownRefusal> {
        match outcome {
            TeardownOutcome::Busy(used_by) if !self.may_force() => {
                return Err(TeardownRefusal::Busy { dir, used_by });
            }
            TeardownOutcome::NoEnd if !self.cut => {
                self.queue.push_front(TeardownAction::Unmount(dir));
                self.cut_off("its unmount had no end");
            }
            outcome => {
                self.queue
                    .push_front(TeardownAction::UnmountLazily(dir.clone()));
                if let (Some(why), false) = (self.facts.unreachable.clone(), self.cut) {
                    self.cut_off(&why);
                } else if let TeardownOutcome::Busy(used_by) = outcome {
                    self.queue.push_front(TeardownAction::Sync(dir));
                    self.lose(&format!("programs still had it open ({used_by})"));
                }
            }
        }
        Ok(())
    }

    /// A mount in use is given up only where the user insists or its disk is out of reach anyhow.
    fn may_force(&self) -> bool {
        self.facts.force || self.cut || self.facts.unreachable.is_some()
    }

    fn cut_off(&mut self, why: &str) {
        if !self.cut {
            self.cut = true;
            self.queue.push_front(TeardownAction::Cut);
            // There is nothing left to flush to.
            self.queue.retain(|action| *action != TeardownAction::Flush);
        }
        let why = match &self.facts.unreachable {
            Some(unreachable) if unreachable != why => format!("{why}: {unreachable}"),
            _ => why.to_owned(),
        };
        self.lose(&why);
    }

    fn lose(&mut self, why: &str) {
        if !self.facts.read_only {
            let lost = format!("what was not flushed may be lost: {why}");
            self.report.lost.push(lost);
        }
    }

    fn leave(&mut self, what: &str, outcome: &TeardownOutcome) {
        let why = match outcome {
            TeardownOutcome::Done => return,
            TeardownOutcome::Busy(used_by) => format!("in use ({used_by})"),
            TeardownOutcome::NoEnd => "it had no end".to_owned(),
            TeardownOutcome::Failed(why) => why.clone(),
        };
        self.report.left.push(format!("{what}: {why}"));
    }
}
