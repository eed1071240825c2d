//! The figures as plain data, for `status`, for programs and for Prometheus.

use std::net::IpAddr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{BUCKETS, Op, bucket_limit};
use crate::server::client_disks::ClientDiskFigures;

/// What one command did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommandFigures {
    /// Which.
    pub command: Op,
    /// Requests taken in.
    pub requests: u64,
    /// Requests answered with an error.
    pub errors: u64,
    /// Bytes that successful requests were about.
    pub bytes: u64,
    /// Requests that wait for their disk.
    pub in_flight: u64,
    /// Sum of the latencies of all answered requests, nanoseconds.
    pub latency_nanos: u64,
    /// Answered requests by latency; [`bucket_limit`] gives the limits.
    pub latency: Vec<u64>,
}

impl CommandFigures {
    /// A command that was never requested.
    #[must_use]
    pub fn none(command: Op) -> Self {
        Self {
            command,
            requests: 0,
            errors: 0,
            bytes: 0,
            in_flight: 0,
            latency_nanos: 0,
            latency: vec![0; BUCKETS],
        }
    }

    fn add(&mut self, other: &Self) {
        self.requests = self.requests.saturating_add(other.requests);
        self.errors = self.errors.saturating_add(other.errors);
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.in_flight = self.in_flight.saturating_add(other.in_flight);
        self.latency_nanos = self.latency_nanos.saturating_add(other.latency_nanos);
        for (ours, theirs) in self.latency.iter_mut().zip(&other.latency) {
            *ours = ours.saturating_add(*theirs);
        }
    }

    /// An upper bound of the latency of that share of all answered requests, in percent: the limit of
    /// the bucket it falls into. `None`: nothing was answered, or it lies beyond the last limit.
    #[must_use]
    pub fn percentile(&self, percent: u64) -> Option<Duration> {
        let total: u64 = self.latency.iter().sum();
        let wanted = total.saturating_mul(percent).div_ceil(100).max(1);
        let mut seen = 0;
        let bucket = self.latency.iter().position(|count| {
            seen += count;
            seen >= wanted
        });
        bucket.filter(|&b| b < BUCKETS).and_then(bucket_limit)
    }
}

/// What all commands did.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Figures {
    /// Those that were requested, in the order of [`Op::ALL`].
    pub commands: Vec<CommandFigures>,
}

impl Figures {
    /// Adds other figures, command by command.
    pub fn add(&mut self, other: &Self) {
        for theirs in &other.commands {
            let at = self
                .commands
                .binary_search_by_key(&theirs.command, |ours| ours.command);
            match at {
                Ok(at) => self.commands[at].add(theirs),
                Err(at) => self.commands.insert(at, theirs.clone()),
            }
        }
    }

    /// The figures of one command.
    #[must_use]
    pub fn of(&self, op: Op) -> CommandFigures {
        let found = self.commands.iter().find(|ours| ours.command == op);
        found.map_or_else(|| CommandFigures::none(op), Clone::clone)
    }

    /// All commands together, under the name of [`Op::Other`].
    #[must_use]
    pub fn total(&self) -> CommandFigures {
        let mut total = CommandFigures::none(Op::Other);
        self.commands.iter().for_each(|command| total.add(command));
        total
    }
}

/// A client that is connected.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClientFigures {
    /// Its number, which no other client of this server ever has.
    pub id: u64,
    /// Its name in the log.
    pub peer: String,
    /// Its address; none for Unix sockets.
    pub address: Option<IpAddr>,
    /// Its process on this machine, where it came over a Unix socket.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub process: Option<u32>,
    /// The name in its certificate.
    pub certificate: Option<String>,
    /// The size that it negotiated, bytes.
    pub size: u64,
    /// Seconds since its handshake.
    pub connected_seconds: u64,
    /// What it did.
    pub figures: Figures,
}

/// An export and its clients.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExportFigures {
    /// Its name.
    pub name: String,
    /// Its text for people.
    pub description: String,
    /// Size for new clients, bytes.
    pub size: u64,
    /// Whether writes are refused.
    pub read_only: bool,
    /// Clients that ever connected.
    pub clients_ever: u64,
    /// Clients that are connected.
    pub clients: Vec<ClientFigures>,
    /// What all clients did, those that left among them.
    pub figures: Figures,
    /// The disks of its clients, where each has one of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_disks: Option<Vec<ClientDiskFigures>>,
    /// The writer; none where it is read-only or each client has a disk of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub writers: Option<WritersFigures>,
    /// Whether its disk is open, where another server may have it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub standby: Option<StandbyFigures>,
}

/// An export with a disk that is taken over from another server when a client may write to it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StandbyFigures {
    /// Whether this server has the disk open for writing, as far as it knows.
    pub is_open: bool,
    /// How often this server has opened it for writing.
    pub takeovers: u64,
}

/// How an export takes writers, and the current one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WritersFigures {
    /// `one`, `many` or `fenced`.
    pub policy: String,
    /// Counts the clients that were the one writer.
    pub generation: u64,
    /// The one writer now.
    pub writer: Option<WriterFigures>,
}

/// The client that holds an export for writing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WriterFigures {
    /// Its name in the log.
    pub peer: String,
    /// Since when, seconds since 1970.
    pub since: u64,
    /// Its connections.
    pub connections: u64,
}

/// A server at one moment.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ServerFigures {
    /// Connections that are open, those in the handshake among them.
    pub connections: u64,
    /// Connections that were ever accepted.
    pub accepted: u64,
    /// Connections that were closed at once, because there were too many.
    pub refused: u64,
    /// Connections that ended in the handshake.
    pub handshakes_failed: u64,
    /// Memory of requests and replies in flight, bytes.
    pub memory: u64,
    /// The exports, the default one first.
    pub exports: Vec<ExportFigures>,
}
