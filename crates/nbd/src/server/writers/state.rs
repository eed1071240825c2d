//! [`Writers`]: which client holds an export for writing. Pure: gets events and returns what is to
//! be done.
//!
//! Invariants: at most one client holds the claim; no client gets it while connections of others that may still
//! write are left; a client that was taken over from is refused until it takes over itself.

use std::collections::{BTreeSet, VecDeque};
use std::path::{Path, PathBuf};

use nbd_proto::{AccessMode, WriterPolicy};

use super::record::{Fence, Record};
use super::{ClaimRequest, Denied, WriterId, WriterRules};
use crate::server::stats::{WriterFigures, WritersFigures};

/// Clients that are remembered as taken over from; of more, the first are forgotten.
pub(super) const FENCES_MAX: usize = 32;

/// What is to be done about a request for a claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Decision {
    /// It is admitted.
    Granted,
    /// It is refused.
    Denied(Denied),
    /// Read the record, call [`Writers::loaded`], and retry.
    Load(PathBuf),
    /// Ask again when something has changed.
    Wait,
    /// End these connections, and retry after a change.
    Cut(Vec<u64>),
    /// Wait until nothing is in flight, make this durable where there is a path, and call
    /// [`Writers::commit`].
    Commit(Option<PathBuf>, Record),
}

/// What is known of the record next to the image.
#[derive(Debug, Clone, PartialEq, Eq)]
enum RecordState {
    Unread,
    Read,
    Unusable(String),
}

#[derive(Debug)]
struct ClaimHolder {
    who: WriterId,
    label: String,
    since: u64,
    connections: BTreeSet<u64>,
}

/// The last holder of the claim.
#[derive(Debug, Clone)]
struct LastWriter {
    who: WriterId,
    label: String,
    since: u64,
}

/// A claim of an export, and what it may come to.
#[derive(Debug)]
pub(in crate::server) struct Writers {
    rules: WriterRules,
    recorded: RecordState,
    /// Counts the writers.
    generation: u64,
    holder: Option<ClaimHolder>,
    last: Option<LastWriter>,
    /// Whether the record says so too.
    is_recorded: bool,
    fences: VecDeque<Fence>,
    /// The connection with a claim in progress.
    under_way: Option<u64>,
    /// Connections that may write together with others: under a policy of many, or that came under it.
    free: BTreeSet<u64>,
}

impl Writers {
    pub(in crate::server) const fn new(rules: WriterRules) -> Self {
        Self {
            rules,
            recorded: RecordState::Unread,
            generation: 0,
            holder: None,
            last: None,
            is_recorded: false,
            fences: VecDeque::new(),
            under_way: None,
            free: BTreeSet::new(),
        }
    }

    pub(in crate::server) const fn policy(&self) -> WriterPolicy {
        self.rules.policy
    }

    /// A client with an identity requests the export.
    pub(super) fn request(&mut self, asker: &ClaimRequest, mode: AccessMode) -> Decision {
        if mode == AccessMode::Read {
            return Decision::Granted;
        }
        if self.policy() == WriterPolicy::Many {
            self.free.insert(asker.connection);
            return Decision::Granted;
        }
        if mode == AccessMode::Shared {
            return Decision::Denied(Denied::NotShared);
        }
        if let Some(decision) = self.read_record() {
            return decision;
        }
        if !self.free.is_empty() || self.under_way.is_some_and(|of| of != asker.connection) {
            return Decision::Wait;
        }
        let fence = self
            .fences
            .iter()
            .find(|f| Some(f.token) == asker.who.token());
        let fenced = fence.map(|fence| Denied::Fenced {
            label: fence.label.clone(),
            since: fence.since,
        });
        match (&mut self.holder, fenced) {
            (Some(holder), _) if holder.who == asker.who => {
                holder.connections.insert(asker.connection);
                Decision::Granted
            }
            (Some(holder), _) if mode == AccessMode::Takeover => {
                self.under_way = Some(asker.connection);
                Decision::Cut(holder.connections.iter().copied().collect())
            }
            (_, Some(fenced)) if mode != AccessMode::Takeover => Decision::Denied(fenced),
            (Some(holder), _) => {
                let (label, since) = (holder.label.clone(), holder.since);
                Decision::Denied(match mode {
                    AccessMode::Resume => Denied::Fenced { label, since },
                    _ => Denied::Busy { label, since },
                })
            }
            (None, _) => self.take(asker, mode),
        }
    }

