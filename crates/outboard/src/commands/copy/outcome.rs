//! [`Outcome`]: what a copy that ends leaves: a state to resume it with, or no file, and the message about that.
//!
//! # Invariants
//!
//! * The state of a copy that is refused, or has come to its end, does not stay, but for one that was there before a refusal.
//! * A file is removed only where there is no state.

use std::fmt::Display;
use std::time::Duration;

use block::{Errno, Node};
use engine::clock;
use indicatif::HumanBytes;
use nodes::copy::{CopyError, CopyProgress, Counts};

use super::target::Prepared;
use super::{Args, Copying};
use crate::failure::Failure;

/// How long a target may take to finish what was on its way when the copy was given up.
const SETTLE: Duration = Duration::from_secs(5);

/// What came of the work on two disks.
pub(super) enum Outcome {
    Finished,
    Failed(CopyError),
    /// Nothing was written.
    Refused(Failure),
    Interrupted,
}

impl Copying<'_> {
    /// Has what was written before an interruption be durable, and keeps how far that is. Returns whether the copy can be
    /// resumed; if it cannot, no state of it is left.
    pub(super) async fn keep_state(
        &self,
        outcome: &Outcome,
        target: &Node,
        progress: &CopyProgress,
    ) -> bool {
        use CopyError::{Differs, ReadOnly, TooSmall};
        let may_resume = match outcome {
            Outcome::Finished => return false,
            Outcome::Refused(_) | Outcome::Failed(TooSmall { .. } | ReadOnly) => {
                drop(self.remove_state(true));
                return false;
            }
            Outcome::Failed(Differs { .. }) => {
                drop(self.remove_state(false));
                return false;
            }
            Outcome::Failed(_) | Outcome::Interrupted => self.resume.as_ref(),
        };
        let state = may_resume.filter(|resume| resume.file.position().is_some());
        if state.is_none() && matches!(outcome, Outcome::Failed(_)) {
            return false;
        }
        let last = async {
            // What is on its way may not land on what is left behind.
            target.settle().await.map_err(CopyError::Target)?;
            let Some(resume) = state else { return Ok(()) };
            let position = progress.position();
            target.flush().await.map_err(CopyError::Target)?;
            resume.record(position).await
        };
        // Without it, the last checkpoint counts.
        drop(clock::timeout(SETTLE, last).await);
        state.is_some()
    }

    pub(super) fn remove_state(&self, keeps_found: bool) -> Result<(), Failure> {
        match &self.resume {
            Some(resume) => resume.remove(keeps_found),
            None => Ok(()),
        }
    }

    /// What failed, and what that means for the target.
    pub(super) fn failed(
        &self,
        error: CopyError,
        prepared: Prepared,
        is_kept: bool,
        size: u64,
        counts: &Counts,
    ) -> Failure {
        let Args { source, target, .. } = self.args;
        let differs = matches!(error, CopyError::Differs { .. });
        let full = matches!(&error, CopyError::Target(e) if e.errno == Errno::NoSpace);
        let what = match error {
            CopyError::TooSmall {
                source_size,
                target: room,
            } => {
                let what = format!(
                    "{target} is too small: it has {room} bytes, {source} has {source_size}"
                );
                return Failure::new(what).next("nothing was written");
            }
            CopyError::ReadOnly => {
                return Failure::new(format!("{target} is read-only")).next("nothing was written");
            }
            CopyError::Source(error) => format!("cannot read {source}: {error}"),
            CopyError::Target(error) => format!("cannot write {target}: {error}"),
            CopyError::Differs { offset } => {
                format!("{target} differs from {source} at byte {offset}")
            }
            CopyError::Ending => "the copy was ended from outside".to_owned(),
        };
        if differs {
            prepared.keep();
            return Failure::new(what)
                .next(format!("{target} is left for a look at it: unless {source} was written meanwhile, one of the two does not keep what is written to it"));
        }
        let state = self.state(prepared, is_kept, size, counts);
        let failure = Failure::new(what);
        if full {
            return failure.next(format!("{state}; free some space there first"));
        }
        failure.next(state)
    }

    /// What is left of the target.
    pub(super) fn state(
        &self,
        prepared: Prepared,
        is_kept: bool,
        size: u64,
        counts: &Counts,
    ) -> impl Display + use<> {
        let target = &self.args.target;
        if let Some(resume) = self.resume.as_ref().filter(|_| is_kept) {
            prepared.keep();
            let position = HumanBytes(resume.file.position().unwrap_or(0));
            let (size, hint) = (HumanBytes(size), resume.hint());
            return format!(
                "{target} is incomplete: {position} of {size} are durable there, and {hint}"
            );
        }
        if prepared.remove() {
            return format!("{target} was removed again");
        }
        let (done, size) = (HumanBytes(counts.done()), HumanBytes(self.total(size)));
        format!(
            "{target} is incomplete: {done} of {size} were copied, and it is of no use until a copy comes to its end"
        )
    }
}
