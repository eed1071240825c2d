//! [`Limits`]: every bound of the server in one place.

use std::time::Duration;

/// What the server allows. The defaults suit one machine that serves a few hundred.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Connections at once; more are closed at once.
    pub connections_max: usize,
    /// Connections at once from one IPv4 address or one IPv6 /64; more are closed at once.
    pub connections_per_address_max: usize,
    /// Time for the whole handshake.
    pub handshake_timeout: Duration,
    /// A client that is at turn all this time, to send the rest of a request or to take replies, and
    /// moves less than 64 KiB in it is shown the door.
    pub stall_timeout: Duration,
    /// Longest payload of a request or reply, bytes.
    pub payload_max: u32,
    /// Memory of one connection's requests and replies in flight, bytes. A request is begun while
    /// there is less, so the last one may exceed it.
    pub in_flight_bytes_max: usize,
    /// Requests of one connection that may wait for the disk at once.
    pub in_flight_requests_max: usize,
    /// Memory of all connections' requests and replies in flight, bytes. At least twice
    /// `payload_max`. By default 1 GiB, or a quarter of the machine's memory if that is less.
    pub in_flight_bytes_total_max: usize,
    /// A client that sends lone requests within this time of each other is met awake; zero: never.
    pub busy_wait_max: Duration,
    /// At a stop, requests in flight may take this long, and then each flush.
    pub stop_timeout: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections_max: 16_384,
            connections_per_address_max: 8192,
            handshake_timeout: Duration::from_secs(10),
            stall_timeout: Duration::from_secs(60),
            payload_max: nbd_proto::limits::PAYLOAD_MAX,
            in_flight_bytes_max: 64 << 20,
            in_flight_requests_max: 1024,
            in_flight_bytes_total_max: super::budget::default_max(),
            busy_wait_max: Duration::from_micros(100),
            stop_timeout: Duration::from_secs(20),
        }
    }
}
