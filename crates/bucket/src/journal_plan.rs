//! [`JournalPlan`]: what is done with a local journal when a volume is opened for writing, by the journal's header and what the volume
//! records. Pure.
//!
//! # Invariants
//!
//! * A volume that records an open journal is opened with that journal, or not at all: it may have changes that a flush acknowledged.
//! * A journal that is open is used only by the volume that records this opening of it. It is changed in no other case.

use crate::format::{JournalHeader, JournalRecord, VolumeId};

/// Why a volume is not opened with a journal, or without.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum JournalRefusal {
    /// There is one, and none was named.
    #[error(
        "it has an open journal, {path} on {host}, which may have changes that a flush acknowledged and that are not in the store"
    )]
    Missing {
        /// The machine that has it.
        host: String,
        /// Where it is there.
        path: String,
    },
    /// Another one is open.
    #[error(
        "it has another open journal, {path} on {host}, which may have changes that a flush acknowledged and that are not in the store"
    )]
    Other {
        /// The machine that has it.
        host: String,
        /// Where it is there.
        path: String,
    },
    /// Of another volume.
    #[error("the journal is that of the volume with the id {0}")]
    Foreign(String),
    /// The volume does not know that it is open.
    #[error(
        "the journal may have changes that are not in the volume, and the volume was written without it since then: it was discarded, or is a copy"
    )]
    Stale,
    /// Of a later time of the volume.
    #[error(
        "the journal was open in the opening {journal} of the volume, which is in its opening {volume}: the store has an older state"
    )]
    Later {
        /// The opening that the journal has.
        journal: u32,
        /// The last one of the volume.
        volume: u32,
    },
    /// Records that were durable are not there.
    #[error("the journal is damaged: record {0} is not whole, and later ones are there")]
    Damaged(u64),
    /// Too few bytes.
    #[error("a journal has at least 1 MiB")]
    Small,
    /// It has fewer bytes than when it was made.
    #[error("the journal has fewer bytes than its header states: it was truncated")]
    Truncated,
}

/// What is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum JournalPlan {
    /// It is made: there was nothing.
    Create,
    /// It has nothing that is not in the store.
    Reuse(JournalHeader),
    /// Its records from those in the store on are applied.
    Replay(JournalHeader),
}

impl JournalPlan {
    /// That of a journal with this header, `None`: it is empty, of this volume, with the journal that it records and its last generation.
    pub(crate) fn of(
        header: Option<&JournalHeader>,
        volume: VolumeId,
        (recorded, generation): (Option<&JournalRecord>, u32),
    ) -> Result<Self, JournalRefusal> {
        let other = |record: &JournalRecord| JournalRefusal::Other {
            host: record.host.clone(),
            path: record.path.clone(),
        };
        let Some(header) = header else {
            return match recorded {
                None => Ok(Self::Create),
                Some(record) => Err(other(record)),
            };
        };
        if header.volume != volume {
            return Err(JournalRefusal::Foreign(header.volume.to_string()));
        }
        if header.opening.generation > generation {
            return Err(JournalRefusal::Later {
                journal: header.opening.generation,
                volume: generation,
            });
        }
        match recorded {
            Some(record) if record.opening.id != header.opening.id => Err(other(record)),
            _ if !header.is_open => Ok(Self::Reuse(*header)),
            Some(record) if record.opening == header.opening => Ok(Self::Replay(*header)),
            _ => Err(JournalRefusal::Stale),
        }
    }

    /// That of a volume which is opened without a journal: an error if it records one.
    pub(crate) fn without(recorded: Option<&JournalRecord>) -> Result<(), JournalRefusal> {
        match recorded {
            None => Ok(()),
            Some(record) => Err(JournalRefusal::Missing {
                host: record.host.clone(),
                path: record.path.clone(),
            }),
        }
    }
}
