//! What is known about a target directory: filesystem, device, server, ceilings.

use std::fs;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::mounts::{self, Mount};
use super::{ceilings, route};
use crate::checks::cache::Server;
use crate::checks::ceiling::Ceiling;
use crate::checks::direct::DioAlign;
use crate::sensors::{DiskCounters, read};
use crate::units::BitRate;

/// A target as it was when it was measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TargetFacts {
    /// What it is called in the report.
    pub label: String,
    /// The directory, without symbolic links.
    pub directory: PathBuf,
    /// `ext4`.
    pub filesystem: String,
    /// What is mounted there.
    pub source: String,
    /// How.
    pub options: String,
    /// The block device whose counters are its own: `vda`, `loop0`.
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
    /// What it cannot be faster than.
    pub ceilings: Vec<Ceiling>,
}

/// What the caller knows of a target's server.
#[derive(Debug, Clone, Copy, Default)]
pub struct ServerHint {
    /// It is a process of this machine.
    pub runs_here: bool,
    /// Its address.
    pub peer: Option<IpAddr>,
}

/// Finds out about `directory`. `measured` are the ceilings measured once for all targets.
#[must_use]
pub fn target_facts(
    label: String,
    directory: PathBuf,
    hint: ServerHint,
    measured: &Measured,
) -> TargetFacts {
    let mounts = mount_table();
    let mount = mounts::find(&mounts, &directory);
    let device = mount.and_then(own_device);
    let peer = hint.peer.or_else(|| mount.and_then(Mount::peer));
    let server = server_of(hint, peer, mount, device.as_ref(), &mounts);
    TargetFacts {
        label,
        filesystem: mount.map_or_else(|| "unknown".into(), |mount| mount.filesystem.clone()),
        source: mount.map_or_else(|| "unknown".into(), |mount| mount.source.clone()),
        options: mount.map(|mount| mount.options.clone()).unwrap_or_default(),
        model: device
            .as_ref()
            .and_then(|device| attribute(&device.name, "device/model")),
        rotational: device
            .as_ref()
            // A loop or nbd device says something by default and knows nothing.
            .filter(|device| {
                !["loop", "nbd"]
                    .iter()
                    .any(|kind| device.name.starts_with(kind))
            })
            .and_then(|device| attribute(&device.name, "queue/rotational"))
            .map(|value| value == "1"),
        device: device.map(|device| device.name),
        dio_align: None,
        ceilings: ceilings_of(server, peer, measured),
        directory,
        server,
        peer,
    }
}

/// Ceilings that are measured once for a run.
#[derive(Debug, Clone)]
pub struct Measured {
    /// Of memory.
    pub memory: Ceiling,
    /// Of local sockets, when a target may need it.
    pub socket: Option<Ceiling>,
}

impl Measured {
    /// Measures both: about half a second.
    #[must_use]
    pub fn now() -> Self {
        Self {
            memory: ceilings::memory(),
            socket: ceilings::local_socket(),
        }
    }
}

fn mount_table() -> Vec<Mount> {
    fs::read_to_string("/proc/self/mountinfo")
        .map_or_else(|_| Vec::new(), |text| mounts::parse(&text))
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
    let text = fs::read_to_string(format!("/sys/class/block/{device}/{name}")).ok()?;
    Some(text.trim().to_owned()).filter(|text| !text.is_empty())
}

fn server_of(
    hint: ServerHint,
    peer: Option<IpAddr>,
    mount: Option<&Mount>,
    device: Option<&DiskCounters>,
    mounts: &[Mount],
) -> Server {
    if hint.runs_here || peer.is_some_and(|address| address.is_loopback()) {
        return Server::Here;
    }
    let over_fuse = |device: &DiskCounters| {
        // A loop device whose file is on FUSE is how a disk is attached without the kernel's help.
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

fn ceilings_of(server: Server, peer: Option<IpAddr>, measured: &Measured) -> Vec<Ceiling> {
    let mut found = vec![measured.memory.clone()];
    match server {
        Server::None => {}
        Server::Here => found.extend(measured.socket.clone()),
        Server::Elsewhere => found.extend(peer.and_then(link)),
    }
    found
}

/// The ceiling of the interface that leads to `peer`, where the interface gives its speed.
fn link(peer: IpAddr) -> Option<Ceiling> {
    let v4 = fs::read_to_string("/proc/net/route").unwrap_or_default();
    let v6 = fs::read_to_string("/proc/net/ipv6_route").unwrap_or_default();
    let interface = route::interface(peer, &v4, &v6)?;
    let speed = fs::read_to_string(format!("/sys/class/net/{interface}/speed")).ok()?;
    // Interfaces without a link give -1, which is no number here.
    let mbit: u64 = speed.trim().parse().ok()?;
    (mbit > 0).then(|| Ceiling::of_link(interface, BitRate::from_mbit(mbit)))
}
