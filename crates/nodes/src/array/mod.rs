//! `array`: Linux software RAID (md), byte for byte md's own.
//!
//! ```text
//! candidates ──examine──► superblocks ──assemble──► holders ──► striped     linear, RAID 0
//!                          images of LVM ──volume::raid──┘            redundant   RAID 1, 10, and 4, 5, 6 (redundant::rows)
//!                                                                     parity      RAID 4, 5, 6 that are only read
//! ```
//!
//! The engines know one form of metadata, [`format::Superblock`], and change it by [`format::patch`]: md's superblocks and those
//! of device-mapper's `raid` are two encodings of it.
//!
//! [`open()`] makes an array of disks, [`create()`] writes the superblocks of a new one, [`Array`] is the disk
//! and all operations on a running one.
//!
//! # Invariants
//!
//! * Nothing is written before all members were read and understood; an array that is opened
//!   read-only is never written at all.
//! * What is not known is refused by name.
//! * A disk that is added never changes the block size of an array that is in use.
//! * Members record durably that an array is dirty, and which bits are set, before any of them sees data;
//!   they are flushed before one of these is taken back. A write is acknowledged once every member has it
//!   that has not failed, and the failures are durable. The last member in sync is never failed.
//! * What members must record is written in one commit at a time, by a task of the array that outlives the
//!   request and ends with the array. Two members with the same event count saw the same commits: an array
//!   that continues without a member counts past it first.
//! * A remote member rejoins only over new connections, after the old ones were cut: an aborted client sends
//!   nothing more.
//! * A remote member is written only while its superblock is known to be what this array wrote last
//!   (`member_guard`): another disk is never written, and an array that another host took over writes nothing
//!   any more.
//! * A member rejoins by the bitmap only if the bitmap holds everything that it missed. Two halves that both
//!   were written alone are never joined, and a half with data of its own is never overwritten, without
//!   `--force`.
//!
//! # What it does not do
//!
//! It does not take members away from levels with parity, but where the level changes, or read external metadata (IMSM, DDF).

mod assemble;
mod assembly;
mod create;
mod device;
mod engine_cell;
mod error;
mod examine;
mod external_input;
pub mod format;
mod interface;
mod layout;
mod level;
mod logs;
mod member;
mod member_guard;
mod node;
mod open;
mod options;
mod parity;
mod redundant;
mod status;
mod striped;
mod sync;
#[cfg(test)]
mod tests;

pub use self::assemble::{Membership, Picture};
pub(crate) use self::assembly::{Assembly, Facts, Part};
pub(crate) use self::create::write::wipe as wipe_superblocks;
pub use self::create::{
    ConsistencyChoice, ConsistencyPolicy, CreateOptions, Created, NAME_MAX, NewMember, create,
};
pub use self::error::ArrayError;
pub use self::examine::{Found, examine, newest};
pub use self::level::{LevelChanged, change_level, is_changed_in_use};
pub(crate) use self::member::Member;
pub use self::member_guard::{Takeover, VALID_FOR};
pub use self::node::{AddOptions, Array};
pub use self::open::open;
pub(crate) use self::open::open_assembly;
pub use self::options::{
    ArrayOptions, BackupFile, BackupFuture, Candidate, MEMBER_TIMEOUT, NewShape, Raid0Layout,
    Reopen, ReopenError, SyncRates,
};
#[cfg(test)]
pub(crate) use self::parity::tests::writer as parity_writer;
pub(crate) use self::redundant::range_locks;
pub use self::status::{
    ArrayEvent, ArrayStatus, BitmapStatus, MemberIo, MemberState, MemberStatus, OperationIo,
    PLACES_MAX, ReshapeLosses, ReshapePause, Scrubbed, SyncKind, SyncStatus, UntrustedPlaces,
};
pub(crate) use self::sync::rate;
