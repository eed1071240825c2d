//! [`WatchedLoad`]: the first measurement of a directory, with what is seen of the server and of the wire to it meanwhile.

use std::net::SocketAddr;

use lab::agent::Side;
use lab::doctor::load::LoadResult;
use lab::doctor::{ConnectTimes, CpuUse, Examination, OwnClients, ServedUse};
use lab::host::sockets;
use lab::plan::Direction;
use lab::units::Nanos;

use super::super::directory_info::MountKind;
use super::super::remote::IDLE_CLIENT;
use super::super::report::{self, ReportSpan};
use super::super::watcher::WatchedSpan;
use super::super::wire;
use super::Directory;
use crate::DriverError;

/// The first measurement, with what was seen meanwhile.
pub(super) struct WatchedLoad {
    pub(super) load: LoadResult,
    /// What a server of ours did.
    served: Option<ServedUse>,
    /// What the agent reported.
    span: WatchedSpan,
    /// Of writes over a wire: what connecting to the server takes, idle and meanwhile.
    connect: Option<(Vec<Nanos>, Vec<Nanos>)>,
}

impl Directory<'_, '_> {
    /// The first run, with what is seen of the server meanwhile.
    pub(super) fn watched(&self) -> Result<WatchedLoad, DriverError> {
        let probe = match self.written_over_wire() {
            Some(address) => Some((address, wire::idle(address)?)),
            None => None,
        };
        let probe = probe.filter(|(_, idle)| !idle.is_empty());
        let watcher = self.session.watcher.as_ref();
        let port = self.place.server_port();
        watcher.inspect(|watcher| watcher.drop_caches(port));
        let before = watcher.and_then(|watcher| watcher.look(port, Side::Before));
        let report = ReportSpan::begin(self.session, self.server.first().copied());
        let run = || self.run(&self.source, self.job);
        let (mut load, connect) = match probe {
            Some((address, idle)) => {
                let time = self.session.slice();
                let (load, times) = wire::connects_during(address, time, run)?;
                (load?, Some((idle, times)))
            }
            None => (run()?, None),
        };
        let served = self.served(report);
        let after = watcher.and_then(|watcher| watcher.look(port, Side::After));
        let seen = watcher.and_then(|watcher| watcher.between(before.as_ref(), after.as_ref()));
        if let Some(server) = load.followed.get_mut(1).filter(|server| server.is_none()) {
            *server = seen;
        }
        let span = WatchedSpan::new(watcher, before, after);
        Ok(WatchedLoad {
            served: served.or_else(|| self.served_elsewhere(&span)),
            load,
            span,
            connect,
        })
    }

    /// What was seen while it was written: of reads, the export by itself shows more.
    pub(super) fn watched_writes(&self, e: &mut Examination, watched: &WatchedLoad) {
        e.served.clone_from(&watched.served);
        e.is_own_server = watched.span.is_own_server();
        let (own, rate) = (self.place.device.as_deref(), watched.load.rate);
        let disk = watched.span.disk(rate, Direction::Write, own);
        // A device with time to spare is no proof of a fast disk: the server's disk may be more than that, or another one.
        e.bounds
            .extend(disk.filter(|bound| rate.0 > bound.rate.0 / 2.0));
        let client = [
            watched.load.generator.as_ref(),
            watched.load.followed.first().and_then(Option::as_ref),
        ];
        let is_idle = |cpu: &CpuUse| cpu.utilisation() < IDLE_CLIENT;
        if let Some((idle, loaded)) = &watched.connect
            && client.into_iter().flatten().all(is_idle)
        {
            e.connect = ConnectTimes::new(idle.clone(), loaded.clone());
        }
    }

    /// The address of the server that an export attached here is written to over a wire.
    fn written_over_wire(&self) -> Option<SocketAddr> {
        let is_attached = matches!(self.place.kind, MountKind::Attached { .. });
        let is_written = is_attached && self.job.direction == Direction::Write;
        let address = SocketAddr::new(self.place.peer()?, self.place.server_port()?);
        is_written.then_some(address)
    }

    /// What a server of ours on this machine did for the mount, and for others.
    pub(super) fn served(&self, report: ReportSpan) -> Option<ServedUse> {
        let export = self.attached_export()?;
        let (direction, own) = (self.job.direction, self.own_clients());
        report.end(self.session, export, direction, &own)
    }

    /// The same as the agent of its machine reports it.
    fn served_elsewhere(&self, span: &WatchedSpan) -> Option<ServedUse> {
        let export = self.attached_export()?;
        let (direction, own) = (self.job.direction, self.own_clients());
        let (before, after) = (span.before.as_ref(), span.after.as_ref());
        report::between(before, after, export, direction, &own)
    }

    /// The export that is attached here, without a cache file in front of it.
    fn attached_export(&self) -> Option<&str> {
        match &self.place.kind {
            MountKind::Attached { target, .. } => target.as_ref().map(|one| one.export.as_str()),
            _ => None,
        }
    }

    /// The mount's own connections to its server.
    pub(super) fn own_clients(&self) -> OwnClients {
        let processes = self.place.client();
        let addresses = processes.iter().copied();
        OwnClients {
            addresses: addresses.flat_map(sockets::local_addresses).collect(),
            processes,
        }
    }
}
