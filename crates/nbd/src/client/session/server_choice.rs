//! [`ServerChoice`]: which of the servers of one disk is connected to next. Pure.
//!
//! ```text
//!   changes in flight, or not flushed, when the connections are lost      the server is in doubt: it alone is tried
//!     + it ended every connection, and takes none any more            \
//!     + or something outside of NBD has fenced it (`fenced-after`)     }
//!     + or each server's storage fences the others                     }  all are tried, from it on
//!   nothing in flight that changes the disk, and all is flushed       /
//! ```
//!
//! # Invariants
//!
//! * **No other server is used while the one before may still write.** What it received and did not answer may be carried out at any
//!   later time, and what it did not flush may be in its cache. So it has to be known that its process is over: it closed or reset
//!   each connection by itself, and its machine refuses new ones. Silence is no evidence: a cut network looks the same.
//! * Where the storage fences its servers, the other server does that before it admits this client, and has all that the one before
//!   flushed. So nothing is waited for; but only a server that declares it as well is used then.
//! * A server that was once left with changes in flight stays in doubt when it answers again: only its end ends that. Its end is that of
//!   the process that has the changes: the one that answers again may be another one
//!   ([`AbandonedConnections`](super::abandoned_connections::AbandonedConnections)).
//! * A server is the disk's once its disk was verified. Until then the one before is where attempts begin.
//! * A server that has not the disk is named, and left out until each of the others was tried.
//!
//! # What it does not do
//!
//! It takes the word of the server's machine: a firewall or proxy that resets connections and refuses new ones in its name is
//! believed. It does not choose by load or latency.

use std::time::{Duration, Instant};

#[cfg(test)]
use crate::client::session::mutation::{self, Mutation};
use crate::client::{ClientError, Target};

/// A server that may still change the disk.
#[derive(Debug)]
struct Doubt {
    /// When connections to it were last lost.
    since: Instant,
    /// It takes no new connection.
    is_refusing: bool,
}

/// The servers of one disk.
#[derive(Debug)]
pub(crate) struct ServerChoice {
    /// Each alone; never empty.
    servers: Vec<Target>,
    fenced_after: Option<Duration>,
    /// The one that had the disk last.
    current: usize,
    /// The one that the connections lead, or led, to.
    in_use: usize,
    /// Those that were reached and have not the disk, since an attempt over the others failed.
    refused: Vec<usize>,
    /// Why each was refused last, since one had the disk.
    reasons: Vec<Option<String>>,
    /// A change was sent to the current one.
    has_changed: bool,
    /// The current one.
    doubt: Option<Doubt>,
    /// The storage fences the current one when another one takes over.
    is_fenced: bool,
}

impl ServerChoice {
    /// The servers of `target`, of which `first` was reached.
    pub(crate) fn new(target: &Target, first: &Target) -> Self {
        let servers = target.servers();
        let at = servers.iter().position(|server| server == first);
        let current = at.unwrap_or(0);
        Self {
            reasons: vec![None; servers.len()],
            servers,
            fenced_after: target.fenced_after,
            current,
            in_use: current,
            refused: Vec::new(),
            has_changed: false,
            doubt: None,
            is_fenced: false,
        }
    }

    /// Whether there are several.
    pub(crate) const fn has_several(&self) -> bool {
        self.servers.len() > 1
    }

    /// A change is sent.
    pub(crate) const fn changed(&mut self) {
        self.has_changed = true;
    }

    /// The connections are lost, with so many changes in flight and so many that no flush has covered.
    pub(crate) fn lost(&mut self, in_flight: usize, unflushed: u64, now: Instant) {
        if self.in_use != self.current || !self.has_several() {
            return;
        }
        let may_write = in_flight > 0 || (self.has_changed && unflushed > 0);
        if may_write || self.doubt.is_some() {
            self.doubt = Some(Doubt {
                since: now,
                is_refusing: false,
            });
        }
    }

    /// An attempt to connect to the servers of [`Self::candidates`] failed.
    pub(crate) fn attempt_failed(&mut self, error: &ClientError) {
        self.refused.clear();
        // While there is a doubt, the error is that of the server in doubt.
        if let Some(doubt) = &mut self.doubt {
            doubt.is_refusing |= error.is_refusal();
        }
    }

    /// Whether the current server may still change the disk. `has_ended_all`: it has ended every connection.
    pub(crate) fn is_in_doubt(&mut self, has_ended_all: bool, now: Instant) -> bool {
        #[cfg(test)]
        let has_ended_all = has_ended_all || mutation::is_on(Mutation::RefusalIsTheEnd);
        let Some(doubt) = &self.doubt else {
            return false;
        };
        let has_ended = has_ended_all && doubt.is_refusing;
        let passed = now.saturating_duration_since(doubt.since);
        let is_fenced = self.fenced_after.is_some_and(|after| passed >= after);
        // The next server ends it.
        let is_fenced = is_fenced || self.is_fenced;
        #[cfg(test)]
        let is_fenced = is_fenced || mutation::is_on(Mutation::ServersAreNotDoubted);
        if has_ended || is_fenced {
            self.doubt = None;
        }
        self.doubt.is_some()
    }

    /// Whether there was a doubt when that was last looked at.
    pub(crate) const fn has_doubt(&self) -> bool {
        self.doubt.is_some()
    }

    /// The servers to try, in order.
    pub(crate) fn candidates(&mut self, has_ended_all: bool, now: Instant) -> Vec<Target> {
        if self.is_in_doubt(has_ended_all, now) {
            return vec![self.servers[self.current].clone()];
        }
        let count = self.servers.len();
        if self.refused.len() >= count {
            self.refused.clear();
        }
        let order = (0..count).map(|nth| (self.current + nth) % count);
        let left = order.filter(|at| !self.refused.contains(at));
        left.map(|at| self.servers[at].clone()).collect()
    }

    /// Connections were made to one of them.
    pub(crate) fn connected(&mut self, server: &Target) {
        let at = self.servers.iter().position(|one| one == server);
        self.in_use = at.unwrap_or(self.current);
    }

    /// Whether the server that was connected to last would have to fence the one before, and does not: `is_fenced` is what it declares.
    /// One that does not may also have lost the disk and not know it yet, so this does not depend on a doubt.
    pub(crate) const fn lacks_fence(&self, is_fenced: bool) -> bool {
        self.is_fenced && !is_fenced && self.in_use != self.current
    }

    /// The one that was connected to last has not the disk. Returns whether that was not known before.
    pub(crate) fn refuse(&mut self, why: &str) -> bool {
        if !self.refused.contains(&self.in_use) {
            self.refused.push(self.in_use);
        }
        let reason = &mut self.reasons[self.in_use];
        let is_new = reason.as_deref() != Some(why);
        *reason = Some(why.to_owned());
        is_new
    }

    /// It has the disk, and its storage fences it or not. Returns whether another one had it before.
    pub(crate) fn accept(&mut self, is_fenced: bool) -> bool {
        self.refused.clear();
        self.reasons.fill(None);
        self.is_fenced = is_fenced;
        let has_moved = self.in_use != self.current;
        if has_moved {
            self.current = self.in_use;
            self.has_changed = false;
            self.doubt = None;
        }
        has_moved
    }
}
