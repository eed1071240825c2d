//! What members answered to a change of a row, and what follows from it.
//!
//! # Invariants
//!
//! * What a member could not write is in its log of bad blocks, or the member has failed; the caller makes that durable before
//!   it acknowledges the change.
//! * Nothing is noted as bad, and no member fails, that the others cannot make up for in these columns: the change fails then, and
//!   parity is not trusted there any more.
//! * A replacement that cannot be written has failed: its member has what it lacks.

use std::sync::Arc;

use block::{IoBufs, IoError, Range, WriteFlags};

use super::super::RedundantArray;
use super::super::bad_places::FailedChange;
use super::super::member_table::Failing;
use super::super::members::{SlotId, Target, is_timeout};
use super::super::state::State;
use super::super::view::Holder;
use super::row_outcome::RowOutcome;

/// What one member answered to what it was sent of a row.
pub(super) struct RowAnswer {
    pub(super) target: Arc<Target>,
    pub(super) within: Range,
    /// `None`: zeroes.
    pub(super) data: Option<IoBufs>,
    pub(super) flags: WriteFlags,
    pub(super) result: Result<(), IoError>,
}

impl RedundantArray {
    /// Decides what becomes of the members that failed at a change of `columns`. `Err`: one that cannot be failed did not
    /// take its bytes, and parity is not trusted there any more.
    pub(super) async fn conclude_row(&self, columns: Range, answers: Vec<RowAnswer>) -> RowOutcome {
        let mut outcome = RowOutcome::done();
        if !self.view().no_bad {
            let state = &mut self.lock().state;
            for answer in answers.iter().filter(|answer| answer.result.is_ok()) {
                state.made_good(answer.target.slot, answer.within);
            }
        }
        for answer in answers {
            let Err(error) = answer.result else { continue };
            outcome.is_late |= is_timeout(&error);
            let change = FailedChange {
                target: &answer.target,
                within: answer.within,
                data: answer.data.as_ref(),
                flags: answer.flags,
                error: &error,
            };
            if !self.excuse(change).await {
                outcome.result = Err(error);
            }
        }
        if outcome.result.is_err() {
            let state = &mut self.lock().state;
            state.need(columns);
            // With a journal superblocks say that parity fits everywhere, also before it forgets this row.
            state.change(true);
        }
        outcome
    }

    /// Has a member note what it cannot write, or fails it. False: others cannot make up for that.
    async fn excuse(&self, failed: FailedChange<'_>) -> bool {
        let (slot, within) = (failed.target.slot, failed.within);
        let is_holder = self.lock().state.is_holder(slot);
        if is_holder && let Some(bad) = self.bad_places(failed).await {
            let state = &mut self.lock().state;
            let is_spared = bad.iter().all(|bad| state.can_spare(slot, *bad));
            if is_spared && state.log_bad(slot, &bad) {
                return true;
            }
        }
        if is_holder && !self.lock().state.can_spare(slot, within) {
            return false;
        }
        self.fail_slot(slot, &failed.error.to_string()) != Failing::Last
    }
}

impl State {
    /// Whether `slot` holds a part, or some of one, and is no replacement.
    fn is_holder(&self, slot: SlotId) -> bool {
        let mut holders = self.members.view.holders();
        holders.any(|holder| holder.target.slot == slot)
    }

    /// Whether what `slot` has in these columns can be computed from the others, where parity fits.
    fn can_spare(&self, slot: SlotId, columns: Range) -> bool {
        let view = &self.members.view;
        let is_lost = |holder: &Option<Holder>| match holder {
            Some(holder) => holder.target.slot == slot || !holder.can_read(columns),
            None => true,
        };
        let lost = view.parts.iter().filter(|holder| is_lost(holder)).count();
        lost <= self.facts.level.parities()
    }
}
