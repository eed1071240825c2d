//! [`Shape`]: what kind of world a seed makes.

use std::time::Duration;

use nbd_proto::{Framing, TransmissionFlags};

use super::fence::Fence;
use super::server::Offer;
use crate::client::{AccessMode, ClientConfig, ClientToken, WriterAccess};

/// How hard a world is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Severity {
    /// Connections break, servers are killed, lose power and come back; the client waits forever.
    /// No request may fail.
    Gentle,
    /// The same, and flushes and writes fail, and outages are longer than requests wait.
    Harsh,
    /// The same, and other disks appear.
    Swapped,
}

/// How a client can distinguish disks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Identity {
    /// The server says which disk it is, and cuts writers off that were taken over from.
    Named,
    /// A server of others; the disk has a filesystem, which has a UUID.
    Signature,
    /// A server of others, and nothing on the disk: the client ends where writes would have to be repeated.
    Blank,
}

/// What kind of world a seed makes.
#[derive(Debug, Clone)]
pub(super) struct Shape {
    pub(super) severity: Severity,
    pub(super) identity: Identity,
    pub(super) sectors: u64,
    pub(super) offer: Offer,
    pub(super) config: ClientConfig,
    pub(super) callers: usize,
    /// Requests of each caller.
    pub(super) requests: usize,
    /// Milliseconds between the requests of a caller, at most; between faults ten times as many.
    pub(super) think_max: u64,
    pub(super) faults: usize,
    /// Milliseconds of latency, at most.
    pub(super) latency_max: u64,
    /// Bytes that the client keeps to write them again, if not as many as the product.
    pub(super) journal_max: Option<u64>,
    /// Two hosts have servers of the disk.
    pub(super) has_two_hosts: bool,
}

impl Shape {
    pub(super) fn new(rng: &mut fastrand::Rng) -> Self {
        let severity = match rng.u8(0..8) {
            0..2 => Severity::Gentle,
            2..5 => Severity::Harsh,
            _ => Severity::Swapped,
        };
        let identity = match rng.u8(0..8) {
            0 if severity != Severity::Gentle => Identity::Blank,
            0..5 => Identity::Named,
            _ => Identity::Signature,
        };
        let request_timeout = Duration::from_secs(rng.u64(2..6));
        let forever = severity == Severity::Gentle || rng.u8(0..4) == 0;
        let reconnect_for = match forever {
            true => Duration::MAX,
            false => Duration::from_secs(rng.u64(3..30)),
        };
        let delay_max = [0, 20, 200, 7000][rng.usize(0..4)];
        Self {
            severity,
            identity,
            sectors: 32,
            offer: Offer {
                framing: [Framing::Simple, Framing::Structured, Framing::Extended][rng.usize(0..3)],
                flags: flags(rng),
                allocation: rng.bool(),
                names_disks: identity == Identity::Named,
                fence: None,
                delay_max,
            },
            config: ClientConfig {
                connections: rng.usize(1..4),
                request_timeout,
                flush_timeout: Duration::from_secs(rng.u64(10..60)),
                reconnect_for,
                read_only: false,
                in_flight_max: rng.usize(1..12),
                writer: Some(WriterAccess {
                    token: ClientToken::new([1; 16]),
                    mode: AccessMode::Write,
                }),
            },
            callers: rng.usize(1..5),
            requests: rng.usize(12..40),
            think_max: [5, 50, 500][rng.usize(0..3)],
            faults: rng.usize(2..9),
            latency_max: [0, 10, 400][rng.usize(0..3)],
            journal_max: (rng.u8(0..4) == 0).then_some(16 << 10),
            has_two_hosts: false,
        }
    }

    /// A world of two hosts with servers that take the disk over from each other.
    pub(super) fn of_two_standbys(rng: &mut fastrand::Rng, fence: Fence) -> Self {
        let shape = Self::of_two_hosts(rng);
        Self {
            identity: Identity::Named,
            offer: Offer {
                names_disks: true,
                fence: Some(fence),
                // An index has one log: a flush covers all connections.
                flags: shape.offer.flags | TransmissionFlags::CAN_MULTI_CONN,
                ..shape.offer
            },
            ..shape
        }
    }

    /// A world of two hosts that have servers of the disk. A client that has nothing to recognize it by would use neither.
    pub(super) fn of_two_hosts(rng: &mut fastrand::Rng) -> Self {
        let shape = Self::new(rng);
        let is_gentle = shape.severity == Severity::Gentle;
        let is_blank = shape.identity == Identity::Blank;
        let identity = match is_blank {
            true => Identity::Named,
            false => shape.identity,
        };
        Self {
            severity: match is_gentle {
                true => Severity::Gentle,
                false => Severity::Harsh,
            },
            identity,
            offer: Offer {
                names_disks: identity == Identity::Named,
                ..shape.offer
            },
            faults: shape.faults + 4,
            has_two_hosts: true,
            ..shape
        }
    }
}

fn flags(rng: &mut fastrand::Rng) -> TransmissionFlags {
    let mut flags = TransmissionFlags::HAS_FLAGS | TransmissionFlags::SEND_FLUSH;
    let mut sometimes = |flag, odds: u8| {
        if rng.u8(0..8) < odds {
            flags |= flag;
        }
    };
    sometimes(TransmissionFlags::SEND_FUA, 6);
    sometimes(TransmissionFlags::SEND_TRIM, 6);
    sometimes(TransmissionFlags::SEND_WRITE_ZEROES, 6);
    sometimes(TransmissionFlags::SEND_FAST_ZERO, 4);
    sometimes(TransmissionFlags::CAN_MULTI_CONN, 6);
    if !flags.contains(TransmissionFlags::SEND_WRITE_ZEROES) {
        flags -= TransmissionFlags::SEND_FAST_ZERO;
    }
    flags
}
