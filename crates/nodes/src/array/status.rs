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
    /// A reshape waits: it cannot go on.
    pub reshape_pause: Option<ReshapePause>,
    /// What a reshape found that no member can read, since the array was opened.
    pub reshape_losses: ReshapeLosses,
    /// Where it may be wrong, since it was being written when it stopped, lacks members, and is read by force.
    pub untrusted: Option<UntrustedPlaces>,
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

/// Where an array that is read by force may be wrong: data that are computed from parity which may not fit. Bytes of the array.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct UntrustedPlaces {
    /// The first [`PLACES_MAX`] of them, in order.
    pub places: Vec<block::Range>,
    /// How many there are.
    pub count: u64,
    /// How many bytes they have.
    pub bytes: u64,
    /// What was not looked at row by row, and is not counted.
    pub rest: Option<block::Range>,
}

/// Places that are named in one line.
const NAMED_MAX: usize = 8;

impl fmt::Display for UntrustedPlaces {
    /// Names the first of them: `3 places, 12288 bytes in all: 0+4096, 12288+4096, 24576+4096`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (count, bytes) = (self.count, self.bytes);
        write!(f, "{count} places, {bytes} bytes in all")?;
        let named = self.places.iter().take(NAMED_MAX);
        for (index, place) in named.enumerate() {
            let before = if index == 0 { ": " } else { ", " };
            write!(f, "{before}{}+{}", place.offset, place.len)?;
        }
        let more = count.saturating_sub(self.places.len().min(NAMED_MAX) as u64);
        if more > 0 {
            write!(f, " and {more} more")?;
        }
        match self.rest {
            Some(rest) => write!(f, ", and in {}+{}", rest.offset, rest.len),
            None => Ok(()),
        }
    }
}

/// A reshape that waits until members change, or until it is continued.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReshapePause {
    /// How far it has come, bytes of the array.
    pub done: u64,
    /// Of how much.
    pub of: u64,
    /// What it cannot move, and why.
    pub why: String,
}

/// Data of the array that a reshape found and no member can read: moved as bad blocks, or where it is paused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ReshapeLosses {
    /// Contiguous places. One that lies in two windows of the reshape counts twice.
    pub places: u64,
    /// Their bytes.
    pub bytes: u64,
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
    /// Bytes that members had noted as bad, and that a repair wrote again from the others: they are read again.
    pub rewritten: u64,
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
    /// What no member could read was moved by a reshape: members have it in their logs of bad blocks.
    BadBlocks {
        /// Which bytes of the array.
        place: block::Range,
    },
    /// A reshape cannot go on, and waits.
    ReshapePaused {
        /// Where, and for what.
        why: String,
    },
    /// A member that was away is there again.
    MemberBack {
        /// Which.
        member: String,
    },
}
