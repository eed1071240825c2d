//! Which job is next.
//!
//! # Invariants
//!
//! * Copies that may differ come first, then a reshape (unless it waits), then parts that lack a member, then replacements, then what was requested.
//! * A spare is given the part of a member that is missing before anything else is done with it.

use block::BlockDevice;

use super::super::SyncKind;
use super::super::redundant::SlotId;
use super::job::Job;
use super::manager::SyncManager;

impl SyncManager {
    /// What is to be done next. A spare gets the part that it is to hold.
    pub(super) async fn next(&self) -> Option<Job> {
        loop {
            if self.state().stopped {
                return None;
            }
            let job = self.choose();
            if matches!(job, Some(Job::Resync | Job::Recovery { .. } | Job::Reshape)) {
                return job;
            }
            let _one = self.life.lock().await;
            let Some((slot, part)) = self.free_spare() else {
                return job;
            };
            if let Err(error) = self.array.give_part(slot, part, false).await {
                let name = self.array.name();
                tracing::error!("{name}: a spare cannot take part {part}: {error}");
                let job = Job::Recovery {
                    part,
                    from: 0,
                    by_bitmap: false,
                };
                self.state().record_failure(job, error.to_string());
            }
        }
    }

    pub(super) fn choose(&self) -> Option<Job> {
        let state = self.state();
        let is_over = state.stopped || self.array.takeover().is_some();
        if is_over || self.array.geometry().read_only {
            return None;
        }
        if self.array.needed(0).is_some() && !state.has_failed(Job::Resync) {
            return Some(Job::Resync);
        }
        if self.array.is_reshaping() && !state.has_failed(Job::Reshape) {
            // Members are rebuilt once it has ended, or where it waits.
            return Some(Job::Reshape);
        }
        let rebuilding = self.array.rebuilding().into_iter();
        let mut recoveries = rebuilding.map(|(part, from, by_bitmap)| Job::Recovery {
            part,
            from,
            by_bitmap,
        });
        if let Some(job) = recoveries.find(|job| !state.has_failed(*job)) {
            return Some(job);
        }
        let replacing = self.array.replacing().into_iter();
        let mut copies = replacing.map(|(part, from)| Job::Replacement { part, from });
        if let Some(job) = copies.find(|job| !state.has_failed(*job)) {
            return Some(job);
        }
        let repair = state.requested? == SyncKind::Repair;
        Some(Job::Scrub { repair })
    }

    /// A spare, and a part that has no holder.
    pub(super) fn free_spare(&self) -> Option<(SlotId, u16)> {
        let (vacant, spares) = self.array.vacancies();
        let state = self.state();
        let is_over = state.stopped || self.array.takeover().is_some();
        let moves_rows = self.array.is_reshaping() && !state.has_failed(Job::Reshape);
        if is_over || self.array.geometry().read_only || moves_rows {
            return None;
        }
        let recovery = |part| Job::Recovery {
            part,
            from: 0,
            by_bitmap: false,
        };
        let mut vacant = vacant.into_iter();
        let part = vacant.find(|part| !state.has_failed(recovery(*part)))?;
        Some((*spares.first()?, part))
    }
}
