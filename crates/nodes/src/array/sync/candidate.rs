//! What is found out of a disk that is to be a member, before anything is written to it.

use std::sync::Arc;

use block::{BlockDevice, Errno, IoError, Node, Operation, Range};
use engine::clock;

use super::super::assemble::by_bitmap;
use super::super::examine::{examine, newest};
use super::super::format::bitmap::{Bitmap, Bits};
use super::super::format::{PLACE_LEN, Role, Superblock};
use super::super::logs;
use super::super::redundant::{SlotId, SlotState, in_blocks, not_understood};
use super::super::{ArrayError, Candidate};
use super::manager::SyncManager;
use crate::read_within;

/// Members that the array has had since it was opened, at most: each that comes takes a place.
const MEMBERS_MAX: usize = 1024;

/// A disk that was a member of the array, and what it says of itself.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) name: String,
    pub(super) disk: Node,
    pub(super) at: u64,
    pub(super) superblock: Superblock,
    pub(super) bytes: Vec<u8>,
    pub(super) bitmap: Option<Bitmap>,
}

impl SyncManager {
    /// The disk of a candidate that is not in use by the array, and on which nothing lands late.
    pub(super) async fn fresh(&self, disk: &Candidate) -> Result<Node, ArrayError> {
        self.must_write()?;
        let name = &disk.name;
        let Some(node) = &disk.disk else {
            let what = format!("{name} cannot be reached");
            return Err(ArrayError::refused(what, "see that it is there"));
        };
        if node.geometry().read_only {
            let what = format!("{name} is read-only");
            return Err(ArrayError::refused(what, "open it for writing"));
        }
        let states = self.array.slot_states();
        if states.len() >= MEMBERS_MAX {
            let what = format!("the array has had {MEMBERS_MAX} members since it was opened");
            return Err(ArrayError::refused(what, "open it again"));
        }
        let uses = |(slot, other, state): &(SlotId, String, SlotState)| {
            let is_used = !matches!(state, SlotState::Failed(_) | SlotState::Stale);
            is_used && (other == name || Arc::ptr_eq(&self.array.disk_of(*slot), node))
        };
        if states.iter().any(uses) {
            let what = format!("{name} is a member already");
            return Err(ArrayError::refused(what, None));
        }
        // As it was opened before it may still have something to send.
        let before = self.absences().other_way(name, disk.reopen.as_ref());
        if let Some(way) = before {
            way.reopen.sever().await;
        }
        let settled = clock::timeout(self.array.member_timeout(), node.settle()).await;
        match settled {
            Ok(Ok(())) => Ok(in_blocks(name, node, self.array.geometry().block_size)),
            Ok(Err(error)) => Err(read_error(name, error)),
            Err(elapsed) => Err(silent(name, elapsed)),
        }
    }

    /// What a disk says of itself, if it is a member of this array.
    pub(super) async fn known(&self, name: &str, node: &Node) -> Result<Option<Found>, ArrayError> {
        let failed = |error| read_error(name, error);
        let looked = clock::timeout(self.array.member_timeout(), examine(node)).await;
        let looked = looked.map_err(|elapsed| silent(name, elapsed))?;
        let all = looked.map_err(failed)?;
        let Some((place, superblock)) = newest(&all) else {
            return Ok(None);
        };
        if superblock.array != self.array.facts().uuid {
            return Ok(None);
        }
        if let Some(why) = not_understood(superblock) {
            return Err(ArrayError::refused(
                format!("{name} is not taken in: it says that {why}"),
                "let the one who did that end it, or wipe it (mdadm --zero-superblock)",
            ));
        }
        let twin = self.array.written().into_iter().find(|member| {
            superblock.device.is_some() && member.superblock.device == superblock.device
        });
        if let Some(twin) = twin {
            return Err(ArrayError::refused(
                format!(
                    "{name} is the same member as {}, or a copy of it",
                    twin.name
                ),
                "a copy cannot be a member of its own: wipe it first",
            ));
        }
        let read = read_within(node, Range::new(place.at, PLACE_LEN)).await;
        Ok(Some(Found {
            name: name.to_owned(),
            disk: node.clone(),
            at: place.at,
            superblock: superblock.clone(),
            bytes: read.map_err(failed)?,
            bitmap: place.bitmap.and_then(Result::ok),
        }))
    }

