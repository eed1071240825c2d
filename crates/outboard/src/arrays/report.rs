//! [`ArrayReport`]: the status of an array, as the control socket and `--json` report it. Plain data; sizes and
//! offsets are bytes.

use nodes::array::format::layout_name;
use nodes::array::{
    ArrayStatus, MemberIo, MemberState, MemberStatus, OperationIo, Scrubbed, SyncKind, SyncStatus,
    Takeover,
};
use serde::{Deserialize, Serialize};

use super::loss_report::LossReport;
use super::untrusted_report::UntrustedReport;

/// The status of an array.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ArrayReport {
    /// The export that is backed by it; `None` if it is not served.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) export: Option<String>,
    /// Its name, with the host's before a colon where there is one.
    pub(crate) name: String,
    /// Its UUID, as mdadm writes it.
    pub(crate) uuid: String,
    /// `raid1`…
    pub(crate) level: String,
    /// The layout, for levels that have several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) layout: Option<String>,
    /// Version of its superblocks: `1.2`…
    pub(crate) version: String,
    /// Its size.
    pub(crate) size: u64,
    /// Chunk size; 0 for levels without chunks.
    pub(crate) chunk: u64,
    /// Slots of the complete array.
    pub(crate) parts: u32,
    /// Slots with a member in sync.
    pub(crate) working: u32,
    /// Writes are refused.
    pub(crate) read_only: bool,
    /// All superblocks record that no write is in flight.
    pub(crate) clean: bool,
    /// The events counter of its superblocks.
    pub(crate) events: u64,
    /// Its write-intent bitmap.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) bitmap: Option<BitmapReport>,
    /// Members keep partial parity logs.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) ppl: bool,
    /// It has a journal.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) journal: bool,
    /// By slot, then spares and failed members.
    pub(crate) members: Vec<MemberReport>,
    /// Copies may differ, and no resync is running.
    #[serde(default)]
    pub(crate) resync_pending: bool,
    /// The sync that is running.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) sync: Option<SyncReport>,
    /// A reshape that cannot go on, and waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) reshape_paused: Option<PauseReport>,
    /// What a reshape found that no member can read, since the array was opened.
    #[serde(default, skip_serializing_if = "LossReport::is_empty")]
    pub(crate) reshape_lost: LossReport,
    /// Where it may be wrong: it was being written when it stopped, lacks members, and is read by force.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) untrusted: Option<UntrustedReport>,
    /// A takeover by another host, after which every request fails.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) taken_over: Option<TakeoverReport>,
    /// What the last scrub found, since it was opened.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) scrubbed: Option<ScrubReport>,
}

/// A reshape that waits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PauseReport {
    /// How far it has come, bytes of the array.
    pub(crate) done: u64,
    /// Of how much.
    pub(crate) of: u64,
    /// What it cannot move, and why.
    pub(crate) why: String,
}

/// A takeover by another host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct TakeoverReport {
    /// The member whose superblock or server reported it.
    pub(crate) member: String,
    /// What it reported.
    pub(crate) why: String,
    /// When the other host wrote its superblock last, seconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) at: Option<u64>,
    /// The other host's events counter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) events: Option<u64>,
}

impl From<&Takeover> for TakeoverReport {
    fn from(of: &Takeover) -> Self {
        Self {
            member: of.member.clone(),
            why: of.why.clone(),
            at: of.at,
            events: of.events,
        }
    }
}

/// A write-intent bitmap.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct BitmapReport {
    /// Bytes for each bit.
    pub(crate) chunk: u64,
    /// Bits.
    pub(crate) chunks: u64,
    /// Bits that are set.
    pub(crate) dirty: u64,
}

/// One member.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct MemberReport {
    /// Its name.
    pub(crate) name: String,
    /// The slot that it has, or had.
    pub(crate) part: Option<u16>,
    /// Its state.
    pub(crate) state: MemberHealth,
    /// While it is rebuilt: the offset up to which it is done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) rebuilt_to: Option<u64>,
    /// Reads prefer others.
    pub(crate) write_mostly: bool,
    /// Errors fail it at once.
    pub(crate) fail_fast: bool,
    /// It is on another machine.
    pub(crate) remote: bool,
    /// Read errors that were repaired from others.
    pub(crate) corrected: u64,
    /// Requests that it answered, other than those that the kernel answers from its file.
    #[serde(default, skip_serializing_if = "MemberIoReport::is_none")]
    pub(crate) io: MemberIoReport,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) why: Option<String>,
}

/// What a member answered since it was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct MemberIoReport {
    /// Reads.
    pub(crate) read: OperationReport,
    /// Writes.
    pub(crate) write: OperationReport,
}

