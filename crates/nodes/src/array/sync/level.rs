//! Arrays with copies or parity that get another level while they are used: what is requested, and what is refused.
//!
//! # Invariants
//!
//! * Nothing is changed before all that it needs is there: members in sync, parity that fits, and the spare that comes.
//! * Nothing is done in the background while a mirror becomes an array with parity, or one becomes a mirror.

use std::time::Duration;

use block::{BlockDevice, IoError};
use engine::clock;

use super::super::ArrayError;
use super::super::format::Level;
use super::super::level::{LevelForm, is_changed_in_use, refuse_version, refused_in_use, takeover};
use super::manager::SyncManager;

/// How long work in the background that was done just now is waited for.
const ENDING_MAX: Duration = Duration::from_secs(1);

impl SyncManager {
    /// Refuses a level that the array does not get now.
    ///
    /// # Errors
    /// It does not become one of that level, or not while it is used; members are missing, or something is under way.
    pub(in crate::array) fn check_level(&self, level: Level) -> Result<(), ArrayError> {
        self.form_of_level(level).map(drop)
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
        if level == Level::Raid0 {
            return Err(refused_in_use(facts.level, level));
        }
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
            false => Some(self.come_to_rest().await?),
        };
        self.array
            .change_level(form, spares.first().copied())
            .await?;
        drop(at_rest);
        self.changed();
        Ok(())
    }

    /// Nothing is done in the background until what is returned is dropped, and members know that the array is clean. No request may be
    /// under way.
    async fn come_to_rest(&self) -> Result<tokio::sync::MutexGuard<'_, ()>, ArrayError> {
        // It may just be ending.
        let Ok(no_job) = clock::timeout(ENDING_MAX, self.worker.lock()).await else {
            return Err(ArrayError::refused(
                "something else is done in the background",
                "wait until that has ended (outboard array wait)",
            ));
        };
        let failed = |error: IoError| {
            ArrayError::refused(format!("the level stays as it is: {error}"), None)
        };
        self.array.come_to_rest().await.map_err(failed)?;
        Ok(no_job)
    }
}
