//! [`Answers`] of members to a change, and what follows from those that failed.
//!
//! # Invariants
//!
//! * What a member could not write is in its log of bad blocks, or the member has failed; the other members have that durably
//!   before the change is acknowledged.
//! * A member stays only if another one in sync has what it lacks. Where no member has it none is worse than the
//!   others: the change fails, and copies may differ there.

use std::sync::Arc;

use block::{Errno, IoError, Range, WriteFlags};

use super::super::member_guard::is_not_ours;
use super::RedundantArray;
use super::member_table::{Failing, SlotState};
use super::members::{SlotId, Target, is_timeout};
use super::state::State;
use super::write::Change;
use crate::blocks::slice;

/// A write that failed is tried again in so many steps, to see what of it cannot be written.
const STEPS_MAX: u64 = 256;
/// The smallest step, bytes.
const STEP_MIN: u64 = 4096;
/// After so many steps that failed, and none that did not, the rest is not tried.
const HOPELESS: usize = 4;

/// What one member answered to one piece of a change.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) piece: usize,
    pub(super) target: Arc<Target>,
    /// Where, bytes of its data.
    pub(super) within: Range,
    pub(super) what: Change,
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
        let target = &answer.target;
        let is_over = is_timeout(error) || is_not_ours(error);
        if error.errno != Errno::Io || target.fail_fast || is_over {
            return None;
        }
        {
            let guarded = self.lock();
            let has_log = guarded.state.members.slots[target.slot.0].log.is_some();
            if !has_log || !answers.is_elsewhere(answer.piece, &guarded.state) {
                return None;
            }
        }
        let Change::Data(data) = &answer.what else {
            return Some(vec![answer.within]);
        };
        let steps = answer.within.len.div_ceil(STEPS_MAX);
        let step = steps.next_multiple_of(STEP_MIN);
        let mut bad = Vec::new();
        let mut good = false;
        let mut rest = answer.within;
        while !rest.is_empty() {
            let part = Range::new(rest.offset, rest.len.min(step));
            let start = Range::new(0, part.offset - answer.within.offset).len_usize();
            let data = slice(data, start, part.len_usize());
            match target.write(part, data, WriteFlags::empty()).await {
                Ok(()) => good = true,
                Err(error) if is_timeout(&error) => return None,
                Err(_) if !good && bad.len() == HOPELESS => {
                    bad.push(rest);
                    break;
                }
                Err(_) => bad.push(part),
            }
            rest = Range::new(part.end(), rest.end() - part.end());
        }
        Some(bad)
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