/// Requests of one kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct OperationReport {
    /// How many.
    pub(crate) requests: u64,
    /// Their bytes.
    pub(crate) bytes: u64,
    /// Their time, all of them together, nanoseconds.
    pub(crate) nanos: u64,
}

impl MemberIoReport {
    fn is_none(&self) -> bool {
        *self == Self::default()
    }
}

impl From<MemberIo> for MemberIoReport {
    fn from(io: MemberIo) -> Self {
        let operation = |of: OperationIo| OperationReport {
            requests: of.requests,
            bytes: of.bytes,
            nanos: of.nanos,
        };
        Self {
            read: operation(io.read),
            write: operation(io.write),
        }
    }
}

/// The state of a member.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum MemberHealth {
    /// All of its data is current.
    InSync,
    /// It is being rebuilt, in full or by the bitmap.
    Rebuilding,
    /// It becomes a copy of a member, and takes its place then.
    Replacement,
    /// It replaces the next member that fails.
    Spare,
    /// It keeps the journal.
    Journal,
    /// It failed.
    Failed,
    /// The array went on without it before it was opened.
    Stale,
    /// The slot has no member.
    Missing,
}

/// The progress of a sync.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SyncReport {
    /// What.
    pub(crate) kind: SyncOperation,
    /// How far.
    pub(crate) done: u64,
    /// Of how much.
    pub(crate) of: u64,
    /// Bytes a second, lately.
    pub(crate) speed: u64,
    /// Seconds that are left at that speed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) seconds_left: Option<u64>,
    /// Places where copies differed, so far.
    pub(crate) mismatches: u64,
}

/// The kinds of sync.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum SyncOperation {
    /// Copies are made identical after a crash.
    Resync,
    /// A member is rebuilt, in full or by the bitmap.
    Recovery,
    /// The array gets another form.
    Reshape,
    /// Copies are compared.
    Check,
    /// Copies are compared, and differences repaired.
    Repair,
}

/// What a scrub found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ScrubReport {
    /// Sectors of 512 bytes that differed.
    pub(crate) mismatches: u64,
    /// Where, bytes of the array: the first thousand.
    pub(crate) places: Vec<PlaceReport>,
    /// The differences were repaired.
    pub(crate) repaired: bool,
    /// Bytes of bad blocks that were written again.
    #[serde(default)]
    pub(crate) rewritten_bytes: u64,
    /// It came to the end.
    pub(crate) finished: bool,
}

/// Bytes of an array.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PlaceReport {
    /// The first one.
    pub(crate) offset: u64,
    /// How many.
    pub(crate) len: u64,
}

impl From<block::Range> for PlaceReport {
    fn from(range: block::Range) -> Self {
        Self {
            offset: range.offset,
            len: range.len,
        }
    }
}

impl ArrayReport {
    /// That of an array with this status.
    pub(crate) fn of(export: Option<&str>, status: &ArrayStatus) -> Self {
        Self {
            export: export.map(str::to_owned),
            name: status.name.clone(),
            uuid: uuid(&status.uuid),
            level: status.level.to_string(),
            layout: layout_name(status.level, status.layout),
            version: status.version.to_string(),
            size: status.size,
            chunk: status.chunk,
            parts: status.parts,
            working: status.working,
            read_only: status.read_only,
            clean: status.clean,
            events: status.events,
            bitmap: status.bitmap.map(|bitmap| BitmapReport {
                chunk: bitmap.chunk,
                chunks: bitmap.chunks,
                dirty: bitmap.dirty,
            }),
            ppl: status.ppl,
            journal: status.journal,
            members: status.members.iter().map(MemberReport::of).collect(),
            resync_pending: status.resync_pending,
            sync: status.sync.as_ref().map(SyncReport::of),
            reshape_paused: status.reshape_pause.as_ref().map(|pause| PauseReport {
                done: pause.done,
                of: pause.of,
                why: pause.why.clone(),
            }),
            reshape_lost: LossReport::from(status.reshape_losses),
            untrusted: status.untrusted.as_ref().map(UntrustedReport::from),
            taken_over: status.taken_over.as_ref().map(TakeoverReport::from),
            scrubbed: status.scrubbed.as_ref().map(ScrubReport::of),
        }
    }

    /// Whether slots have no member in sync.
    pub(crate) const fn is_degraded(&self) -> bool {
        self.working < self.parts
    }

    /// Whether a sync is running.
    pub(crate) fn is_busy(&self) -> bool {
        let rebuilding = |member: &MemberReport| {
            matches!(
                member.state,
                MemberHealth::Rebuilding | MemberHealth::Replacement
            )
        };
        // What a read-only array reports was begun before, and does not go on.
        let works = self.sync.is_some() && !self.read_only;
        works || self.members.iter().any(rebuilding)
    }

