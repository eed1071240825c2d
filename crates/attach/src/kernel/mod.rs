//! A disk through the kernel's nbd client: the connections are negotiated here, then the kernel has
//! them. What stays with us is to bring them back when a server has gone away and returned.
//!
//! # Invariants
//!
//! * The size is known before the device exists, and a server that returns with a smaller one gets no I/O.
//! * A reconnect never changes the size: with dead connections that would freeze the device's queue. A
//!   disk that has grown is reconnected to first and resized then, in two messages.
//! * Connections to another disk than the first, by the identity that an outboard server reports, are never
//!   handed to the kernel. Where its server, or each of several servers, has another disk, the device is disconnected, so that what
//!   waits for it fails; while one of several does not answer, it is waited for. After a server of another make has returned only
//!   the size is checked: its disks have no identity, and what was written since is known to the kernel alone.
//! * All connections of a device lead to one server. Of several servers another one is used only for a device that is read-only, as
//!   what the kernel wrote it does not write again, and only when no connection to the one before is left: those that live
//!   when that falls silent, or takes no new one, are ended first. It has taken as many connections as the device has before that.
//! * The kernel is never waited for without a limit.
//! * The device carries our name (`/sys/block/nbdN/backend`, Linux 5.14); one with another name is
//!   not touched.

mod connection_plan;
mod control;
mod netlink;
mod server_search;
#[cfg(test)]
mod tests;
mod watch;

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use nbd::client::{DiskIdentity, WriterAccess};
use tokio::task::JoinHandle;

use crate::growth;
use crate::mount::tool_message;
use crate::remote::{self, DialError, NegotiatedConnection};
use crate::sysfs;
use crate::teardown::TeardownOutcome;
use crate::users;
use control::{ANSWER_FOR, Control, within};
use netlink::{Connect, NbdIndex, NbdShape};
pub(crate) use watch::{NbdLink, watch};

/// The export may not be written to (transmission flag).
const FLAG_READ_ONLY: u16 = 1 << 1;
/// Several connections see each other's flushes (transmission flag). The kernel insists on it.
const FLAG_CAN_MULTI_CONN: u16 = 1 << 8;
/// Largest request of the device; its default of 64 to 128 KiB is small for a network.
pub(crate) const REQUEST_KIB: u32 = 1024;

