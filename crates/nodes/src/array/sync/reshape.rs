//! Arrays with parity that get another form: what is requested, and the work in the background.
//!
//! # Invariants
//!
//! * A reshape begins only with all members in sync, and with parity that fits.
//! * Nothing is changed before all that it needs is there: spares, room in front of the data, or on spares or in a file for a backup, a size that does not shrink.

use std::sync::Arc;

use block::{BlockDevice, Errno, IoError, Operation};
use engine::clock;

use super::super::format::{Level, Version};
use super::super::parity::layout::Layout;
use super::super::redundant::{NewForm, SlotId, SlotState, size_of};
use super::super::{ArrayError, BackupFile, NewShape, ReshapePause, SyncKind, SyncStatus};
use super::job::Job;
use super::manager::{End, LOOK, SyncManager};
use super::sync_job::SyncJob;
use super::window::Stop;

/// Bytes of the array that are moved at once, while users are there: each window ends with a commit, which they wait for.
const WINDOW_MIN: u64 = 4 << 20;
/// And without users.
const WINDOW_MAX: u64 = 32 << 20;
/// Smallest chunk that an array gets, bytes, and the largest: a window has one of each member in memory.
const CHUNK_MIN: u64 = 4096;
const CHUNK_MAX: u64 = 64 << 20;

fn refused(what: impl Into<String>, next: &'static str) -> ArrayError {
    ArrayError::refused(what.into(), next)
}

impl SyncManager {
    /// The array is to get another form: spares hold the new parts. Durable when it resolves; rows are moved in the background.
    pub(in crate::array) async fn reshape(
        &self,
        shape: NewShape,
        backup: Option<Arc<dyn BackupFile>>,
    ) -> Result<(), ArrayError> {
        let _one = self.life.lock().await;
        self.must_write()?;
        if shape == NewShape::default() {
            return self.continue_reshape();
        }
        let form = self.new_form(shape)?;
        self.must_be_at_rest()?;
        let spares = self.new_members(form.parts)?;
        let moved = self.array.distance_for(form, &spares, backup.is_some())?;
        self.array
            .begin_reshape(form, spares, moved, backup)
            .await?;
        self.changed();
        Ok(())
    }

    /// A reshape that waits is tried again.
    fn continue_reshape(&self) -> Result<(), ArrayError> {
        if !self.array.is_reshaping() {
            return Err(ArrayError::refused("no reshape is going on", None));
        }
        self.changed();
        Ok(())
    }

    /// The form that is requested, if the array can have it.
    fn new_form(&self, shape: NewShape) -> Result<NewForm, ArrayError> {
        let facts = self.array.facts();
        let level = facts.level;
        if !matches!(level, Level::Raid4 | Level::Raid5 | Level::Raid6) {
            let what = format!("{level} is not reshaped here: only arrays with parity are");
            return Err(refused(what, "let mdadm do that: mdadm --grow"));
        }
        let form = NewForm {
            parts: shape.parts.unwrap_or(facts.parts),
            layout: shape.layout.unwrap_or(facts.layout),
            chunk: shape.chunk.unwrap_or(facts.chunk),
        };
        if form.parts < facts.parts {
            let what = format!(
                "the array has {} members: it does not get fewer here",
                facts.parts
            );
            return Err(refused(
                what,
                "let mdadm do that: mdadm --grow --raid-devices",
            ));
        }
        if !(facts.version.is_v1() || matches!(facts.version, Version::V0_90 { .. })) {
            let what = format!("superblocks {} know no such reshape", facts.version);
            return Err(ArrayError::refused(what, None));
        }
        if (form.parts, form.layout, form.chunk) == (facts.parts, facts.layout, facts.chunk) {
            return Err(ArrayError::refused("the array has that form already", None));
        }
        let is_chunk =
            |chunk: u64| chunk.is_power_of_two() && (CHUNK_MIN..=CHUNK_MAX).contains(&chunk);
        let block = u64::from(self.array.geometry().block_size);
        let is_whole = form.chunk.is_multiple_of(block) && facts.chunk.is_multiple_of(block);
        if !is_chunk(form.chunk) || !is_chunk(facts.chunk) || !is_whole {
            let what = format!(
                "chunks of {} bytes do not become chunks of {}",
                facts.chunk, form.chunk
            );
            return Err(refused(
                what,
                "chunks are powers of two, from 4 KiB and a block of the members on, up to 64 MiB",
            ));
        }
        if !facts.member_size.is_multiple_of(form.chunk) {
            let what = format!(
                "members of {} bytes are not made of whole chunks of {}",
                facts.member_size, form.chunk
            );
            return Err(refused(what, "choose a smaller chunk"));
        }
        let layout = Layout::new(level, form.layout, form.parts, form.chunk);
        let layout = layout.map_err(|what| ArrayError::refused(what, None))?;
        let size = size_of(&layout, facts.member_size);
        if i64::try_from(size).is_err() || size < facts.size {
            let what = format!("the array would have {size} bytes");
            return Err(ArrayError::refused(what, None));
        }
        Ok(form)
    }

