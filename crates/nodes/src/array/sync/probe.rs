//! Members that are away: looked for by and by, and taken back.

use std::sync::{Arc, MutexGuard, PoisonError};

use engine::clock;

use super::super::assembly::{Assembly, OtherKind};
use super::super::format::Role;
use super::super::redundant::SlotState;
use super::super::{AddOptions, ArrayError, ArrayOptions, Candidate, Reopen, ReopenError};
use super::absent::Way;
use super::manager::{RebuildMode, SyncManager};

/// A member's name, whether it is on another machine, and how it is opened again.
type KnownWay = (String, bool, Option<Arc<dyn Reopen>>);

/// What an assembly says of members that come back.
#[derive(Debug, Default)]
pub(in crate::array) struct Expected {
    ways: Vec<KnownWay>,
    waiting: Vec<(Candidate, RebuildMode)>,
}

impl Expected {
    /// Members that were left behind and that the bitmap brings up to date come back; with a preferred side
    /// the other one is copied in full.
    pub(in crate::array) fn of(assembly: &Assembly, options: &ArrayOptions) -> Self {
        let held = assembly
            .parts
            .iter()
            .filter_map(|part| part.member.as_ref());
        let others = assembly.others.iter().map(|other| &other.member);
        let here = held
            .chain(others)
            .map(|m| (m.name.clone(), m.remote, m.reopen.clone()));
        let absent = assembly
            .absent
            .iter()
            .map(|m| (m.name.clone(), m.remote, m.reopen.clone()));
        let ways = here.chain(absent).collect();
        let waiting = assembly.others.iter().filter_map(|other| {
            let held_one = matches!(other.member.superblock.role, Role::Active(_));
            let mode = match other.kind {
                OtherKind::Stale {
                    by_bitmap: true, ..
                } => RebuildMode::Bitmap,
                OtherKind::Failed if options.prefer.is_some() && held_one => RebuildMode::Full,
                _ => return None,
            };
            Some((other.member.candidate(), mode))
        });
        Self {
            ways,
            waiting: waiting.collect(),
        }
    }
}

impl SyncManager {
    /// Takes note of an assembly before it is opened: how members are opened again, and which come back at once.
    pub(in crate::array) fn expect(&self, expected: Expected) {
        for (name, remote, reopen) in expected.ways {
            self.remember(&name, remote, reopen.as_ref());
        }
        self.waiting().extend(expected.waiting);
    }

    fn waiting(&self) -> MutexGuard<'_, Vec<(Candidate, RebuildMode)>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn has_waiting(&self) -> bool {
        !self.waiting().is_empty() && !self.is_left()
    }

    /// Lets members in that were left behind when the array was opened.
    pub(super) async fn let_in(&self) {
        while let Some((candidate, mode)) = self.next_waiting() {
            let name = candidate.name.clone();
            // A remark has warned that what only this one has is lost, where the other side was preferred.
            let preferred = AddOptions {
                overwrite: true,
                ..AddOptions::default()
            };
            let came = match mode {
                RebuildMode::Full => self.add(candidate, preferred).await,
                RebuildMode::Bitmap => self.re_add(candidate).await,
            };
            if let Err(error) = came {
                tracing::warn!("{}: {name}: {error}", self.array.name());
            }
        }
    }

    fn next_waiting(&self) -> Option<(Candidate, RebuildMode)> {
        if self.is_left() {
            return None;
        }
        self.waiting().pop()
    }

    /// Probes members that are away where it is time to (or `all`): one that answers comes back. Whether any
    /// did.
    pub(in crate::array) async fn probe(&self, all: bool) -> bool {
        if self.absences().is_empty() || self.is_left() {
            return false;
        }
        let away: Vec<String> = self.away();
        let due = self.absences().due(self.now(), &away, all);
        let mut came = false;
        for (name, way) in due {
            came |= self.look_for(&name, &way).await;
        }
        came
    }

    async fn look_for(&self, name: &str, way: &Way) -> bool {
        let opened = clock::timeout(self.array.member_timeout(), way.reopen.reopen()).await;
        let disk = match opened {
            Ok(Ok(disk)) => disk,
            Ok(Err(ReopenError::Fenced(why))) => {
                self.array.fenced_by(name, why);
                return false;
            }
            Ok(Err(ReopenError::Unreachable(_))) | Err(_) => return false,
        };
        let candidate = Candidate {
            name: name.to_owned(),
            disk: Some(disk),
            remote: way.remote,
            reopen: Some(way.reopen.clone()),
        };
        match self.re_add(candidate).await {
            Ok(()) => {
                self.absences().came_back(name, self.now());
                true
            }
            Err(error @ ArrayError::Refused { .. }) => {
                tracing::warn!("{}: {error}", self.array.name());
                self.absences().refuse(name);
                false
            }
            Err(error) => {
                tracing::info!("{}: {error}", self.array.name());
                false
            }
        }
    }

    /// Members that failed or were not there, by their names.
    pub(super) fn away(&self) -> Vec<String> {
        let states = self.array.slot_states();
        let failed = |state: &SlotState| matches!(state, SlotState::Failed(_) | SlotState::Stale);
        let known: Vec<&str> = states.iter().map(|(_, name, _)| name.as_str()).collect();
        let absent = self.absences().names();
        let never_there = absent
            .into_iter()
            .filter(|name| !known.contains(&name.as_str()));
        let away = states.iter().filter(|(.., state)| failed(state));
        away.map(|(_, name, _)| name.clone())
            .chain(never_there)
            .collect()
    }
}
