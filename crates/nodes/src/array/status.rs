//! The status of an array: what `status`, metrics and `on_event` report. Plain data.

use std::fmt;
use std::time::Duration;

use super::format::{Level, Version};
use super::member_guard::Takeover;

/// How an array is at one moment. Sizes and places are bytes.
#[derive(Debug, Clone, PartialEq)]
pub struct ArrayStatus {
    /// Its name, with the host's before a colon where there is one.
    pub name: String,
    /// Its UUID.
    pub uuid: [u8; 16],
    /// Its RAID level.
    pub level: Level,
    /// How data and copies lie, by the level's own numbers.
    pub layout: u32,
    /// Kind of its superblocks.
    pub version: Version,
    /// Size of the array.
    pub size: u64,
    /// Chunk; 0 where there is none.
    pub chunk: u64,
    /// Parts of the complete array.
    pub parts: u32,
    /// Parts that work.
    pub working: u32,
    /// Whether nothing may be written.
    pub read_only: bool,
    /// Whether all members know that no write is under way.
    pub clean: bool,
    /// Changes of its state.
    pub events: u64,
    /// Its bitmap.
    pub bitmap: Option<BitmapStatus>,
    /// Whether members keep partial parity logs (mdadm's consistency policy `ppl`).
    pub ppl: bool,
    /// Whether it has a journal (mdadm's consistency policy `journal`).
    pub journal: bool,
    /// Its members by their parts, then spares and those that failed.
    pub members: Vec<MemberStatus>,
    /// Copies may differ, and no resync is under way: it is still to come, or cannot begin.
    pub resync_pending: bool,
    /// What is being done in the background.
    pub sync: Option<SyncStatus>,
    /// Another host took it over: every request fails, and no member is written any more.
    pub taken_over: Option<Takeover>,
    /// What the last scrub found; `None`: there was none since the array was opened.
    pub scrubbed: Option<Scrubbed>,
}

/// A write-intent bitmap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BitmapStatus {
    /// Bytes for each bit.
    pub chunk: u64,
    /// Bits.
    pub chunks: u64,
    /// Bits that are set.
    pub dirty: u64,
}

/// One member.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemberStatus {
    /// Its name; empty for a part that has no holder.
    pub name: String,
    /// The part that it holds, or held; `None`: a spare.
    pub part: Option<u16>,
    /// How it stands.
    pub state: MemberState,
    /// Reads prefer others.
    pub write_mostly: bool,
    /// Errors fail it at once.
    pub fail_fast: bool,
    /// It is on another machine.
    pub remote: bool,
    /// Read errors that were repaired from other members.
    pub corrected: u64,
    /// What it answered since it was opened.
    pub io: MemberIo,
    /// Why it failed.
    pub why: Option<String>,
}

/// Requests that a member answered since it was opened. Bytes that the kernel sends from its file to a socket are not
/// among them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MemberIo {
    /// Reads.
    pub read: OperationIo,
    /// Writes.
    pub write: OperationIo,
}

/// Requests of one kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OperationIo {
    /// How many.
    pub requests: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Their time, all of them together, nanoseconds.
    pub nanos: u64,
}

impl MemberIo {
    /// None yet.
    pub(in crate::array) const NONE: Self = Self {
        read: OperationIo::NONE,
        write: OperationIo::NONE,
    };
}

impl OperationIo {
    const NONE: Self = Self {
        requests: 0,
        bytes: 0,
        nanos: 0,
    };
}

impl MemberStatus {
    /// A part that has no holder.
    pub(super) const fn missing(part: u16) -> Self {
        Self {
            name: String::new(),
            part: Some(part),
            state: MemberState::Missing,
            write_mostly: false,
            fail_fast: false,
            remote: false,
            corrected: 0,
            io: MemberIo::NONE,
            why: None,
        }
    }
}

/// How a member stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MemberState {
    /// It holds its part.
    InSync,
    /// It is rebuilt up to this byte.
    Rebuilding(u64),
    /// It is to take the place of a member that works, and is a copy of that up to this byte.
    Replacing(u64),
    /// It waits for a member to fail.
    Spare,
    /// It keeps the journal.
    Journal,
    /// It failed, and the array goes on without it.
    Failed,
    /// The array went on without it before it was opened.
    Stale,
    /// The part has no holder.
    Missing,
}

/// What is being done in the background.
#[derive(Debug, Clone, PartialEq)]
pub struct SyncStatus {
    /// What.
    pub kind: SyncKind,
    /// How far, bytes of a member (of the array for RAID 10, and for a reshape).
    pub done: u64,
    /// Of how much.
    pub of: u64,
    /// Bytes a second, lately.
    pub speed: u64,
    /// How long it will take at that speed.
    pub left: Option<Duration>,
    /// Places where copies differed, so far (scrub).
    pub mismatches: u64,
}

/// What can be done in the background.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SyncKind {
    /// Copies are resynced after a crash.
    Resync,
    /// A member is rebuilt, or brought up to date.
    Recovery,
    /// The array gets another form.
    Reshape,
    /// Copies are compared.
    Check,
    /// Copies are compared, and resynced where they differ.
    Repair,
}

impl fmt::Display for SyncKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Resync => "resync",
            Self::Recovery => "recovery",
            Self::Reshape => "reshape",
            Self::Check => "check",
            Self::Repair => "repair",
        })
    }
}

/// What a scrub found.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Scrubbed {
    /// Sectors of 512 bytes that differed (md's `mismatch_cnt`).
    pub mismatches: u64,
    /// Where, bytes of the array: the first [`PLACES_MAX`].
    pub places: Vec<block::Range>,
    /// Whether they were resynced.
    pub repaired: bool,
    /// Whether it came to the end.
    pub finished: bool,
}

/// Places of differences that are kept, at most.
pub const PLACES_MAX: usize = 1000;

/// Something that happened to an array (the names of `mdadm --monitor`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ArrayEvent {
    /// A member failed.
    Fail {
        /// Which.
        member: String,
        /// Why.
        why: String,
    },
    /// A spare became a member, or a member came back: it is in sync now.
    SpareActive {
        /// Which.
        member: String,
    },
    /// Another host took the array over: it has stopped.
    TakenOver(Takeover),
    /// The array runs with parts missing.
    DegradedArray,
    /// Work in the background began.
    RebuildStarted(SyncKind),
    /// It ended.
    RebuildFinished {
        /// What it was.
        kind: SyncKind,
        /// Differences that it found.
        mismatches: u64,
    },
    /// A member that was away is there again.
    MemberBack {
        /// Which.
        member: String,
    },
}
