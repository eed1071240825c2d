//! [`DirectoryInfo`]: what a directory is on, and the stages of its I/O path.

use std::net::{IpAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};

use attach::{AttachmentStatus, CacheCounts, ServerUse};
use lab::doctor::{DoctorJob, Stage};
use lab::host::mounts::{self, Mount};
use lab::host::network_mount::NetworkMount;
use lab::host::sockets;
use lab::plan::Direction;
use lab::sensors::read::{devices, pids};
use nbd::client::{Address, Target};

use crate::DriverError;

/// A directory and what is behind it.
#[derive(Debug)]
pub(super) struct DirectoryInfo {
    /// Without symbolic links.
    pub(super) directory: PathBuf,
    pub(super) mount: Mount,
    /// The block device with counters of its own.
    pub(super) device: Option<String>,
    pub(super) kind: MountKind,
}

/// How the bytes get there.
#[derive(Debug)]
pub(super) enum MountKind {
    /// From a device of this machine, or its memory.
    Local,
    /// Through an attachment of ours.
    Attached {
        attachment: Box<AttachmentStatus>,
        /// The export, if that is what is attached; of several servers, on the one that is used.
        target: Option<Target>,
        /// The cache file in front of the export, if that is what is attached.
        cache: Option<Box<CachedExport>>,
    },
    /// Over SSH.
    Sshfs(Sshfs),
    /// Through a client of the kernel, NFS's or SMB's.
    Kernel(NetworkMount),
    /// Over a network in some other way: 9p, ceph.
    Network { peer: Option<IpAddr> },
    /// Through some other program.
    Fuse,
}

/// An export behind a cache file.
#[derive(Debug)]
pub(super) struct CachedExport {
    pub(super) file: PathBuf,
    pub(super) target: Target,
}

/// An SSHFS mount.
#[derive(Debug)]
pub(super) struct Sshfs {
    /// sshfs and its ssh.
    pub(super) client: Vec<u32>,
    /// The server's processes, if it is this machine.
    pub(super) server: Vec<u32>,
    pub(super) peer: Option<IpAddr>,
    /// The directory on the server.
    pub(super) path: Option<PathBuf>,
}

impl DirectoryInfo {
    /// Finds out about a directory.
    pub(super) fn find(directory: &Path) -> Result<Self, DriverError> {
        let failed = |error: std::io::Error| {
            DriverError::because(format!("cannot look at {}", directory.display()), error)
        };
        let directory = std::fs::canonicalize(directory).map_err(failed)?;
        let table = std::fs::read_to_string("/proc/self/mountinfo").map_err(failed)?;
        Self::of(directory, &table)
    }

    /// A directory by the text of `/proc/self/mountinfo`.
    pub(super) fn of(directory: PathBuf, table: &str) -> Result<Self, DriverError> {
        let table = mounts::parse(table);
        let Some(mount) = mounts::find(&table, &directory).cloned() else {
            let what = format!("{} is on no filesystem that is known", directory.display());
            return Err(DriverError::new(what));
        };
        let device = devices()
            .into_iter()
            .find(|device| device.number == mount.number);
        let kind = kind(&mount);
        Ok(Self {
            device: device.map(|device| device.name),
            directory,
            mount,
            kind,
        })
    }

    /// In a few words.
    pub(super) fn about(&self) -> String {
        let Mount {
            filesystem, source, ..
        } = &self.mount;
        match &self.kind {
            MountKind::Attached { attachment, .. } => {
                let used = attachment.used.as_ref();
                let used = used.map(|used| format!(", of which {} is used", used.server));
                format!(
                    "{filesystem} on {source}, attached from {}{}",
                    attachment.source,
                    used.unwrap_or_default()
                )
            }
            MountKind::Kernel(network) => format!("{filesystem} on {source}, {network}"),
            _ => format!("{filesystem} on {source}"),
        }
    }

    /// What a reader has to know of how requests get there.
    pub(super) fn remark(&self, job: &DoctorJob) -> Option<String> {
        let MountKind::Kernel(network) = &self.kind else {
            return None;
        };
        let (name, size) = match job.direction {
            Direction::Read => ("rsize", network.read_size?),
            Direction::Write => ("wsize", network.write_size?),
        };
        let pieces = job.block_size.0.div_ceil(size.0.max(1));
        (pieces > 1).then(|| {
            format!(
                "A request of {} goes over the wire as {pieces} of {size} at most: the mount's {name}.",
                job.block_size
            )
        })
    }

    /// The export that requests go to, unless a cache file answers them.
    pub(super) fn export(&self) -> Option<&Target> {
        let MountKind::Attached { target, cache, .. } = &self.kind else {
            return None;
        };
        let behind = cache.as_ref().map(|cache| &cache.target);
        target.as_ref().or(behind)
    }

    /// The cache file in front of the export.
    pub(super) fn cache(&self) -> Option<&CachedExport> {
        match &self.kind {
            MountKind::Attached { cache, .. } => cache.as_deref(),
            _ => None,
        }
    }

    /// What the cache file has done until now, as the owner of the attachment reports it.
    pub(super) fn cache_counts(&self) -> Option<CacheCounts> {
        let file = &self.cache()?.file;
        let mut counts = self.attachment_now()?.caches.into_iter();
        counts.find(|counts| counts.file == *file)
    }

    /// The server that is used now, where the disk has several.
    pub(super) fn server_now(&self) -> Option<ServerUse> {
        self.attachment_now()?.used
    }

    fn attachment_now(&self) -> Option<AttachmentStatus> {
        let MountKind::Attached { attachment, .. } = &self.kind else {
            return None;
        };
        let mut all = attach::status().ok()?.into_iter();
        all.find(|one| one.id == attachment.id)
    }

