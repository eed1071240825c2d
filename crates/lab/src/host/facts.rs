//! What is known about a target directory: filesystem, device, server, ceilings.

use std::fmt;
use std::fs;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::mounts::{self, Mount};
use super::{ceilings, identity, route};
use crate::checks::cache::Server;
use crate::checks::ceiling::Ceiling;
use crate::checks::data::DataFacts;
use crate::checks::direct::DioAlign;
use crate::checks::identity::Identity;
use crate::sensors::{DiskCounters, read};

/// A target as it was when it was measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TargetFacts {
    /// Its name in the plan; `target` and `against` when it was given on the command line.
    pub name: String,
    /// What it is called in the report.
    pub label: String,
    /// Where it is, without symbolic links.
    pub place: TargetPlace,
    /// `ext4`.
    pub filesystem: String,
    /// What is mounted there.
    pub source: String,
    /// How.
    pub options: String,
    /// The block device with counters of its own: `vda`, `loop0`.
    pub device: Option<String>,
    /// The device's model, where it gives one.
    pub model: Option<String>,
    /// Whether it is a disk that turns.
    pub rotational: Option<bool>,
    /// What direct I/O needs here, where the kernel says.
    pub dio_align: Option<DioAlign>,
    /// Where its server is.
    pub server: Server,
    /// The server's address, where it is known.
    pub peer: Option<IpAddr>,
    /// The processes of this machine that work for it.
    pub processes: Vec<Process>,
    /// What it cannot be faster than.
    pub ceilings: Vec<Ceiling>,
    /// The interface that leads to its server, where the server's address is known.
    pub interface: Option<String>,
    /// The identity of its disk.
    pub identity: Option<Identity>,
    /// What is in its test file.
    pub data: Option<DataFacts>,
}

/// What is read and written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TargetPlace {
    /// A directory, in which a file is made.
    Directory(PathBuf),
    /// A block device.
    Device(PathBuf),
    /// An export, measured with fio's own client.
    Uri(String),
    /// A directory of another machine, read and written by a fio there.
    There {
        /// The agent that has it run, as given: `host:port`.
        machine: String,
        /// The directory.
        directory: PathBuf,
    },
}

impl fmt::Display for TargetPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Directory(path) | Self::Device(path) => path.display().fmt(f),
            Self::Uri(uri) => f.write_str(uri),
            Self::There { machine, directory } => write!(f, "{machine}:{}", directory.display()),
        }
    }
}

/// A process that works for a target.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Process {
    /// As what.
    pub role: Role,
    /// Its id while the run was made.
    pub pid: u32,
}

/// On which end a process works.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// It holds the bytes.
    Server,
    /// It owns the attachment or the mount.
    Client,
}

impl Role {
    /// As stored and printed.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Server => "server",
            Self::Client => "client",
        }
    }
}

impl TargetFacts {
    /// The ids of the processes of this role.
    pub fn pids(&self, role: Role) -> impl Iterator<Item = u32> {
        let those = self.processes.iter();
        those
            .filter(move |process| process.role == role)
            .map(|process| process.pid)
    }
}

/// What the caller knows of a target.
#[derive(Debug, Clone)]
pub struct KnownTarget {
    /// Its name.
    pub name: String,
    /// What it is called.
    pub label: String,
    /// Where it is.
    pub place: TargetPlace,
    /// What works for it.
    pub processes: Vec<Process>,
    /// The server's address.
    pub peer: Option<IpAddr>,
}

