//! Arrays with copies or parity that get another level while they are used: what is requested, and what is refused.
//!
//! # Invariants
//!
//! * Nothing is changed before all that it needs is there: members in sync, parity that fits, and the spare that comes.
//! * Nothing is done in the background while a mirror becomes an array with parity, or one becomes a mirror.

use std::time::Duration;

use block::{BlockDevice, IoError, Node};
use engine::clock;

use super::super::format::Level;
use super::super::level::{LevelForm, PARITY_LAST, is_changed_in_use, refuse_version, takeover};
use super::super::redundant::RedundantArray;
use super::super::{ArrayError, Candidate, NewShape};
use super::manager::SyncManager;

/// How long work in the background that was done just now is waited for.
const ENDING_MAX: Duration = Duration::from_secs(1);

/// An array at rest, which writes no superblock until this is dropped.
#[derive(Debug)]
pub(in crate::array) struct AtRest<'a> {
    array: &'a RedundantArray,
    is_retired: bool,
    _life: tokio::sync::MutexGuard<'a, ()>,
    _idle: tokio::sync::MutexGuard<'a, ()>,
}

impl AtRest<'_> {
    /// Another engine has taken over: the array changes nothing any more.
    pub(in crate::array) fn retire(mut self) {
        self.is_retired = true;
    }

    /// No engine took over after all, and superblocks may have been written meanwhile: the array writes its own again.
    pub(in crate::array) async fn resume(self) {
        self.array.resume().await;
    }
}

impl Drop for AtRest<'_> {
    fn drop(&mut self) {
        if !self.is_retired {
            self.array.set_stopped(false);
        }
    }
}

impl SyncManager {
    /// Refuses a level that the array does not get now.
    ///
    /// # Errors
    /// It does not become one of that level, or not while it is used; members are missing, or something is under way.
    pub(in crate::array) fn check_level(&self, level: Level) -> Result<(), ArrayError> {
        self.form_of_level(level).map(drop)
    }

    /// The form that a reshape gives the array before it can have a level: level 5 becomes a stripe with parity on the last member.
    pub(in crate::array) fn shape_before(&self, level: Level) -> Option<NewShape> {
        let facts = self.array.facts();
        let moves =
            (facts.level, level) == (Level::Raid5, Level::Raid0) && facts.layout != PARITY_LAST;
        moves.then_some(NewShape {
            layout: Some(PARITY_LAST),
            ..NewShape::default()
        })
    }

    /// Whether a reshape that is going on moves parity to where the array can have that level at its end, as a change of level that a
    /// restart has interrupted began it.
    pub(in crate::array) fn is_shaped_for(&self, level: Level) -> bool {
        let facts = self.array.facts();
        let ends_with = (facts.level, facts.layout) == (Level::Raid5, PARITY_LAST);
        level == Level::Raid0 && ends_with && self.array.is_reshaping()
    }

    /// The form that it has then.
    fn form_of_level(&self, level: Level) -> Result<LevelForm, ArrayError> {
        self.must_write()?;
        let facts = self.array.facts();
        refuse_version(facts.version)?;
        let of = LevelForm {
            level: facts.level,
            layout: facts.layout,
            chunk: facts.chunk,
            parts: facts.parts,
            member_size: facts.member_size,
        };
        let form = takeover(of, level)?;
        let block = u64::from(self.array.geometry().block_size.max(1));
        if !form.chunk.is_multiple_of(block) {
            return Err(ArrayError::refused(
                format!(
                    "blocks of {block} bytes are larger than chunks of {} bytes",
                    form.chunk
                ),
                "make a new array and copy it",
            ));
        }
        let leaves = facts.parts.saturating_sub(form.parts);
        self.must_have_members(facts.parts - leaves)?;
        self.must_be_idle()?;
        self.must_have_no_bad_blocks()?;
        Ok(form)
    }

    /// The array gets another level. Durable when it resolves; a member that comes is rebuilt in the background. No request may be
    /// under way where it is a mirror before or afterwards.
    ///
    /// # Errors
    /// As [`check_level`](Self::check_level); or members cannot be written.
    pub(in crate::array) async fn change_level(&self, level: Level) -> Result<(), ArrayError> {
        let _one = self.life.lock().await;
        let form = self.form_of_level(level)?;
        let facts = self.array.facts();
        let comes = form.parts.saturating_sub(facts.parts);
        let spares = self.new_members(facts.parts + comes)?;
        let at_rest = match is_changed_in_use(facts.level, level) {
            true => None,
            false => Some(self.idle().await?),
        };
        self.array
            .change_level(form, spares.first().copied())
            .await?;
        drop(at_rest);
        self.changed();
        Ok(())
    }

    /// Another engine may read and write superblocks of the members until what is returned is dropped: nothing is done, no member fails or
    /// is declared failed, they know that the array is clean, and those of other machines have what this one wrote last. No request may be
    /// under way.
    ///
    /// # Errors
    /// As [`check_level`](Self::check_level); or members cannot be written.
    pub(in crate::array) async fn at_rest(&self, level: Level) -> Result<AtRest<'_>, ArrayError> {
        let life = self.life.lock().await;
        self.form_of_level(level)?;
        let idle = self.no_job().await?;
        // It may have been stopped meanwhile, and is not to be written again when this ends.
        self.must_write()?;
        // No change begins from here on, and those that did are in superblocks when the array has come to rest.
        self.array.set_stopped(true);
        let at_rest = AtRest {
            array: &self.array,
            is_retired: false,
            _life: life,
            _idle: idle,
        };
        self.array.come_to_rest().await.map_err(keeps_level)?;
        self.array.verify_members().await.map_err(keeps_level)?;
        Ok(at_rest)
    }

    /// Members with a part, and spares, to be opened again.
    pub(in crate::array) fn candidates(&self) -> Vec<Candidate> {
        let members = self.array.used_members().into_iter();
        let candidate = |(name, disk, remote): (String, Node, bool)| Candidate {
            reopen: self.absences().way(&name).map(|way| way.reopen.clone()),
            disk: Some(disk),
            name,
            remote,
        };
        members.map(candidate).collect()
    }

    /// Nothing is done in the background until what is returned is dropped, and members know that the array is clean. No request may be
    /// under way.
    async fn idle(&self) -> Result<tokio::sync::MutexGuard<'_, ()>, ArrayError> {
        let no_job = self.no_job().await?;
        self.array.come_to_rest().await.map_err(keeps_level)?;
        Ok(no_job)
    }

    /// Nothing is done in the background until what is returned is dropped.
    async fn no_job(&self) -> Result<tokio::sync::MutexGuard<'_, ()>, ArrayError> {
        // It may just be ending.
        let no_job = clock::timeout(ENDING_MAX, self.worker.lock()).await;
        no_job.map_err(|_| {
            ArrayError::refused(
                "something else is done in the background",
                "wait until that has ended (outboard array wait)",
            )
        })
    }
}

/// Why the level stays as it is.
fn keeps_level(error: IoError) -> ArrayError {
    ArrayError::refused(format!("the level stays as it is: {error}"), None)
}
