//! What the form of a redundant array is, and what its members' superblocks say now, for code that takes members in.

use std::time::Duration;

use block::{IoError, Node};

use super::super::ArrayError;
use super::super::assembly::Facts;
use super::super::format::bitmap::Bitmap;
use super::super::format::{self, Superblock};
use super::RedundantArray;
use super::member_table::SlotState;
use super::members::SlotId;
use super::placement::Places;

/// How long bits are left alone that no write needs, where the bitmap does not say, and at most.
const DAEMON_SLEEP: Duration = Duration::from_secs(5);
const DAEMON_SLEEP_MAX: Duration = Duration::from_secs(3600);

/// A member that holds a part, as its superblock was written last.
#[derive(Debug, Clone)]
pub(in crate::array) struct Written {
    pub(in crate::array) name: String,
    pub(in crate::array) disk: Node,
    pub(in crate::array) superblock: Superblock,
    /// Where that is, byte of the disk.
    pub(in crate::array) at: u64,
    pub(in crate::array) in_sync: bool,
}

impl RedundantArray {
    /// What all members agree on.
    pub(in crate::array) fn facts(&self) -> Facts {
        self.lock().state.facts.clone()
    }

    /// Bytes of each member that are used.
    pub(in crate::array) fn member_size(&self) -> u64 {
        self.lock().state.facts.member_size
    }

    /// The first byte of a member behind the chunk that `at` is in.
    pub(in crate::array) fn behind_chunk(&self, at: u64) -> u64 {
        let facts = &self.lock().state.facts;
        let chunk = facts.chunk.max(1);
        (at / chunk + 1).saturating_mul(chunk)
    }

    /// The first byte of the chunk of the bitmap that `at` is in.
    pub(in crate::array) fn chunk_of(&self, at: u64) -> u64 {
        let guarded = self.lock();
        let chunk = guarded.state.bits.as_ref().map_or(1, super::Bits::chunk);
        at / chunk * chunk
    }

    /// How often copies were found to differ since it was opened.
    pub(in crate::array) fn needs(&self) -> u64 {
        self.lock().state.needs
    }

    /// Whether it has a bitmap.
    pub(in crate::array) fn has_bitmap(&self) -> bool {
        self.lock().state.bits.is_some()
    }

    /// The header of its bitmap, as it was written last.
    pub(in crate::array) fn bitmap(&self) -> Option<Bitmap> {
        let guarded = self.lock();
        let header = guarded.state.bits.as_ref()?.header();
        Bitmap::decode(header).ok()
    }

    /// Members that hold a part, by their superblocks as they were written last.
    pub(in crate::array) fn written(&self) -> Vec<Written> {
        let guarded = self.lock();
        let slots = guarded.state.members.slots.iter();
        let written = slots.filter_map(|slot| {
            let in_sync = match slot.state {
                SlotState::InSync => true,
                SlotState::Rebuilding(_) => false,
                _ => return None,
            };
            let version = slot.superblock.version;
            let superblock = format::decode(version, slot.at, &slot.bytes).ok()??;
            Some(Written {
                name: slot.target.name.clone(),
                disk: slot.target.disk.clone(),
                superblock,
                at: slot.at,
                in_sync,
            })
        });
        written.collect()
    }

    /// The disk of a member.
    pub(in crate::array) fn disk_of(&self, slot: SlotId) -> Node {
        self.target(slot).disk.clone()
    }

    /// Refuses a member that comes if what is written of it would lie on something else, or on parts of blocks of its
    /// disk. `at`: where its superblock is.
    ///
    /// # Errors
    /// Which of it would.
    pub(in crate::array) fn refuse_misplaced(
        &self,
        name: &str,
        disk: &Node,
        superblock: &Superblock,
        at: u64,
    ) -> Result<(), ArrayError> {
        let guarded = self.lock();
        let bits = guarded.state.bits.as_ref();
        let places = Places {
            superblock,
            at,
            used: guarded.state.facts.member_size,
            bitmap: bits.map_or(0, super::Bits::len_on_disk),
            disk: disk.geometry().size,
            block: disk.geometry().block_size,
        };
        places.check(
            "it is not taken in",
            name,
            "add it again: all of it is copied",
        )
    }

    /// How long a member may take for an answer.
    pub(in crate::array) const fn member_timeout(&self) -> Duration {
        self.member_timeout
    }

    /// How long a bit stays set that no write needs, half of it at least.
    pub(in crate::array) fn daemon_sleep(&self) -> Duration {
        let seconds = self.bitmap().map_or(0, |header| header.daemon_sleep);
        match seconds {
            0 => DAEMON_SLEEP,
            seconds => Duration::from_secs(seconds.into()).min(DAEMON_SLEEP_MAX),
        }
    }

    /// Members that have failed, or were left behind, and have that name or number, are forgotten: one that takes
    /// their place comes. Other members are written when it has.
    pub(in crate::array) fn forget(&self, name: &str, number: u32) {
        let mut guarded = self.lock();
        for slot in &mut guarded.state.members.slots {
            let is_out = matches!(slot.state, SlotState::Failed(_) | SlotState::Stale);
            if is_out && (slot.number == number || slot.target.name == name) {
                slot.state = SlotState::Removed;
            }
        }
    }

    /// Changes in flight, and what is not durable yet; for tests that hang.
    #[cfg(test)]
    pub(in crate::array) fn story(&self) -> String {
        let guarded = self.lock();
        let state = &guarded.state;
        format!(
            "{:?}, {:?}, commit {:?}",
            state.locks, state.ledger, guarded.commit
        )
    }

    /// Commits all that members do not know yet.
    ///
    /// # Errors
    /// They cannot be written.
    pub(in crate::array) async fn commit_pending(&self) -> Result<(), IoError> {
        self.record_pending().await
    }

    /// How every member stands that was not forgotten, by its name.
    pub(in crate::array) fn slot_states(&self) -> Vec<(SlotId, String, SlotState)> {
        let guarded = self.lock();
        let slots = guarded.state.members.slots.iter();
        let known = slots.filter(|slot| slot.state != SlotState::Removed);
        let told = known.map(|slot| {
            let target = &slot.target;
            (target.slot, target.name.clone(), slot.state.clone())
        });
        told.collect()
    }
}
