//! Around a lost connection: giving up what is left, coming back, to the same server or another one of the disk, writing again what may
//! be lost.

use std::sync::Arc;
use std::time::Instant;

use block::Errno;
use nbd_proto::WireError;

use crate::client::dial::Dialed;
use crate::client::session::connect::part_limits;
use crate::client::session::connection::Connection;
use crate::client::session::known_disk::DiskComparison;
#[cfg(test)]
use crate::client::session::mutation::{self, Mutation};
use crate::client::session::pool::ConnectionPool;
use crate::client::session::work::{Body, Owner, Part, PartLimits};
use crate::client::session::{Phase, Session, answer_opening, identity};
use crate::client::{Changed, ClientError};

/// Entries of the journal written again at once.
const REPLAY_MAX: usize = 128;

impl Session {
    /// Gives every connection up, because of `error` on one of them, and starts to come back.
    pub(super) fn lose(&mut self, error: ClientError, now: Instant) {
        if self.pool.is_empty() {
            return;
        }
        if let Some(opening) = self.opening.take() {
            // Another disk may be there next, and nothing was learned to compare it with.
            let last = Box::new(error);
            let error = ClientError::FirstVerification { last };
            self.drop_parts();
            self.phase = Phase::Dead(Arc::new(error.clone()));
            answer_opening(opening, Err(error));
            return;
        }
        tracing::warn!(in_flight = self.jobs.len(), "{error}; connecting again");
        self.shared.change_epoch();
        for part in self.abandon_connections(now) {
            self.keep(part, &error, now);
        }
        for part in self.unflushed.abandon_flushes() {
            self.keep(part, &error, now);
        }
        self.phase = Phase::Lost;
        self.note_error(error.clone(), now);
        if self.closing.is_some() {
            self.fail_all(Errno::ShuttingDown, |target| ClientError::ShutDown {
                target,
            });
            return;
        }
        if !self.die_if_writes_are_lost(&error, now) {
            self.redial(now);
            self.fail_if_gone(now);
        }
    }

    /// Gives the connections up and returns what was in flight. Those to a server that may still write are kept until it has ended.
    pub(super) fn abandon_connections(&mut self, now: Instant) -> Vec<Part> {
        let (mut parts, mut streams, mut is_unknown) = (Vec::new(), Vec::new(), false);
        let incarnation = self.pool.incarnation();
        for lost in self.pool.take_apart() {
            parts.extend(lost.parts);
            streams.push(lost.stream);
            is_unknown |= lost.has_failed_here;
        }
        let in_flight = parts.iter().filter(|part| part.changes()).count();
        let unflushed = self.unflushed.journal().unflushed();
        if !self.servers.has_doubt() {
            self.abandoned.forget();
        }
        self.servers.lost(in_flight, unflushed, now);
        self.abandoned.replace(streams, incarnation, is_unknown);
        if !self.servers.is_in_doubt(false, now) {
            self.abandoned.reset();
        }
        parts
    }

    /// Keeps a part without an answer, to be sent again, unless that was done for long enough.
    pub(super) fn keep(&mut self, mut part: Part, error: &ClientError, now: Instant) {
        self.unflushed.lost(&part);
        match part.owner {
            Owner::Job { key, nth } => {
                let first = *part.lost_since.get_or_insert(now);
                let after = now.duration_since(first);
                // Where nothing else was answered either, the server is as good as gone.
                let outage = self.reconnect.outage();
                let gone = outage.is_some_and(|outage| outage.since <= first);
                if after < self.config.reconnect_for || gone {
                    self.resend.push_back(part.again());
                    return;
                }
                let last = Box::new(error.clone());
                let why = ClientError::Repeated { after, last };
                let failure = Self::refused(&part, Errno::Io).because(why);
                if part.changes() || matches!(part.body, Body::Flush { .. }) {
                    // Where the journal was not empty, the caller ends the disk.
                    self.flush_failed();
                }
                // What the sockets have not sent of it is never sent.
                self.abandoned.reset();
                self.jobs.part_done(key, nth, Err(failure));
            }
            // The journal still has it.
            Owner::OwnFlush | Owner::Replay | Owner::Verification { .. } => {}
        }
    }