    /// Whether a spare is about to replace a missing member.
    pub(crate) fn is_about_to_recover(&self) -> bool {
        let has = |state: MemberHealth| self.members.iter().any(|member| member.state == state);
        self.is_degraded() && !self.read_only && has(MemberHealth::Spare)
    }

    /// Its name, without the host's.
    pub(crate) fn short_name(&self) -> &str {
        short_name(&self.name)
    }
}

/// A name without the host's.
pub(crate) fn short_name(name: &str) -> &str {
    name.split_once(':').map_or(name, |(_, own)| own)
}

/// A UUID as mdadm writes it: `3aaa0122:29827cfa:5331ad66:ca767371`.
pub(crate) fn uuid(bytes: &[u8; 16]) -> String {
    crate::commands::inspect::array_uuid(bytes)
}

impl MemberReport {
    fn of(member: &MemberStatus) -> Self {
        let (state, rebuilt_to) = match member.state {
            MemberState::InSync => (MemberHealth::InSync, None),
            MemberState::Rebuilding(to) => (MemberHealth::Rebuilding, Some(to)),
            MemberState::Replacing(to) => (MemberHealth::Replacement, Some(to)),
            MemberState::Spare => (MemberHealth::Spare, None),
            MemberState::Journal => (MemberHealth::Journal, None),
            MemberState::Failed => (MemberHealth::Failed, None),
            MemberState::Stale => (MemberHealth::Stale, None),
            MemberState::Missing => (MemberHealth::Missing, None),
        };
        Self {
            name: member.name.clone(),
            part: member.part,
            state,
            rebuilt_to,
            write_mostly: member.write_mostly,
            fail_fast: member.fail_fast,
            remote: member.remote,
            corrected: member.corrected,
            io: member.io.into(),
            why: member.why.clone(),
        }
    }
}

impl SyncReport {
    fn of(sync: &SyncStatus) -> Self {
        Self {
            kind: sync.kind.into(),
            done: sync.done,
            of: sync.of,
            speed: sync.speed,
            seconds_left: sync.left.map(|left| left.as_secs()),
            mismatches: sync.mismatches,
        }
    }

    /// How far, in tenths of a percent.
    pub(crate) fn per_mille(&self) -> u64 {
        let done = u128::from(self.done.min(self.of)) * 1000 / u128::from(self.of.max(1));
        u64::try_from(done).unwrap_or(1000)
    }
}

impl ScrubReport {
    fn of(scrubbed: &Scrubbed) -> Self {
        Self {
            mismatches: scrubbed.mismatches,
            places: scrubbed
                .places
                .iter()
                .copied()
                .map(PlaceReport::from)
                .collect(),
            repaired: scrubbed.repaired,
            rewritten_bytes: scrubbed.rewritten,
            finished: scrubbed.finished,
        }
    }
}

impl From<SyncKind> for SyncOperation {
    fn from(kind: SyncKind) -> Self {
        match kind {
            SyncKind::Resync => Self::Resync,
            SyncKind::Recovery => Self::Recovery,
            SyncKind::Reshape => Self::Reshape,
            SyncKind::Check => Self::Check,
            SyncKind::Repair => Self::Repair,
        }
    }
}

impl SyncOperation {
    /// All of them.
    pub(crate) const ALL: [Self; 5] = [
        Self::Resync,
        Self::Recovery,
        Self::Reshape,
        Self::Check,
        Self::Repair,
    ];

    /// Whether copies are compared.
    pub(crate) const fn is_scrub(self) -> bool {
        matches!(self, Self::Check | Self::Repair)
    }

    /// Its name.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Resync => "resync",
            Self::Recovery => "recovery",
            Self::Reshape => "reshape",
            Self::Check => "check",
            Self::Repair => "repair",
        }
    }
}

impl MemberHealth {
    /// All of them.
    pub(crate) const ALL: [Self; 8] = [
        Self::InSync,
        Self::Rebuilding,
        Self::Replacement,
        Self::Spare,
        Self::Journal,
        Self::Failed,
        Self::Stale,
        Self::Missing,
    ];

    /// In words.
    pub(crate) const fn words(self) -> &'static str {
        match self {
            Self::InSync => "in sync",
            Self::Rebuilding => "rebuilding",
            Self::Replacement => "replacement",
            Self::Spare => "spare",
            Self::Journal => "journal",
            Self::Failed => "failed",
            Self::Stale => "stale",
            Self::Missing => "missing",
        }
    }

    /// In one word, for programs.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::InSync => "in_sync",
            other => other.words(),
        }
    }
}
