//! [`PageStatus`]: what the live page shows, as JSON, and [`StatusHistory`], which makes it of the server's counters.
//! Pure; sizes are bytes.
//!
//! # Invariants
//!
//! * It is bounded: at most [`ROWS_MAX`] clients and as many overlays are listed; all are counted.
//! * Rates are those between two snapshots that lie at most [`INTERVAL_MAX`] apart; else there are none.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bucket::VolumeFigures;
use lab::report::PlaceVerdict;
use nbd::server::{ClientDiskFigures, ClientFigures, ExportFigures, Figures};
use serde::Serialize;

use super::rates::{RateCounters, Rates};
use super::verdicts::{self, VerdictLine};
use crate::arrays::report::ArrayReport;
use crate::caches::report::CacheReport;
use crate::control::ServerStatus;
use crate::event_log::LoggedEvent;
use crate::graph::outline::DiskOutline;
use crate::snapshots::report::SnapshotReport;
use crate::volume_moves::report::MoveReport;

/// Version of this JSON.
const VERSION: u32 = 1;
/// Clients that are listed, and overlays.
pub(super) const ROWS_MAX: usize = 1000;
/// Longest time between two snapshots over which rates mean something.
const INTERVAL_MAX: Duration = Duration::from_secs(10);

/// What a server reports about itself to its page.
#[derive(Debug)]
pub(crate) struct PageInput {
    /// As on the control socket.
    pub(crate) status: ServerStatus,
    /// What the exports are made of; empty while the configuration changes.
    pub(crate) outlines: BTreeMap<String, DiskOutline>,
    /// The volume groups that are open.
    pub(crate) groups: Vec<GroupLine>,
}

/// A volume group.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct GroupLine {
    pub(crate) name: String,
    pub(crate) size: u64,
    /// `None` if a volume is not understood.
    pub(crate) free: Option<u64>,
    /// The visible ones.
    pub(crate) volumes: Vec<VolumeLine>,
    /// The thin pools of open volumes.
    pub(crate) pools: Vec<PoolLine>,
}

/// A thin pool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct PoolLine {
    pub(crate) name: String,
    pub(crate) data: u64,
    pub(crate) data_used: u64,
    pub(crate) metadata: u64,
    pub(crate) metadata_used: u64,
}

/// A logical volume.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct VolumeLine {
    pub(crate) name: String,
    /// `linear`, `raid1`…
    pub(crate) kind: String,
    pub(crate) size: u64,
    /// Whether this server has it open.
    pub(crate) is_open: bool,
}

/// A disk that is attached on this machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct AttachmentLine {
    pub(super) device: Option<PathBuf>,
    pub(super) mounted_on: Option<PathBuf>,
    pub(super) size: u64,
    pub(super) via: String,
    pub(super) disk: String,
    pub(super) read_only: bool,
    pub(super) state: String,
    /// The last verdict of the lab about it.
    pub(super) verdict: Option<VerdictLine>,
}

/// What is not the server's.
#[derive(Debug, Clone, Default)]
pub(super) struct Surroundings {
    /// What is attached on this machine.
    pub(super) attachments: Vec<AttachmentLine>,
    /// The last verdicts of the lab, about any place.
    pub(super) verdicts: Arc<Vec<PlaceVerdict>>,
    /// Latest first.
    pub(super) events: Vec<LoggedEvent>,
    /// Milliseconds since 1970.
    pub(super) at_ms: u64,
    /// Whether actions are permitted, with the token.
    pub(super) has_actions: bool,
}

