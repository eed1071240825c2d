//! What is behind a directory, by the kind of its mount.

use std::net::IpAddr;
use std::path::{Path, PathBuf};

use lab::doctor::load::LoadSource;
use lab::doctor::{Bound, CacheUse, Evidence, Examination, ReadOrigin, Stage, Substitution};
use lab::host::{ceilings, residency};
use lab::plan::Direction;
use lab::units::{Bytes, MIB};
use nbd::client::Target;

use super::super::bare_wire;
use super::super::directory_info::{CachedExport, DirectoryInfo, MountKind, Sshfs};
use super::super::remote::{DEPTH_FULL, Remote};
use super::super::server::RemoteServer;
use super::super::session::DoctorSession;
use super::super::wire;
use super::Directory;
use crate::DriverError;

/// Bytes that are read again and again to have them in the server's memory.
const WARM: Bytes = Bytes(16 * MIB);

/// The export that a device of this machine is attached from.
pub(super) struct ExportBehind<'a, 'b> {
    pub(super) remote: Remote<'a, 'b>,
    /// The place of its own reading among the substitutions.
    pub(super) index: usize,
}

/// The processes of the server, where it is on this machine.
pub(super) fn server(session: &DoctorSession<'_>, place: &DirectoryInfo) -> Vec<u32> {
    if let Some(said) = session.args.server_pid {
        return vec![said];
    }
    match (&place.kind, place.export()) {
        (MountKind::Sshfs(sshfs), _) => sshfs.server.clone(),
        (_, Some(target)) => RemoteServer::find(session, target).processes(),
        _ => Vec::new(),
    }
}

impl Directory<'_, '_> {
    /// Replaces what can be replaced, and measures what can be measured by itself.
    pub(super) fn behind(
        &self,
        e: &mut Examination,
    ) -> Result<Option<ExportBehind<'_, '_>>, DriverError> {
        if self.job.direction == Direction::Write {
            self.behind_writes(e)?;
            return Ok(None);
        }
        match (self.place.cache(), self.place.export()) {
            (Some(cached), _) => self.behind_cache_file(e, cached),
            (None, Some(target)) => self.export(e, target),
            (None, None) => {
                self.behind_reads(e)?;
                Ok(None)
            }
        }
    }

