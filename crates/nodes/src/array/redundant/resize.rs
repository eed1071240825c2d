//! The size of an array after its members were enlarged: what members must know of it.
//!
//! ```text
//! nothing is under way ─► bitmap and superblocks of the new size: durable ─► the array is larger, what is new is resynced
//! ```
//!
//! # Invariants
//!
//! * Nothing is written to what is new before all members know, durably, that it belongs to the array.
//! * The bitmap covers what is new before superblocks have it.
//!
//! # What it does not do
//!
//! It makes no array smaller, and moves no superblock: those at the end of a disk are lost where that is enlarged.

use std::sync::Arc;

use block::{IoError, Operation, Range};

use super::super::ArrayError;
use super::super::assembly::Facts;
use super::super::format::{Level, Superblock};
use super::RedundantArray;
use super::layout::Layout;
use super::member_table::{Slot, SlotState};
use super::placement::Places;
use super::range_locks::Kind;
use super::state::State;

/// Members of arrays without chunks use whole units of this, bytes.
const UNIT: u64 = 64 << 10;

impl State {
    /// The array uses so much of each member from now on, and what is new is `unsynced` or not. Nothing may be under way.
    fn resize(&mut self, facts: Facts, unsynced: bool) -> Result<(), ArrayError> {
        let layout = Layout::of(&facts)?;
        let before = self.members.layout.sync_size();
        let new = Range::new(before, layout.sync_size() - before);
        self.facts = facts;
        self.members.layout = Arc::new(layout);
        self.members.rebuild_view();
        if let Some(bits) = &mut self.bits {
            bits.grow(new.end());
        }
        if unsynced {
            self.need(new);
        }
        self.writes_form = true;
        self.change_flushed(true);
        Ok(())
    }
}

impl RedundantArray {
    /// What all members agree on if the array uses all of them.
    ///
    /// # Errors
    /// It is not larger, or what belongs to the superblocks has no room.
    fn larger(&self) -> Result<Facts, ArrayError> {
        let guarded = self.lock();
        let state = &guarded.state;
        let facts = &state.facts;
        let unit = if facts.chunk > 0 { facts.chunk } else { UNIT };
        // A spare that is too small would be no spare any more.
        let counts = |slot: &&Slot| slot.holds() || slot.state == SlotState::Spare;
        let slots = || state.members.slots.iter().filter(counts);
        let room = slots().map(|slot| {
            let disk = slot.target.disk.geometry().size;
            disk.saturating_sub(slot.superblock.data.offset)
        });
        let member_size = room.min().unwrap_or(0) / unit * unit;
        if member_size <= facts.member_size {
            let smallest = slots().min_by_key(|slot| slot.target.disk.geometry().size);
            let name = smallest.map_or("", |slot| &slot.target.name);
            return Err(ArrayError::refused(
                format!("{name} has no room for more: the array uses all of it"),
                "enlarge all members first, and open the array again",
            ));
        }
        let mut larger = Facts {
            member_size,
            ..facts.clone()
        };
        larger.size = match facts.level {
            // It has no size of its own to compare with.
            Level::Raid10 => u64::MAX,
            Level::Raid1 => member_size,
            _ => {
                let of = &state.members.layout.sections().after().layout;
                super::row_section::size_of(of, member_size)
            }
        };
        let layout = Layout::of(&larger)?;
        larger.size = layout.size();
        let bits = state.bits.as_ref();
        if bits.is_some_and(|bits| !bits.can_cover(layout.sync_size())) {
            return Err(ArrayError::refused(
                "the bitmap would have too many bits",
                "let mdadm make one with larger chunks: mdadm --grow --bitmap",
            ));
        }
        let bitmap = bits.map_or(0, |bits| bits.len_for(layout.sync_size()));
        for slot in slots() {
            let superblock = Superblock {
                member_size,
                ..slot.superblock.clone()
            };
            let places = Places {
                superblock: &superblock,
                at: slot.at,
                used: member_size,
                bitmap,
                disk: slot.target.disk.geometry().size,
                block: slot.target.disk.geometry().block_size,
            };
            let next = "there is no room for a larger bitmap: mdadm makes one with larger chunks";
            places.check("the array stays as large as it is", &slot.target.name, next)?;
        }
        Ok(larger)
    }

    /// The array uses all of its members from now on; what is new is `unsynced` or not. Durable when it resolves.
    ///
    /// # Errors
    /// It is not larger, or members cannot be written.
    pub(in crate::array) async fn resize(&self, unsynced: bool) -> Result<(), ArrayError> {
        let failed = |error: IoError| {
            ArrayError::refused(format!("the array does not get larger: {error}"), None)
        };
        let facts = self.larger()?;
        self.in_task(move |array| async move {
            let whole = Range::new(0, array.layout().sync_size());
            let turn = array.turn(Operation::Write, whole, Kind::Window).await;
            let _turn = turn.map_err(failed)?;
            let size = facts.size;
            array.catch_members_up().await.map_err(failed)?;
            array.lock().state.resize(facts, unsynced)?;
            array.record_at_last().await.map_err(failed)?;
            array.lock().state.members.read_again();
            array.geometry.grow(size);
            Ok(())
        })
        .await
    }

    /// Whether the place of what the array has does not depend on its size.
    pub(in crate::array) fn keeps_places(&self) -> bool {
        self.layout().keeps_places()
    }
}