/// Finds out about a target. `measured` are the ceilings measured once for all of them.
#[must_use]
pub(crate) fn target_facts(known: KnownTarget, measured: &MeasuredCeilings) -> TargetFacts {
    let mounts = mounts::of_this_process();
    let mount = match &known.place {
        TargetPlace::Directory(path) => mounts::find(&mounts, path),
        TargetPlace::Device(_) | TargetPlace::Uri(_) | TargetPlace::There { .. } => None,
    };
    let device = match &known.place {
        TargetPlace::Directory(_) => mount.and_then(own_device),
        TargetPlace::Device(path) => device_at(path),
        TargetPlace::Uri(_) | TargetPlace::There { .. } => None,
    };
    let peer = known.peer.or_else(|| mount.and_then(Mount::peer));
    let runs_here = known
        .processes
        .iter()
        .any(|process| process.role == Role::Server);
    let server = match &known.place {
        TargetPlace::Uri(_) if !runs_here && peer.is_none_or(|peer| !peer.is_loopback()) => {
            Server::Elsewhere
        }
        _ => server_of(runs_here, peer, mount, device.as_ref(), &mounts),
    };
    let (filesystem, source) = match (&known.place, mount) {
        (TargetPlace::Directory(_), Some(mount)) => {
            (mount.filesystem.clone(), mount.source.clone())
        }
        (TargetPlace::Directory(_), None) => ("unknown".into(), "unknown".into()),
        (raw, _) => ("none".into(), raw.to_string()),
    };
    TargetFacts {
        filesystem,
        source,
        options: mount.map(|mount| mount.options.clone()).unwrap_or_default(),
        model: device
            .as_ref()
            .and_then(|device| attribute(&device.name, "device/model")),
        rotational: device.as_ref().and_then(rotational),
        identity: device
            .as_ref()
            .and_then(|device| identity::of(&device.name)),
        device: device.map(|device| device.name),
        interface: peer.and_then(route::to),
        data: None,
        dio_align: None,
        ceilings: ceilings_of(server, peer, measured),
        name: known.name,
        label: known.label,
        place: known.place,
        processes: known.processes,
        server,
        peer,
    }
}

/// Whether it turns; a loop or nbd device says something by default and knows nothing.
fn rotational(device: &DiskCounters) -> Option<bool> {
    let knows = !["loop", "nbd"]
        .iter()
        .any(|kind| device.name.starts_with(kind));
    let value = knows.then(|| attribute(&device.name, "queue/rotational"))??;
    Some(value == "1")
}

/// The counters of the device itself.
fn device_at(path: &Path) -> Option<DiskCounters> {
    let path = fs::canonicalize(path).ok()?;
    read::device(path.strip_prefix("/dev").ok()?.to_str()?)
}

/// Ceilings that are measured once for a run.
#[derive(Debug, Clone)]
pub struct MeasuredCeilings {
    /// Of memory.
    pub memory: Ceiling,
    /// Of local sockets, when a target may need it.
    pub socket: Option<Ceiling>,
}

impl MeasuredCeilings {
    /// Measures both: about half a second.
    #[must_use]
    pub fn now() -> Self {
        Self {
            memory: ceilings::memory(),
            socket: ceilings::local_socket(),
        }
    }
}

/// The device by the mount's number, or by its source where the filesystem has a number of its own
/// (btrfs).
fn own_device(mount: &Mount) -> Option<DiskCounters> {
    let devices = read::devices();
    let source = fs::canonicalize(&mount.source).ok();
    let named = source
        .as_ref()
        .and_then(|path| path.strip_prefix("/dev").ok()?.to_str());
    devices
        .iter()
        .find(|device| device.number == mount.number)
        .or_else(|| {
            devices
                .iter()
                .find(|device| Some(device.name.as_str()) == named)
        })
        .cloned()
}

fn attribute(device: &str, name: &str) -> Option<String> {
    read::attribute(&Path::new("/sys/class/block").join(device).join(name))
}

fn server_of(
    runs_here: bool,
    peer: Option<IpAddr>,
    mount: Option<&Mount>,
    device: Option<&DiskCounters>,
    mounts: &[Mount],
) -> Server {
    if runs_here || peer.is_some_and(|address| address.is_loopback()) {
        return Server::Here;
    }
    let over_fuse = |device: &DiskCounters| {
        // A loop device over a file on FUSE is how a disk is attached without the kernel's help.
        attribute(&device.name, "loop/backing_file")
            .and_then(|file| mounts::find(mounts, Path::new(&file)).cloned())
            .is_some_and(|below| below.filesystem.starts_with("fuse"))
    };
    let remote = peer.is_some()
        || mount.is_some_and(Mount::is_network)
        || device.is_some_and(|device| device.name.starts_with("nbd") || over_fuse(device));
    if remote {
        Server::Elsewhere
    } else {
        Server::None
    }
}

fn ceilings_of(server: Server, peer: Option<IpAddr>, measured: &MeasuredCeilings) -> Vec<Ceiling> {
    let mut found = vec![measured.memory.clone()];
    match server {
        Server::None => {}
        Server::Here => found.extend(measured.socket.clone()),
        Server::Elsewhere => found.extend(
            peer.and_then(route::link)
                .map(|(interface, speed)| Ceiling::of_link(interface, speed)),
        ),
    }
    found
}