    /// Why a disk is not known as a member of this array.
    pub(super) async fn stranger(&self, name: &str, node: &Node) -> ArrayError {
        let what = match examine(node).await.unwrap_or_default().first() {
            Some(found) => match &found.superblock {
                Ok(other) => format!("{name} is a member of another array: {}", other.name),
                Err(problem) => {
                    format!(
                        "the superblock {} of {name} is damaged: {problem}",
                        found.version
                    )
                }
            },
            None => format!("{name} was no member of the array"),
        };
        ArrayError::refused(
            what,
            "add it: all of it is copied, and what it holds is lost",
        )
    }

    /// The part that a member can take again by the bitmap, and the bits of its own one.
    pub(super) async fn may_come_back(
        &self,
        found: &Found,
    ) -> Result<Option<(u16, Bits)>, ArrayError> {
        let of = &found.superblock;
        let same_form = self.has_form_of(of);
        let (Role::Active(part), Some(own), true) = (of.role, &found.bitmap, same_form) else {
            return Ok(None);
        };
        let vacant = self.array.vacancies().0.contains(&part);
        let holders = self.array.written();
        let fresh = holders.iter().find(|member| member.in_sync);
        let (Some(fresh), Some(header), true) = (fresh, self.array.bitmap(), vacant) else {
            return Ok(None);
        };
        let failed = |error| read_error(&found.name, error);
        let own_bits = logs::bits(&found.disk, of, own).await.map_err(failed)?;
        let bits = logs::bits(&fresh.disk, &fresh.superblock, &header).await;
        let bits = bits.map_err(|error| read_error(&fresh.name, error))?;
        let (Some(own_bits), Some(bits)) = (own_bits, bits) else {
            return Ok(None);
        };
        let superblocks: Vec<&Superblock> = holders.iter().map(|m| &m.superblock).collect();
        let may = by_bitmap(
            (of, (own, &own_bits)),
            (&fresh.superblock, (&header, &bits)),
            &superblocks,
        );
        Ok(may.then_some((part, own_bits)))
    }

    /// Why a member cannot come back by the bitmap, as far as that is simple to say, and what is left to do.
    pub(super) fn refuse_return(&self, found: &Found) -> ArrayError {
        let name = &found.name;
        let holds = matches!(found.superblock.role, Role::Active(_));
        let needed = self.array.facts().member_size;
        let refused = |why: &str, next| {
            let what = format!("{name} cannot come back as it is: {why}");
            ArrayError::refused(what, next)
        };
        let room = self.room(found);
        if holds && room < needed {
            let why = format!(
                "the array was enlarged without it, and uses {needed} bytes of each member; it has room for {room}"
            );
            return refused(&why, "add a larger disk instead");
        }
        let why = if holds && !self.has_form_of(&found.superblock) {
            "it has another form than the array, which got that without it"
        } else if !self.array.has_bitmap() {
            "the array has no bitmap that would list what it lacks"
        } else if !holds {
            "it holds no part of the array"
        } else if found.superblock.rebuilt_to.is_some() {
            "it was being rebuilt when it left"
        } else {
            "the bitmap does not list all that it lacks: it is too old, was used without the others, or its part \
             was given to another member"
        };
        refused(why, "add it: all of it is copied")
    }

    /// Bytes of data that a disk has room for: they begin where its own begin, or nearer to the beginning of the disk where a member's do.
    fn room(&self, found: &Found) -> u64 {
        let own = found.superblock.data.offset;
        let members = self.array.written();
        let starts = members.iter().map(|member| member.superblock.data.offset);
        let start = starts.fold(own, u64::min);
        let end = match found.at > own {
            true => found.at,
            false => found.disk.geometry().size,
        };
        end.saturating_sub(start)
    }

    /// Whether a superblock has the form of the array.
    fn has_form_of(&self, of: &Superblock) -> bool {
        let facts = self.array.facts();
        let form = (facts.level, facts.layout, facts.chunk);
        let own = (of.level, of.layout, of.chunk);
        own == form && (of.member_size, of.members) == (facts.member_size, facts.parts)
    }
}

pub(super) fn read_error(name: &str, source: IoError) -> ArrayError {
    ArrayError::Read {
        member: name.to_owned(),
        source,
    }
}

/// A disk that does not answer.
pub(super) fn silent(name: &str, elapsed: clock::Elapsed) -> ArrayError {
    let error = IoError::new(Errno::Io, Operation::Read, None);
    read_error(name, error.because(elapsed))
}
