//! Which part goes over which connection, and when.

use std::time::Instant;

use block::Range;
use nbd_proto::CommandFlags;

use crate::client::session::connection::Loss;
#[cfg(test)]
use crate::client::session::mutation::{self, Mutation};
use crate::client::session::replies::loss_error;
use crate::client::session::work::{Body, FlushMark, Owner, Part};
use crate::client::session::{Phase, Session};

impl Session {
    /// Hands parts to the connections while there is room.
    pub(super) fn dispatch(&mut self, now: Instant) {
        // A client that is closed while the server is unreachable has no connections, in any phase.
        if self.pool.is_empty() || matches!(self.phase, Phase::Lost | Phase::Dead(_)) {
            return;
        }
        let is_ready = self.verify(now) && self.replay(now);
        #[cfg(test)]
        let is_ready = is_ready || mutation::is_on(Mutation::NewBeforeReplay);
        if !is_ready {
            return;
        }
        if self.renewal.is_some() {
            self.renew(now);
        }
        // It waits for what is in flight, or for the new connections.
        if self.renewal.is_some() {
            return;
        }
        if self.unflushed.wants_own_flush() {
            self.push_own_flush(now);
        }
        while let Some(connection) = self.pool.roomiest() {
            let Some(mut part) = self.next_part() else {
                return;
            };
            if let (Owner::Job { key, nth }, Body::Extents(_)) = (part.owner, &part.body)
                && !self.pool.reports_extents(connection)
            {
                let brought = self.succeeded(part);
                self.jobs.part_done(key, nth, Ok(brought));
                continue;
            }
            if part.changes() {
                self.servers.changed();
            }
            self.known.sent(&part);
            self.unflushed.sent(&mut part);
            self.pool.push(connection, part, now);
        }
    }

    fn next_part(&mut self) -> Option<Part> {
        let mark = self.flush_mark();
        if let Some(mut part) = self.resend.pop_front() {
            if let Body::Flush { mark: old } = &mut part.body {
                *old = mark;
            }
            return Some(part);
        }
        if self.jobs.next_changes()? && !self.unflushed.has_room() {
            return None;
        }
        self.jobs.next_part(self.pool.part_limits(), mark)
    }

    /// What a flush that is sent now covers.
    fn flush_mark(&self) -> FlushMark {
        FlushMark {
            journal: self.unflushed.journal().mark(),
            content: self.known.mark(),
        }
    }

    /// Sends a flush of the client's own, if there is room for it.
    pub(super) fn push_own_flush(&mut self, now: Instant) {
        let Some(connection) = self.pool.roomiest() else {
            return;
        };
        let mark = self.flush_mark();
        let body = Body::Flush { mark };
        let mut part = Part::new(
            Owner::OwnFlush,
            Range::new(0, 0),
            CommandFlags::empty(),
            body,
        );
        self.unflushed.sent(&mut part);
        self.pool.push(connection, part, now);
    }

    /// Sends what the sockets take.
    pub(super) fn send(&mut self, now: Instant) {
        if let Err(error) = self.pool.send(now) {
            self.lose(loss_error(self.target.clone(), Loss::Io(error)), now);
        }
    }
}
