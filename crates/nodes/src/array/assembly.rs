//! [`Assembly`]: the holders of an array. Plain data, between `assemble` (which decides it) and
//! the nodes (which stand on it).

use std::sync::Arc;

use super::format::bitmap::Bitmap;
use super::format::{Level, Version};
use super::member::Member;
use super::options::Reopen;

/// What all members agree on. Sizes are bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Facts {
    /// The array's UUID.
    pub(super) uuid: [u8; 16],
    /// Its name, with the host's before a colon where there is one.
    pub(super) name: String,
    /// Kind of superblock.
    pub(super) version: Version,
    /// RAID level.
    pub(super) level: Level,
    /// How data and copies lie, by the level's own numbers.
    pub(super) layout: u32,
    /// Chunk; 0 where there is none.
    pub(super) chunk: u64,
    /// Parts of the complete array.
    pub(super) parts: u32,
    /// Bytes of each member that are used; 0 where members may differ (RAID 0, linear).
    pub(super) member_size: u64,
    /// Size of the array.
    pub(super) size: u64,
}

/// An array that can be opened.
#[derive(Debug)]
pub(super) struct Assembly {
    /// What all members agree on.
    pub(super) facts: Facts,
    /// By part.
    pub(super) parts: Vec<Part>,
    /// Members that hold no part now.
    pub(super) others: Vec<Other>,
    /// Members that could not be reached: which part they hold, if any, is not known.
    pub(super) absent: Vec<Absent>,
    /// Changes that the freshest member has seen.
    pub(super) events: u64,
    /// Up to where copies and parity are identical, bytes of a member (of the array for RAID 10); `None`:
    /// all of it.
    pub(super) synced_to: Option<u64>,
    /// The bitmap as the freshest member has it. `None`: there is none. A stale one is marked as such.
    pub(super) bitmap: Option<Bitmap>,
    /// What the caller should know: stale members, a member that is to be copied in full.
    pub(super) remarks: Vec<String>,
}

/// One part of an array.
#[derive(Debug)]
pub(super) struct Part {
    /// Its holder; `None`: there is none here.
    pub(super) member: Option<Member>,
    /// Up to where the member holds it, bytes of its data; `None`: all of it.
    pub(super) rebuilt_to: Option<u64>,
}

/// A member that holds no part now.
#[derive(Debug)]
pub(super) struct Other {
    /// Which.
    pub(super) member: Member,
    /// What it is.
    pub(super) kind: OtherKind,
}

/// A member that could not be reached when the array was opened.
#[derive(Debug, Clone)]
pub(super) struct Absent {
    /// What it is called in messages.
    pub(super) name: String,
    /// It is on another machine.
    pub(super) remote: bool,
    /// How it is opened once it is there.
    pub(super) reopen: Option<Arc<dyn Reopen>>,
}

/// What a member is that holds no part now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OtherKind {
    /// It waits for a member to fail.
    Spare,
    /// The array went on without it. `part`: what it held. It may come back by the bitmap only if
    /// `by_bitmap` says so (`docs/formats/md.md`, "Who may come back").
    Stale {
        /// What it held.
        part: u16,
        /// Whether what the bitmap says is enough to bring it up to date.
        by_bitmap: bool,
    },
    /// The array says that it failed, or it lost to the side that is preferred.
    Failed,
}
