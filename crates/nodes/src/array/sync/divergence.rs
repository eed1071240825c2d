//! Members that diverged from the array: they were used without it, or have seen what it has not, and hold data that no
//! other member has.
//!
//! # Invariants
//!
//! * A diverged member is overwritten only where the caller says so ([`AddOptions::overwrite`](super::super::AddOptions)):
//!   its superblock is the only record of its data.

use engine::clock::Calendar;

use super::super::assemble::{Membership, Picture};
use super::super::format::Superblock;
use super::super::{ArrayError, logs};
use super::candidate::Found;
use super::manager::SyncManager;

/// Whether `member` holds data that none of `holders` has. Pure.
fn has_diverged(member: &Superblock, holders: &[&Superblock]) -> bool {
    let mut all = holders.to_vec();
    all.push(member);
    // The holders' side counts: they are the array.
    let Some(picture) = Picture::of(&all, Some(0)).filter(|_| !holders.is_empty()) else {
        return false;
    };
    let newest = holders.iter().map(|holder| holder.events).max();
    // One event more is a commit that a power cut tore: nothing was acknowledged behind it.
    let is_ahead = newest.is_some_and(|newest| member.events > newest.saturating_add(1));
    match picture.memberships.last() {
        Some(Membership::Split { .. }) => true,
        Some(Membership::Spare | Membership::Failed | Membership::Journal) | None => false,
        Some(_) => is_ahead,
    }
}

impl SyncManager {
    /// Refuses a member that diverged, and reports what would be lost.
    pub(super) async fn refuse_diverged(&self, found: &Found) -> Result<(), ArrayError> {
        let written = self.array.written();
        let holders: Vec<&Superblock> = written.iter().map(|member| &member.superblock).collect();
        if !has_diverged(&found.superblock, &holders) {
            return Ok(());
        }
        let name = &found.name;
        let own = describe(&found.superblock, self.changed_chunks(found).await);
        let newest = written
            .iter()
            .max_by_key(|member| member.superblock.events)
            .expect("a member that diverged did so from others");
        let dirty = self.array.status().bitmap;
        let dirty = dirty.map(|bitmap| (bitmap.dirty, bitmap.chunks));
        let ours = describe(&newest.superblock, dirty);
        let names: Vec<&str> = written.iter().map(|member| member.name.as_str()).collect();
        let names = names.join(" and ");
        Err(ArrayError::refused_with(
            format!(
                "{name} has data of its own, the array was used in two ways: {name} without {names} ({own}), {names} \
                 without {name} ({ours}); nothing was written to {name}"
            ),
            format!(
                "look at what it has first: outboard inspect {name}; --force overwrites it, and what only {name} has is \
                 lost"
            ),
        ))
    }

    /// Chunks that the bitmap of a member says were changed, and how many there are.
    async fn changed_chunks(&self, found: &Found) -> Option<(u64, u64)> {
        let header = found.bitmap.as_ref()?;
        let bits = logs::bits(&found.disk, &found.superblock, header).await;
        let bits = bits.ok()??;
        Some((bits.count(), bits.shape().chunks()))
    }
}

/// What one side has seen: `49 events, last written …, 3 of 64 chunks changed by its bitmap`.
fn describe(superblock: &Superblock, changed: Option<(u64, u64)>) -> String {
    let (events, updated) = (superblock.events, Calendar::of(superblock.updated));
    let changed = changed.map_or_else(
        || "no bitmap".to_owned(),
        |(changed, of)| format!("{changed} of {of} chunks changed by its bitmap"),
    );
    format!("{events} events, last written {updated}, {changed}")
}
