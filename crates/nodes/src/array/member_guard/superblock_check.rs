//! [`check`]: whether the superblock that was found is the one that this array wrote. Pure.
//!
//! # Invariants
//!
//! * It is ours only if it is byte for byte what was written, or sent and not acknowledged.
//! * Another host took over only where the superblock is this member's own and not older than ours: anything else there is
//!   another disk, or an old copy.

use bytes::Bytes;

use super::fence::Takeover;
use crate::array::format::{Role, Superblock, Version, decode};

/// What a superblock is to the array.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum SuperblockCheck {
    /// As this array wrote it.
    Ours,
    /// Another one, or none: why.
    NotOurs(String),
    /// Written by another host.
    TakenOver(Box<OtherHost>),
}

/// What the superblock says that another host wrote.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct OtherHost {
    superblock: Superblock,
    /// Events that this array had written.
    ours: u64,
    /// Parts that worked here and have failed there.
    failed: Vec<u16>,
}

impl OtherHost {
    /// The same, of the member of this name.
    pub(super) fn takeover(&self, member: &str) -> Takeover {
        let (theirs, ours) = (self.superblock.events, self.ours);
        let failed: Vec<String> = self.failed.iter().map(u16::to_string).collect();
        let failed = match failed.as_slice() {
            [] => "without this one's knowledge".to_owned(),
            [part] => format!("and says that part {part} has failed"),
            parts => format!("and says that parts {} have failed", parts.join(", ")),
        };
        Takeover {
            member: member.to_owned(),
            why: format!(
                "its superblock counts {theirs} events where this array wrote {ours}, {failed}"
            ),
            at: Some(self.superblock.updated),
            events: Some(theirs),
        }
    }
}

/// Judges what was `found` where one of `images` should be, a superblock of `version` at byte `at`.
///
/// # Panics
/// If there is no image, or one is no superblock: the array wrote them.
pub(super) fn check(version: Version, at: u64, images: &[Bytes], found: &[u8]) -> SuperblockCheck {
    if images.iter().any(|image| found.starts_with(image)) {
        return SuperblockCheck::Ours;
    }
    let own = |image: &Bytes| {
        let decoded = decode(version, at, image).ok().flatten();
        decoded.expect("the array wrote a superblock")
    };
    let ours = own(images.first().expect("one was written"));
    let not_ours = |why: &str| SuperblockCheck::NotOurs(why.to_owned());
    let there = match decode(version, at, found) {
        Ok(Some(there)) => there,
        Ok(None) => return not_ours("it has no superblock: it was wiped, or is another disk"),
        Err(problem) => {
            return SuperblockCheck::NotOurs(format!("its superblock is damaged: {problem}"));
        }
    };
    if there.array != ours.array {
        let name = &there.name;
        return SuperblockCheck::NotOurs(format!("it is a member of another array, {name}"));
    }
    if (there.device, there.number) != (ours.device, ours.number) {
        return not_ours("it is another member of the array");
    }
    if there.events < ours.events {
        let (theirs, ours) = (there.events, ours.events);
        return SuperblockCheck::NotOurs(format!(
            "it is an old copy: its superblock counts {theirs} events, the array wrote {ours}"
        ));
    }
    SuperblockCheck::TakenOver(Box::new(OtherHost {
        ours: own(images.last().expect("one was written")).events,
        failed: failed(&ours, &there),
        superblock: there,
    }))
}

/// Parts that have a working member by `ours` and none by `there`.
fn failed(ours: &Superblock, there: &Superblock) -> Vec<u16> {
    let is_there = |part: &Role| there.roles.contains(part);
    let lost = ours.roles.iter().filter(|role| !is_there(role));
    let parts = lost.filter_map(|role| match role {
        Role::Active(part) => Some(*part),
        _ => None,
    });
    parts.collect()
}