    /// Records why connections were lost or cannot be made.
    pub(super) fn note_error(&mut self, error: ClientError, now: Instant) {
        self.shared
            .publish(|state| state.health.last_error = Some(error.to_string()));
        self.reconnect.note(error, now);
    }

    /// Starts to connect again, to the servers that may be used now.
    pub(super) fn redial(&mut self, now: Instant) {
        let servers = self.servers.candidates(self.abandoned.have_ended(), now);
        let config = self.config.clone();
        self.reconnect.start(servers, config, self.pool.age(now));
    }

    /// Starts to connect to all servers once the one that was lost is known to have ended, although an attempt to reach it is under
    /// way.
    pub(super) fn end_doubt(&mut self, now: Instant) {
        let waits = matches!(self.phase, Phase::Lost) && self.closing.is_none();
        if waits
            && self.servers.has_doubt()
            && !self.servers.is_in_doubt(self.abandoned.have_ended(), now)
        {
            self.redial(now);
        }
    }

    /// An attempt to come back is over.
    pub(super) fn dialed(&mut self, result: Result<Vec<Dialed>, ClientError>, now: Instant) {
        if self.closing.is_some() {
            return;
        }
        #[cfg(test)]
        let result = result.map_err(|error| match error {
            ClientError::Fenced { target, .. }
                if mutation::is_on(Mutation::FencedIsUnreachable) =>
            {
                ClientError::Closed { target }
            }
            error => error,
        });
        let dialed = match result {
            Ok(dialed) => dialed,
            Err(error @ ClientError::Fenced { .. }) => {
                self.die(error, now);
                return;
            }
            Err(error) => {
                tracing::debug!("{error}");
                self.servers.attempt_failed(&error);
                let is_in_doubt = self.servers.is_in_doubt(self.abandoned.have_ended(), now);
                let error = match is_in_doubt && self.servers.has_several() {
                    true => ClientError::InDoubt {
                        last: Box::new(error),
                    },
                    false => error,
                };
                self.attempt_failed(error, now);
                return;
            }
        };
        self.servers.connected(dialed[0].server());
        self.target = dialed[0].server().clone();
        let server = dialed[0].disk().clone();
        if self.servers.lacks_fence(server.is_fenced) {
            let target = self.target.clone();
            self.refuse_server(ClientError::NoFence { target }, now);
            return;
        }
        let limits = part_limits(&self.export, &dialed);
        let changed = self.changed(&dialed).or_else(|| self.too_small(&limits));
        if let DiskComparison::Another(another) = self.known.compare_name(&server) {
            match changed {
                // What a server has while its disk is not ready is not the disk: it may be a file below its mount point.
                Some(changed) if self.writes_to_repeat() == 0 => self.wait_for_export(changed, now),
                _ if self.servers.has_several() => self.wait_for_export(another, now),
                _ => {
                    let (target, changed) = (self.target.clone(), another);
                    self.die(ClientError::Changed { target, changed }, now);
                }
            }
            return;
        }
        if let Some(changed) = changed {
            self.wait_for_export(changed, now);
            return;
        }
        self.reconnect.attempt_succeeded();
        let smallest = dialed.iter().map(|dialed| dialed.export().size).min();
        self.take_connections(dialed, now);
        self.begin_verification(server, smallest.unwrap_or(0));
    }

    /// Goes on with connections that have the disk: writes the journal again first.
    pub(super) fn begin_replay(&mut self) {
        // Before anything is sent again. Not earlier: where the server has not the disk, the end of these is still what ends a doubt.
        self.abandoned.reset();
        let journal = self.unflushed.journal_mut();
        journal.supersede();
        let (next, end) = (journal.first(), journal.mark());
        let has_moved = self.servers.accept(self.known.is_fenced());
        if has_moved {
            tracing::warn!("{} has the disk from now on", self.target);
        }
        if self.reconnect.count() > 0 {
            tracing::info!(
                target = %self.target,
                connections = self.pool.len(),
                replay = end - next,
                "connected again"
            );
        }
        self.phase = Phase::Replaying {
            next,
            end,
            out: 0,
            failure: None,
        };
    }

    /// There are no connections that could be used. Tries again.
    fn attempt_failed(&mut self, error: ClientError, now: Instant) {
        self.note_error(error, now);
        self.reconnect.attempt_failed();
        self.redial(now);
    }

