//! Brings a kernel device's connections back when their server has returned, and lets the device grow
//! with its disk.
//!
//! The kernel shuts a connection down when its server ends or a request takes too long; that shows on our
//! own descriptor of the socket. Requests wait in the kernel meanwhile (`dead_conn_timeout`), and
//! those under way are sent again over a fresh connection when their own time is over.
//!
//! A connection keeps the size it was negotiated with. So for a disk that has grown all of them are
//! replaced, and the device gets its size when they live.

use std::os::fd::{AsRawFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use nbd::client::DiskIdentity;
use rustix::net::Shutdown;
use tokio::sync::mpsc;

use super::control::{ANSWER_FOR, Control, within};
use super::netlink::{NbdIndex, NbdShape};
use super::{KernelError, NbdSetup, alive, check_identity, dial, disconnect};
use crate::growth::{self, GROWTH_EVERY, SizeReply};
use crate::health::Reachability;
use crate::remote;
use crate::sysfs;

/// How often connections are looked at.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// Longest wait between two tries to reach the server.
const RETRY_MAX: Duration = Duration::from_secs(4);
/// A connection shows its end a moment before the kernel counts it as dead.
const SETTLE_FOR: Duration = Duration::from_millis(100);
/// How long a moment without requests is waited for before connections are replaced: what is under
/// way then waits until its own time is over.
const QUIET_FOR: Duration = Duration::from_secs(5);
const QUIET_LOOK_EVERY: Duration = Duration::from_millis(5);

/// A device's connections, as we hold them.
#[derive(Debug)]
pub(crate) struct NbdLink {
    setup: NbdSetup,
    index: NbdIndex,
    /// What the device looks like.
    shape: NbdShape,
    /// The size that its connections were negotiated with; it is the device's soon after.
    negotiated: u64,
    /// The disk that was attached.
    disk: DiskIdentity,
    sockets: Vec<OwnedFd>,
}

impl NbdLink {
    pub(super) const fn new(
        setup: NbdSetup,
        index: NbdIndex,
        shape: NbdShape,
        disk: DiskIdentity,
        sockets: Vec<OwnedFd>,
    ) -> Self {
        Self {
            setup,
            index,
            shape,
            negotiated: shape.size,
            disk,
            sockets,
        }
    }

    fn all_alive(&self) -> bool {
        alive(&self.sockets).iter().all(|live| *live)
    }

    /// Brings connections back, and gives the device the size they have.
    async fn restore_connections(&mut self) -> Result<(), KernelError> {
        if !self.all_alive() {
            engine::clock::sleep(SETTLE_FOR).await;
            self.revive().await?;
        }
        if self.negotiated > self.shape.size && self.all_alive() {
            self.resize().await?;
        }
        Ok(())
    }

    /// Brings connections back: from the server that is used, or, where none of its connections lives, from the first one that
    /// has the disk.
    async fn revive(&mut self) -> Result<(), KernelError> {
        let servers = match alive(&self.sockets).contains(&true) {
            true => Vec::new(),
            false => {
                remote::servers(&self.setup.uri, &self.setup.server).map_err(KernelError::Server)?
            }
        };
        if servers.len() <= 1 {
            return self.revive_from_server().await;
        }
        let before = self.setup.server.clone();
        let mut failures = Vec::new();
        for server in servers {
            self.setup.server = server;
            match self.revive_from_server().await {
                Ok(()) => {
                    let server = &self.setup.server;
                    if *server != before {
                        tracing::warn!("{server} has the disk from now on");
                    }
                    return Ok(());
                }
                Err(e @ KernelError::Fenced(_)) => return Err(e),
                Err(e) => failures.push(e.to_string()),
            }
        }
        self.setup.server = before;
        Err(KernelError::Server(failures.join("; ")))
    }

    /// Dials once for every dead connection and hands the new ones over. If the disk has grown in the
    /// meantime those that live are of the old size, and end too.
    async fn revive_from_server(&mut self) -> Result<(), KernelError> {
        let mut live = alive(&self.sockets);
        let mut fresh: Vec<OwnedFd> = Vec::new();
        let mut size = None;
        while fresh.len() < live.iter().filter(|live| !**live).count() {
            let dialed = dial(&self.setup).await?;
            check_identity(&self.setup.server, &self.disk, &dialed.disk)?;
            let expected = size.unwrap_or(self.negotiated);
            let is_first = size.is_none();
            if dialed.size() < expected || (!is_first && dialed.size() != expected) {
                return Err(growth::size_mismatch(expected, dialed.size()).into());
            }
            if dialed.size() > expected {
                sysfs::check_shape(dialed.size(), self.shape.block_size)
                    .map_err(KernelError::Server)?;
                self.end_connections();
                live.fill(false);
                engine::clock::sleep(SETTLE_FOR).await;
            }
            size = Some(dialed.size());
            fresh.push(dialed.socket);
        }
        let (index, backend) = (self.index, self.setup.backend.clone());
        let hand_over = move || {
            let numbers: Vec<i32> = fresh.iter().map(AsRawFd::as_raw_fd).collect();
            let handed = Control::open()?.reconnect(index, &backend, &numbers);
            handed.map(|()| fresh)
        };
        let fresh = within(ANSWER_FOR, hand_over, drop).await?;
        let mut live = live.into_iter();
        self.sockets.retain(|_| live.next().unwrap_or(true));
        self.sockets.extend(fresh);
        self.negotiated = size.unwrap_or(self.negotiated);
        Ok(())
    }

    /// The kernel sees the end of a connection on its side too.
    fn end_connections(&self) {
        for socket in &self.sockets {
            if let Err(e) = rustix::net::shutdown(socket, Shutdown::Both) {
                tracing::debug!("it had ended already: {e}");
            }
        }
    }

    async fn resize(&mut self) -> Result<(), KernelError> {
        let (was, size) = (self.shape.size, self.negotiated);
        let (index, backend) = (self.index, self.setup.backend.clone());
        let shape = NbdShape { size, ..self.shape };
        let resize = move || Control::open()?.resize(index, &backend, shape);
        within(ANSWER_FOR, resize, drop).await?;
        self.shape = shape;
        tracing::info!(was, size, "the disk has grown, and the device with it");
        Ok(())
    }

    /// Fetches the size of the disk from the server; the device gets it if it is larger.
    async fn grow(&mut self) -> Result<u64, KernelError> {
        let (server, timeout) = (&self.setup.server, self.setup.silent_for);
        let size = remote::size(server, timeout)
            .await
            .map_err(KernelError::Server)?;
        if size < self.negotiated {
            return Err(growth::size_mismatch(self.negotiated, size).into());
        }
        if size > self.negotiated {
            sysfs::check_shape(size, self.shape.block_size).map_err(KernelError::Server)?;
            self.wait_for_quiet().await;
            self.end_connections();
        }
        self.restore_connections().await?;
        Ok(self.shape.size)
    }

    async fn wait_for_quiet(&self) {
        let device = PathBuf::from(format!("/dev/nbd{}", self.index.0));
        let started = engine::clock::now();
        while sysfs::in_flight(&device) > 0
            && engine::clock::now().duration_since(started) < QUIET_FOR
        {
            engine::clock::sleep(QUIET_LOOK_EVERY).await;
        }
    }
}

/// The timers of [`watch`].
#[derive(Debug)]
struct WatchTimers {
    wait: Duration,
    size_checked: Instant,
}

/// Keeps the connections alive and the size right until the device is disconnected, by this process, by another
/// one, or because the server has another disk.
pub(crate) async fn watch(
    mut link: NbdLink,
    reachability: Arc<Reachability>,
    mut size_requests: mpsc::Receiver<SizeReply>,
) {
    reachability.use_server(&link.setup.server);
    let mut timers = WatchTimers {
        wait: LOOK_EVERY,
        size_checked: engine::clock::now(),
    };
    loop {
        let reply = tokio::select! {
            () = engine::clock::sleep(timers.wait) => None,
            Some(reply) = size_requests.recv() => Some(reply),
        };
        let restored = link.restore_connections().await;
        match restored {
            Ok(()) => {
                reachability.connected();
                reachability.use_server(&link.setup.server);
                timers.wait = LOOK_EVERY;
            }
            Err(e) if !is_connected(link.index).await => {
                tracing::info!("the device was disconnected ({e})");
                return;
            }
            Err(e) if e.is_final() => {
                tracing::error!("{e}; nothing is written to it, all I/O fails from now on");
                if let Err(error) = disconnect(link.index).await {
                    tracing::warn!("the device is not disconnected: {error}");
                }
                reachability.fail(&e.to_string());
                growth::answer(reply, Err(e.to_string()));
                return refuse_all(&e, size_requests).await;
            }
            Err(e) => {
                reachability.lost(&e.to_string());
                timers.wait = (timers.wait * 2).min(RETRY_MAX);
                growth::answer(reply, Err(e.to_string()));
                continue;
            }
        }
        let now = engine::clock::now();
        if reply.is_some() || now.duration_since(timers.size_checked) >= GROWTH_EVERY {
            timers.size_checked = now;
            let grown = link.grow().await.map_err(|e| e.to_string());
            if let Err(why) = &grown {
                tracing::warn!("the size of the disk: {why}");
            }
            growth::answer(reply, grown);
        }
    }
}

/// Stays until the device is detached, so that its owner can still report what happened.
async fn refuse_all(error: &KernelError, mut size_requests: mpsc::Receiver<SizeReply>) {
    while let Some(reply) = size_requests.recv().await {
        growth::answer(Some(reply), Err(error.to_string()));
    }
    std::future::pending().await
}

/// An unknown status counts as connected: the next attempt queries it again.
async fn is_connected(index: NbdIndex) -> bool {
    let reply = move || Control::open()?.connected(index);
    within(ANSWER_FOR, reply, drop).await.unwrap_or(true)
}
