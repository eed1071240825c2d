//! The file of a Unix socket: taken over from a server that is gone, removed by the one that made it.
//!
//! # Invariants
//!
//! * Of two servers that start at once at one path, one gets it and the other fails with `PathInUse`: from the
//!   check of what lies there to the moment the new socket listens, the folder is locked (flock(2)).
//! * Only a socket where connections are refused is removed, and only its creator removes it at its
//!   end: another server may have put its own there meanwhile.

#![expect(clippy::disallowed_types, reason = "the folder of a socket is no disk")]

use std::fs::{OpenOptions, Permissions};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, listen, socket_with,
};

use super::error::ServeError;

/// Another server holds the lock for moments.
const TRIES: u32 = 250;
const BETWEEN_TRIES: Duration = Duration::from_millis(20);

/// Connections that wait to be accepted, as of std's listeners.
const BACKLOG: i32 = 128;

/// A socket's file that was made here; it goes with this.
#[derive(Debug)]
pub(super) struct SocketFile {
    path: PathBuf,
    /// Device and inode.
    identity: (u64, u64),
}

/// Listens at `path`. A socket left there by a server that is gone is replaced. The file gets the permissions of `mode`
/// before the first client can connect; without it, those of the umask.
pub(super) fn bind(path: &Path, mode: Option<u32>) -> Result<(OwnedFd, SocketFile), ServeError> {
    let failed = |source| ServeError::Listen {
        address: format!("unix:{}", path.display()),
        source,
    };
    let _lock = lock_place(path);
    match std::fs::symlink_metadata(path) {
        Ok(found) if !found.file_type().is_socket() => {
            return Err(ServeError::NoSocket(path.to_owned()));
        }
        Ok(_) => match probe_socket(path) {
            SocketProbe::Alive => return Err(ServeError::PathInUse(path.to_owned())),
            SocketProbe::Dead => std::fs::remove_file(path).map_err(failed)?,
            SocketProbe::Unknown(e) => return Err(failed(e.into())),
        },
        // If something is wrong, bind(2) fails.
        Err(_) => {}
    }
    let socket = create(path).map_err(|e| failed(e.into()))?;
    let file = SocketFile {
        path: path.to_owned(),
        identity: identity(path).map_err(failed)?,
    };
    if let Some(mode) = mode {
        std::fs::set_permissions(path, Permissions::from_mode(mode)).map_err(failed)?;
    }
    listen(&socket, BACKLOG).map_err(|e| failed(e.into()))?;
    Ok((socket, file))
}

/// A socket that is bound to `path`, and refuses connections.
fn create(path: &Path) -> rustix::io::Result<OwnedFd> {
    let socket = socket_with(
        AddressFamily::UNIX,
        SocketType::STREAM,
        SocketFlags::CLOEXEC,
        None,
    )?;
    rustix::net::bind(&socket, &SocketAddrUnix::new(path)?)?;
    Ok(socket)
}

/// Keeps other callers of this function from taking over a socket at `path` until the returned lock is
/// dropped. `None`: the folder cannot be locked, and no caller is excluded.
#[must_use]
pub fn lock_place(path: &Path) -> Option<OwnedFd> {
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    let mut options = OpenOptions::new();
    let folder: OwnedFd = options.read(true).open(folder).ok()?.into();
    for _ in 0..TRIES {
        match flock(&folder, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Some(folder),
            Err(Errno::WOULDBLOCK | Errno::INTR) => std::thread::sleep(BETWEEN_TRIES),
            Err(_) => return None,
        }
    }
    tracing::warn!(
        "another process keeps the folder of {} locked",
        path.display()
    );
    None
}

fn identity(path: &Path) -> io::Result<(u64, u64)> {
    let found = std::fs::symlink_metadata(path)?;
    Ok((found.dev(), found.ino()))
}

/// The result of connecting to a socket's path.
enum SocketProbe {
    Alive,
    Dead,
    Unknown(Errno),
}

/// Connects to the socket at `path` without waiting. Only `ECONNREFUSED` means that no server listens.
fn probe_socket(path: &Path) -> SocketProbe {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let connected = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)
        .and_then(|fd| connect(&fd, &SocketAddrUnix::new(path)?));
    match connected {
        // EAGAIN: the backlog of the server is full.
        Ok(()) | Err(Errno::AGAIN) => SocketProbe::Alive,
        Err(Errno::CONNREFUSED) => SocketProbe::Dead,
        Err(e) => SocketProbe::Unknown(e),
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        let _lock = lock_place(&self.path);
        // Another server may have put its own socket there meanwhile.
        if identity(&self.path).ok() == Some(self.identity)
            && let Err(e) = std::fs::remove_file(&self.path)
        {
            let path = self.path.display();
            tracing::warn!("the socket {path} could not be removed: {e}");
        }
    }
}
