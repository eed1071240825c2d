//! [`ConsistencyPolicy`]: what keeps a new array consistent over a power cut, by mdadm's names. Pure.
//!
//! | choice | level 5, superblocks 1.x | other redundant levels | 0, linear |
//! |---|---|---|---|
//! | default | `ppl` where every disk has [`DISK_MIN`] and there are at most [`MEMBERS_MAX`] members, else `bitmap` | `bitmap` | none |
//! | `ppl` | `ppl` | refused | refused |
//! | `bitmap` | `bitmap` | `bitmap` | refused |
//! | `resync` | `resync` | `resync` | none |
//! | `journal`, and default with a disk for it | `journal` | levels 4 and 6: `journal`, else refused | refused |
//!
//! # Invariants
//!
//! * Partial parity logs, a journal and a bitmap exclude each other: Linux starts no array with two of them.

use super::create_spec::{CreateSpec, refused};
use crate::array::ArrayError;
use crate::array::format::ppl::MEMBERS_MAX;
use crate::array::format::{Level, r5l};

/// Smaller disks have no partial parity log by default: its 1 MiB would be too much of them. Bytes.
const DISK_MIN: u64 = 16 << 20;

/// Which consistency policy a new array is to have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConsistencyChoice {
    /// Partial parity logs for level 5 where they can be, else a bitmap where the level can use one.
    Default,
    /// Partial parity logs.
    Ppl,
    /// A write-intent bitmap, with so many bytes for each bit if that is given.
    Bitmap(Option<u64>),
    /// A journal, on the disk that is given for it.
    Journal,
    /// None of these: after a power cut everything is resynced.
    Resync,
}

/// What keeps an array consistent over a power cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConsistencyPolicy {
    /// Nothing is redundant.
    None,
    /// Everything is resynced.
    Resync,
    /// What a write-intent bitmap names is resynced.
    Bitmap,
    /// Partial parity logs are replayed.
    Ppl,
    /// A journal is replayed.
    Journal,
}

impl ConsistencyPolicy {
    /// mdadm's name for it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Resync => "resync",
            Self::Bitmap => "bitmap",
            Self::Ppl => "ppl",
            Self::Journal => "journal",
        }
    }
}

/// The policy that results from the choice.
pub(super) fn policy(spec: &CreateSpec<'_>) -> Result<ConsistencyPolicy, ArrayError> {
    let choice = spec.options.consistency;
    let level = spec.options.level;
    if spec.journal.is_some() || choice == ConsistencyChoice::Journal {
        can_journal(spec)?;
        return Ok(ConsistencyPolicy::Journal);
    }
    if choice == ConsistencyChoice::Ppl {
        can_log(spec)?;
        return Ok(ConsistencyPolicy::Ppl);
    }
    if !spec.is_redundant() {
        if matches!(choice, ConsistencyChoice::Bitmap(_)) {
            let what = format!("{level} has no copies: a bitmap could not help");
            return Err(refused(what, "leave it out"));
        }
        return Ok(ConsistencyPolicy::None);
    }
    Ok(match choice {
        ConsistencyChoice::Resync => ConsistencyPolicy::Resync,
        ConsistencyChoice::Default if logs_by_default(spec) => ConsistencyPolicy::Ppl,
        _ => ConsistencyPolicy::Bitmap,
    })
}

fn logs_by_default(spec: &CreateSpec<'_>) -> bool {
    can_log(spec).is_ok() && spec.here().all(|(_, size)| size >= DISK_MIN)
}

/// Refuses what Linux starts no array with a journal of.
fn can_journal(spec: &CreateSpec<'_>) -> Result<(), ArrayError> {
    let level = spec.options.level;
    if spec.journal.is_none() {
        let what = "a journal needs a disk of its own";
        return Err(refused(what, "give one: --journal DISK"));
    }
    let choice = spec.options.consistency;
    if !matches!(
        choice,
        ConsistencyChoice::Default | ConsistencyChoice::Journal
    ) {
        let what = "an array with a journal has no other consistency policy";
        return Err(refused(
            what,
            "leave --consistency-policy out, or the journal",
        ));
    }
    if level.parities() == 0 {
        let what = format!("{level} has no journal: it is of raid4, raid5 and raid6");
        return Err(refused(what, "leave the journal out"));
    }
    if spec.is_old() {
        let what = "superblocks 0.90 have no journal";
        return Err(refused(what, "use superblocks 1.2"));
    }
    if spec.parts > r5l::MEMBERS_MAX {
        let (most, parts) = (r5l::MEMBERS_MAX, spec.parts);
        let what = format!("an array with a journal has at most {most} members, {parts} given");
        return Err(refused(what, "use fewer"));
    }
    Ok(())
}

/// Refuses what Linux starts no array with partial parity logs of.
fn can_log(spec: &CreateSpec<'_>) -> Result<(), ArrayError> {
    let level = spec.options.level;
    let next = "use --consistency-policy bitmap";
    if level != Level::Raid5 {
        let what = format!("{level} has no partial parity logs: they are of raid5");
        return Err(refused(what, "leave --consistency-policy out"));
    }
    if spec.is_old() {
        let what = "superblocks 0.90 have no partial parity logs";
        return Err(refused(what, "use superblocks 1.2"));
    }
    if spec.parts > MEMBERS_MAX {
        let parts = spec.parts;
        let what = format!(
            "an array with partial parity logs has at most {MEMBERS_MAX} members, {parts} given"
        );
        return Err(refused(what, next));
    }
    Ok(())
}