    /// A claim without a holder.
    fn take(&mut self, asker: &ClaimRequest, mode: AccessMode) -> Decision {
        let is_last = self.last.as_ref().is_some_and(|last| last.who == asker.who);
        if mode == AccessMode::Resume
            && !is_last
            && let Some(LastWriter { label, since, .. }) = self.last.clone()
        {
            return Decision::Denied(Denied::Fenced { label, since });
        }
        let needs_record = self.policy() == WriterPolicy::Fenced && !self.is_recorded;
        if is_last && mode != AccessMode::Takeover && !needs_record {
            self.install(asker);
            return Decision::Granted;
        }
        let is_takeover = mode == AccessMode::Takeover;
        if !is_takeover && self.policy() == WriterPolicy::One {
            self.generation += 1;
            self.install(asker);
            return Decision::Granted;
        }
        self.under_way = Some(asker.connection);
        let path = self.rules.record.clone();
        let path = path.filter(|_| self.policy() == WriterPolicy::Fenced);
        Decision::Commit(path, self.next_record(asker, is_takeover))
    }

    /// What is to be known of the writers once `asker` is it.
    fn next_record(&self, asker: &ClaimRequest, is_takeover: bool) -> Record {
        let token = asker.who.token();
        let mut fences: Vec<Fence> = self.fences.iter().cloned().collect();
        fences.retain(|fence| Some(fence.token) != token);
        let before = self.last.as_ref().filter(|last| last.who != asker.who);
        if is_takeover && let Some(token) = before.and_then(|last| last.who.token()) {
            fences.push(Fence {
                token,
                label: asker.label.clone(),
                since: asker.now,
            });
        }
        let excess = fences.len().saturating_sub(FENCES_MAX);
        fences.drain(..excess);
        Record {
            generation: self.generation + 1,
            token,
            label: asker.label.clone(),
            since: asker.now,
            fences,
        }
    }

    /// [`Decision::Commit`] was carried out.
    pub(super) fn commit(&mut self, asker: &ClaimRequest, record: Record) {
        assert_eq!(self.under_way, Some(asker.connection), "committed once");
        assert!(self.holder.is_none(), "no client came in between");
        self.under_way = None;
        self.generation = record.generation;
        self.fences = record.fences.into();
        self.is_recorded = self.policy() == WriterPolicy::Fenced;
        self.install(asker);
    }

    fn install(&mut self, asker: &ClaimRequest) {
        let ClaimRequest {
            who, label, now, ..
        } = asker.clone();
        self.last = Some(LastWriter {
            who: who.clone(),
            label: label.clone(),
            since: now,
        });
        self.holder = Some(ClaimHolder {
            who,
            label,
            since: now,
            connections: BTreeSet::from([asker.connection]),
        });
    }

    /// What must come before any claim where the last writer is recorded.
    fn read_record(&self) -> Option<Decision> {
        if self.policy() != WriterPolicy::Fenced {
            return None;
        }
        let unusable = |why: &str| Decision::Denied(Denied::Record(why.to_owned()));
        match (&self.recorded, &self.rules.record) {
            (_, None) => Some(unusable("it has no path")),
            (RecordState::Unread, Some(path)) => Some(Decision::Load(path.clone())),
            (RecordState::Unusable(why), _) => Some(unusable(why)),
            (RecordState::Read, _) => None,
        }
    }

