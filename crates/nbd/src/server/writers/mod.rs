//! Which clients may write to an export: one at a time, unless its policy says otherwise.
//!
//! `state` is the machine of claims (pure), `record` its durable part next to the image, `claim` the
//! asynchronous shell that an export's connections use.
//!
//! # Invariants
//!
//! * **One holder.** Under [`WriterPolicy::One`] and [`WriterPolicy::Fenced`] no two clients may write at
//!   the same time. A claim lives as long as one of its client's connections does, and a connection ends
//!   when its writes have landed.
//! * **A client that takes over is admitted last**: after the connections of the holder have ended, and
//!   nothing that the disk has not answered is left of any connection.
//! * **Durable before it is answered**: under [`WriterPolicy::Fenced`] a claim of another client than
//!   the last one is on disk before its `GO` is.
//! * The data path takes no lock: a connection that may write knows it ([`WriteGate`]).
//!
//! # What it does not do
//!
//! It does not authenticate: the server trusts the identity that a client sends. And it knows no claims on the disk itself:
//! another server that has the same disk has a machine of its own.

mod claim;
mod gate;
mod record;
mod state;
mod store;
#[cfg(test)]
mod tests;

use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;

use nbd_proto::{ClientToken, WriterPolicy};

pub(super) use claim::Claim;
pub(super) use gate::WriteGate;
pub(super) use state::Writers;

use super::peer::Peer;

/// How an export takes writers.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct WriterRules {
    /// One or many.
    pub policy: WriterPolicy,
    /// Where the last writer is recorded, under [`WriterPolicy::Fenced`]; without it, that policy takes
    /// no writers at all.
    pub record: Option<PathBuf>,
}

/// What distinguishes a client from others.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum WriterId {
    /// By the token that it sent.
    Token(ClientToken),
    /// By the machine it is on.
    Address(IpAddr),
    /// By its process on this machine.
    Process { user: u32, process: u32 },
    /// By its connection's label.
    Label(String),
}

impl WriterId {
    fn of(peer: &Peer, token: Option<ClientToken>) -> Self {
        if let Some(token) = token {
            return Self::Token(token);
        }
        match (peer.address, peer.user, peer.process) {
            (Some(address), _, _) => Self::Address(address),
            (None, Some(user), Some(process)) => Self::Process { user, process },
            _ => Self::Label(peer.label.clone()),
        }
    }

    const fn token(&self) -> Option<ClientToken> {
        match self {
            Self::Token(token) => Some(*token),
            Self::Address(_) | Self::Process { .. } | Self::Label(_) => None,
        }
    }
}

/// A client that requests a claim, and when.
#[derive(Debug, Clone)]
struct ClaimRequest {
    /// The number of its connection.
    connection: u64,
    who: WriterId,
    /// Its name for people.
    label: String,
    /// Seconds since 1970.
    now: u64,
}

impl ClaimRequest {
    fn of(connection: u64, peer: &Peer, token: Option<ClientToken>) -> Self {
        let now = engine::clock::wall().duration_since(std::time::UNIX_EPOCH);
        let label = match peer.process {
            Some(process) => format!("{} (process {process})", peer.label),
            None => peer.label.clone(),
        };
        Self {
            connection,
            who: WriterId::of(peer, token),
            label,
            now: now.map_or(0, |since| since.as_secs()),
        }
    }
}

/// Why a client may not write.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Denied {
    /// Another client is writing.
    Busy { label: String, since: u64 },
    /// Another client has written, or taken over, since.
    Fenced { label: String, since: u64 },
    /// The claims before have not come to an end in time.
    Unsettled,
    /// It requested to be one of many.
    NotShared,
    /// It sent no identity, where that is required.
    Nameless,
    /// It requested to read only.
    ReadOnly,
    /// The record next to the image cannot be used.
    Record(String),
}

/// `2026-11-23 11:02:07 UTC`.
struct UtcTime(u64);

impl fmt::Display for UtcTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = engine::clock::Calendar::of(self.0);
        write!(
            f,
            "{:04}-{:02}-{:02} {:02}:{:02}:{:02} UTC",
            at.year, at.month, at.day, at.hour, at.minute, at.second
        )
    }
}

/// The text for the client.
impl fmt::Display for Denied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use nbd_proto::{BUSY, FENCED};
        match self {
            Self::Busy { label, since } => write!(
                f,
                "{BUSY} by {label} since {}; detach it there, or, if a cluster filesystem or an \
                 application coordinates the writers, serve it with --writers many and attach with \
                 --shared",
                UtcTime(*since)
            ),
            Self::Fenced { label, since } => write!(
                f,
                "{FENCED} {label} took over writing at {}",
                UtcTime(*since)
            ),
            Self::Unsettled => write!(
                f,
                "{BUSY}: requests of the writer before have not come to an end; try again"
            ),
            Self::NotShared => f.write_str(
                "the export takes one writer; --shared needs it to be served with --writers many",
            ),
            Self::Nameless => f.write_str(
                "the export takes writers that send their identity (single-writer): attach it with outboard",
            ),
            Self::ReadOnly => f.write_str("the client requested to read only"),
            Self::Record(why) => write!(f, "the record of the last writer cannot be used: {why}"),
        }
    }
}
