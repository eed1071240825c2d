//! Arrays with parity that get another level while they are used: what is requested, and what is refused.
//!
//! # Invariants
//!
//! * Nothing is changed before all that it needs is there: members in sync, parity that fits, and the spare that comes.

use super::super::ArrayError;
use super::super::format::Level;
use super::super::level::{LevelForm, is_changed_in_use, refuse_version, refused_in_use, takeover};
use super::manager::SyncManager;

impl SyncManager {
    /// The array gets another level. Durable when it resolves; a member that comes is rebuilt in the background.
    ///
    /// # Errors
    /// It does not become one of that level, or not while it is used; members are missing, or something is under way.
    pub(in crate::array) async fn change_level(&self, level: Level) -> Result<(), ArrayError> {
        let _one = self.life.lock().await;
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
        if !is_changed_in_use(facts.level, level) {
            return Err(refused_in_use(facts.level, level));
        }
        let leaves = facts.parts.saturating_sub(form.parts);
        self.must_have_members(facts.parts - leaves)?;
        self.must_be_idle()?;
        self.must_have_no_bad_blocks()?;
        let comes = form.parts.saturating_sub(facts.parts);
        let spares = self.new_members(facts.parts + comes)?;
        self.array
            .change_level(form, spares.first().copied())
            .await?;
        self.changed();
        Ok(())
    }
}
