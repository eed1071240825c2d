//! [`Answers`] of members to a change, and what follows from those that failed.
//!
//! # Invariants
//!
//! * What a member could not write is in its log of bad blocks, or the member has failed; the other members have that durably
//!   before the change is acknowledged.
//! * A member stays only if another one in sync has what it lacks. Where no member has it none is worse than the
//!   others: the change fails, and copies may differ there.

use std::sync::Arc;

use block::{IoError, Range, WriteFlags};

use super::RedundantArray;
use super::bad_places::FailedChange;
use super::member_table::{Failing, SlotState};
use super::members::{SlotId, Target, is_timeout};
use super::state::State;
use super::write::Change;

/// What one member answered to one piece of a change.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) piece: usize,
    pub(super) target: Arc<Target>,
    /// Where, bytes of its data.
    pub(super) within: Range,
    pub(super) what: Change,
    pub(super) flags: WriteFlags,
    pub(super) result: Result<(), IoError>,
}

/// What all members answered.
#[derive(Debug)]
pub(super) struct Answers {
    pub(super) answers: Vec<Answer>,
    /// No member was left out.
    pub(super) everybody: bool,
}

impl Answers {
    /// Whether several members have a copy of a piece, and all of them failed.
    fn failed_everywhere(&self, piece: usize) -> bool {
        let of_piece = || self.answers.iter().filter(|answer| answer.piece == piece);
        self.everybody && of_piece().count() > 1 && of_piece().all(|answer| answer.result.is_err())
    }

    /// Whether something was not answered in time.
    pub(super) fn are_late(&self) -> bool {
        self.failures().any(|(_, error)| is_timeout(error))
    }

    fn failures(&self) -> impl Iterator<Item = (&Answer, &IoError)> {
        let failures = self.answers.iter();
        failures.filter_map(|answer| Some((answer, answer.result.as_ref().err()?)))
    }

    /// Whether a member in sync has what another one could not write.
    fn is_elsewhere(&self, piece: usize, state: &State) -> bool {
        let mut others = self.answers.iter().filter(|answer| answer.piece == piece);
        let in_sync = |slot: SlotId| state.members.slots[slot.0].state == SlotState::InSync;
        !self.everybody || others.any(|other| other.result.is_ok() && in_sync(other.target.slot))
    }
}

impl RedundantArray {
    /// Decides what becomes of the members that failed at a change. `Err`: no member has it, or one that cannot be failed
    /// does not.
    pub(super) async fn conclude(&self, range: Range, answers: &Answers) -> Result<(), IoError> {
        if answers.failures().next().is_none() {
            self.made_good(answers);
            return Ok(());
        }
        let mut bad = Vec::new();
        for (answer, error) in answers.failures() {
            bad.push(self.what_is_bad(answers, answer, error).await);
        }
        let (told, kept) = self.lock().state.judge(range, answers, bad);
        for (slot, why) in told {
            self.report_failed(slot, &why);
        }
        kept.map_or(Ok(()), Err)
    }

    /// What was written where it could not be read before can be read again.
    fn made_good(&self, answers: &Answers) {
        let mut guarded = self.lock();
        if guarded.state.members.view.no_bad {
            return;
        }
        for answer in &answers.answers {
            if !matches!(answer.what, Change::Trim) {
                guarded.state.made_good(answer.target.slot, answer.within);
            }
        }
    }

    /// What of a piece a member cannot write, where its log has room for that. `None`: the member is to fail.
    async fn what_is_bad(
        &self,
        answers: &Answers,
        answer: &Answer,
        error: &IoError,
    ) -> Option<Vec<Range>> {
        if !answers.is_elsewhere(answer.piece, &self.lock().state) {
            return None;
        }
        let data = match &answer.what {
            Change::Data(data) => Some(data),
            Change::Zeroes | Change::Trim => None,
        };
        let failed = FailedChange {
            target: &answer.target,
            within: answer.within,
            data,
            flags: answer.flags,
            error,
        };
        self.bad_places(failed).await
    }
}

impl State {
    /// Logs what is bad, or fails members; the members that failed, and what cannot be acknowledged.
    fn judge(
        &mut self,
        range: Range,
        answers: &Answers,
        bad: Vec<Option<Vec<Range>>>,
    ) -> (Vec<(SlotId, String)>, Option<IoError>) {
        let (mut told, mut kept) = (Vec::new(), None);
        for ((answer, error), bad) in answers.failures().zip(bad) {
            // Where no member has it none of them is worse than the others.
            if answers.failed_everywhere(answer.piece) {
                kept.get_or_insert_with(|| error.clone());
                continue;
            }
            let slot = answer.target.slot;
            if bad.is_some_and(|bad| self.log_bad(slot, &bad)) {
                continue;
            }
            let why = error.to_string();
            match self.fail(slot, &why) {
                Failing::Failed => told.push((slot, why)),
                Failing::Already => {}
                Failing::Last => kept = Some(error.clone()),
            }
        }
        if kept.is_some() && self.members.view.holders().nth(1).is_some() {
            self.need(range);
        }
        (told, kept)
    }
}
