//! Another level of an array with parity, while it is used: no byte of data moves, and members learn of it in one commit.
//!
//! ```text
//! nothing of a row is under way ─► superblocks of holders, then of spares: durable ─► requests go on, by the new level
//! ```
//!
//! # Invariants
//!
//! * Nothing is written by the new level before all members know durably that it is theirs.
//! * A member that comes holds nothing until it is rebuilt; one that leaves is a spare.
//! * Partial parity logs are kept by level 5 alone: they are dropped where it is left.

use std::sync::Arc;

use block::{IoError, Node, Operation, Range};

use super::super::ArrayError;
use super::super::assembly::Facts;
use super::super::format::Level;
use super::super::level::LevelForm;
use super::RedundantArray;
use super::layout::Layout;
use super::member_table::{MemberTable, SlotState};
use super::members::SlotId;
use super::range_locks::Kind;
use super::state::State;

impl MemberTable {
    /// Rows lie by `layout` from now on. `spare` holds the part that comes, and nothing of it so far; the holder of one that
    /// leaves is a spare.
    fn change_level(&mut self, layout: Arc<Layout>, parts: usize, spare: Option<SlotId>) {
        self.layout = layout;
        while self.parts.len() > parts {
            if let Some(id) = self.parts.pop().flatten() {
                let slot = &mut self.slots[id.0];
                (slot.state, slot.part) = (SlotState::Spare, None);
            }
        }
        self.parts.resize(parts, None);
        self.rebuild_view();
        if let Some(id) = spare {
            let part = u16::try_from(parts - 1).expect("parts are few");
            self.give_part(id, part, false);
        }
    }

    /// Whether all of the first `parts` have a member in sync.
    fn has_first(&self, parts: usize) -> bool {
        (0..parts.min(self.parts.len())).all(|part| self.part_is_in_sync(part))
    }
}

impl State {
    /// The array has another level from now on. Nothing may be under way.
    fn change_level(&mut self, form: &LevelForm, spare: Option<SlotId>) -> Result<(), ArrayError> {
        let parts = usize::try_from(form.parts).expect("parts are few");
        let is_spare = |id: SlotId| self.members.slots[id.0].state == SlotState::Spare;
        let is_idle = self.facts.reshape.is_none() && !self.is_unsynced();
        if !is_idle || !self.members.has_first(parts) || !spare.is_none_or(is_spare) {
            return Err(ArrayError::refused(
                "the level stays as it is: a member or a spare has failed meanwhile",
                "see the members with: outboard array status",
            ));
        }
        let facts = Facts {
            level: form.level,
            layout: form.layout,
            chunk: form.chunk,
            parts: form.parts,
            member_size: form.member_size,
            ..self.facts.clone()
        };
        let layout = Arc::new(Layout::of(&facts)?);
        self.facts = facts;
        self.members.change_level(layout, parts, spare);
        if let Some(bits) = &mut self.bits {
            // A member that comes has none of them.
            bits.write_all();
        }
        self.writes_form = true;
        if form.level != Level::Raid5 {
            self.writes_policy |= self.awaits_ppl;
            (self.drops_ppl, self.awaits_ppl) = (true, false);
        }
        self.holders_first = true;
        self.change_flushed(true);
        Ok(())
    }
}

impl RedundantArray {
    /// Whether all of the first `parts` have a member in sync.
    pub(in crate::array) fn has_first(&self, parts: u32) -> bool {
        let parts = usize::try_from(parts).expect("parts are few");
        self.lock().state.members.has_first(parts)
    }

    /// Members with a part, and spares: name, disk, and whether that is on another machine.
    pub(in crate::array) fn used_members(&self) -> Vec<(String, Node, bool)> {
        let guarded = self.lock();
        let slots = guarded.state.members.slots.iter();
        let used = slots.filter(|slot| slot.holds() || slot.state == SlotState::Spare);
        let used = used.map(|slot| &slot.target);
        used.map(|target| (target.name.clone(), target.disk.clone(), target.remote))
            .collect()
    }

    /// Whether superblocks of members on other machines are what was written last.
    ///
    /// # Errors
    /// One is not, or cannot be read.
    pub(in crate::array) async fn verify_members(&self) -> Result<(), IoError> {
        let view = self.view();
        for holder in view.holders() {
            holder.target.verify().await?;
        }
        Ok(())
    }

    /// Whether no change begins any more: another engine is about to take over.
    pub(in crate::array) fn set_stopped(&self, is_stopped: bool) {
        self.lock().state.stopped = is_stopped;
    }

    /// No other engine took over after all. Superblocks that it may have written are written again, by two commits: a member that has one
    /// of them, and cannot be written any more, counts fewer events.
    pub(in crate::array) async fn resume(&self) {
        {
            let state = &mut self.lock().state;
            state.stopped = false;
            state.ledger.lead();
            state.change(true);
        }
        if let Err(error) = self.record(State::is_recorded).await {
            tracing::error!("{}: {error}", self.name());
        }
    }

    /// The array has another level from now on, which has copies or parity. `spare` holds the part that comes. Durable when it resolves.
    ///
    /// # Errors
    /// A member has failed meanwhile, or members cannot be written.
    pub(in crate::array) async fn change_level(
        &self,
        form: LevelForm,
        spare: Option<SlotId>,
    ) -> Result<(), ArrayError> {
        let failed = |error: IoError| {
            ArrayError::refused(format!("the level cannot be changed: {error}"), None)
        };
        self.in_task(move |array| async move {
            let whole = Range::new(0, array.layout().sync_size());
            let turn = array.turn(Operation::Write, whole, Kind::Window).await;
            let _turn = turn.map_err(failed)?;
            array.catch_members_up().await.map_err(failed)?;
            array.lock().state.change_level(&form, spare)?;
            if form.level != Level::Raid5 {
                if array.rows.logs().is_some() {
                    let (name, level) = (array.name(), form.level);
                    tracing::warn!(
                        "{name}: members keep no partial parity logs from now on: {level} has none"
                    );
                }
                array.rows.drop_logs();
            }
            array.record_at_last().await.map_err(failed)?;
            array.lock().state.members.read_again();
            Ok(())
        })
        .await
    }
}
