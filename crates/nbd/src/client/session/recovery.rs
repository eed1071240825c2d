//! Around a lost connection: giving up what is left, coming back, writing again what may be lost.

use std::sync::Arc;
use std::time::{Duration, Instant};

use block::Errno;
use engine::clock;
use nbd_proto::WireError;

use crate::client::dial::Dialed;
use crate::client::session::connection::Connection;
use crate::client::session::dialing::{connect_all, part_limits, pause};
use crate::client::session::known_disk::Verdict;
#[cfg(test)]
use crate::client::session::mutation::{self, Mutation};
use crate::client::session::work::{Body, Owner, Part, PartLimits};
use crate::client::session::{Phase, Session, answer_opening, identity};
use crate::client::{Changed, ClientError};

/// Connections that lived for less are not made again without a pause.
const SHORT_LIFE: Duration = Duration::from_secs(1);
/// Entries of the journal written again at once.
const REPLAY_MAX: usize = 128;

/// The server is away, or came back and has not answered yet.
#[derive(Debug)]
pub(super) struct Trouble {
    pub(super) since: Instant,
    attempts: u32,
    pub(super) last: ClientError,
}

impl Session {
    /// Gives every connection up, because of `error` on one of them, and starts to come back.
    pub(super) fn lose(&mut self, error: ClientError, now: Instant) {
        if self.connections.is_empty() {
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
        let lost: Vec<Connection> = self.connections.drain(..).collect();
        for part in lost.into_iter().flat_map(Connection::abandon) {
            self.keep(part, &error, now);
        }
        for part in self.flush_order.abandon() {
            self.keep(part, &error, now);
        }
        self.phase = Phase::Lost;
        self.note_trouble(error.clone(), now);
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

    /// Keeps a part without an answer, to be sent again, unless that was done for long enough.
    pub(super) fn keep(&mut self, mut part: Part, error: &ClientError, now: Instant) {
        match part.owner {
            Owner::Job { key, nth } => {
                self.writing.remove(&part);
                let first = *part.lost_since.get_or_insert(now);
                let after = now.duration_since(first);
                // Where nothing else was answered either, the server is as good as gone.
                let gone = self
                    .trouble
                    .as_ref()
                    .is_some_and(|trouble| trouble.since <= first);
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
                self.jobs.part_done(key, nth, Err(failure));
            }
            Owner::OwnFlush => self.own_flush = false,
            // The journal still has it.
            Owner::Replay | Owner::Verification { .. } => {}
        }
    }

    pub(super) fn note_trouble(&mut self, error: ClientError, now: Instant) {
        self.shared
            .publish(|state| state.health.last_error = Some(error.to_string()));
        match &mut self.trouble {
            Some(trouble) => trouble.last = error,
            None => {
                self.trouble = Some(Trouble {
                    since: now,
                    attempts: 0,
                    last: error,
                });
            }
        }
    }

    /// Starts to connect, at once where the connections had lived for a while.
    pub(super) fn redial(&mut self, now: Instant) {
        let failed = self.trouble.as_ref().map_or(0, |trouble| trouble.attempts);
        let short = now.duration_since(self.connected_at) < SHORT_LIFE;
        let attempts = failed.max(u32::from(short));
        let (target, config) = (self.target.clone(), self.config.clone());
        self.dialing = Some(Box::pin(async move {
            clock::sleep(pause(attempts)).await;
            connect_all(&target, &config).await
        }));
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
                self.attempt_failed(error, now);
                return;
            }
        };
        let server = dialed[0].disk().clone();
        if let Verdict::Another(changed) = self.known.compare_name(&server) {
            let target = self.target.clone();
            self.die(ClientError::Changed { target, changed }, now);
            return;
        }
        let limits = part_limits(&self.export, &dialed);
        if let Some(changed) = self.changed(&dialed).or_else(|| self.too_small(&limits)) {
            self.wait_for_export(changed, now);
            return;
        }
        self.reconnects += 1;
        if let Some(trouble) = &mut self.trouble {
            trouble.attempts = trouble.attempts.saturating_add(1);
        }
        let smallest = dialed.iter().map(|dialed| dialed.export().size).min();
        self.take_connections(dialed, now);
        self.begin_verification(server, smallest.unwrap_or(0));
    }

    /// Goes on with connections that have the disk: writes the journal again first.
    pub(super) fn begin_replay(&mut self) {
        self.journal.supersede();
        let end = self.journal.mark();
        let next = self.journal.first();
        if self.reconnects > 0 {
            tracing::info!(
                target = %self.target,
                connections = self.connections.len(),
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
        self.note_trouble(error, now);
        if let Some(trouble) = &mut self.trouble {
            trouble.attempts = trouble.attempts.saturating_add(1);
        }
        self.redial(now);
    }

    /// The server has the export, but not as callers were promised it: perhaps it was started before its disk was
    /// ready. It counts as unreachable, and nothing is sent to it.
    fn wait_for_export(&mut self, changed: Changed, now: Instant) {
        let target = self.target.clone();
        let error = ClientError::Changed { target, changed };
        let is_known = |trouble: &Trouble| trouble.last.to_string() == error.to_string();
        if !self.trouble.as_ref().is_some_and(is_known) {
            tracing::warn!("{error}; waits until it is as it was");
        }
        self.attempt_failed(error, now);
    }

    fn changed(&self, dialed: &[Dialed]) -> Option<Changed> {
        dialed.iter().find_map(|dialed| {
            identity::changed(&self.export, dialed.export(), self.config.read_only)
        })
    }

    /// What must be sent again was cut for larger requests.
    fn too_small(&self, limits: &PartLimits) -> Option<Changed> {
        let (mut payload, mut reach) = self.journal.longest();
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
        self.part_limits = part_limits(&self.export, &dialed);
        self.connected_at = now;
        self.shared.change_epoch();
        self.connections = dialed
            .into_iter()
            .map(|dialed| Connection::new(dialed, &self.config, now))
            .collect();
        let all = |has: fn(&Connection) -> bool| self.connections.iter().all(has);
        let (extended, extents) = (all(Connection::is_extended), all(Connection::tells_extents));
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
            self.die(error, now);
            return false;
        }
        if *next >= *end {
            self.phase = Phase::Ready;
            if self.jobs.is_empty() {
                self.trouble = None;
            }
            return true;
        }
        let batch = self
            .journal
            .replay(*next, REPLAY_MAX.min(self.config.in_flight_max));
        *next += batch.len() as u64;
        *out = batch.len();
        let connections = self.connections.len();
        for (nth, part) in batch.into_iter().enumerate() {
            self.push(nth % connections, part, now);
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
        let why = part.said.clone().unwrap_or_else(|| error.to_string());
        let target = self.target.clone();
        failure.get_or_insert(ClientError::Replay { target, why });
    }
}
