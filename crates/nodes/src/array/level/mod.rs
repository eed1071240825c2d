//! Another level for an array, as md takes levels over: where every byte of data lies stays as it is.
//!
//! ```text
//! 5 ─► 6   the new member has Q alone, and is rebuilt     0 ─► 4, 5   the new member has parity alone, and is missing at first
//! 6 ─► 5   the member with Q becomes a spare              4, 5 ─► 0   the member with parity is released
//! 4 ◄─► 5  with parity on the last member                 1 ◄─► 5     of two members: parity of one chunk is a copy of it
//! ```
//!
//! An array that is open gets one while it is used (`online`): between levels with parity by its engine alone (`redundant::level`,
//! `sync::level`), from 1 to 5 and back by the same while no request is under way, and where a stripe gets parity, or gives it up, another engine takes over. One that no process uses gets it by its superblocks
//! ([`change_level`]).
//!
//! # Invariants
//!
//! * A member that a power cut left with the level before is one event behind, and what its superblock says leads to what the others
//!   say by one rule ([`takeover()`]): it gets their level before the array is used.
//! * Superblocks of holders are written before those of spares: no spare has a level that no holder has.
//!
//! # What it does not do
//!
//! It moves no data: where parity is to lie elsewhere, a reshape does that before or after.

mod left_behind;
mod offline;
mod online;
mod superblocks;
mod takeover;
#[cfg(test)]
mod tests;

use block::{IoBufs, Range, WriteFlags};

use super::ArrayError;
use super::create::write::wipe;
use super::format::{self, Changes, Level, Version};
use super::member::Member;
use crate::guard::flush;

use self::left_behind::catch_up;
pub(super) use self::left_behind::{finish, with_level};
pub use self::offline::{LevelChanged, change_level};
pub(super) use self::takeover::{LevelForm, PARITY_LAST, takeover};

/// Whether an array of level `from` gets level `to` while it is used; else no process may use it.
#[must_use]
pub const fn is_changed_in_use(from: Level, to: Level) -> bool {
    from.parities() > 0 && to.parities() > 0
}

/// Whether an array of this level may get another one while it is open.
pub(super) const fn may_change(level: Level, version: Version) -> bool {
    let has_followers = matches!(
        level,
        Level::Raid0 | Level::Raid1 | Level::Raid4 | Level::Raid5 | Level::Raid6
    );
    has_followers && is_written(version)
}

/// Whether superblocks of this version get another level here.
const fn is_written(version: Version) -> bool {
    version.is_v1()
}

/// Refuses superblocks that keep their level.
pub(super) fn refuse_version(version: Version) -> Result<(), ArrayError> {
    match is_written(version) {
        true => Ok(()),
        false => Err(ArrayError::refused(
            format!("the level of arrays with superblocks {version} stays as it is here"),
            "let mdadm change it: mdadm --grow --level",
        )),
    }
}

/// Removes the superblock of a member.
async fn wipe_member(member: &Member) -> Result<(), ArrayError> {
    let wiped = wipe(&member.disk).await;
    wiped.map_err(|source| ArrayError::Write {
        member: member.name.clone(),
        source,
    })
}

/// Writes the superblock of a member with some changes, durably.
async fn write_superblock(member: &mut Member, changes: &Changes<'_>) -> Result<(), ArrayError> {
    let version = member.superblock.version;
    let bytes = format::patch(&member.bytes, version, changes);
    write_bytes(member, bytes).await
}

/// Writes the bytes of the superblock of a member, durably.
async fn write_bytes(member: &mut Member, bytes: Vec<u8>) -> Result<(), ArrayError> {
    let version = member.superblock.version;
    let block = member.disk.geometry().block_size;
    let written = format::written(&bytes, version, block);
    let place = Range::new(member.at, written.len() as u64);
    let data: IoBufs = std::iter::once(bytes::Bytes::copy_from_slice(written)).collect();
    let failed = |source| ArrayError::Write {
        member: member.name.clone(),
        source,
    };
    let disk = &member.disk;
    disk.write(place, data, WriteFlags::empty())
        .await
        .map_err(failed)?;
    flush(disk).await.map_err(failed)?;
    member.bytes = bytes;
    Ok(())
}
