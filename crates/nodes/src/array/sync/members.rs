//! Members that come, come back, and go.
//!
//! # Invariants
//!
//! * A member comes back by the bitmap only where that has all it lacks; else all of it is copied, and only on
//!   request.
//! * One at a time: no other takes a part between the look at it and the moment it is given.

use std::sync::{Arc, MutexGuard, PoisonError};

use block::{BlockDevice, IoError};
use engine::clock;

use super::super::format::bitmap::Bits;
use super::super::format::{self, Level, Version};
use super::super::member::Member;
use super::super::redundant::{SlotId, SlotState};
use super::super::{AddOptions, ArrayError, ArrayEvent, Candidate, Reopen, SyncKind, logs};
use super::absent::{Absences, Way};
use super::candidate::{Found, silent};
use super::manager::SyncManager;

/// A disk may take so many times longer to be taken in than a member for one answer.
const TAKING_IN: u32 = 12;

impl SyncManager {
    /// Makes a disk a member: by the bitmap where that is enough, else a spare, all of which is copied once a part
    /// has no holder. A member that diverged is refused, unless `options` say to overwrite it.
    pub(in crate::array) async fn add(
        &self,
        disk: Candidate,
        options: AddOptions,
    ) -> Result<(), ArrayError> {
        let _one = self.life.lock().await;
        self.in_time(&disk.name, async {
            let node = self.fresh(&disk).await?;
            if let Some(found) = self.known(&disk.name, &node).await? {
                if let Some((part, own)) = self.may_come_back(&found).await? {
                    return self.take_back(&disk, found, part, &own).await;
                }
                if !options.overwrite {
                    self.refuse_diverged(&found).await?;
                }
            }
            self.take_in(&disk, node, options).await
        })
        .await
    }

    /// Takes a member back that was away, by the bitmap.
    pub(in crate::array) async fn re_add(&self, disk: Candidate) -> Result<(), ArrayError> {
        let _one = self.life.lock().await;
        let name = &disk.name;
        self.in_time(name, async {
            let node = self.fresh(&disk).await?;
            let Some(found) = self.known(name, &node).await? else {
                return Err(self.stranger(name, &node).await);
            };
            let returned = self.array.check_returned(&found.superblock, &found.bytes);
            returned.map_err(|why| {
                let what = format!("{name} cannot come back as it is: {why}");
                ArrayError::refused(what, "add it: all of it is copied")
            })?;
            if let Some((part, own)) = self.may_come_back(&found).await? {
                return self.take_back(&disk, found, part, &own).await;
            }
            self.refuse_diverged(&found).await?;
            Err(self.refuse_return(&found))
        })
        .await
    }

    /// A disk that stops answering while it is taken in is not waited for: the array goes on without it.
    async fn in_time(
        &self,
        name: &str,
        taking: impl Future<Output = Result<(), ArrayError>>,
    ) -> Result<(), ArrayError> {
        let limit = self.array.member_timeout().saturating_mul(TAKING_IN);
        let taken = clock::timeout(limit, taking).await;
        taken.unwrap_or_else(|elapsed| Err(silent(name, elapsed)))
    }

    /// Declares a member failed; it does not come back by itself.
    pub(in crate::array) async fn fail(&self, name: &str) -> Result<(), ArrayError> {
        self.array.fail_member(name).await?;
        self.absences().refuse(name);
        self.changed();
        Ok(())
    }

    /// Forgets a spare or a failed member.
    pub(in crate::array) async fn remove(&self, name: &str) -> Result<(), ArrayError> {
        let _one = self.life.lock().await;
        self.array.remove_member(name).await?;
        let way = self.absences().forget(name);
        if let Some(way) = way {
            way.reopen.sever().await;
        }
        Ok(())
    }

    /// Makes a spare a copy of a member, which works meanwhile; the spare takes its place then. `with`: which spare.
    pub(in crate::array) async fn replace(
        &self,
        name: &str,
        with: Option<&str>,
    ) -> Result<(), ArrayError> {
        let _one = self.life.lock().await;
        self.must_write()?;
        if matches!(self.array.facts().version, Version::V0_90 { .. }) {
            return Err(ArrayError::refused(
                "superblocks 0.90 do not record that a member is being replaced",
                "declare it failed (fail): a spare is rebuilt in its place",
            ));
        }
        if self.array.is_reshaping() {
            return Err(ArrayError::refused(
                "the array is being reshaped: no member is replaced meanwhile",
                "wait until that has ended (outboard array wait)",
            ));
        }
        let slots = self.array.slot_states();
        let state_of = |slot: SlotId| slots.iter().find(|(other, ..)| *other == slot);
        let member = self.array.named(name)?;
        let is_in_sync = state_of(member).is_some_and(|(.., state)| *state == SlotState::InSync);
        let Some(part) = self.array.held_part(member).filter(|_| is_in_sync) else {
            return Err(ArrayError::refused(
                format!("{name} is not in sync: there is nothing to copy of it"),
                "see the members with: outboard array status",
            ));
        };
        if self.array.pair(part).is_some() {
            let what = format!("{name} is being replaced already");
            return Err(ArrayError::refused(what, None));
        }
        let spare = self.spare(with, &slots)?;
        self.array.refuse_vacancies()?;
        let replaced = self.array.replace(spare, part).await;
        replaced.map_err(|error| not_updated(&error))?;
        self.changed();
        Ok(())
    }

