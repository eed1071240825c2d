//! [`Far`]: what can be known of the other end of a connection: its process and its disk, where it runs
//! on this machine, and the wire to it.

use std::net::{SocketAddr, ToSocketAddrs};
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};

use lab::host::{listeners, residency};
use lab::units::Bytes;
use nbd::client::{Address, Target};

use super::null_export::Over;
use super::reading::Opening;
use super::sockets;
use crate::control::{self, ServerStatus};
use crate::graph::{Disk, NamedDisk, resolve};

/// Bytes of a file that are taken out of the page cache at a time at most: all of it.
const WHOLE: u64 = 1 << 62;

/// The other end.
#[derive(Debug)]
pub(super) struct Far {
    /// The server's process.
    pub(super) process: Option<u32>,
    /// Where it listens, if that is over a network.
    pub(super) address: Option<SocketAddr>,
    /// Whether it runs on this machine, as far as its address tells.
    pub(super) is_here: bool,
    /// Its disk.
    pub(super) disk: Option<FarDisk>,
    /// Why that is not known.
    pub(super) no_disk: String,
}

/// The disk of a server on this machine.
#[derive(Debug, Clone)]
pub(super) struct FarDisk {
    pub(super) opening: Opening,
    /// In words.
    pub(super) named: String,
    /// The files that it is in.
    files: Vec<PathBuf>,
    /// Whether it is nothing but files: what they have in memory is the disk's.
    is_plain: bool,
}

impl Far {
    /// Finds out about the server of `target`. `said` is its process, if the user tells.
    pub(super) fn find(target: &Target, said: Option<u32>) -> Self {
        let (address, is_here, found) = match &target.address {
            Address::Tcp { host, port } => {
                let address = (host.as_str(), *port).to_socket_addrs().ok();
                let address = address.and_then(|mut all| all.next());
                let is_here = address.is_some_and(|address| address.ip().is_loopback());
                let found = is_here.then(|| listeners::owner_of_tcp(*port)).flatten();
                (address, is_here, found)
            }
            Address::Unix(path) => (None, true, listeners::owner_of_unix(path)),
            Address::Vsock(_) => (None, false, None),
        };
        let mut far = Self {
            process: said.or(found),
            address,
            is_here,
            disk: None,
            no_disk: "the server runs elsewhere, or cannot be looked at".to_owned(),
        };
        if let Some(process) = far.process {
            match disk_of(process, &target.export) {
                Ok(disk) => far.disk = Some(disk),
                Err(why) => far.no_disk = why,
            }
        }
        far
    }

    /// How a server of our own is reached in the same way.
    pub(super) fn alike(&self, target: &Target) -> Over {
        match (&target.tls, &target.address) {
            (Some(_), _) => Over::Tls,
            (None, Address::Unix(_)) => Over::Unix,
            (None, _) => Over::Tcp,
        }
    }

    /// The processes to follow.
    pub(super) fn processes(&self) -> Vec<u32> {
        self.process.into_iter().collect()
    }
}

impl FarDisk {
    /// A file on the server, as it is seen here.
    pub(super) fn file(path: PathBuf) -> Self {
        Self {
            named: format!("{} by itself", path.display()),
            opening: Opening::Look(path.clone()),
            files: vec![path],
            is_plain: true,
        }
    }

    /// Takes what memory has of its files out of it.
    pub(super) fn forget(&self) {
        self.files
            .iter()
            .for_each(|file| residency::forget(file, Bytes(WHOLE)));
    }

    /// Whether memory has the first bytes of the only file that this disk is.
    pub(super) fn is_in_memory(&self, len: u64) -> bool {
        let [file] = self.files.as_slice() else {
            return false;
        };
        let found = residency::look(file, Bytes(len));
        self.is_plain && found.is_some_and(|found| found.part() > 0.95)
    }
}

/// The disk behind an export of a process: as our own servers tell it, else the only file that it has open.
fn disk_of(process: u32, export: &str) -> Result<FarDisk, String> {
    let ours = control::client::statuses();
    if let Some(status) = ours.iter().find(|status| status.process == process) {
        return of_ours(status, export);
    }
    let is_disk = |path: &PathBuf| {
        let found = std::fs::metadata(path);
        found.is_ok_and(|found| found.file_type().is_block_device() || found.len() >= 1 << 20)
    };
    let mut files = sockets::files_of(process);
    let program = std::fs::read_link(format!("/proc/{process}/exe")).unwrap_or_default();
    files.retain(|path| is_disk(path) && *path != program);
    match files.as_slice() {
        [only] => Ok(FarDisk::file(only.clone())),
        [] => Err("the server has no file open that could be its disk".to_owned()),
        _ => Err("the server has several files open, and which is the disk is not told".to_owned()),
    }
}

fn of_ours(status: &ServerStatus, export: &str) -> Result<FarDisk, String> {
    let text = match (status.disks.get(export), status.figures.exports.first()) {
        (Some(text), _) => Some(text),
        // The first one is also the default export.
        (None, Some(first)) if export.is_empty() => status.disks.get(&first.name),
        _ => None,
    };
    let text = text.ok_or("the server does not tell what the disk is made of")?;
    let mut named = resolve(text).map_err(|error| error.to_string())?;
    if !can_be_opened_twice(&named.disk) {
        return Err(format!(
            "{text} is not opened a second time beside its server"
        ));
    }
    below(&mut named.disk, &status.directory);
    let files = named.disk.files().into_iter().map(Path::to_owned).collect();
    Ok(FarDisk {
        is_plain: is_plain(&named.disk),
        named: format!("{} by itself", described(&named)),
        files,
        opening: Opening::Disk(Box::new(named)),
    })
}

/// The expression without its name.
fn described(named: &NamedDisk) -> &str {
    match &named.name {
        Some(name) => named.text.get(name.len() + 1..).unwrap_or(&named.text),
        None => &named.text,
    }
}

/// Whether reading it disturbs nobody who has it open. Arrays and overlays are kept by one process.
pub(super) fn can_be_opened_twice(disk: &Disk) -> bool {
    let alone = matches!(
        disk,
        Disk::Array(_) | Disk::Overlay(_) | Disk::Remote { .. } | Disk::Dm { .. } | Disk::Error(_)
    );
    !alone && disk.children().iter().all(can_be_opened_twice)
}

/// Whether it is parts of files and nothing that takes time of its own.
fn is_plain(disk: &Disk) -> bool {
    match disk {
        Disk::File { direct, .. } => !direct,
        Disk::Partition { disk, .. } | Disk::Blocks { disk, .. } => is_plain(disk),
        _ => false,
    }
}

/// Paths as the server has them, which may work in another directory.
fn below(disk: &mut Disk, directory: &Path) {
    if let Disk::File { path, .. } = disk {
        *path = directory.join(&*path);
    }
    disk.children_mut()
        .iter_mut()
        .for_each(|child| below(child, directory));
}
