//! Arrays that get another consistency policy while they are used: what is requested, and what is refused.
//!
//! # Invariants
//!
//! * Nothing is changed before all that it needs is there: members in sync, parity that fits, a level and superblocks that have it.
//! * A reshape drops partial parity logs, which know one form alone: members have them again once it has ended, no part lacks a member and parity
//!   fits, also where the array was opened again meanwhile: superblocks say so, until they have them or it is found that they can have none.

use block::BlockDevice;

use super::super::format::Level;
use super::super::format::ppl::MEMBERS_MAX;
use super::super::{ArrayError, ConsistencyPolicy};
use super::manager::SyncManager;

fn refused(what: impl Into<String>, next: &'static str) -> ArrayError {
    ArrayError::refused(what.into(), next)
}

impl SyncManager {
    /// The array gets another consistency policy: partial parity logs, a bitmap or neither. Durable when it resolves.
    ///
    /// # Errors
    /// It cannot have that one, members are missing, or something is under way.
    pub(in crate::array) async fn change_policy(
        &self,
        policy: ConsistencyPolicy,
    ) -> Result<(), ArrayError> {
        let _one = self.life.lock().await;
        self.must_write()?;
        self.can_have(policy)?;
        self.must_be_at_rest()?;
        self.array.change_policy(policy).await?;
        self.changed();
        Ok(())
    }

    /// Refuses what md has no array with.
    fn can_have(&self, policy: ConsistencyPolicy) -> Result<(), ArrayError> {
        let facts = self.array.facts();
        let (level, now) = (facts.level, self.array.policy());
        if !facts.version.is_v1() {
            let what = format!("superblocks {} have one consistency policy", facts.version);
            return Err(refused(what, "let mdadm do that: mdadm --grow --bitmap"));
        }
        if now == ConsistencyPolicy::Journal || policy == ConsistencyPolicy::Journal {
            let what = "a journal is not given to an array here, nor taken away";
            return Err(refused(
                what,
                "let mdadm do that: --add-journal, or --grow --consistency-policy=resync",
            ));
        }
        if now == policy {
            let what = format!("the consistency policy is {} already", policy.name());
            return Err(ArrayError::refused(what, None));
        }
        if policy != ConsistencyPolicy::Ppl {
            return Ok(());
        }
        if level != Level::Raid5 {
            let what = format!("{level} has no partial parity logs: they are of raid5");
            return Err(refused(
                what,
                "give it a bitmap: --consistency-policy bitmap",
            ));
        }
        if usize::try_from(facts.parts).is_ok_and(|parts| parts > MEMBERS_MAX) {
            let parts = facts.parts;
            let what = format!(
                "an array with partial parity logs has at most {MEMBERS_MAX} members, this one has {parts}"
            );
            return Err(refused(
                what,
                "give it a bitmap: --consistency-policy bitmap",
            ));
        }
        Ok(())
    }

    /// Whether members are to get partial parity logs again that a reshape has dropped.
    pub(super) fn must_restore_logs(&self) -> bool {
        let may = !self.is_left() && !self.array.geometry().read_only && !self.state().lacks_logs;
        may && self.array.awaits_logs()
    }

    /// Members get the partial parity logs again that a reshape has dropped.
    pub(super) async fn restore_logs(&self) {
        let _one = self.life.lock().await;
        if !self.must_restore_logs() {
            return;
        }
        let name = self.array.name();
        let can_have = self.can_have(ConsistencyPolicy::Ppl);
        if let Err(error) = can_have.and_then(|()| self.array.has_room_for_logs()) {
            return self.forgo_logs(&error).await;
        }
        match self.array.change_policy(ConsistencyPolicy::Ppl).await {
            Ok(()) => tracing::info!("{name}: members keep partial parity logs again"),
            Err(error) => {
                self.state().lacks_logs = true;
                tracing::error!(
                    "{name}: members have no partial parity logs after the reshape: {error}; \
                     outboard array grow --consistency-policy ppl tries it again"
                );
            }
        }
    }

    /// Members get no logs after a reshape since they can have none, and know it: the next open does not try it again.
    async fn forgo_logs(&self, why: &ArrayError) {
        let name = self.array.name();
        match self.array.forgo_logs().await {
            Ok(()) => tracing::warn!(
                "{name}: members have no partial parity logs after the reshape, and get none: {why}; a power cut with a member missing may lose data: \
                 give the array a bitmap for short resyncs with outboard array grow --consistency-policy bitmap, or, once each member has room, \
                 logs with outboard array grow --consistency-policy ppl"
            ),
            Err(error) => {
                self.state().lacks_logs = true;
                tracing::error!(
                    "{name}: members have no partial parity logs: {why}, and do not know it: {error}"
                );
            }
        }
    }
}
