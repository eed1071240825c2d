//! The status of a redundant array, and its events.

use block::IoError;

use super::super::{ArrayError, ArrayEvent, ArrayStatus, BitmapStatus, MemberState, MemberStatus};
use super::member_table::{Failing, Slot, SlotState};
use super::members::SlotId;
use super::state::State;
use super::{Bits, RedundantArray};

impl RedundantArray {
    /// How it is now. What is done in the background others know.
    pub(in crate::array) fn status(&self) -> ArrayStatus {
        let guarded = self.lock();
        let state = &guarded.state;
        let facts = &state.facts;
        ArrayStatus {
            name: facts.name.clone(),
            uuid: facts.uuid,
            level: facts.level,
            layout: facts.layout,
            version: facts.version,
            size: state.members.layout.size(),
            chunk: facts.chunk,
            parts: facts.parts,
            working: u32::try_from(state.members.working()).unwrap_or(u32::MAX),
            read_only: self.read_only(),
            clean: state.is_clean(),
            events: state.ledger.events(),
            bitmap: state.bits.as_ref().map(bitmap),
            ppl: state.members.keeps_ppl(),
            journal: state.members.has_journal(),
            members: state.members(),
            resync_pending: state.is_unsynced() && state.members.view.holders().nth(1).is_some(),
            sync: None,
            reshape_pause: None,
            reshape_losses: self.rows.reshape_losses(),
            untrusted: self.untrusted().cloned(),
            taken_over: self.takeover().cloned(),
            scrubbed: None,
        }
    }

    /// Whether members know that no write is under way.
    pub(in crate::array) fn is_clean(&self) -> bool {
        self.lock().state.is_clean()
    }

    /// Declares a member failed; durable when it resolves.
    ///
    /// # Errors
    /// There is none of that name, it holds nothing, or it is the last one that holds its part.
    pub(in crate::array) async fn fail_member(&self, name: &str) -> Result<(), ArrayError> {
        let slot = self.named(name)?;
        match self.declare_failed(slot)? {
            Failing::Failed => {}
            Failing::Already => {
                return Err(ArrayError::refused(
                    format!("{name} has failed already, or was never in use"),
                    None,
                ));
            }
            Failing::Last => {
                return Err(ArrayError::refused(
                    format!("{name} is the last member in sync that holds its part"),
                    "add another member and wait until it is in sync",
                ));
            }
        }
        let recorded = self.record(State::is_recorded).await;
        recorded.map_err(|error| not_updated(name, &error))
    }

    /// The member is failed in memory, unless no change begins any more: both are seen in one step.
    fn declare_failed(&self, slot: SlotId) -> Result<Failing, ArrayError> {
        let why = "it was declared failed";
        let mut guarded = self.lock();
        self.must_change(&guarded.state)?;
        let failing = guarded.state.fail(slot, why);
        drop(guarded);
        if failing == Failing::Failed {
            self.report_failed(slot, why);
        }
        Ok(failing)
    }

    /// Forgets a member that holds no part; durable when it resolves.
    ///
    /// # Errors
    /// There is none of that name, or it works.
    pub(in crate::array) async fn remove_member(&self, name: &str) -> Result<(), ArrayError> {
        let slot = self.named(name)?;
        if !self.forget_slot(slot)? {
            return Err(ArrayError::refused(
                format!("{name} is in use"),
                "declare it failed first (fail)",
            ));
        }
        let recorded = self.record(State::is_recorded).await;
        self.close(slot).await;
        recorded.map_err(|error| not_updated(name, &error))
    }

    /// The same, in memory; false: it holds a part.
    fn forget_slot(&self, slot: SlotId) -> Result<bool, ArrayError> {
        let mut guarded = self.lock();
        self.must_change(&guarded.state)?;
        Ok(guarded.state.remove(slot))
    }

    /// Refuses a change of members. `state`: under the lock under which they are changed.
    fn must_change(&self, state: &State) -> Result<(), ArrayError> {
        if self.read_only() {
            return Err(ArrayError::refused(
                "the array is open read-only",
                "open it for writing",
            ));
        }
        if state.stopped {
            return Err(ArrayError::refused(
                "the array was stopped, or is getting another level",
                "see how it is with: outboard array status",
            ));
        }
        Ok(())
    }

