//! [`Assembly`]: the holders of an array. Plain data, between what decides it (`assemble` for members of md,
//! `volume::raid` for images of LVM) and the engines, which know neither.

use std::sync::Arc;

use block::Identity;

use super::format::bitmap::Bitmap;
use super::format::{Level, Version};
use super::member::Member;
use super::options::Reopen;

/// What all members agree on. Sizes are bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Facts {
    /// The array's UUID.
    pub(crate) uuid: [u8; 16],
    /// Its name, with the host's before a colon where there is one.
    pub(crate) name: String,
    /// Kind of superblock.
    pub(crate) version: Version,
    /// RAID level.
    pub(crate) level: Level,
    /// How data and copies lie, by the level's own numbers.
    pub(crate) layout: u32,
    /// Chunk; 0 where there is none.
    pub(crate) chunk: u64,
    /// Parts of the complete array.
    pub(crate) parts: u32,
    /// Bytes of each member that are used; 0 where members may differ (RAID 0, linear).
    pub(crate) member_size: u64,
    /// Size of the array.
    pub(crate) size: u64,
    /// The form that it had before a reshape which is going on: layout, chunk and parts are those afterwards.
    pub(crate) reshape: Option<ReshapeFacts>,
}

/// A reshape that is going on, towards the end of the array: before its position data lie as they will, from there on as they did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ReshapeFacts {
    /// How far it has come, bytes of the array.
    pub(crate) position: u64,
    /// Layout before, by the level's own numbers.
    pub(crate) layout: u32,
    /// Chunk before.
    pub(crate) chunk: u64,
    /// Parts before.
    pub(crate) parts: u32,
    /// How much nearer to the beginning of each member data begin afterwards.
    pub(crate) moved: u64,
}

impl ReshapeFacts {
    /// What all agree on, but for the form, which is that before the reshape.
    pub(crate) fn before(&self, facts: &Facts) -> Facts {
        Facts {
            layout: self.layout,
            chunk: self.chunk,
            parts: self.parts,
            reshape: None,
            ..facts.clone()
        }
    }
}

impl Facts {
    /// Which array it is. Volumes of LVM have no UUID here: LVM's metadata knows them.
    pub(crate) fn identity(&self) -> Option<Identity> {
        match self.version {
            Version::DmRaid => None,
            _ => Some(Identity::of("md", &[&self.uuid])),
        }
    }
}

/// An array that can be opened.
#[derive(Debug)]
pub(crate) struct Assembly {
    /// What all members agree on.
    pub(crate) facts: Facts,
    /// By part.
    pub(crate) parts: Vec<Part>,
    /// Members that hold no part now.
    pub(crate) others: Vec<Other>,
    /// Members that could not be reached: which part they hold, if any, is not known.
    pub(crate) absent: Vec<Absent>,
    /// Changes that the freshest member has seen.
    pub(crate) events: u64,
    /// Up to where copies and parity are identical, bytes of a member (of the array for RAID 10); `None`:
    /// all of it.
    pub(crate) synced_to: Option<u64>,
    /// The bitmap as the freshest member has it. `None`: there is none. A stale one is marked as such.
    pub(crate) bitmap: Option<Bitmap>,
    /// What the caller should know: stale members, a member that is to be copied in full.
    pub(crate) remarks: Vec<String>,
}

impl Assembly {
    /// All members that are here: holders of parts, then others.
    pub(crate) fn members_mut(&mut self) -> impl Iterator<Item = &mut Member> {
        let parts = self.parts.iter_mut();
        let held = parts.filter_map(|part| part.member.as_mut());
        held.chain(self.others.iter_mut().map(|other| &mut other.member))
    }

    /// The member that keeps the journal, if it is here.
    pub(crate) fn journal(&self) -> Option<&Member> {
        let is_journal = |other: &&Other| other.kind == OtherKind::Journal;
        let found = self.others.iter().find(is_journal);
        found.map(|other| &other.member)
    }
}

/// One part of an array.
#[derive(Debug)]
pub(crate) struct Part {
    /// Its holder; `None`: there is none here.
    pub(crate) member: Option<Member>,
    /// Up to where the member holds it, bytes of its data; `None`: all of it.
    pub(crate) rebuilt_to: Option<u64>,
}

/// A member that holds no part now.
#[derive(Debug)]
pub(crate) struct Other {
    /// Which.
    pub(crate) member: Member,
    /// What it is.
    pub(crate) kind: OtherKind,
}

/// A member that could not be reached when the array was opened.
#[derive(Debug, Clone)]
pub(crate) struct Absent {
    /// What it is called in messages.
    pub(crate) name: String,
    /// It is on another machine.
    pub(crate) remote: bool,
    /// How it is opened once it is there.
    pub(crate) reopen: Option<Arc<dyn Reopen>>,
}

/// What a member is that holds no part now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OtherKind {
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
    /// It is to take the place of a member that still works, and gets all that is written to that.
    Replacement {
        /// The part of both.
        part: u16,
        /// Up to where it is a copy of that member, bytes of its data; `None`: all of it.
        to: Option<u64>,
    },
    /// It keeps the journal.
    Journal,
    /// The array says that it failed, or it lost to the side that is preferred.
    Failed,
}