    /// The server has the export, but not as callers were promised it: perhaps it was started before its disk was
    /// ready. It counts as unreachable, and nothing is sent to it.
    fn wait_for_export(&mut self, changed: Changed, now: Instant) {
        let target = self.target.clone();
        self.refuse_server(ClientError::Changed { target, changed }, now);
    }

    /// The server that was reached has not the disk as callers know it. Another one is tried next, or it again.
    pub(super) fn refuse_server(&mut self, error: ClientError, now: Instant) {
        if self.servers.refuse(&error.to_string()) {
            tracing::warn!("{error}; waits until it is as it was");
        }
        self.attempt_failed(error, now);
    }

    /// Writes that must be sent again to the disk when it is back.
    pub(super) fn writes_to_repeat(&self) -> usize {
        let changes = self.resend.iter().filter(|part| part.changes()).count();
        self.unflushed.journal().len() + changes
    }

    fn changed(&self, dialed: &[Dialed]) -> Option<Changed> {
        dialed.iter().find_map(|dialed| {
            identity::changed(&self.export, dialed.export(), self.config.read_only)
        })
    }

    /// What must be sent again was cut for larger requests.
    fn too_small(&self, limits: &PartLimits) -> Option<Changed> {
        let (mut payload, mut reach) = self.unflushed.journal().longest();
        for part in &self.resend {
            match part.payload() {
                0 => reach = reach.max(part.range.len),
                _ => payload = payload.max(part.range.len),
            }
        }
        let fits = |was: u64, is: u64| (was > is).then_some(Changed::RequestSize { was, is });
        fits(payload, limits.payload).or_else(|| fits(reach, limits.reach))
    }

    /// Goes on with these connections.
    pub(super) fn take_connections(&mut self, dialed: Vec<Dialed>, now: Instant) {
        let part_limits = part_limits(&self.export, &dialed);
        let mut incarnations = dialed.iter().map(|dialed| dialed.disk().incarnation);
        let first = incarnations.next().flatten();
        let incarnation = first.filter(|_| incarnations.all(|other| other == first));
        let connections = dialed.into_iter();
        let connections = connections.map(|dialed| Connection::new(dialed, &self.config, now));
        self.pool = ConnectionPool::new(connections.collect(), incarnation, part_limits, now);
        self.shared.change_epoch();
        let (extended, extents) = (self.pool.are_extended(), self.pool.report_extents());
        self.shared.publish(|state| {
            state.health.extended = extended;
            state.health.extents = extents;
        });
    }

    /// Writes the journal again, a batch at a time. True when all of it is written.
    pub(super) fn replay(&mut self, now: Instant) -> bool {
        let Phase::Replaying {
            next,
            end,
            out,
            failure,
        } = &mut self.phase
        else {
            return true;
        };
        if *out > 0 {
            return false;
        }
        if let Some(error) = failure.take() {
            self.die(*error, now);
            return false;
        }
        if *next >= *end {
            self.phase = Phase::Ready;
            self.shared.use_server(&self.target);
            if self.jobs.is_empty() {
                self.reconnect.end_outage(now);
            }
            return true;
        }
        let journal = self.unflushed.journal();
        let batch = journal.replay(*next, REPLAY_MAX.min(self.config.in_flight_max));
        *next += batch.len() as u64;
        *out = batch.len();
        let connections = self.pool.len();
        self.servers.changed();
        for (nth, part) in batch.into_iter().enumerate() {
            self.pool.push(nth % connections, part, now);
        }
        false
    }

    /// An entry of the journal was answered.
    pub(super) fn replayed(&mut self, part: &Part, error: Option<WireError>) {
        if let Phase::Replaying { out, .. } = &mut self.phase {
            *out -= 1;
        }
        let (Some(error), Phase::Replaying { failure, .. }) = (error, &mut self.phase) else {
            return;
        };
        #[cfg(test)]
        if mutation::is_on(Mutation::RefusedReplayIsIgnored) {
            return;
        }
        let why = part
            .server_text
            .clone()
            .unwrap_or_else(|| error.to_string());
        let target = self.target.clone();
        failure.get_or_insert(Box::new(ClientError::Replay { target, why }));
    }
}
