//! Replies of the server: to callers, to the journal, to the session itself.

use std::sync::Arc;
use std::time::Instant;

use block::{Errno, IoError, Operation};
use nbd_proto::WireError;

use crate::client::session::connection::{Finished, Loss};
use crate::client::session::failures::spoils_flushes;
use crate::client::session::jobs::PartResponse;
#[cfg(test)]
use crate::client::session::mutation::{self, Mutation};
use crate::client::session::work::{Body, FlushMark, Owner, Part};
use crate::client::session::{Phase, Session};
use crate::client::{ClientError, Target};
use crate::errno::from_wire;

impl Session {
    /// Takes what the server sent.
    pub(super) fn receive(&mut self, now: Instant) {
        let mut finished = std::mem::take(&mut self.finished);
        let loss = self.pool.receive(now, &mut finished);
        let mut shutdown = false;
        for Finished { part, error } in finished.drain(..) {
            if error == Some(WireError::Shutdown) {
                shutdown = true;
                let target = self.target.clone();
                self.keep(part, &ClientError::ServerShutdown { target }, now);
            } else {
                self.part_over(part, error, now);
                self.report_flushes();
            }
        }
        self.finished = finished;
        if let Some(loss) = loss {
            self.lose(loss_error(self.target.clone(), loss), now);
        } else if shutdown {
            let target = self.target.clone();
            self.lose(ClientError::ServerShutdown { target }, now);
        }
    }

    /// A part was answered.
    fn part_over(&mut self, part: Part, error: Option<WireError>, now: Instant) {
        self.unflushed.answered(&part);
        if error.is_none() && matches!(part.owner, Owner::Job { .. } | Owner::OwnFlush) {
            self.reconnect.end_outage(now);
        }
        if let Owner::Job { .. } = part.owner {
            self.known.answered(&part, error.is_none());
        }
        match (part.owner, error) {
            (Owner::Job { .. } | Owner::OwnFlush, None)
                if matches!(part.body, Body::Flush { .. }) =>
            {
                self.unflushed.flush_succeeded(part);
            }
            (Owner::Job { key, nth }, None) => {
                let brought = self.succeeded(part);
                self.jobs.part_done(key, nth, Ok(brought));
            }
            // The server does not report extents after all.
            (Owner::Job { key, nth }, Some(WireError::Invalid | WireError::NotSupported))
                if matches!(part.body, Body::Extents(_)) =>
            {
                let brought = self.succeeded(part.again());
                self.jobs.part_done(key, nth, Ok(brought));
            }
            (Owner::Job { key, nth }, Some(error)) => {
                if spoils_flushes(&part, error) {
                    self.flush_failed();
                }
                let failure = self.answered(&part, error);
                self.jobs.part_done(key, nth, Err(failure));
            }
            (Owner::Replay, error) => self.replayed(&part, error),
            (Owner::Verification { .. }, error) => {
                if let Phase::Verifying(verification) = &mut self.phase {
                    verification.arrived(part, error);
                }
            }
            (Owner::OwnFlush, _) => self.flush_failed(),
        }
    }

    /// Reports every flush that waits for no other one any more.
    fn report_flushes(&mut self) {
        while let Some(part) = self.unflushed.next_to_report() {
            let owner = part.owner;
            let result = match self.unflushed.has_failed() {
                false => Ok(self.succeeded(part)),
                // It covers what another one lost.
                true => {
                    let target = self.target.clone();
                    let failure = Self::refused(&part, Errno::Io);
                    Err(failure.because(ClientError::FlushFailed { target }))
                }
            };
            if let Owner::Job { key, nth } = owner {
                self.jobs.part_done(key, nth, result);
            }
        }
    }

    /// What a part brought that succeeded.
    pub(super) fn succeeded(&mut self, part: Part) -> PartResponse {
        match part.body {
            Body::Read(buffer) => return PartResponse::Bytes(buffer.finish()),
            Body::Extents(allocation) => return PartResponse::Extents(allocation.finish()),
            #[cfg(test)]
            Body::Flush { mark } if mutation::is_on(Mutation::FlushCoversLaterWrites) => {
                let journal = self.unflushed.journal().mark();
                self.flushed(FlushMark { journal, ..mark });
            }
            Body::Flush { mark } => self.flushed(mark),
            body => self.unflushed.acknowledged(part.range, part.flags, body),
        }
        PartResponse::Nothing
    }

    /// A flush succeeded.
    fn flushed(&mut self, mark: FlushMark) {
        self.unflushed.journal_mut().flushed(mark.journal);
        self.known.flushed(mark.content);
    }

    /// What the server answered to a part, for its caller.
    fn answered(&self, part: &Part, error: WireError) -> IoError {
        let failure = Self::refused(part, from_wire(error));
        match &part.server_text {
            Some(text) => failure.because(format!("{}: {text}", self.target)),
            None => failure.because(format!("{}: {error}", self.target)),
        }
    }

    /// The failure of a part, without a cause.
    pub(super) fn refused(part: &Part, errno: Errno) -> IoError {
        let operation = match part.body {
            Body::Read(_) => Operation::Read,
            Body::Write(_) => Operation::Write,
            Body::WriteZeroes => Operation::WriteZeroes,
            Body::Trim => Operation::Trim,
            Body::Extents(_) => Operation::Extents,
            Body::Flush { .. } => Operation::Flush,
        };
        let range = (operation != Operation::Flush).then_some(part.range);
        IoError::new(errno, operation, range)
    }
}

/// Why a connection is lost, for the user.
pub(super) fn loss_error(target: Target, loss: Loss) -> ClientError {
    match loss {
        Loss::Io(source) => ClientError::Lost {
            target,
            source: Arc::new(source),
        },
        Loss::Closed => ClientError::Closed { target },
        Loss::Broken(broken) => ClientError::Broken { target, broken },
    }
}