/// All that the page shows.
#[derive(Debug, Serialize)]
pub(super) struct PageStatus {
    version: u32,
    /// Counts the snapshots of this server.
    number: u64,
    at_ms: u64,
    has_actions: bool,
    server: ServerLine,
    /// Of all exports; `None` in the first snapshot.
    rates: Option<Rates>,
    exports: Vec<ExportLine>,
    /// The first ones, by export.
    clients: Vec<ClientLine>,
    clients_count: usize,
    /// The first ones, by export.
    overlays: Vec<OverlayLine>,
    overlays_count: usize,
    arrays: Vec<ArrayReport>,
    groups: Vec<GroupLine>,
    snapshots: Vec<SnapshotReport>,
    moves: Vec<MoveReport>,
    caches: Vec<CacheReport>,
    bucket_volumes: Vec<VolumeFigures>,
    attachments: Vec<AttachmentLine>,
    events: Vec<LoggedEvent>,
}

impl PageStatus {
    /// Counts the snapshots of this server.
    pub(super) const fn number(&self) -> u64 {
        self.number
    }
}

/// The server.
#[derive(Debug, Serialize)]
struct ServerLine {
    name: String,
    process: u32,
    program: String,
    config: Option<PathBuf>,
    listen: Vec<String>,
    up_seconds: u64,
    connections: u64,
    accepted: u64,
    refused: u64,
    memory: u64,
}

impl ServerLine {
    fn of(status: &ServerStatus) -> Self {
        let figures = &status.figures;
        Self {
            name: status.name.clone(),
            process: status.process,
            program: status.program.clone(),
            config: status.config.clone(),
            listen: status.listen.clone(),
            up_seconds: status.up_seconds,
            connections: figures.connections,
            accepted: figures.accepted,
            refused: figures.refused,
            memory: figures.memory,
        }
    }
}

/// An export.
#[derive(Debug, Serialize)]
struct ExportLine {
    name: String,
    description: String,
    size: u64,
    read_only: bool,
    clients: usize,
    in_flight: u64,
    errors: u64,
    rates: Option<Rates>,
    /// The one client that writes.
    writer: Option<String>,
    /// What it is made of.
    outline: Option<DiskOutline>,
    /// The last verdict of the lab about it.
    verdict: Option<VerdictLine>,
}

/// A client.
#[derive(Debug, Serialize)]
struct ClientLine {
    id: u64,
    peer: String,
    certificate: Option<String>,
    export: String,
    connected_seconds: u64,
    rates: Option<Rates>,
}

/// The overlay of a client.
#[derive(Debug, Serialize)]
struct OverlayLine {
    export: String,
    client: String,
    bytes: Option<u64>,
    quota: Option<u64>,
    connections: u64,
    is_older: bool,
}

/// Makes a [`PageStatus`] of each snapshot and the one before.
#[derive(Debug, Default)]
pub(super) struct StatusHistory {
    number: u64,
    before: Option<Counted>,
}

/// The counters of one snapshot.
#[derive(Debug)]
struct Counted {
    at: Instant,
    all: RateCounters,
    exports: HashMap<String, RateCounters>,
    clients: HashMap<u64, RateCounters>,
}

impl Counted {
    fn new(at: Instant, exports: &[ExportFigures]) -> Self {
        let mut all = Figures::default();
        exports.iter().for_each(|export| all.add(&export.figures));
        let clients = exports.iter().flat_map(|export| &export.clients);
        Self {
            at,
            all: RateCounters::of(&all),
            exports: exports
                .iter()
                .map(|export| (export.name.clone(), RateCounters::of(&export.figures)))
                .collect(),
            clients: clients
                .map(|client| (client.id, RateCounters::of(&client.figures)))
                .collect(),
        }
    }
}

/// The counters of a snapshot and of the one before, close enough for rates.
struct Interval<'a> {
    now: &'a Counted,
    before: Option<&'a Counted>,
}

impl Interval<'_> {
    /// `None` without a snapshot before; what is new has counted from zero.
    fn rates(&self, of: impl Fn(&Counted) -> Option<&RateCounters>) -> Option<Rates> {
        let before = self.before?;
        let length = self.now.at.saturating_duration_since(before.at);
        let none = RateCounters::of(&Figures::default());
        let then = of(before).unwrap_or(&none);
        Some(of(self.now)?.rates_since(then, length))
    }
}