    /// Refuses while members are missing, or anything is done.
    pub(super) fn must_be_at_rest(&self) -> Result<(), ArrayError> {
        self.must_have_members(self.array.facts().parts)?;
        self.must_be_idle()
    }

    /// Refuses while members of the first `parts` are missing.
    pub(super) fn must_have_members(&self, parts: u32) -> Result<(), ArrayError> {
        if self.array.has_first(parts) {
            return Ok(());
        }
        let status = self.array.status();
        let what = format!(
            "the array has {} of its {} members: its form stays as it is without them",
            status.working, status.parts
        );
        Err(refused(what, "add a disk and wait until it is rebuilt"))
    }

    /// Refuses while anything is done, or is to be.
    pub(super) fn must_be_idle(&self) -> Result<(), ArrayError> {
        if self.array.is_reshaping() {
            return Err(refused(
                "the array is being reshaped",
                "wait until that has ended, or continue it where it is paused (array grow --continue)",
            ));
        }
        let status = self.array.status();
        if status.resync_pending || self.has_work() {
            return Err(refused(
                "something else is done in the background, or is to be",
                "wait until that has ended (outboard array wait)",
            ));
        }
        if status.journal {
            return Err(refused(
                "the array has a journal, which knows one form alone",
                "remove it first, with mdadm: --grow --consistency-policy=resync",
            ));
        }
        Ok(())
    }

    /// Refuses while members have bad blocks.
    pub(super) fn must_have_no_bad_blocks(&self) -> Result<(), ArrayError> {
        let Some(name) = self.array.with_bad_blocks().into_iter().next() else {
            return Ok(());
        };
        let what = format!("{name} has bad blocks: the form of the array stays as it is with them");
        Err(refused(what, "replace it first (replace)"))
    }

    /// The spares that hold the new parts.
    pub(super) fn new_members(&self, parts: u32) -> Result<Vec<SlotId>, ArrayError> {
        let added = parts.saturating_sub(self.array.facts().parts);
        let slots = self.array.slot_states().into_iter();
        let spares = slots.filter(|(.., state)| *state == SlotState::Spare);
        let mut spares: Vec<SlotId> = spares.map(|(slot, ..)| slot).collect();
        self.array.sort_by_number(&mut spares);
        let wanted = usize::try_from(added).expect("members are few");
        if spares.len() < wanted {
            let what = format!(
                "it takes {wanted} spares more, and there are {}",
                spares.len()
            );
            return Err(refused(what, "add disks first (add)"));
        }
        Ok(spares.into_iter().take(wanted).collect())
    }

    /// A reshape that is not going on now, but will where the array may be written; `None`: there is none, or it cannot go on.
    pub(super) fn reshape_status(&self) -> Option<SyncStatus> {
        let (done, of) = self.array.reshaped_to()?;
        (!self.state().has_failed(Job::Reshape)).then_some(SyncStatus {
            kind: SyncKind::Reshape,
            done,
            of,
            speed: 0,
            left: None,
            mismatches: 0,
        })
    }

    /// A reshape that waits, if one does.
    pub(super) fn reshape_pause(&self) -> Option<ReshapePause> {
        let (done, of) = self.array.reshaped_to()?;
        let why = self.state().why_of(Job::Reshape)?;
        Some(ReshapePause { done, of, why })
    }

    /// Moves rows until all are, one window after the other: each is behind what members know durably.
    pub(super) async fn reshape_rows(&self, sync_job: &mut SyncJob) -> Result<End, Stop> {
        let ended = self.reshape_windows(sync_job).await;
        if !self.state().stopped {
            self.array.release_window(false).await;
        }
        ended
    }

    async fn reshape_windows(&self, sync_job: &mut SyncJob) -> Result<End, Stop> {
        loop {
            if self.state().stopped || self.array.takeover().is_some() {
                return Ok(End::Early);
            }
            let wait = self.pause(sync_job);
            if !wait.is_zero() {
                self.array.release_window(true).await;
                clock::sleep(wait.min(LOOK)).await;
                continue;
            }
            let wanted = match sync_job.rate.windows() {
                0 | 1 => WINDOW_MIN,
                _ => WINDOW_MAX,
            };
            let begun = self.now();
            let Some(moved) = self.array.move_window(wanted).await? else {
                if !self.array.is_reshaping() {
                    return Ok(End::Well);
                }
                let error = IoError::new(Errno::NoSpace, Operation::Write, None);
                let why = "no row fits into what is free between old and new ones";
                return Err(Stop::Failed(error.because(why)));
            };
            sync_job.rate.take(begun, moved.len);
            let now = self.now();
            sync_job.rate.took(moved.len, now.saturating_sub(begun));
            self.state().advance(now, moved.len, moved.end());
        }
    }
}
