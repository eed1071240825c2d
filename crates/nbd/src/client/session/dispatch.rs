//! Which part goes over which connection, and when.

use std::time::Instant;

use block::Range;
use nbd_proto::CommandFlags;

use crate::client::session::connection::{Connection, Loss};
#[cfg(test)]
use crate::client::session::mutation::{self, Mutation};
use crate::client::session::replies::loss_error;
use crate::client::session::work::{Body, FlushMark, Owner, Part};
use crate::client::session::{Phase, Session};

/// Below this many bytes in flight a connection gets the next request, so that small requests
/// leave together; above, the least busy one.
const SPREAD_FROM: u64 = 128 << 10;

/// Writes in flight.
#[derive(Debug, Default)]
pub(super) struct Writing {
    bytes: u64,
    count: usize,
}

impl Writing {
    pub(super) fn add(&mut self, part: &Part) {
        if part.changes() {
            self.bytes += part.payload();
            self.count += 1;
        }
    }

    pub(super) fn remove(&mut self, part: &Part) {
        if part.changes() && part.owner != Owner::Replay {
            self.bytes -= part.payload();
            self.count -= 1;
        }
    }
}

impl Session {
    /// Hands parts to the connections while there is room.
    pub(super) fn dispatch(&mut self, now: Instant) {
        // Who is closed while the server is away has given its connections up, in any phase.
        if self.connections.is_empty() || matches!(self.phase, Phase::Lost | Phase::Dead(_)) {
            return;
        }
        let is_ready = self.verify(now) && self.replay(now);
        #[cfg(test)]
        let is_ready = is_ready || mutation::is_on(Mutation::NewBeforeReplay);
        if !is_ready {
            return;
        }
        if self.renewed.is_some() {
            self.renew(now);
            return;
        }
        if self.journal.wants_flush() && !self.own_flush && self.push_own_flush(now) {
            self.own_flush = true;
        }
        while let Some(connection) = self.roomiest() {
            let Some(mut part) = self.next_part() else {
                return;
            };
            if let (Owner::Job { key, nth }, Body::Extents(_)) = (part.owner, &part.body)
                && !self.connections[connection].tells_extents()
            {
                let brought = self.succeeded(part);
                self.jobs.part_done(key, nth, Ok(brought));
                continue;
            }
            self.writing.add(&part);
            self.known.sent(&part);
            self.flush_order.sent(&mut part);
            self.push(connection, part, now);
        }
    }

    /// Has a connection take a part up.
    pub(super) fn push(&mut self, connection: usize, part: Part, now: Instant) {
        let all: u64 = self.connections.iter().map(Connection::outstanding).sum();
        let connection = &mut self.connections[connection];
        connection.push(part, all - connection.outstanding(), now);
    }

    fn next_part(&mut self) -> Option<Part> {
        let mark = self.flush_mark();
        if let Some(mut part) = self.resend.pop_front() {
            if let Body::Flush { mark: old } = &mut part.body {
                *old = mark;
            }
            return Some(part);
        }
        let held = self.journal.is_full(self.writing.bytes, self.writing.count);
        if self.jobs.next_changes()? && held {
            return None;
        }
        self.jobs.next_part(&self.part_limits, mark)
    }

    /// What a flush that is sent now covers.
    fn flush_mark(&self) -> FlushMark {
        FlushMark {
            journal: self.journal.mark(),
            content: self.known.mark(),
        }
    }

    pub(super) fn push_own_flush(&mut self, now: Instant) -> bool {
        let Some(connection) = self.roomiest() else {
            return false;
        };
        let mark = self.flush_mark();
        let body = Body::Flush { mark };
        let mut part = Part::new(
            Owner::OwnFlush,
            Range::new(0, 0),
            CommandFlags::empty(),
            body,
        );
        self.flush_order.sent(&mut part);
        self.push(connection, part, now);
        true
    }

    /// The connection for the next part.
    fn roomiest(&self) -> Option<usize> {
        let with_room = |(_, connection): &(usize, &Connection)| connection.has_room();
        let mut candidates = self.connections.iter().enumerate().filter(with_room);
        let quiet = candidates
            .clone()
            .find(|(_, connection)| connection.outstanding() < SPREAD_FROM);
        let busy = || candidates.by_ref().min_by_key(|(_, c)| c.outstanding());
        quiet.or_else(busy).map(|(index, _)| index)
    }

    /// Sends what the sockets take.
    pub(super) fn send(&mut self, now: Instant) {
        let target = &self.target;
        let failed = self.connections.iter_mut().find_map(|connection| {
            let error = connection.send(now).err()?;
            Some(loss_error(target.clone(), Loss::Io(error)))
        });
        if let Some(error) = failed {
            self.lose(error, now);
        }
    }
}