    /// The stages of the path, the page cache among them where it is not bypassed. Of an attachment, those to `export`, or
    /// to a disk of this machine.
    pub(super) fn way(&self, with_cache: bool, export: Option<&Target>) -> Vec<Stage> {
        let mut way = vec![Stage::Generator, Stage::Queue];
        way.extend(with_cache.then_some(Stage::Cache));
        way.push(Stage::Client);
        let remote = match &self.kind {
            MountKind::Local | MountKind::Fuse => false,
            MountKind::Attached { .. } => {
                if export.is_some_and(|target| target.tls.is_some()) {
                    way.push(Stage::Cipher);
                }
                export.is_some()
            }
            MountKind::Sshfs(_) => {
                way.push(Stage::Cipher);
                true
            }
            MountKind::Kernel(network) => {
                way.extend(network.is_encrypted.then_some(Stage::Cipher));
                true
            }
            MountKind::Network { .. } => true,
        };
        if remote {
            way.extend([Stage::Protocol, Stage::Wire, Stage::Server]);
        }
        way.push(Stage::Disk);
        way
    }

    /// The TCP port of the server, where it is known.
    pub(super) fn server_port(&self) -> Option<u16> {
        match (&self.kind, self.export()) {
            (MountKind::Kernel(network), _) => Some(network.port),
            (_, Some(target)) => match &target.address {
                Address::Tcp { port, .. } => Some(*port),
                _ => None,
            },
            _ => None,
        }
    }

    /// The address of the server's machine, where that is not this one.
    pub(super) fn peer(&self) -> Option<IpAddr> {
        let peer = match &self.kind {
            MountKind::Attached { .. } => match &self.export()?.address {
                Address::Tcp { host, port } => {
                    let found = (host.as_str(), *port).to_socket_addrs().ok();
                    found.and_then(|mut all| Some(all.next()?.ip()))
                }
                _ => None,
            },
            MountKind::Sshfs(sshfs) => sshfs.peer,
            MountKind::Kernel(network) => network.peer,
            MountKind::Network { peer } => *peer,
            MountKind::Local | MountKind::Fuse => None,
        };
        peer.filter(|peer| !peer.is_loopback())
    }

    /// The processes of this end that the bytes go through.
    pub(super) fn client(&self) -> Vec<u32> {
        match &self.kind {
            MountKind::Attached { attachment, .. } => vec![attachment.pid],
            MountKind::Sshfs(sshfs) => sshfs.client.clone(),
            _ => Vec::new(),
        }
    }
}

fn kind(mount: &Mount) -> MountKind {
    if let Some(attachment) = attachment_at(&mount.point) {
        return MountKind::Attached {
            target: attachment.disk().parse().ok(),
            cache: cached_export(&attachment),
            attachment: Box::new(attachment),
        };
    }
    if let Some(network) = NetworkMount::of(mount) {
        return MountKind::Kernel(network);
    }
    match mount.filesystem.as_str() {
        "fuse.sshfs" => MountKind::Sshfs(sshfs(mount)),
        _ if mount.is_network() => MountKind::Network { peer: mount.peer() },
        name if name.starts_with("fuse") && name != "fuseblk" => MountKind::Fuse,
        _ => MountKind::Local,
    }
}

/// The export behind the one cache file of an attachment.
fn cached_export(attachment: &AttachmentStatus) -> Option<Box<CachedExport>> {
    let target = attachment.cached.as_ref()?.parse().ok()?;
    let [counts] = attachment.caches.as_slice() else {
        return None;
    };
    let file = counts.file.clone();
    Some(Box::new(CachedExport { file, target }))
}

fn attachment_at(point: &Path) -> Option<AttachmentStatus> {
    let is_there = |attachment: &AttachmentStatus| {
        attachment
            .mount
            .as_ref()
            .is_some_and(|place| place.dir == point)
    };
    attach::status().ok()?.into_iter().find(is_there)
}

/// The processes of an SSHFS mount. sshfs goes to the background and leaves its ssh to the first process,
/// so both are recognised by their command lines.
fn sshfs(mount: &Mount) -> Sshfs {
    let point = mount.point.to_string_lossy().into_owned();
    let (host, path) = mount.source.split_once(':').unwrap_or((&mount.source, ""));
    let is_program = |words: &[String], name: &str| {
        let first = words.first().map(Path::new);
        first
            .and_then(Path::file_name)
            .is_some_and(|file| file == name)
    };
    let has = |words: &[String], wanted: &str| words.iter().any(|word| word == wanted);
    let client = processes(|words| {
        let mounts = is_program(words, "sshfs") && has(words, &point);
        let carries = is_program(words, "ssh") && has(words, host) && has(words, "sftp");
        mounts || carries
    });
    let name = host.rsplit_once('@').map_or(host, |(_, name)| name);
    let peer = (name, 22)
        .to_socket_addrs()
        .ok()
        .and_then(|mut all| all.next());
    Sshfs {
        server: sockets::peers_of(&client),
        client,
        peer: peer.map(|address| address.ip()),
        path: Some(PathBuf::from(path)).filter(|path| path.is_absolute()),
    }
}

/// The processes with `wanted` words in their command lines.
fn processes(wanted: impl Fn(&[String]) -> bool) -> Vec<u32> {
    pids().filter(|id| wanted(&words(*id))).collect()
}

fn words(process: u32) -> Vec<String> {
    let line = std::fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default();
    let words = line
        .split(|byte| *byte == 0)
        .filter(|word| !word.is_empty());
    words
        .map(|word| String::from_utf8_lossy(word).into_owned())
        .collect()
}