    /// What is recorded at `path`: nothing, if no client has written yet.
    pub(super) fn loaded(&mut self, path: &Path, result: Result<Option<Record>, String>) {
        if self.rules.record.as_deref() != Some(path) || self.recorded != RecordState::Unread {
            return;
        }
        self.recorded = match result {
            Err(why) => RecordState::Unusable(why),
            Ok(None) => RecordState::Read,
            Ok(Some(record)) => {
                self.generation = self.generation.max(record.generation);
                self.is_recorded = true;
                self.last = record.token.map(|token| LastWriter {
                    who: WriterId::Token(token),
                    label: record.label,
                    since: record.since,
                });
                self.fences = record.fences.into();
                RecordState::Read
            }
        };
    }

    /// A client without an identity writes for the first time.
    pub(super) fn write(&mut self, asker: &ClaimRequest) -> Result<(), Denied> {
        match self.policy() {
            WriterPolicy::Many => {
                self.free.insert(asker.connection);
                return Ok(());
            }
            WriterPolicy::Fenced => return Err(Denied::Nameless),
            WriterPolicy::One => {}
        }
        match self.request(asker, AccessMode::Write) {
            Decision::Granted => Ok(()),
            Decision::Denied(denied) => Err(denied),
            _ => Err(Denied::Unsettled),
        }
    }

    /// A connection is over, or its claim was given up on the way. Whether that changed anything.
    pub(in crate::server) fn release(&mut self, connection: u64) -> bool {
        let was_free = self.free.remove(&connection);
        let was_under_way = self.under_way.take_if(|of| *of == connection).is_some();
        let held = self
            .holder
            .as_mut()
            .is_some_and(|holder| holder.connections.remove(&connection));
        self.holder.take_if(|holder| holder.connections.is_empty());
        was_free || was_under_way || held
    }

    /// Whether a claim that was granted to `connection` is being taken from it.
    pub(in crate::server) fn is_cut(&self, connection: u64) -> bool {
        let held = self.holder.as_ref();
        let holds = held.is_some_and(|holder| holder.connections.contains(&connection));
        let is_free = self.free.contains(&connection) && self.policy() != WriterPolicy::Many;
        is_free || (holds && self.under_way.is_some())
    }

    /// Whether a connection has nothing that it was granted.
    #[cfg(test)]
    pub(super) fn is_over(&self, connection: u64) -> bool {
        let held = self.holder.as_ref();
        !held.is_some_and(|holder| holder.connections.contains(&connection))
            && !self.free.contains(&connection)
    }

    /// Other rules. The connections that are to be ended, because what they were granted is no longer so.
    pub(in crate::server) fn change_rules(&mut self, rules: WriterRules) -> Vec<u64> {
        if rules == self.rules {
            return Vec::new();
        }
        let was = std::mem::replace(&mut self.rules, rules);
        if was.record != self.rules.record || was.policy != self.rules.policy {
            self.recorded = RecordState::Unread;
            self.is_recorded = false;
        }
        let held = self
            .holder
            .iter()
            .flat_map(|h| h.connections.iter().copied());
        match (was.policy, self.policy()) {
            (_, WriterPolicy::Many) => {
                self.free.extend(held);
                self.holder = None;
                self.last = None;
                Vec::new()
            }
            (WriterPolicy::Fenced, WriterPolicy::One) => Vec::new(),
            // A writer that was not recorded, or was one of several, must claim again.
            _ => {
                self.free.extend(held);
                self.holder = None;
                self.free.iter().copied().collect()
            }
        }
    }

    /// The writer and the policy.
    pub(in crate::server) fn figures(&self) -> WritersFigures {
        WritersFigures {
            policy: self.policy().name().to_owned(),
            generation: self.generation,
            writer: self.holder.as_ref().map(|holder| WriterFigures {
                peer: holder.label.clone(),
                since: holder.since,
                connections: holder.connections.len() as u64,
            }),
        }
    }
}
