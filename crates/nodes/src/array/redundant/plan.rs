//! [`Plan`]: what one commit writes, and what its end changes. Pure.
//!
//! ```text
//! flush all, where something is taken back ─► superblocks of members that are one commit behind
//!     ─► bitmap pages ─► logs of bad blocks, superblocks
//! ```
//!
//! # Invariants
//!
//! * What says that members hold something is written behind a flush of all of them: that the array is clean, that a
//!   bit is clear, how far a member is rebuilt. Where that flush fails nothing is written.
//! * The bitmap is written before the superblocks: its events are theirs, or one more.
//! * Where a commit failed on a member that goes on, its events are used again: no member is ever two behind.
//! * Where a power cut left some members one commit behind, these count the events of the others first, and all count one
//!   more after that: another cut at any moment leaves none two behind.

use std::sync::Arc;

use block::Range;
use bytes::Bytes;

use super::super::format::{self, Changes, Role, Version};
use super::bits::Page;
use super::ledger::CommitScope;
use super::member_table::{Failing, Slot, SlotState};
use super::members::{SlotId, Target};
use super::state::State;
use crate::fields::put;

/// Fields of a bitmap's header.
const EVENTS_AT: usize = 24;
const CLEARED_AT: usize = 32;
const STATE_AT: usize = 48;
/// The bit of its state that says that it is not to be trusted.
const STALE: u8 = 2;

/// What one commit writes.
#[derive(Debug)]
pub(super) struct Plan {
    /// All holders are flushed first.
    pub(super) flush_first: bool,
    /// Pages of the bitmap.
    pub(super) pages: Vec<Page>,
    /// The members that it writes to.
    pub(super) members: Vec<CommitTarget>,
    /// Superblocks are written one after the other.
    pub(super) one_by_one: bool,
    /// Those of members without a part are written behind those of others.
    pub(super) holders_first: bool,
    /// What its end changes.
    pub(super) after: After,
}

/// A member that a commit writes to.
#[derive(Debug)]
pub(super) struct CommitTarget {
    pub(super) target: Arc<Target>,
    /// It holds a part.
    pub(super) holds: bool,
    /// Where its bitmap is, byte of the disk.
    pub(super) bitmap_at: Option<u64>,
    /// Its log of bad blocks, and where that goes.
    pub(super) log: Option<(Range, Bytes)>,
    /// Its superblock, and where that goes.
    pub(super) superblock: Option<(Range, Bytes)>,
    /// The same with the events that the others have already, where it is one commit behind.
    pub(super) catch_up: Option<(Range, Bytes)>,
}

/// What is durable once a plan was carried out.
#[derive(Debug)]
pub(super) struct After {
    scope: CommitScope,
    rebuilt: Vec<(SlotId, u64)>,
    /// The logs of bad blocks that are written, where superblocks are.
    logs: Vec<SlotId>,
    /// Members that are one commit behind no longer.
    caught_up: Vec<SlotId>,
}

/// How a commit went.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    /// It was aborted before anything was written.
    pub(super) cancelled: bool,
    /// Members that failed at it, and why.
    pub(super) failures: Vec<(SlotId, block::IoError)>,
}

impl State {
    /// A commit begins. `now`: seconds since 1970.
    pub(super) fn plan(&mut self, now: u64) -> Plan {
        let degraded = self.is_degraded();
        let keeps_bits = self.keeps_bits();
        let mut clears_bits = false;
        if let Some(bits) = &mut self.bits {
            if keeps_bits {
                bits.keep_all();
            }
            clears_bits = bits.will_clear();
        }
        let scope = self.ledger.begin(degraded, clears_bits);
        let header = scope.events.map(|events| {
            move |header: &mut [u8]| {
                put(header, EVENTS_AT, events.to_le_bytes());
                put(header, CLEARED_AT, scope.events_cleared.to_le_bytes());
                header[STATE_AT] &= !STALE;
            }
        });
        let bits = self.bits.as_mut();
        let pages = bits.map_or_else(Vec::new, |bits| bits.begin_commit(header));
        let after = After {
            scope,
            rebuilt: self.rebuilt(scope.flush_first),
            logs: self.logs(),
            caught_up: match scope.events {
                Some(_) => std::mem::take(&mut self.members.behind),
                None => Vec::new(),
            },
        };
        let mut members = self.targets(&after, scope.events.map(|_| now));
        if let Some(before) = self.critical_from() {
            members.sort_by_key(|member| self.order_of(member.target.slot, before));
        }
        Plan {
            flush_first: scope.flush_first,
            pages,
            members,
            one_by_one: matches!(self.facts.version, Version::V0_90 { .. }),
            holders_first: self.holders_first && scope.events.is_some(),
            after,
        }
    }

