//! The NBD client: a remote export as a [`block::BlockDevice`].
//!
//! [`Client`] keeps one or more connections to an export, sends requests as they come, takes the
//! replies in any order, and comes back after the server was away. [`dial()`] negotiates one
//! connection and hands it out, for the kernel's own client.
//!
//! One task (`session`) owns the connections and every request. It waits without changing
//! anything, then applies what arrived without waiting. Requests that came together leave in one
//! send. The client negotiates and uses what the server has beyond the plain protocol: replies
//! in chunks, lengths of 64 bits, and `base:allocation`, which is what the disk's extents are.
//!
//! [`list`], [`describe`] and [`survey()`] ask a server what it has and use none of it. [`read_context`] reads the status
//! of an export in any other metadata context, such as a dirty bitmap of QEMU's.
//!
//! # Invariants
//!
//! * **Nothing the server says is believed unchecked** (`nbd_proto::ReplyDecoder`); a server that
//!   breaks the protocol loses its connection.
//! * **All connections are one.** When one breaks, all are given up: a server that died may have
//!   lost what it acknowledged, and what is sent again must come before what is new.
//! * **A reconnect does not lie.** Writes that were acknowledged but not yet covered by a flush are
//!   kept ([`limits::JOURNAL_MAX`] bytes at most; a flush is sent before it is full) and written
//!   again, in order, before anything else. Where that fails, no request succeeds any more.
//! * **A failed flush stays failed**: none succeeds after one that was reported as failed, for any reason.
//! * **A timeout ends the past**: once a change was failed because of time, nothing of before is sent again and no flush
//!   succeeds; where acknowledged writes were given up with it, no request does, until the disk is opened again.
//! * **Every request ends**: one without an answer costs its connection after
//!   [`ClientConfig::request_timeout`], even while others are answered, and fails after
//!   [`ClientConfig::reconnect_for`] of that. A slow disk is no lost server: while a flush is waited
//!   for, the limit is suspended, for [`ClientConfig::flush_timeout`] at most.
//! * **Data unless reported otherwise**: what a server does not report, or reports only in part or in parts
//!   of a block, is data.
//! * **Same disk or no I/O**: after a reconnect, before anything is written again, the server's name of the disk
//!   (`nbd_proto::DiskIdentity`) and what identifies its content (`fingerprint`) are compared. Another disk is final. Where
//!   neither says anything, the client goes on only if it has nothing to write again.
//! * **An export that has less than was promised is waited for** as an unreachable server is: fewer bytes, larger blocks,
//!   shorter requests, no writes. It may have grown.
//! * **A size never shrinks.**
//! * **One server at a time** ([`Target::others`]): all connections lead to the same one, and another one gets no request before it is known
//!   that the one before carries out nothing more (`session::server_choice`).
//!
//! # What it does not do
//!
//! It cannot fence: a server that lives on behind a broken network may still carry out a request
//! of a connection that was given up. That is why it stays with such a server although others have the disk, unless the address says when
//! something else fences it (`fenced-after`). It does not notice another writer while it is connected, nor a bitwise copy of
//! the disk behind a server that names no disk. And it keeps payloads as they were handed in: slices of
//! large buffers keep those buffers alive until the next flush.

mod config;
mod context_map;
mod device;
mod dial;
mod disk;
mod error;
mod fingerprint;
mod first_answer;
mod session;
mod stream;
mod survey;
mod target;

pub use config::{ClientConfig, ClientHealth, limits, random_token};
pub use context_map::{ContextExtent, ContextMap, read_context};
pub use device::{Client, ClientMonitor, Cutter};
pub use dial::{Dialed, dial};
pub use error::{Changed, ClientError};
pub use nbd_proto::{
    AccessMode, ClientToken, DiskId, DiskIdentity, UriTls, WriterAccess, WriterPolicy,
};
pub use nbd_proto::{QEMU_ALLOCATION_DEPTH, QEMU_DIRTY_BITMAP};
pub use survey::{Description, Listed, Survey, Surveyed, describe, is_outboard, list, survey};
pub use target::{Address, Target};

#[cfg(test)]
mod tests;
