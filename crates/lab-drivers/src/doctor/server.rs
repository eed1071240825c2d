//! [`RemoteServer`]: what can be known of the other end of a connection: its process and its disk, where it runs
//! on this machine, and the wire to it.

use std::net::{SocketAddr, ToSocketAddrs};
use std::os::unix::fs::FileTypeExt as _;
use std::path::PathBuf;

use lab::doctor::cpu;
use lab::host::{residency, sockets};
use lab::sensors::read;
use lab::units::Bytes;
use nbd::client::{Address, Target};

use super::disk::{ExaminedDisk, StripedDisk};
use super::null_export::Over;
use super::read_load::Opening;
use super::session::DoctorSession;
use super::watcher::OWN_PROGRAM;

/// Bytes of a file that are taken out of the page cache at a time at most: all of it.
const WHOLE: u64 = 1 << 62;

/// The other end.
#[derive(Debug)]
pub(super) struct RemoteServer {
    /// The server's process.
    pub(super) process: Option<u32>,
    /// Where it listens, if that is over a network.
    pub(super) address: Option<SocketAddr>,
    /// Whether it runs on this machine, by its address.
    pub(super) is_here: bool,
    /// Its disk.
    pub(super) disk: Option<ServerDisk>,
    /// Why that is not known.
    pub(super) no_disk: String,
    /// The disks of the stripe that its disk is.
    pub(super) striped: Vec<StripedDisk>,
}

/// The disk of a server on this machine.
#[derive(Debug, Clone)]
pub(super) struct ServerDisk {
    pub(super) opening: Opening,
    /// In words.
    pub(super) named: String,
    /// The files that it is in.
    files: Vec<PathBuf>,
    /// Whether it is nothing but files: what they have in memory is the disk's.
    is_plain: bool,
}

impl RemoteServer {
    /// Finds out about the server of `target`.
    pub(super) fn find(session: &DoctorSession<'_>, target: &Target) -> Self {
        let (address, is_here, found) = match &target.address {
            Address::Tcp { host, port } => {
                let address = (host.as_str(), *port).to_socket_addrs().ok();
                let address = address.and_then(|mut all| all.next());
                let is_here = address.is_some_and(|address| address.ip().is_loopback());
                let found = is_here.then(|| sockets::owner_of_tcp(*port)).flatten();
                (address, is_here, found)
            }
            Address::Unix(path) => (None, true, sockets::owner_of_unix(path)),
            Address::Vsock(_) => (None, false, None),
        };
        let mut far = Self {
            process: session.args.server_pid.or(found),
            address,
            is_here,
            disk: None,
            striped: Vec::new(),
            no_disk: "the server runs elsewhere, or cannot be looked at".to_owned(),
        };
        if let Some(process) = far.process {
            let served = session.args.disks.served(process, &target.export);
            if let Some(Ok(disk)) = &served {
                far.striped.clone_from(&disk.striped);
            }
            match disk_of(process, served) {
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

    /// Whether it is outboard's own.
    pub(super) fn is_own(&self) -> bool {
        self.process
            .is_some_and(|process| cpu::name(process) == OWN_PROGRAM)
    }

    /// The processes to follow.
    pub(super) fn processes(&self) -> Vec<u32> {
        self.process.into_iter().collect()
    }
}

impl ServerDisk {
    /// A file on the server, as it is seen here.
    pub(super) fn file(path: PathBuf) -> Self {
        Self {
            named: format!("{} by itself", path.display()),
            opening: Opening::Look(path.clone()),
            files: vec![path],
            is_plain: true,
        }
    }

    /// A disk of one of our own servers.
    fn of(disk: ExaminedDisk) -> Result<Self, String> {
        if !disk.can_be_opened_twice {
            return Err(format!(
                "{} is not opened a second time beside its server",
                disk.text
            ));
        }
        Ok(Self {
            is_plain: disk.is_plain,
            named: format!("{} by itself", disk.expression),
            files: disk.files.clone(),
            opening: Opening::Disk(Box::new(disk)),
        })
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

/// The disk behind an export of a process: as our own servers report it, else the only file that it has open.
fn disk_of(
    process: u32,
    served: Option<Result<ExaminedDisk, String>>,
) -> Result<ServerDisk, String> {
    if let Some(served) = served {
        return served.and_then(ServerDisk::of);
    }
    let is_disk = |path: &PathBuf| {
        let found = std::fs::metadata(path);
        found.is_ok_and(|found| found.file_type().is_block_device() || found.len() >= 1 << 20)
    };
    let program = std::fs::read_link(format!("/proc/{process}/exe")).unwrap_or_default();
    let is_disk = |path: &PathBuf| is_disk(path) && *path != program;
    let mut files = files_of(process);
    files.retain(is_disk);
    if files.is_empty() {
        // Some servers open it for each connection.
        files = files_named_by(process);
        files.retain(is_disk);
    }
    match files.as_slice() {
        [only] => Ok(ServerDisk::file(only.clone())),
        [] => Err("the server has no file open that could be its disk".to_owned()),
        _ => Err(
            "the server has several files open, and it is not known which is the disk".to_owned(),
        ),
    }
}

/// The files and devices that a process was started with: words of its command line, also behind a `=`.
fn files_named_by(process: u32) -> Vec<PathBuf> {
    let line = std::fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default();
    let directory = std::fs::read_link(format!("/proc/{process}/cwd")).unwrap_or_default();
    let words = line.split(|byte| *byte == 0).skip(1);
    let words = words.filter_map(|word| std::str::from_utf8(word).ok());
    let names = words.flat_map(|word| [Some(word), word.split_once('=').map(|(_, name)| name)]);
    let paths = names.flatten().filter(|name| !name.is_empty());
    let mut files: Vec<_> = paths
        .filter_map(|name| std::fs::canonicalize(directory.join(name)).ok())
        .collect();
    files.sort();
    files.dedup();
    files
}

/// The files and devices that a process has open.
fn files_of(process: u32) -> Vec<PathBuf> {
    let files = read::descriptors(process).map(|(_, file)| file);
    let mut files: Vec<_> = files.filter(|file| file.is_absolute()).collect();
    files.sort();
    files.dedup();
    files
}

#[cfg(test)]
mod tests {
    use super::{files_named_by, files_of};

    #[test]
    fn what_a_process_was_started_with_is_found() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        let word = format!("file={}", file.path().display());
        let mut shell = std::process::Command::new("sh");
        shell.args(["-c", "read line", "sh", &word]);
        let mut child = shell
            .stdin(std::process::Stdio::piped())
            .spawn()
            .expect("a shell");
        // The command line is there a moment after the process is.
        let named = || Some(files_named_by(child.id())).filter(|files| !files.is_empty());
        let tries = std::iter::repeat_with(|| {
            std::thread::sleep(std::time::Duration::from_millis(5));
            named()
        });
        let files = tries.take(1000).flatten().next().unwrap_or_default();
        drop(child.stdin.take());
        child.wait().expect("its end");
        let path = file.path().canonicalize().expect("its path");
        assert!(files.contains(&path), "{files:?}");
    }

    #[test]
    fn what_a_process_has_open_is_reported() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        let files = files_of(std::process::id());
        assert!(files.iter().any(|path| path == file.path()), "{files:?}");
    }
}
