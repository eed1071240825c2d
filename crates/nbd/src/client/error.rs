//! [`ClientError`]: why an export cannot be used. One line for the user: what, on what, why.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use nbd_proto::{BrokenReply, HandshakeFailure};

use crate::client::Target;

/// Why a client cannot use an export, or lost it.
#[derive(Debug, Clone, thiserror::Error)]
pub enum ClientError {
    /// No connection.
    #[error("{target}: cannot connect: {source}")]
    Connect {
        /// Where to.
        target: Target,
        /// Why.
        source: Arc<io::Error>,
    },
    /// None of several servers can be used.
    #[error("{}", listed(.tried))]
    NoServer {
        /// Why, for each, in the order of the attempts.
        tried: Vec<Self>,
    },
    /// The server that was lost may still carry changes out, so that no other one may be written to.
    #[error(
        "{last}; no other server is used before it is known that this one has ended: it may still carry out what it has not flushed"
    )]
    InDoubt {
        /// Why the server is not reached.
        last: Box<Self>,
    },
    /// The server that was lost may still carry changes out, and this one does not fence it.
    #[error(
        "{target}: it does not fence the server before, which may still carry out what it has not flushed; serve the disk in standby"
    )]
    NoFence {
        /// Which one it is.
        target: Target,
    },
    /// Connecting or the handshake took too long.
    #[error("{target}: no answer to the connection within {} s", seconds(.after))]
    HandshakeTimeout {
        /// Where to.
        target: Target,
        /// How long it was waited.
        after: Duration,
    },
    /// The handshake did not lead to the export.
    #[error("{target}: {failure}")]
    Handshake {
        /// Where to.
        target: Target,
        /// Why.
        failure: HandshakeFailure,
    },
    /// Another client is writing to the export.
    #[error("{target}: {text}")]
    Busy {
        /// Where to.
        target: Target,
        /// The other client, since when, and what to do, in the server's words.
        text: String,
    },
    /// Another client has taken over, or has written, since this one did.
    #[error("{target}: {text}")]
    Fenced {
        /// Where to.
        target: Target,
        /// The other client and the time, in the server's words.
        text: String,
    },
    /// TLS was requested and not negotiated.
    #[error("{target}: no TLS: {why}")]
    Tls {
        /// Where to.
        target: Target,
        /// Why.
        why: String,
    },
    /// Bytes before the first request: the stream cannot be handed on.
    #[error("{target}: the server sent {count} bytes that no request asked for")]
    Chatter {
        /// Where to.
        target: Target,
        /// How many.
        count: usize,
    },
    /// The connection broke.
    #[error("{target}: connection lost: {source}")]
    Lost {
        /// Where to.
        target: Target,
        /// Why.
        source: Arc<io::Error>,
    },
    /// The server closed the connection.
    #[error("{target}: the server closed the connection")]
    Closed {
        /// Where to.
        target: Target,
    },
    /// TCP probes of the server's machine were not acknowledged.
    #[error("{target}: the server's machine has acknowledged nothing for {} s", seconds(.after))]
    Unheard {
        /// Where to.
        target: Target,
        /// How long.
        after: Duration,
    },
    /// The server says that it is going away.
    #[error("{target}: the server is shutting down")]
    ServerShutdown {
        /// Where to.
        target: Target,
    },
    /// The export does not have a metadata context.
    #[error("{target}: no metadata context {context}")]
    NoContext {
        /// Where to.
        target: Target,
        /// Its name.
        context: String,
    },
    /// The server failed a request for the status in a metadata context.
    #[error("{target}: cannot read the status of {context}: {why}")]
    BlockStatus {
        /// Where to.
        target: Target,
        /// Its name.
        context: String,
        /// The server's error.
        why: String,
    },
    /// The server broke the protocol.
    #[error("{target}: the server broke the protocol: {broken}")]
    Broken {
        /// Where to.
        target: Target,
        /// How.
        broken: BrokenReply,
    },
    /// Requests without an answer.
    #[error("{target}: no byte moved for {} s with requests outstanding", seconds(.after))]
    Silent {
        /// Where to.
        target: Target,
        /// How long.
        after: Duration,
    },
    /// A request without an answer, while others may have been answered.
    #[error("{target}: a request had no answer within {} s", seconds(.after))]
    Unanswered {
        /// Where to.
        target: Target,
        /// How long it was waited, not counting what was in flight before it and the time in which a
        /// flush was waited for.
        after: Duration,
    },
    /// A request that lost one connection after the other.
    #[error("a request was sent again and again for {} s: {last}", seconds(.after))]
    Repeated {
        /// How long.
        after: Duration,
        /// How it lost its last connection.
        last: Box<Self>,
    },
    /// The server was away for longer than requests wait.
    #[error("the server has been gone for {} s: {last}", seconds(.after))]
    Gone {
        /// How long.
        after: Duration,
        /// The last attempt.
        last: Box<Self>,
    },
    /// It came back as another disk.
    #[error("{target}: the export has changed while the server was gone ({changed})")]
    Changed {
        /// Where to.
        target: Target,
        /// In what.
        changed: Changed,
    },
    /// It cannot be seen whether it came back as the same disk.
    #[error("{target}: cannot read what identifies the disk: {why}")]
    Unverified {
        /// Where to.
        target: Target,
        /// The server's error.
        why: String,
    },
    /// The connections were lost before it was known which disk they have.
    #[error("{last}, while reading what identifies the disk")]
    FirstVerification {
        /// How they were lost.
        last: Box<Self>,
    },
    /// What the server acknowledged before it went away could not be written again.
    #[error("{target}: writes acknowledged before the server went away are lost: {why}")]
    Replay {
        /// Where to.
        target: Target,
        /// The server's error.
        why: String,
    },
    /// Writes were acknowledged, not flushed, and given up; the server may have lost them.
    #[error(
        "{writes} writes that were acknowledged and not yet flushed are given up ({why}); attach {target} again"
    )]
    LostWrites {
        /// Where to.
        target: Target,
        /// How many.
        writes: u64,
        /// Why they cannot be kept.
        why: Box<Self>,
    },
    /// The export has grown, and no new connections were made.
    #[error(
        "{target}: the export has grown, and no new connections are made while requests or a flush are in flight, for {} s by now; try again when they are answered",
        seconds(.after)
    )]
    NotRenewed {
        /// Where to.
        target: Target,
        /// How long it was waited.
        after: Duration,
    },
    /// An earlier flush failed.
    #[error("{target}: an earlier flush failed; written data may be lost")]
    FlushFailed {
        /// Where to.
        target: Target,
    },
    /// The client was closed.
    #[error("{target}: the client is closed")]
    ShutDown {
        /// Where to.
        target: Target,
    },
}

