//! Configuration of a client, what it reports of itself, and its limits.

use std::time::Duration;

use nbd_proto::{AccessMode, ClientToken, WriterAccess};
use ring::rand::{SecureRandom, SystemRandom};

/// Bounds of one client.
pub mod limits {
    /// Connections to one export.
    pub const CONNECTIONS_MAX: usize = 16;
    /// Exports described at once in a survey of a server.
    pub const SURVEY_AT_ONCE: usize = 8;
    /// Requests that wait to be taken up by the session.
    pub const INBOX_MAX: usize = 1024;
    /// Requests in flight on one connection; a larger configured number is cut to it.
    pub const IN_FLIGHT_MAX: usize = 4096;
    /// Bytes of acknowledged writes that wait for a flush.
    pub const JOURNAL_MAX: u64 = 64 << 20;
    /// Acknowledged writes that wait for a flush.
    pub const JOURNAL_ENTRIES_MAX: usize = 64 << 10;
    /// Longest read or write sent as one request, if the server takes that much.
    pub const REQUEST_MAX: u32 = nbd_proto::limits::PAYLOAD_DEFAULT;
    /// Longest request without a payload sent as one where the server may have to move every byte of
    /// it before it answers, or where lengths have 32 bits: a multiple of every block size.
    pub const RANGE_MAX: u32 = 2 << 30;
    /// Longest request sent as one where lengths have 64 bits and the server need not move its bytes:
    /// a multiple of every block size.
    pub const REACH_MAX: u64 = 1 << 62;
    /// Extents kept of one answer; the next question begins behind them.
    pub const EXTENTS_AT_ONCE: usize = 64 << 10;
    /// Extents reported of one range; the rest of it counts as data.
    pub const EXTENTS_MAX: usize = 1 << 20;
    /// Extents taken of one metadata context; the status of the rest is not read. A dirty bitmap in clusters of 64 KiB
    /// has as many at most on 256 GiB.
    pub const CONTEXT_EXTENTS_MAX: usize = 4 << 20;
}

/// How a client behaves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientConfig {
    /// Connections wanted, 1 to [`limits::CONNECTIONS_MAX`]. More than one is used only where the
    /// server says that a flush on one covers all, or where nothing is written.
    pub connections: usize,
    /// A request is answered within this time, or its connection is given up as if it had been
    /// lost: at once where no byte moved on any for so long, and where bytes moved, but not for this
    /// request, with a second more for each 120 KB that were in flight, on any connection, when
    /// it was sent: what a wire of 1 Mb/s carries. While a request is waited for that may take its
    /// disk long, the limit is suspended; see [`Self::flush_timeout`]. Also the limit of connecting and
    /// of the handshake, and of a machine that acknowledges nothing (TCP).
    pub request_timeout: Duration,
    /// So much longer do requests wait at most while one is waited for that may take the server's disk
    /// long: a flush, a durable write, zeroes, a trim. Each of them, itself included.
    pub flush_timeout: Duration,
    /// How long requests wait for a server that is gone, and how long a request is sent again that
    /// loses its connection each time. Then they fail; the client goes on trying, unless acknowledged writes were not
    /// flushed: those are given up then, and every request fails from then on.
    pub reconnect_for: Duration,
    /// Refuse writes, also where the server would take them.
    pub read_only: bool,
    /// Requests in flight on one connection, at most [`limits::IN_FLIGHT_MAX`].
    pub in_flight_max: usize,
    /// Identity of the client, and the access that its first connection requests; the others, and those made later, request
    /// [`WriterAccess::again`]. `None`: a client of its own that reads where [`Self::read_only`] is set,
    /// and else is to be the one writer.
    pub writer: Option<WriterAccess>,
}

/// A token that no other client has.
///
/// # Panics
/// If the kernel has no random bytes.
#[must_use]
pub fn random_token() -> ClientToken {
    let mut bytes = [0; 16];
    let rng = SystemRandom::new();
    rng.fill(&mut bytes).expect("the kernel has random bytes");
    ClientToken::new(bytes)
}

impl ClientConfig {
    /// The access that the first connection requests.
    pub(super) fn first_access(&self) -> WriterAccess {
        let mode = match self.read_only {
            true => AccessMode::Read,
            false => AccessMode::Write,
        };
        let new = || WriterAccess {
            token: random_token(),
            mode,
        };
        self.writer.unwrap_or_else(new)
    }
}

impl Default for ClientConfig {
    fn default() -> Self {
        Self {
            connections: 4,
            request_timeout: Duration::from_secs(30),
            // A GiB at 2 MB/s.
            flush_timeout: Duration::from_secs(600),
            reconnect_for: Duration::from_secs(120),
            read_only: false,
            in_flight_max: 256,
            writer: None,
        }
    }
}

/// How a client is.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ClientHealth {
    /// The server that is used, or was last, as a URI; empty before the first one was reached.
    pub server: String,
    /// Whether requests are being answered, as far as is known.
    pub connected: bool,
    /// Connections in use.
    pub connections: usize,
    /// Size of the export, bytes. It may grow, it never shrinks.
    pub size: u64,
    /// Whether requests may have lengths of 64 bits.
    pub extended: bool,
    /// Whether the server reports holes and zeroes.
    pub extents: bool,
    /// How often the connections were lost, or given up to see a new size, and made again.
    pub reconnects: u64,
    /// Since when there has been trouble with the server; `None`: there is none.
    pub gone_for: Option<Duration>,
    /// Time in which there was trouble with the server since the first connection, that of [`Self::gone_for`] included.
    pub gone_in_all: Duration,
    /// How often another server of the disk took the place of the one that was used ([`Target::others`](super::Target::others)).
    pub server_changes: u64,
    /// Why connections were last lost or could not be made.
    pub last_error: Option<String>,
    /// Bytes of acknowledged writes that no flush has covered yet.
    pub unflushed: u64,
    /// Whether a flush failed, so that none will succeed any more.
    pub flush_failed: bool,
    /// Why no request at all will succeed any more, until the disk is opened again.
    pub failed: Option<String>,
}
