//! Paths of control sockets: `*.sock` in the runtime directory, where the file stem is the server's name; and
//! `attached-PROCESS.sock` in the directory of attachments, of the processes that own an attached disk with arrays.

use std::io;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use attach::{attach_dir, runtime_dir};
use rustix::fs::{Mode, fchmod};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

use crate::failure::Failure;

/// Default file name of a server's socket: `serve-PROCESS.sock`.
const PREFIX: &str = "serve-";
/// Prefix of the sockets of processes that own an attached disk with arrays.
const ATTACHED: &str = "attached-";
const SUFFIX: &str = "sock";
/// Clients that may wait to be accepted.
const BACKLOG: i32 = 16;

/// A listening control socket; its file is removed when it is dropped.
#[derive(Debug)]
pub(crate) struct ControlSocket {
    listener: UnixListener,
    path: PathBuf,
}

/// The default socket of this process.
pub(crate) fn default_path() -> Option<PathBuf> {
    let file = format!("{PREFIX}{}.{SUFFIX}", std::process::id());
    Some(runtime_dir()?.join(file))
}

/// The socket of this process if it owns an attached disk with arrays.
pub(crate) fn attached_path() -> Option<PathBuf> {
    let file = format!("{ATTACHED}{}.{SUFFIX}", std::process::id());
    Some(attach_dir()?.join(file))
}

/// What a server with this socket is called.
pub(crate) fn name(path: &Path) -> String {
    let stem = path.file_stem().unwrap_or_default();
    stem.to_string_lossy().into_owned()
}

/// The sockets of servers in the runtime directory, in order of their names.
pub(crate) fn all() -> Vec<PathBuf> {
    let mut sockets = with_arrays();
    sockets.retain(|path| !name(path).starts_with(ATTACHED));
    sockets
}

/// The same, and those of attached disks with arrays.
pub(crate) fn with_arrays() -> Vec<PathBuf> {
    let mut folders: Vec<PathBuf> = runtime_dir().into_iter().chain(attach_dir()).collect();
    folders.dedup();
    let entries = folders
        .into_iter()
        .filter_map(|folder| std::fs::read_dir(folder).ok())
        .flatten();
    let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    let mut sockets: Vec<PathBuf> = paths
        .filter(|path| path.extension().is_some_and(|suffix| suffix == SUFFIX))
        .collect();
    sockets.sort();
    sockets
}

/// The path that `--server` means: a path, a server's name, or its process.
pub(crate) fn named(server: &str) -> Result<PathBuf, Failure> {
    if server.contains('/') {
        return Ok(PathBuf::from(server));
    }
    let names = [server.to_owned(), format!("{PREFIX}{server}")];
    let all = with_arrays();
    let found = all.iter().find(|path| names.contains(&name(path)));
    found.cloned().ok_or_else(|| {
        let known: Vec<String> = all.iter().map(|path| name(path)).collect();
        Failure::new(format!("no server named `{server}` runs here")).next(match known.as_slice() {
            [] => "`outboard status` shows those that run".to_owned(),
            known => format!("these run: {}", known.join(", ")),
        })
    })
}

/// Removes a socket on which no process listens, if it is named after a process that has exited. A socket of another
/// name may belong to a server that is about to listen.
pub(crate) fn sweep(path: &Path) {
    let name = name(path);
    let process = name
        .strip_prefix(PREFIX)
        .or_else(|| name.strip_prefix(ATTACHED))
        .and_then(|id| id.parse::<u32>().ok());
    if process.is_some_and(|id| !Path::new("/proc").join(id.to_string()).exists()) {
        remove(path);
    }
}

impl ControlSocket {
    /// Listens at `path`, for its owner alone. A socket left by a server that is gone is replaced.
    ///
    /// # Errors
    /// Those of the system; `AddrInUse` where a server answers.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        if let Some(folder) = path.parent() {
            use std::os::unix::fs::DirBuilderExt as _;
            let mut builder = std::fs::DirBuilder::new();
            builder.mode(0o700).recursive(true).create(folder)?;
        }
        // Two servers that start at once do not both find the old one dead.
        let _lock = nbd::server::lock_place(path);
        match UnixStream::connect(path) {
            Ok(_) => return Err(io::ErrorKind::AddrInUse.into()),
            // Only ECONNREFUSED shows that no process listens on it.
            Err(e) if e.kind() == io::ErrorKind::ConnectionRefused => std::fs::remove_file(path)?,
            Err(_) => {}
        }
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let fd = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
        // The file gets the mode of the socket, so no other user can ever connect.
        fchmod(&fd, Mode::RUSR | Mode::WUSR)?;
        rustix::net::bind(&fd, &SocketAddrUnix::new(path)?)?;
        let socket = Self {
            listener: fd.into(),
            path: path.to_owned(),
        };
        rustix::net::listen(&socket.listener, BACKLOG)?;
        Ok(socket)
    }

    /// Its path.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The socket itself.
    pub(crate) const fn listener(&self) -> &UnixListener {
        &self.listener
    }

    /// Removes its file, and the runtime directory if nothing else is in it.
    pub(crate) fn remove(&self) {
        remove(&self.path);
    }
}

/// As [`ControlSocket::remove`].
pub(crate) fn remove(path: &Path) {
    // Another process may have removed it already.
    drop(std::fs::remove_file(path));
    if let Some(folder) = path.parent()
        && [runtime_dir(), attach_dir()].contains(&Some(folder.to_owned()))
    {
        // It stays where something lies in it.
        drop(std::fs::remove_dir(folder));
    }
}

impl Drop for ControlSocket {
    fn drop(&mut self) {
        self.remove();
    }
}
