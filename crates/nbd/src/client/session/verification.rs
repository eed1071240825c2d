//! Whether new connections have the disk, before anything is done with it.
//!
//! The server's name of the disk comes with the handshake. The regions where content says what it is are
//! read here, as the first requests of each connection, so that every limit of time holds for them too; over one
//! connection alone where the server names the disk, because then all of them were compared by name.
//!
//! # Invariants
//!
//! * No request of a caller, nothing of the journal and nothing to be sent again is sent before it is known that the disk is the
//!   same; where that cannot be known, only if it would change nothing.
//! * Another disk is final: every request fails until the disk is opened again. One that could not be the disk in any case
//!   (it is smaller, or lacks an ability) is waited out instead while nothing has to be written again.

use std::collections::VecDeque;
use std::time::Instant;

use block::Range;
use bytes::Bytes;
use nbd_proto::{CommandFlags, DiskIdentity, WireError};

use crate::client::fingerprint::RegionImage;
use crate::client::session::fill::ReadBuffer;
use crate::client::session::known_disk::DiskComparison;
#[cfg(test)]
use crate::client::session::mutation::{self, Mutation};
use crate::client::session::pool::ConnectionPool;
use crate::client::session::work::{Body, Owner, Part};
use crate::client::session::{Phase, Session};
use crate::client::{Changed, ClientError};

/// New connections whose disk is being verified.
#[derive(Debug)]
pub(super) struct Verification {
    /// What the server says of the disk.
    server: DiskIdentity,
    /// Size of the export, bytes.
    size: u64,
    /// Reads that are not sent yet: connection, number of the range, range.
    waiting: VecDeque<(usize, usize, Range)>,
    in_flight: usize,
    /// What was read, by connection: in order, `None` where it cannot be read.
    read: Vec<Vec<(Range, Option<Bytes>)>>,
    failure: Option<String>,
}

impl Verification {
    /// Of so many connections, on each of which `ranges` are read.
    pub(super) fn new(
        server: DiskIdentity,
        size: u64,
        connections: usize,
        ranges: &[Range],
    ) -> Self {
        let numbered = || ranges.iter().copied().enumerate();
        let of = |connection| numbered().map(move |(nth, range)| (connection, nth, range));
        let unread = ranges.iter().map(|range| (*range, None)).collect();
        Self {
            server,
            size,
            waiting: (0..connections).flat_map(of).collect(),
            in_flight: 0,
            read: vec![unread; connections],
            failure: None,
        }
    }

    /// Whether a read is in flight.
    pub(super) const fn is_waiting(&self) -> bool {
        self.in_flight > 0
    }

    /// The next read, if its connection has room for it.
    fn next_read(&mut self, pool: &ConnectionPool) -> Option<(usize, Part)> {
        let (connection, nth, range) = self.waiting.front().copied()?;
        if !pool.has_room(connection) {
            return None;
        }
        self.waiting.pop_front();
        self.in_flight += 1;
        let owner = Owner::Verification { connection, nth };
        let body = Body::Read(ReadBuffer::new(range));
        Some((
            connection,
            Part::new(owner, range, CommandFlags::empty(), body),
        ))
    }

    /// A read was answered.
    pub(super) fn arrived(&mut self, part: Part, error: Option<WireError>) {
        self.in_flight -= 1;
        let Owner::Verification { connection, nth } = part.owner else {
            return;
        };
        match (error, part.body) {
            (None, Body::Read(buffer)) => self.read[connection][nth].1 = Some(buffer.finish()),
            (error, _) => {
                let why = error.map(|error| error.to_string());
                self.failure = part.server_text.or(why);
            }
        }
    }

    /// What was read over a connection.
    fn image(&self, connection: usize) -> RegionImage {
        let mut image = RegionImage::default();
        for (range, bytes) in &self.read[connection] {
            if let Some(bytes) = bytes {
                image.push(range.offset, bytes.iter().copied());
            }
        }
        image
    }
}

impl Session {
    /// Begins to look at the disk of the connections that were just made.
    pub(super) fn begin_verification(&mut self, server: DiskIdentity, size: u64) {
        let connections = match self.known.is_named() {
            true => self.pool.len().min(1),
            false => self.pool.len(),
        };
        let ranges = self.ranges_to_read();
        let begun = Verification::new(server, size, connections, &ranges);
        self.phase = Phase::Verifying(Box::new(begun));
    }

    /// Where content says what it is, cut to what the server takes at once.
    fn ranges_to_read(&self) -> Vec<Range> {
        let step = self.pool.part_limits().payload;
        let cut = |region: Range| {
            let starts = (region.offset..region.end()).step_by(Range::new(0, step).len_usize());
            starts.map(move |at| Range::new(at, step.min(region.end() - at)))
        };
        self.known.regions().into_iter().flat_map(cut).collect()
    }

    /// Looks at the disk. True when it is the right one.
    pub(super) fn verify(&mut self, now: Instant) -> bool {
        let Phase::Verifying(verification) = &mut self.phase else {
            return true;
        };
        let is_over = verification.waiting.is_empty() && verification.in_flight == 0;
        if is_over {
            return self.conclude_verification(now);
        }
        while let Phase::Verifying(verification) = &mut self.phase
            && let Some((connection, part)) = verification.next_read(&self.pool)
        {
            self.pool.push(connection, part, now);
        }
        false
    }

    fn conclude_verification(&mut self, now: Instant) -> bool {
        let Phase::Verifying(verification) = std::mem::replace(&mut self.phase, Phase::Lost) else {
            return false;
        };
        if !self.known.is_learned() {
            self.known.learn(verification.image(0));
            self.keep_first_disk(&verification);
        } else if let Some(error) = self.refuse_disk(&verification) {
            match error {
                ClientError::Changed { .. } if self.servers.has_several() => {
                    drop(self.pool.abandon());
                    self.refuse_server(error, now);
                }
                ClientError::Changed { .. } => self.die(error, now),
                error => self.lose(error, now),
            }
            return false;
        }
        self.known.is_found(verification.server);
        self.grow(verification.size);
        self.renewal_over(Ok(()));
        self.begin_replay();
        true
    }

    /// Why the connections cannot be used.
    fn refuse_disk(&self, verification: &Verification) -> Option<ClientError> {
        #[cfg(test)]
        if mutation::is_on(Mutation::AnyDisk) {
            return None;
        }
        let target = self.target.clone();
        if let Some(why) = verification.failure.clone() {
            return Some(ClientError::Unverified { target, why });
        }
        let mut is_known = self.known.compare_name(&verification.server) == DiskComparison::Same;
        for connection in 0..verification.read.len() {
            match self.known.compare_content(&verification.image(connection)) {
                DiskComparison::Same => is_known = true,
                DiskComparison::Unknown => {}
                DiskComparison::Another(changed) => {
                    return Some(ClientError::Changed { target, changed });
                }
            }
        }
        let writes = self.writes_to_repeat();
        if is_known || writes == 0 {
            return None;
        }
        let changed = Changed::Unrecognizable { writes };
        Some(ClientError::Changed { target, changed })
    }

    /// The first time, there is nothing to compare with: what the first connection has is the disk.
    fn keep_first_disk(&mut self, verification: &Verification) {
        let is_other = |connection: &usize| {
            let verdict = self.known.compare_content(&verification.image(*connection));
            matches!(verdict, DiskComparison::Another(_))
        };
        let others: Vec<usize> = (1..verification.read.len()).filter(is_other).collect();
        for connection in others.into_iter().rev() {
            tracing::warn!(target = %self.target, "goes on with fewer connections: one has another disk");
            self.pool.remove(connection);
        }
    }
}