    /// The spare that is named, or any.
    fn spare(
        &self,
        name: Option<&str>,
        slots: &[(SlotId, String, SlotState)],
    ) -> Result<SlotId, ArrayError> {
        let mut spares = slots
            .iter()
            .filter(|(.., state)| *state == SlotState::Spare);
        let Some(name) = name else {
            let spare = spares.next().map(|(slot, ..)| *slot);
            return spare.ok_or_else(|| {
                ArrayError::refused("the array has no spare", "add a disk first (add)")
            });
        };
        let named = self.array.named(name)?;
        if !spares.any(|(slot, ..)| *slot == named) {
            let what = format!("{name} is no spare");
            return Err(ArrayError::refused(what, "add a disk first (add)"));
        }
        Ok(named)
    }

    /// Changes how many parts a mirror has.
    pub(in crate::array) async fn grow(&self, parts: u32) -> Result<(), ArrayError> {
        let _one = self.life.lock().await;
        self.must_write()?;
        let facts = self.array.facts();
        if facts.level != Level::Raid1 {
            return Err(ArrayError::refused(
                format!("{} does not change its number of parts here", facts.level),
                "let mdadm do that: mdadm --grow",
            ));
        }
        if parts == 0 || parts > format::MEMBERS_MAX {
            let most = format::MEMBERS_MAX;
            let what = format!("a mirror has from 1 to {most} parts, not {parts}");
            return Err(ArrayError::refused(what, None));
        }
        if parts == facts.parts {
            let what = format!("the array has {parts} parts already");
            return Err(ArrayError::refused(what, None));
        }
        let beyond = (parts..facts.parts).filter_map(|part| u16::try_from(part).ok());
        let mut held = beyond.filter_map(|part| Some(self.array.holder(part)?.target.name.clone()));
        if let Some(holder) = held.next() {
            return Err(ArrayError::refused(
                format!("{holder} holds a part that would be left over"),
                "declare it failed first (fail)",
            ));
        }
        let told = self.array.set_parts(parts).await;
        told.map_err(|error| not_updated(&error))?;
        self.changed();
        Ok(())
    }

    /// Begins a scrub.
    pub(in crate::array) fn scrub(&self, kind: SyncKind) -> Result<(), ArrayError> {
        if !matches!(kind, SyncKind::Check | SyncKind::Repair) {
            let what = format!("a scrub is a check or a repair, not a {kind:?}");
            return Err(ArrayError::refused(what, None));
        }
        self.must_write()?;
        if self.array.status().resync_pending {
            return Err(ArrayError::refused(
                "the array is not resynced yet: a resync is pending or under way, and its copies may differ until it ends",
                "wait for it (outboard array wait), then scrub",
            ));
        }
        if self.has_work() || self.array.is_reshaping() {
            return Err(ArrayError::refused(
                "a member is being rebuilt, or the array is being reshaped or scrubbed already",
                "wait until that has ended (outboard array wait)",
            ));
        }
        if self.array.view().holders().nth(1).is_none() {
            return Err(ArrayError::refused(
                "the array has one copy, and nothing to compare it with",
                "add a member first",
            ));
        }
        self.state().requested = Some(kind);
        self.wanted.notify_waiters();
        Ok(())
    }

    /// Ends a scrub early.
    pub(in crate::array) fn stop_scrub(&self) {
        self.state().requested = None;
        self.wanted.notify_waiters();
    }

    /// Knows how to open a member again.
    pub(super) fn remember(&self, name: &str, remote: bool, reopen: Option<&Arc<dyn Reopen>>) {
        if let Some(reopen) = reopen {
            let reopen = reopen.clone();
            self.absences().know(name, Way { remote, reopen });
        }
    }

    /// Members changed: what could not be done may be possible now.
    pub(super) fn changed(&self) {
        self.state().try_again();
        self.wanted.notify_waiters();
    }

    pub(super) fn must_write(&self) -> Result<(), ArrayError> {
        if self.array.geometry().read_only {
            return Err(ArrayError::refused(
                "the array is open read-only",
                "open it for writing",
            ));
        }
        if let Some(takeover) = self.array.takeover() {
            return Err(ArrayError::refused(takeover.to_string(), None));
        }
        if self.state().stopped {
            return Err(ArrayError::refused("the array was stopped", None));
        }
        Ok(())
    }

    async fn take_back(
        &self,
        disk: &Candidate,
        found: Found,
        part: u16,
        own: &Bits,
    ) -> Result<(), ArrayError> {
        let name = disk.name.clone();
        self.array
            .refuse_misplaced(&name, &found.disk, &found.superblock, found.at)?;
        let bad = logs::bad(&name, &found.disk, &found.superblock).await?;
        self.array.forget(&name, found.superblock.number);
        let member = Member {
            name: name.clone(),
            disk: found.disk,
            remote: disk.remote,
            reopen: disk.reopen.clone(),
            at: found.at,
            superblock: found.superblock,
            bytes: found.bytes,
            bitmap: found.bitmap,
            bad,
        };
        let slot = self.array.adopt(member, false);
        self.remember(&name, disk.remote, disk.reopen.as_ref());
        // Durable with the part: it is never rebuilt by fewer bits than these.
        self.array.note_bits(own);
        let given = self.array.give_part(slot, part, true).await;
        given.map_err(|error| not_updated(&error))?;
        self.array
            .send_event(ArrayEvent::MemberBack { member: name });
        self.changed();
        Ok(())
    }

    pub(super) fn absences(&self) -> MutexGuard<'_, Absences> {
        self.absences.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub(super) fn not_updated(error: &IoError) -> ArrayError {
    ArrayError::refused(format!("the members could not be updated: {error}"), None)
}