    /// The newest member of that name that was not forgotten.
    pub(in crate::array) fn named(&self, name: &str) -> Result<SlotId, ArrayError> {
        let guarded = self.lock();
        let mut slots = guarded.state.members.slots.iter().rev();
        let found = slots.find(|slot| slot.target.name == name && slot.state != SlotState::Removed);
        let found = found.map(|slot| slot.target.slot);
        found.ok_or_else(|| {
            ArrayError::refused(
                format!("the array has no member {name}"),
                "see its members with: outboard array status",
            )
        })
    }

    /// A member failed, in memory; that must be durable on the others before anything is acknowledged.
    pub(in crate::array) fn fail_slot(&self, slot: SlotId, why: &str) -> Failing {
        let failing = self.lock().state.fail(slot, why);
        if failing == Failing::Failed {
            self.report_failed(slot, why);
        }
        failing
    }

    /// Reports that a member failed.
    pub(super) fn report_failed(&self, slot: SlotId, why: &str) {
        let guarded = self.lock();
        let member = guarded.state.members.slots[slot.0].target.name.clone();
        let degraded = guarded.state.is_degraded();
        drop(guarded);
        let name = self.name();
        tracing::debug!("{name}: {member} has failed: {why}; the array goes on without it");
        let why = why.to_owned();
        self.send_event(ArrayEvent::Fail { member, why });
        if degraded {
            self.send_event(ArrayEvent::DegradedArray);
        }
        self.work.notify_waiters();
    }

    /// Sends an event to all listeners.
    pub(in crate::array) fn send_event(&self, event: ArrayEvent) {
        // There may be no listener.
        drop(self.events.send(event));
    }
}

fn not_updated(name: &str, error: &IoError) -> ArrayError {
    ArrayError::refused(
        format!("{name}: the other members could not be updated: {error}"),
        None,
    )
}

const fn bitmap(bits: &Bits) -> BitmapStatus {
    BitmapStatus {
        chunk: bits.chunk(),
        chunks: bits.count(),
        dirty: bits.set(),
    }
}

impl State {
    /// Whether members know that no write is under way, and copies are identical.
    fn is_clean(&self) -> bool {
        self.ledger.is_clean() && !self.is_unsynced()
    }

    /// Forgets a member; false if it holds a part.
    fn remove(&mut self, slot: SlotId) -> bool {
        let member = &mut self.members.slots[slot.0];
        if member.holds() || member.state == SlotState::Journal {
            return false;
        }
        member.state = SlotState::Removed;
        self.change(true);
        true
    }

    /// Members by their parts, then all others.
    fn members(&self) -> Vec<MemberStatus> {
        let mut members = Vec::new();
        for (part, slot) in (0..).zip(&self.members.parts) {
            members.push(match slot {
                Some(slot) => self.members.slots[slot.0].status(),
                None => MemberStatus::missing(part),
            });
        }
        let others = self.members.slots.iter().filter(|slot| {
            let holds = self.members.parts.contains(&Some(slot.target.slot));
            !holds && slot.state != SlotState::Removed
        });
        members.extend(others.map(Slot::status));
        members
    }
}

impl Slot {
    fn status(&self) -> MemberStatus {
        let corrected = &self.target.corrected;
        let (state, why) = match &self.state {
            SlotState::InSync => (MemberState::InSync, None),
            SlotState::Rebuilding(to) => (MemberState::Rebuilding(*to), None),
            SlotState::Replacing(to) => (MemberState::Replacing(*to), None),
            SlotState::Spare => (MemberState::Spare, None),
            SlotState::Journal => (MemberState::Journal, None),
            SlotState::Failed(why) => (MemberState::Failed, Some(why.clone())),
            SlotState::Stale | SlotState::Removed => (MemberState::Stale, None),
        };
        MemberStatus {
            name: self.target.name.clone(),
            part: self.part,
            state,
            write_mostly: self.target.write_mostly,
            fail_fast: self.target.fail_fast,
            remote: self.target.remote,
            corrected: corrected.load(std::sync::atomic::Ordering::Relaxed),
            io: self.target.io.figures(),
            why,
        }
    }
}
