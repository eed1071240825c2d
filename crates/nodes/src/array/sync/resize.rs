//! Arrays of which the members were enlarged: they get larger, and what is new is resynced in the background.

use super::super::ArrayError;
use super::super::format::{Level, Version};
use super::manager::SyncManager;

impl SyncManager {
    /// The array uses all of its members. `assume_clean`: what is new is not resynced.
    ///
    /// # Errors
    /// They are not larger, or something is missing or under way.
    pub(in crate::array) async fn resize(&self, assume_clean: bool) -> Result<(), ArrayError> {
        let _one = self.life.lock().await;
        self.must_write()?;
        let facts = self.array.facts();
        if !matches!(facts.version, Version::V1_1 | Version::V1_2) {
            return Err(ArrayError::refused(
                format!(
                    "superblocks {} lie at the end of each member, and do not follow it",
                    facts.version
                ),
                "let mdadm do that while the array runs: mdadm --grow --size=max",
            ));
        }
        if facts.level == Level::Raid10 && !self.array.keeps_places() {
            return Err(ArrayError::refused(
                "far copies would lie elsewhere",
                "make a new array and copy it",
            ));
        }
        self.must_be_at_rest()?;
        self.must_have_no_bad_blocks()?;
        self.array.resize(!assume_clean).await?;
        self.changed();
        Ok(())
    }
}