    /// Parts before a reshape of which superblocks are to have position 0.
    fn critical_from(&self) -> Option<u32> {
        let reshape = self.facts.reshape.filter(|reshape| reshape.position == 0);
        reshape.map(|reshape| reshape.parts)
    }

    /// Where superblocks are written one after the other, new members have theirs before others know of the reshape: a power cut may leave one
    /// of them without a superblock, and a backup of the first rows is on these alone.
    fn order_of(&self, slot: SlotId, before: u32) -> (bool, u32) {
        let part = self.members.slots[slot.0].part.map_or(u32::MAX, u32::from);
        let is_new = part >= before && part != u32::MAX;
        (!is_new, part)
    }

    /// How far members are rebuilt, as far as it may be written. In the midst of a reshape they count as blank until all of them is there: a
    /// superblock knows no place of two forms.
    fn rebuilt(&self, flushed: bool) -> Vec<(SlotId, u64)> {
        let flushed = flushed && !self.is_reshaping();
        let slots = self.members.slots.iter();
        let rebuilding = slots.filter_map(|slot| match slot.state {
            SlotState::Rebuilding(to) | SlotState::Replacing(to) => {
                let to = if flushed {
                    to
                } else {
                    slot.rebuilt_durably.min(to)
                };
                Some((slot.target.slot, to))
            }
            _ => None,
        });
        rebuilding.collect()
    }

    fn logs(&self) -> Vec<SlotId> {
        let changed = self.members.slots.iter().filter(|slot| slot.log_changed);
        changed.map(|slot| slot.target.slot).collect()
    }

    /// What is written to which member. `now`: superblocks, too.
    fn targets(&mut self, after: &After, now: Option<u64>) -> Vec<CommitTarget> {
        let roles = self.roles();
        let (writes_form, drops_ppl) = (self.writes_form, self.drops_ppl);
        let (writes_policy, awaits_ppl) = (self.writes_policy, self.awaits_ppl);
        // What is under way is in the journal, where one works: md has such an array as clean all the time.
        let synced_to = if self.ledger.writes_dirty() && self.members.journal().is_none() {
            Some(0)
        } else {
            self.synced_to()
        };
        let mut target = Vec::new();
        for slot in &mut self.members.slots {
            let holds = match slot.state {
                SlotState::InSync | SlotState::Rebuilding(_) | SlotState::Replacing(_) => true,
                SlotState::Spare | SlotState::Journal => false,
                _ => continue,
            };
            let log = now.and_then(|_| slot.log_to_write());
            let superblock = now.map(|now| {
                let id = slot.target.slot;
                let rebuilt = after.rebuilt.iter().filter(|(other, _)| *other == id);
                // A replacement that is a whole copy, and did not take its member's place yet.
                let is_journal = slot.state == SlotState::Journal;
                let is_copy = slot.is_replacement() && slot.is_whole;
                let is_partial = |to: &u64| !is_copy || *to < self.facts.member_size;
                let changes = Changes {
                    events: after.scope.events,
                    updated: Some(now),
                    synced_to: Some(synced_to),
                    roles: Some(&roles),
                    number: Some(slot.number),
                    members: Some(self.facts.parts),
                    rebuilt_to: (!is_journal)
                        .then(|| rebuilt.map(|(_, to)| *to).next().filter(is_partial)),
                    journal_tail: self.journal_tail.filter(|_| is_journal),
                    rebuilt_by_bitmap: Some(slot.by_bitmap && slot.is_rebuilding()),
                    replacement: Some(slot.is_replacement()),
                    has_bad_blocks: log.is_some().then_some(!slot.bad.is_empty()),
                    corrected: Some(slot.corrected()),
                    form: (writes_form && slot.state != SlotState::Journal)
                        .then(|| slot.form(&self.facts, drops_ppl)),
                    policy: ((writes_policy || slot.writes_policy)
                        && slot.state != SlotState::Journal)
                        .then(|| slot.policy_place(drops_ppl, awaits_ppl)),
                    ..Changes::default()
                };
                let is_behind = after.caught_up.contains(&id);
                let catch_up = is_behind.then(|| {
                    let events = Some(self.ledger.events());
                    slot.patch(&Changes { events, ..changes })
                });
                (slot.patch(&changes), catch_up)
            });
            let (superblock, catch_up) = superblock.unzip();
            target.push(CommitTarget {
                target: slot.target.clone(),
                holds,
                bitmap_at: slot.superblock.bitmap_at.filter(|_| holds),
                log,
                superblock,
                catch_up: catch_up.flatten(),
            });
        }
        target
    }