    /// The cache file by itself where it answers the reads, else what is behind it.
    fn behind_cache_file<'r>(
        &'r self,
        e: &mut Examination,
        cached: &'r CachedExport,
    ) -> Result<Option<ExportBehind<'r, 'r>>, DriverError> {
        let origin = e.cache.as_ref().map_or(ReadOrigin::Both, CacheUse::origin);
        match origin {
            ReadOrigin::File | ReadOrigin::Memory => {
                let size = std::fs::metadata(&cached.file).map_or(0, |found| found.len());
                let size = self.file.size.min(Bytes(size));
                self.alone(e, &cached.file, size)?;
                Ok(None)
            }
            ReadOrigin::Disk | ReadOrigin::Both => {
                let with_cache = e.way.contains(&Stage::Cache);
                e.way = self.place.way(with_cache, Some(&cached.target));
                e.peer = self.place.peer();
                self.export(e, &cached.target)
            }
        }
    }

    /// What can be had without a write to anything but the file of our own: the wire by itself, and for an export what is
    /// read of a null export of our own in its place.
    fn behind_writes(&self, e: &mut Examination) -> Result<(), DriverError> {
        e.note_unmeasured(Stage::Disk, "nothing is written but to the file of our own");
        match (&self.place.kind, self.place.export()) {
            (MountKind::Kernel(network), _) => self.wire(e, network.peer),
            (MountKind::Network { peer }, _) => self.wire(e, *peer),
            (MountKind::Sshfs(sshfs), _) if sshfs.server.is_empty() => self.wire(e, sshfs.peer),
            (_, Some(target)) => self.export_written(e, target),
            _ => Ok(()),
        }
    }

    /// What limits writes to an export: a null export of our own carries the same requests the other way.
    fn export_written(&self, e: &mut Examination, target: &Target) -> Result<(), DriverError> {
        let mut remote = Remote::new(self.session, target)?;
        remote.without = vec![Stage::Client];
        e.is_own_server |= remote.far.is_own();
        let (first, first_bound) = (e.substitutions.len(), e.bounds.len());
        remote.null_of_ours(e)?;
        for sub in &mut e.substitutions[first..] {
            sub.by.push_str(", which is read");
            // Writes may take more than reads: only a faster one says something.
            sub.sure = false;
        }
        for bound in &mut e.bounds[first_bound..] {
            if let Evidence::AtLeast { how } = &mut bound.evidence {
                how.push_str(", for reads");
            }
        }
        let Some(address) = remote.far.address.filter(|one| !one.ip().is_loopback()) else {
            return Ok(());
        };
        // What a link says of itself is passed by none, but other links may follow.
        let link = wire::link_bound(address.ip());
        e.bounds
            .extend(link.filter(|bound| e.rate.0 > bound.rate.0 / 2.0));
        bare_wire::both_ways(self.session, e, address.ip())
    }

    fn behind_reads(&self, e: &mut Examination) -> Result<(), DriverError> {
        match &self.place.kind {
            MountKind::Sshfs(sshfs) => self.sshfs(e, sshfs),
            MountKind::Kernel(network) => {
                let why = "the time of the kernel's own threads, which do most of it, is no process's time";
                e.note_unmeasured(Stage::Client, why);
                self.network(e, network.peer)
            }
            MountKind::Network { peer } => self.network(e, *peer),
            MountKind::Local | MountKind::Attached { target: None, .. } => self.device(e),
            MountKind::Fuse | MountKind::Attached { .. } => Ok(()),
        }
    }

    /// The export by itself, without the filesystem and the device on this machine, and then its parts.
    fn export<'r>(
        &'r self,
        e: &mut Examination,
        target: &'r Target,
    ) -> Result<Option<ExportBehind<'r, 'r>>, DriverError> {
        let by = "the export by itself, without a filesystem and a device here";
        if !self.session.has_time(e, Stage::Client, by)? {
            for part in [Stage::Protocol, Stage::Wire, Stage::Disk] {
                self.session
                    .has_time(e, part, "what is behind the export")?;
            }
            return Ok(None);
        }
        let mut remote = Remote::new(self.session, target)?;
        remote.without = vec![Stage::Client];
        remote.own = self.own_clients();
        let plain = remote.plain()?;
        let rate = plain.measured.rate;
        let index = e.substitutions.len();
        e.substitutions
            .push(Substitution::new(vec![Stage::Client], by, rate));
        remote.replace(e, &plain)?;
        Ok(Some(ExportBehind { remote, index }))
    }

    /// A directory of a server, through a client of which nothing can be replaced.
    fn network(&self, e: &mut Examination, peer: Option<IpAddr>) -> Result<(), DriverError> {
        self.warm(e, None)?;
        self.wire(e, peer)?;
        let why = "by itself: it is the server's; run the doctor on its directory there";
        e.note_unmeasured(Stage::Disk, why);
        Ok(())
    }

    /// The wire to a server, as its link reports it and as it is by itself.
    fn wire(&self, e: &mut Examination, peer: Option<IpAddr>) -> Result<(), DriverError> {
        let Some(peer) = peer else {
            let why = "by itself: the server's address is not known";
            e.note_unmeasured(Stage::Wire, why);
            return Ok(());
        };
        e.bounds.extend(wire::link_bound(peer));
        bare_wire::both_ways(self.session, e, peer)
    }

    fn sshfs(&self, e: &mut Examination, sshfs: &Sshfs) -> Result<(), DriverError> {
        let file = sshfs
            .path
            .as_deref()
            .and_then(|path| self.on_the_server(path));
        let file = file.filter(|_| !sshfs.server.is_empty());
        self.warm(e, file.as_deref())?;
        if sshfs.server.is_empty() {
            self.wire(e, sshfs.peer)?;
            let why = "by itself: the server runs elsewhere";
            e.note_unmeasured(Stage::Disk, why);
            return Ok(());
        }
        if let Some(socket) = ceilings::local_socket() {
            let how = "a socket of this machine by itself";
            e.bounds.push(Bound::alone(Stage::Wire, socket.rate, how));
        }
        match file {
            Some(file) => {
                residency::forget(&file, self.file.size);
                self.alone(e, &file, self.file.size)
            }
            None => Ok(()),
        }
    }

    /// The test file as the server has it, if that is this machine.
    fn on_the_server(&self, root: &Path) -> Option<PathBuf> {
        let below = self.file.path.strip_prefix(&self.place.mount.point).ok()?;
        let path = root.join(below);
        let found = std::fs::metadata(&path).ok()?;
        (found.len() >= self.file.size.0).then_some(path)
    }

    /// The device without the filesystem.
    fn device(&self, e: &mut Examination) -> Result<(), DriverError> {
        let Some(device) = &self.place.device else {
            return Ok(());
        };
        let path = PathBuf::from("/dev").join(device);
        if rustix::fs::access(&path, rustix::fs::Access::READ_OK).is_err() {
            let why = format!("{} by itself: only root may read it", path.display());
            e.note_unmeasured(Stage::Disk, why);
            return Ok(());
        }
        self.alone(e, &path, self.file.size)
    }

    /// A file or a device by itself, at a depth at which it shows what it can do.
    fn alone(&self, e: &mut Examination, path: &Path, size: Bytes) -> Result<(), DriverError> {
        let named = format!("{} by itself", path.display());
        if !self.session.has_time(e, Stage::Disk, &named)? {
            return Ok(());
        }
        let depth = self.job.depth.max(DEPTH_FULL);
        let chosen = self.load.choose(path, false);
        let job = lab::doctor::DoctorJob { depth, ..self.job };
        let ran = chosen.map(|(engine, direct)| {
            let source = LoadSource::File {
                path: path.to_owned(),
                size,
                engine,
                direct,
            };
            self.run(&source, job)
        });
        match ran {
            Ok(Ok(alone)) => {
                let how = format!("{named}, {depth} at once");
                e.bounds.push(Bound::alone(Stage::Disk, alone.rate, how));
            }
            Ok(Err(failure)) => {
                self.session.go_on()?;
                e.note_unmeasured(Stage::Disk, failure.to_string());
            }
            Err(error) => {
                self.session.go_on()?;
                let why = format!("{named}: {error}");
                e.note_unmeasured(Stage::Disk, why);
            }
        }
        Ok(())
    }

    /// A few MiB again and again: a server that has memory answers from it.
    fn warm(&self, e: &mut Examination, on_the_server: Option<&Path>) -> Result<(), DriverError> {
        let LoadSource::File {
            path,
            engine,
            direct: true,
            ..
        } = &self.source
        else {
            return Ok(());
        };
        let size = self.file.size.min(WARM.max(self.job.in_flight()));
        let by = format!("the first {size} again and again, from the server's memory");
        if !self.session.has_time(e, Stage::Disk, &by)? {
            return Ok(());
        }
        let source = LoadSource::File {
            path: path.clone(),
            size,
            engine: *engine,
            direct: true,
        };
        let warm = self.run(&source, self.job)?;
        let resident = on_the_server.and_then(|file| residency::look(file, size));
        e.substitutions.push(Substitution {
            sure: resident.is_some_and(|found| found.part() > 0.95),
            ..Substitution::new(vec![Stage::Disk], by, warm.rate)
        });
        Ok(())
    }
}