/// Why the kernel's nbd is not used.
#[derive(Debug, thiserror::Error)]
pub enum KernelError {
    /// There is none.
    #[error("the kernel has no nbd ({0}); install its modules, or use --via fuse")]
    NoModule(String),
    /// The netlink socket failed.
    #[error("netlink failed: {0}")]
    Socket(#[source] io::Error),
    /// The kernel refused.
    #[error("the kernel's nbd refuses to {what}: {source}")]
    Refused {
        /// The operation.
        what: &'static str,
        /// Why.
        source: io::Error,
    },
    /// The kernel did not answer.
    #[error("the kernel's nbd did not answer within {} s; its log (dmesg) may say why", limit.as_secs())]
    Silent {
        /// How long it was waited for.
        limit: Duration,
    },
    /// The request cannot be encoded.
    #[error("the request to {what} cannot be encoded for the kernel's nbd: {why}")]
    Message {
        /// The operation.
        what: &'static str,
        /// Why.
        why: String,
    },
    /// The answer to a connect lacks the device.
    #[error("the kernel's nbd did not say which device it set up")]
    NoIndex,
    /// The server.
    #[error("{0}")]
    Server(String),
    /// The server returned with another disk.
    #[error("another disk is behind {uri}: expected {expected}, found {found}")]
    AnotherDisk {
        /// Where the disk was.
        uri: String,
        /// The identity of the disk that was attached.
        expected: String,
        /// What the server reports now.
        found: String,
    },
    /// Another client has taken over writing to the disk.
    #[error("{0}")]
    Fenced(String),
}

impl KernelError {
    /// Whether no later attempt to reconnect can succeed.
    pub(crate) const fn is_final(&self) -> bool {
        matches!(self, Self::AnotherDisk { .. } | Self::Fenced(_))
    }
}

impl From<DialError> for KernelError {
    fn from(error: DialError) -> Self {
        match error {
            DialError::Fenced(why) => Self::Fenced(why),
            DialError::Failed(why) => Self::Server(why),
        }
    }
}

/// Whether the kernel has nbd, after asking for its module.
///
/// # Errors
/// [`KernelError::NoModule`].
pub(crate) fn load_module() -> Result<(), KernelError> {
    if Path::new("/sys/module/nbd").exists() {
        return Ok(());
    }
    let missing = |why: String| KernelError::NoModule(format!("modprobe nbd: {why}"));
    let output = Command::new("modprobe")
        .args(["-q", "nbd"])
        .output()
        .map_err(|e| missing(e.to_string()))?;
    if output.status.success() && Path::new("/sys/module/nbd").exists() {
        return Ok(());
    }
    if output.stderr.is_empty() {
        return Err(missing("no such module".to_owned()));
    }
    Err(missing(tool_message(&String::from_utf8_lossy(
        &output.stderr,
    ))))
}

/// How a device is set up.
#[derive(Debug, Clone)]
pub(crate) struct NbdSetup {
    /// The disk, perhaps on several servers.
    pub(crate) uri: String,
    /// The server that is used, as the URI of it alone; at first the same as `uri`.
    pub(crate) server: String,
    /// Connections wanted.
    pub(crate) connections: usize,
    /// Refuse writes.
    pub(crate) read_only: bool,
    /// After how long without an answer a connection counts as dead.
    pub(crate) silent_for: Duration,
    /// How long requests wait for a server that is away.
    pub(crate) timeout: Duration,
    /// The device's name.
    pub(crate) backend: String,
    /// The identity of the next connection to the server.
    pub(crate) writer: WriterAccess,
}

/// What was set up.
#[derive(Debug)]
pub(crate) struct Device {
    /// The device.
    pub(crate) device_teardown: NbdTeardown,
    /// What [`mod@watch`] needs.
    pub(crate) link: NbdLink,
    /// Size, bytes.
    pub(crate) size: u64,
    /// Whether writes are refused, as requested or by the server.
    pub(crate) read_only: bool,
}

/// Negotiates the connections and sets up a device.
///
/// # Errors
/// [`KernelError`].
pub(crate) async fn attach(mut setup: NbdSetup) -> Result<Device, KernelError> {
    let first = dial(
        &setup,
        std::slice::from_ref(&setup.server),
        setup.silent_for,
    )
    .await?;
    let size = first.size();
    let disk = first.disk;
    setup.server = first.server;
    setup.writer = setup.writer.again();
    let block_size = sysfs::check_shape(size, first.block_size)
        .map_err(|why| KernelError::Server(format!("{}: {why}", setup.server)))?;
    sysfs::warn_of_rest(first.export_size);
    let shape = NbdShape { size, block_size };
    let mut server_flags = first.flags;
    if setup.read_only {
        server_flags |= FLAG_READ_ONLY;
    }
    let connections = match server_flags & FLAG_CAN_MULTI_CONN {
        0 => 1,
        _ => setup.connections,
    };
    let mut sockets = vec![first.socket];
    while sockets.len() < connections {
        let next = dial(
            &setup,
            std::slice::from_ref(&setup.server),
            setup.silent_for,
        )
        .await?;
        check_identity(&setup.server, &disk, &next.disk)?;
        if next.size() != size {
            return Err(growth::size_mismatch(size, next.size()).into());
        }
        sockets.push(next.socket);
    }
    let undo = |(index, ..): (NbdIndex, NbdSetup, Vec<OwnedFd>)| {
        drop(Control::open().and_then(|control| control.disconnect(index)));
    };
    let connect = move || {
        let numbers: Vec<i32> = sockets.iter().map(AsRawFd::as_raw_fd).collect();
        let connected = Control::open()?.connect(&Connect {
            shape,
            request_timeout_s: setup.silent_for.as_secs().max(1),
            dead_conn_timeout_s: setup.timeout.as_secs().max(1),
            server_flags,
            sockets: &numbers,
            backend: &setup.backend,
        });
        connected.map(|index| (index, setup, sockets))
    };
    let (index, setup, sockets) = within(ANSWER_FOR, connect, undo).await?;
    Ok(Device {
        device_teardown: NbdTeardown::new(index, setup.backend.clone()),
        link: NbdLink::new(setup, index, shape, disk, sockets),
        size,
        read_only: server_flags & FLAG_READ_ONLY != 0,
    })
}

/// Dials the first of `servers` that answers, each for `limit` at most.
async fn dial(
    setup: &NbdSetup,
    servers: &[String],
    limit: Duration,
) -> Result<NegotiatedConnection, KernelError> {
    let dialed = remote::dial(servers, setup.writer, limit).await;
    dialed.map_err(KernelError::from)
}

/// Whether a connection leads to the disk that was attached, as far as its server reports an identity.
fn check_identity(
    uri: &str,
    expected: &DiskIdentity,
    found: &DiskIdentity,
) -> Result<(), KernelError> {
    if !expected.is_replaced_by(found) {
        return Ok(());
    }
    let text = |disk: &DiskIdentity| match &disk.identity {
        Some(identity) => identity.to_string(),
        None => "a disk without an identity".to_owned(),
    };
    Err(KernelError::AnotherDisk {
        uri: uri.to_owned(),
        expected: text(expected),
        found: text(found),
    })
}

/// What a teardown needs.
#[derive(Debug)]
pub(crate) struct NbdTeardown {
    index: NbdIndex,
    backend: String,
    /// What brings connections back, in the process that owns the device.
    pub(crate) watching: Option<JoinHandle<()>>,
}

impl NbdTeardown {
    const fn new(index: NbdIndex, backend: String) -> Self {
        Self {
            index,
            backend,
            watching: None,
        }
    }