    /// The roles of all members by their numbers. A member that is not here holds nothing.
    fn roles(&self) -> Vec<Role> {
        let mut roles = self.members.roles.clone();
        let old = matches!(self.facts.version, Version::V0_90 { .. });
        // A holder has the last word, where another member came with the same number.
        let (holders, others): (Vec<&Slot>, Vec<&Slot>) =
            self.members.slots.iter().partition(|slot| slot.holds());
        for slot in others.into_iter().chain(holders) {
            let number = usize::try_from(slot.number).expect("numbers are few");
            if roles.len() <= number {
                roles.resize(number + 1, Role::Spare);
            }
            roles[number] = match (&slot.state, slot.part) {
                (SlotState::InSync, Some(part)) => Role::Active(part),
                // 0.90 has no word for a member that holds a part in part.
                (SlotState::Rebuilding(_) | SlotState::Replacing(_), Some(part)) if !old => {
                    Role::Active(part)
                }
                (SlotState::Rebuilding(_) | SlotState::Replacing(_) | SlotState::Spare, _) => {
                    Role::Spare
                }
                (SlotState::Journal, _) => Role::Journal,
                _ => Role::Faulty,
            };
        }
        roles
    }

    /// A commit has ended. What its failures mean is decided here: `Err` where a member that cannot be failed
    /// does not have it.
    pub(super) fn committed(
        &mut self,
        after: &After,
        outcome: Outcome,
    ) -> (Vec<(SlotId, String)>, Result<(), block::IoError>) {
        let mut failed = Vec::new();
        let mut result = Ok(());
        for (slot, error) in outcome.failures {
            let why = error.to_string();
            match self.fail(slot, &why) {
                Failing::Failed => failed.push((slot, why)),
                Failing::Already => {}
                Failing::Last => result = Err(error),
            }
        }
        let durable = result.is_ok() && !outcome.cancelled;
        if let Some(bits) = &mut self.bits {
            bits.end_commit(durable);
        }
        if !durable {
            self.ledger.abort(&after.scope);
            self.members.behind.extend(&after.caught_up);
            for slot in after.logs.iter().filter(|_| after.scope.events.is_some()) {
                self.members.slots[slot.0].log_changed = true;
            }
            return (failed, result);
        }
        self.ledger.end(&after.scope);
        self.holders_first &= after.scope.events.is_none();
        for (slot, to) in &after.rebuilt {
            self.members.slots[slot.0].rebuilt_durably = *to;
        }
        (failed, result)
    }
}

impl Slot {
    fn corrected(&self) -> u32 {
        let corrected = &self.target.corrected;
        let corrected = corrected.load(std::sync::atomic::Ordering::Relaxed);
        u32::try_from(corrected).unwrap_or(u32::MAX)
    }

    /// Its log of bad blocks, where that changed.
    fn log_to_write(&mut self) -> Option<(Range, Bytes)> {
        if !std::mem::take(&mut self.log_changed) {
            return None;
        }
        let place = self.superblock.bad_blocks?;
        let log = self.log.as_ref()?.encode()?;
        Some((place, log.into()))
    }

    /// Changes its superblock; what is to be written, and where.
    fn patch(&mut self, changes: &Changes<'_>) -> (Range, Bytes) {
        let version = self.superblock.version;
        self.bytes = format::patch(&self.bytes, version, changes);
        let block = self.target.disk.geometry().block_size;
        let written = format::written(&self.bytes, version, block);
        let place = Range::new(self.at, written.len() as u64);
        (place, Bytes::copy_from_slice(written))
    }
}