impl Interval<'_> {
    /// Whether an export was removed or counts from zero again: what all have done together is less than before then.
    fn is_restarted(&self) -> bool {
        let mut before = self.before.iter().flat_map(|before| &before.exports);
        before.any(|(name, then)| {
            let now = self.now.exports.get(name);
            now.is_none_or(|now| now.is_restart_of(then))
        })
    }
}

impl StatusHistory {
    /// What the page shows at the moment `at`.
    pub(super) fn next(
        &mut self,
        at: Instant,
        input: PageInput,
        surroundings: Surroundings,
    ) -> PageStatus {
        let PageInput {
            status,
            mut outlines,
            groups,
        } = input;
        let exports = &status.figures.exports;
        let now = Counted::new(at, exports);
        let before = self.before.take();
        let is_near = |one: &&Counted| at.saturating_duration_since(one.at) <= INTERVAL_MAX;
        let interval = Interval {
            now: &now,
            before: before.as_ref().filter(is_near),
        };
        self.number += 1;
        let mut verdicts = verdicts::by_export(&status.listen, &surroundings);
        let clients = exports.iter().flat_map(|export| {
            export
                .clients
                .iter()
                .map(|client| client_line(&interval, &export.name, client))
        });
        let overlays = exports.iter().flat_map(|export| {
            let disks = export.client_disks.iter().flatten();
            disks.map(|overlay| overlay_line(&export.name, overlay))
        });
        let page = PageStatus {
            version: VERSION,
            number: self.number,
            at_ms: surroundings.at_ms,
            has_actions: surroundings.has_actions,
            server: ServerLine::of(&status),
            rates: interval
                .rates(|counted| Some(&counted.all))
                .filter(|_| !interval.is_restarted()),
            clients: clients.take(ROWS_MAX).collect(),
            clients_count: exports.iter().map(|export| export.clients.len()).sum(),
            overlays: overlays.take(ROWS_MAX).collect(),
            overlays_count: exports
                .iter()
                .map(|export| export.client_disks.as_ref().map_or(0, Vec::len))
                .sum(),
            exports: exports
                .iter()
                .map(|export| ExportLine {
                    outline: outlines.remove(&export.name),
                    verdict: verdicts.remove(&export.name),
                    ..export_line(&interval, export)
                })
                .collect(),
            arrays: status.arrays,
            groups,
            snapshots: status.snapshots,
            moves: status.moves,
            caches: status.caches,
            bucket_volumes: status.bucket_volumes,
            attachments: surroundings.attachments,
            events: surroundings.events,
        };
        self.before = Some(now);
        page
    }
}

fn export_line(interval: &Interval<'_>, export: &ExportFigures) -> ExportLine {
    let commands = &export.figures.commands;
    let writer = export.writers.as_ref().and_then(|of| of.writer.as_ref());
    ExportLine {
        name: export.name.clone(),
        description: export.description.clone(),
        size: export.size,
        read_only: export.read_only,
        clients: export.clients.len(),
        in_flight: commands.iter().map(|command| command.in_flight).sum(),
        errors: commands.iter().map(|command| command.errors).sum(),
        rates: interval.rates(|counted| counted.exports.get(&export.name)),
        writer: writer.map(|writer| writer.peer.clone()),
        outline: None,
        verdict: None,
    }
}

fn client_line(interval: &Interval<'_>, export: &str, client: &ClientFigures) -> ClientLine {
    ClientLine {
        id: client.id,
        peer: client.peer.clone(),
        certificate: client.certificate.clone(),
        export: export.to_owned(),
        connected_seconds: client.connected_seconds,
        rates: interval.rates(|counted| counted.clients.get(&client.id)),
    }
}

fn overlay_line(export: &str, overlay: &ClientDiskFigures) -> OverlayLine {
    OverlayLine {
        export: export.to_owned(),
        client: overlay.name.to_string(),
        bytes: overlay.bytes,
        quota: overlay.quota,
        connections: overlay.connections,
        is_older: overlay.is_older,
    }
}
