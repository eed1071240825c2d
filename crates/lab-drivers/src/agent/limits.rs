//! What one agent takes at most.

use std::time::Duration;

/// Connections at once; more wait to be accepted.
pub(super) const CONNECTIONS_MAX: u32 = 32;
/// Streams of samples at once.
pub(super) const STREAMS_MAX: usize = 4;
/// Lines that wait for a client that does not read.
pub(super) const LINES_MAX: usize = 8;
/// A TLS handshake, and the head of a request, must be there within this time.
pub(super) const HEAD_TIMEOUT: Duration = Duration::from_secs(5);
/// Fields of a head.
pub(super) const FIELDS_MAX: usize = 32;
/// A client that acknowledges nothing for so long is gone, in milliseconds.
pub(super) const SILENT_MAX_MS: u32 = 20_000;
/// Pause before a wrong token is answered.
pub(super) const WRONG_TOKEN_PAUSE: Duration = Duration::from_millis(300);
/// Pause after an accept that failed.
pub(super) const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// How long connections may take to end once the agent stops.
pub(super) const STOP_TIMEOUT: Duration = Duration::from_secs(3);
/// How long a client waits for what runs for another one and may be ending.
pub(super) const END_LIMIT: Duration = Duration::from_secs(4);