    /// The device at `path` when its process is dead; `None` where it is not the one meant.
    pub(crate) fn orphan(path: &Path, backend: String) -> Option<Self> {
        let number = path.file_name()?.to_str()?.strip_prefix("nbd")?;
        let device_teardown = Self::new(NbdIndex(number.parse().ok()?), backend);
        device_teardown.is_connected().then_some(device_teardown)
    }

    /// Where it is.
    pub(crate) fn path(&self) -> PathBuf {
        PathBuf::from(format!("/dev/nbd{}", self.index.0))
    }

    /// Whether the device is up and ours.
    fn is_connected(&self) -> bool {
        let path = self.path();
        let foreign = sysfs::nbd_backend(&path).is_some_and(|name| name != self.backend);
        sysfs::nbd_connected(&path) && !foreign
    }

    /// Whether the device is not free yet. The kernel takes its process away before what waits in it
    /// or stands on it, so all of these are looked at.
    fn is_in_use(&self) -> bool {
        let path = self.path();
        let waits = sysfs::in_flight(&path) > 0 || !users::all_holders(&path).is_empty();
        self.is_connected() || waits
    }

    /// Ends the device's connections; what it waits for fails.
    pub(crate) async fn disconnect(&mut self) -> TeardownOutcome {
        if let Some(watching) = self.watching.take() {
            watching.abort();
        }
        match disconnect(self.index).await {
            Ok(()) => TeardownOutcome::Done,
            Err(KernelError::Silent { .. }) => TeardownOutcome::NoEnd,
            Err(e) => TeardownOutcome::Failed(e.to_string()),
        }
    }

    /// Takes the device down.
    pub(crate) async fn clear(&mut self) -> TeardownOutcome {
        if !self.is_connected() {
            return TeardownOutcome::Done;
        }
        match self.disconnect().await {
            TeardownOutcome::Done if self.is_in_use() => {
                TeardownOutcome::Busy(users::users_of_device(&self.path()))
            }
            outcome => outcome,
        }
    }
}

/// Ends a device's connections; what waits for it fails.
async fn disconnect(index: NbdIndex) -> Result<(), KernelError> {
    let disconnect = move || Control::open()?.disconnect(index);
    within(ANSWER_FOR, disconnect, drop).await
}

/// Whether the other end of each connection is still there.
fn alive(sockets: &[OwnedFd]) -> Vec<bool> {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let mut fds: Vec<_> = sockets
        .iter()
        .map(|socket| PollFd::new(socket, PollFlags::empty()))
        .collect();
    let now = Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    if poll(&mut fds, Some(&now)).is_err() {
        return vec![true; sockets.len()];
    }
    let gone = PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL;
    fds.iter()
        .map(|fd| !fd.revents().intersects(gone))
        .collect()
}