impl ClientError {
    /// The failures of several servers, of which there is at least one. What another client has done to the disk outweighs
    /// that a server was not reached.
    pub(super) fn of_servers(mut failures: Vec<Self>) -> Self {
        let is_fenced = |error: &Self| matches!(error, Self::Fenced { .. });
        let is_busy = |error: &Self| matches!(error, Self::Busy { .. });
        let weighty = failures.iter().position(is_fenced);
        let weighty = weighty.or_else(|| failures.iter().position(is_busy));
        match (weighty, failures.len()) {
            (Some(at), _) => failures.swap_remove(at),
            (None, 1) => failures.swap_remove(0),
            (None, _) => Self::NoServer { tried: failures },
        }
    }

    /// Whether the server's machine reports that no server is there, or the server that it has no such export: it takes no
    /// connection of the disk any more.
    pub(super) fn is_refusal(&self) -> bool {
        match self {
            Self::Connect { source, .. } => matches!(
                source.kind(),
                io::ErrorKind::ConnectionRefused | io::ErrorKind::NotFound
            ),
            Self::Handshake { failure, .. } => {
                matches!(failure, HandshakeFailure::UnknownExport { .. })
            }
            _ => false,
        }
    }

    /// Whether the server may be there again in a moment: it could not be reached, or a connection to it was lost.
    pub(super) fn is_outage(&self) -> bool {
        match self {
            Self::FirstVerification { last } | Self::InDoubt { last } => last.is_outage(),
            Self::NoServer { tried } => tried.iter().any(Self::is_outage),
            Self::Connect { .. }
            | Self::HandshakeTimeout { .. }
            | Self::Lost { .. }
            | Self::Closed { .. }
            | Self::Unheard { .. }
            | Self::ServerShutdown { .. }
            | Self::Silent { .. }
            | Self::Unanswered { .. } => true,
            _ => false,
        }
    }

    /// Whether the server refuses connections without TLS.
    #[must_use]
    pub const fn wants_tls(&self) -> bool {
        let Self::Handshake { failure, .. } = self else {
            return false;
        };
        matches!(failure, HandshakeFailure::TlsRequired)
    }
}

/// What is different about an export.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Changed {
    /// Its size, bytes.
    Size {
        /// Before.
        was: u64,
        /// Now.
        is: u64,
    },
    /// Its smallest block, bytes.
    BlockSize {
        /// Before.
        was: u32,
        /// Now.
        is: u32,
    },
    /// It takes shorter requests than one that must be sent again, bytes.
    RequestSize {
        /// Before, at least.
        was: u64,
        /// Now, at most.
        is: u64,
    },
    /// It can no longer do what was relied on.
    Flags {
        /// The flags it lost.
        missing: String,
    },
    /// It can no longer be written.
    ReadOnly,
    /// It is another disk.
    Disk {
        /// What identified the disk.
        expected: String,
        /// What is there instead.
        found: String,
    },
    /// Nothing says whether it is the same disk, and writing to another one would destroy it.
    Unrecognizable {
        /// Writes that would have to be sent again.
        writes: usize,
    },
}

impl fmt::Display for Changed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Size { was, is } => write!(f, "it had {was} bytes and has {is}"),
            Self::BlockSize { was, is } => write!(f, "its blocks were {was} bytes and are {is}"),
            Self::RequestSize { was, is } => {
                write!(f, "it took requests of {was} bytes and takes {is} at most")
            }
            Self::Flags { missing } => write!(f, "it no longer has {missing}"),
            Self::ReadOnly => f.write_str("it is read-only now"),
            Self::Disk { expected, found } => {
                write!(
                    f,
                    "another disk: expected {expected}, found {found}; attach it again"
                )
            }
            Self::Unrecognizable { writes } => write!(
                f,
                "neither the server nor a signature on it says which disk it is, and {writes} writes would have to be sent again; attach it again"
            ),
        }
    }
}

/// Each failure, with the server that it names.
fn listed(tried: &[ClientError]) -> String {
    let texts: Vec<String> = tried.iter().map(ToString::to_string).collect();
    texts.join("; ")
}

fn seconds(duration: &Duration) -> f64 {
    (duration.as_secs_f64() * 10.0).round() / 10.0
}
