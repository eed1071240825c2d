//! [`ConnectionPool`]: the connections of a session. They are made together and given up together. Never waits.

use std::io;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use crate::client::session::connection::{Connection, Finished, Loss, LostConnection};
use crate::client::session::work::{Part, PartLimits};

/// Below this many bytes in flight a connection gets the next request, so that small requests
/// leave together; above, the least busy one.
const SPREAD_FROM: u64 = 128 << 10;

/// Connections to one export.
#[derive(Debug)]
pub(crate) struct ConnectionPool {
    connections: Vec<Connection>,
    /// Of the disk, as its server reported it on all of them.
    incarnation: Option<u64>,
    /// What fits every one of them.
    part_limits: PartLimits,
    made_at: Instant,
}

impl ConnectionPool {
    /// Connections that were just made, to a server that reported `incarnation` on all of them.
    pub(crate) const fn new(
        connections: Vec<Connection>,
        incarnation: Option<u64>,
        part_limits: PartLimits,
        now: Instant,
    ) -> Self {
        Self {
            connections,
            incarnation,
            part_limits,
            made_at: now,
        }
    }

    pub(crate) const fn len(&self) -> usize {
        self.connections.len()
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.connections.is_empty()
    }

    /// The incarnation of the disk that their server reported; `None`: it has none, or they led to several.
    pub(crate) const fn incarnation(&self) -> Option<u64> {
        self.incarnation
    }

    pub(crate) const fn part_limits(&self) -> &PartLimits {
        &self.part_limits
    }

    /// How long ago they were made.
    pub(crate) fn age(&self, now: Instant) -> Duration {
        now.duration_since(self.made_at)
    }

    /// Whether all of them have lengths of 64 bits.
    pub(crate) fn are_extended(&self) -> bool {
        self.connections.iter().all(Connection::is_extended)
    }

    /// Whether the server reports extents on all of them.
    pub(crate) fn report_extents(&self) -> bool {
        self.connections.iter().all(Connection::reports_extents)
    }

    /// Whether the server reports extents on this one.
    pub(crate) fn reports_extents(&self, connection: usize) -> bool {
        self.connections[connection].reports_extents()
    }

    pub(crate) fn has_room(&self, connection: usize) -> bool {
        self.connections[connection].has_room()
    }

    /// The connection for the next part.
    pub(crate) fn roomiest(&self) -> Option<usize> {
        let with_room = |(_, connection): &(usize, &Connection)| connection.has_room();
        let mut candidates = self.connections.iter().enumerate().filter(with_room);
        let quiet = candidates
            .clone()
            .find(|(_, connection)| connection.outstanding() < SPREAD_FROM);
        let busy = || candidates.by_ref().min_by_key(|(_, c)| c.outstanding());
        quiet.or_else(busy).map(|(index, _)| index)
    }

    /// Has a connection take a part up.
    ///
    /// # Panics
    /// If it has no room.
    pub(crate) fn push(&mut self, connection: usize, part: Part, now: Instant) {
        let all: u64 = self.connections.iter().map(Connection::outstanding).sum();
        let connection = &mut self.connections[connection];
        connection.push(part, all - connection.outstanding(), now);
    }

    /// Ready when [`Self::receive`] or [`Self::send`] may get on. Every connection registers its waker.
    pub(crate) fn poll_ready(&self, cx: &mut Context<'_>) -> Poll<()> {
        let mut is_ready = false;
        for connection in &self.connections {
            is_ready |= connection.poll_ready(cx).is_ready();
        }
        match is_ready {
            true => Poll::Ready(()),
            false => Poll::Pending,
        }
    }

    /// Sends what the sockets take.
    pub(crate) fn send(&mut self, now: Instant) -> io::Result<()> {
        self.connections
            .iter_mut()
            .try_for_each(|connection| connection.send(now))
    }

    /// Receives on every connection, and returns why one is lost.
    pub(crate) fn receive(&mut self, now: Instant, finished: &mut Vec<Finished>) -> Option<Loss> {
        let mut loss = None;
        for connection in &mut self.connections {
            if let Err(why) = connection.receive(now, finished) {
                loss = Some(why);
            }
        }
        loss
    }

    /// Whether a request is in flight.
    pub(crate) fn has_in_flight(&self) -> bool {
        self.connections.iter().any(|one| one.in_flight() > 0)
    }

    /// When bytes last moved on any of them.
    pub(crate) fn last_progress(&self) -> Option<Instant> {
        self.connections.iter().map(Connection::last_progress).max()
    }

    /// Whether a request is in flight that may take long.
    pub(crate) fn waits_long(&self) -> bool {
        self.connections.iter().any(Connection::waits_long)
    }

    /// For `time` the limits of all requests in flight were suspended.
    pub(crate) fn extend(&mut self, time: Duration) {
        for connection in &mut self.connections {
            connection.extend(time);
        }
    }

    /// How long the server's machine has acknowledged nothing.
    pub(crate) fn unheard_for(&mut self, now: Instant) -> Option<Duration> {
        let unheard = self.connections.iter_mut().map(|one| one.unheard_for(now));
        unheard.max()
    }

    /// Whether a request has waited for its reply for too long.
    pub(crate) fn is_overdue(&self, now: Instant) -> bool {
        self.connections.iter().any(|one| one.overdue(now))
    }

    /// Gives one connection up, on which nothing is in flight.
    pub(crate) fn remove(&mut self, connection: usize) {
        drop(self.connections.remove(connection).abandon());
    }

    /// Gives all of them up, and returns what was in flight.
    pub(crate) fn abandon(&mut self) -> Vec<Part> {
        let lost = self.connections.drain(..);
        lost.flat_map(Connection::abandon).collect()
    }

    /// The same, with the sockets.
    pub(crate) fn take_apart(&mut self) -> Vec<LostConnection> {
        let lost = self.connections.drain(..);
        lost.map(Connection::take_apart).collect()
    }

    /// Takes all of them out, to be closed in good order.
    pub(crate) fn take(&mut self) -> Vec<Connection> {
        std::mem::take(&mut self.connections)
    }
}
