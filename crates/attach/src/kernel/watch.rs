//! Brings a kernel device's connections back when their server has returned, and lets the device grow
//! with its disk.
//!
//! The kernel shuts a connection down when its server ends or a request takes too long; that shows on our
//! own descriptor of the socket. Requests wait in the kernel meanwhile (`dead_conn_timeout`), and
//! those under way are sent again over a fresh connection when their own time is over.
//!
//! A connection keeps the size it was negotiated with. So for a disk that has grown all of them are
//! replaced, and the device gets its size when they live.

#[cfg(test)]
mod tests;

use std::os::fd::{AsRawFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use nbd::client::DiskIdentity;
use rustix::net::Shutdown;
use tokio::sync::mpsc;

use super::connection_plan::ConnectionPlan;
use super::control::{ANSWER_FOR, Control, within};
use super::netlink::{NbdIndex, NbdShape};
use super::server_search::ServerSearch;
use super::{KernelError, NbdSetup, alive, check_identity, dial, disconnect};
use crate::growth::{self, GROWTH_EVERY, LastSizeFailure, SizeReply};
use crate::health::Reachability;
use crate::remote::{self, NegotiatedConnection};
use crate::sysfs;

/// How often connections are looked at.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// Longest wait between two tries to reach the server.
const RETRY_MAX: Duration = Duration::from_secs(4);
/// How long one of several servers may take for a connection while others to it live.
const REDIAL_FOR: Duration = Duration::from_secs(2);
/// A connection shows its end a moment before the kernel counts it as dead.
const SETTLE_FOR: Duration = Duration::from_millis(100);
/// How long a moment without requests is waited for before connections are replaced: what is under
/// way then waits until its own time is over.
const QUIET_FOR: Duration = Duration::from_secs(5);
const QUIET_LOOK_EVERY: Duration = Duration::from_millis(5);

/// Connections that the kernel does not have yet, all to one server.
#[derive(Debug)]
struct FreshConnections {
    /// The server, as the URI of it alone.
    server: String,
    /// Size of a device for its export, bytes.
    size: u64,
    sockets: Vec<OwnedFd>,
}

impl From<NegotiatedConnection> for FreshConnections {
    fn from(first: NegotiatedConnection) -> Self {
        Self {
            size: first.size(),
            server: first.server,
            sockets: vec![first.socket],
        }
    }
}

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

    /// Makes a new connection for every dead one and hands them over: to the server that is used, or, where none of its connections
    /// lives or it takes none, to the first one that has the disk. If that is another one, or the disk has grown in the meantime,
    /// connections that live lead to the server before or are of the old size, and end too. Another server has taken all connections
    /// before one ends.
    async fn revive(&mut self) -> Result<(), KernelError> {
        let live = alive(&self.sockets);
        let mut fresh = self.dial_fresh(&live).await?;
        let plan = self.plan(&live, &fresh);
        let mut live = live.into_iter();
        if plan.ends_live {
            self.end_connections();
            engine::clock::sleep(SETTLE_FOR).await;
        }
        self.dial_up_to(plan.in_all, &mut fresh).await?;
        let (index, backend) = (self.index, self.setup.backend.clone());
        let sockets = fresh.sockets;
        let hand_over = move || {
            let numbers: Vec<i32> = sockets.iter().map(AsRawFd::as_raw_fd).collect();
            let handed = Control::open()?.reconnect(index, &backend, &numbers);
            handed.map(|()| sockets)
        };
        let sockets = within(ANSWER_FOR, hand_over, drop).await?;
        self.sockets
            .retain(|_| live.next().unwrap_or(true) && !plan.ends_live);
        self.sockets.extend(sockets);
        self.negotiated = fresh.size;
        if fresh.server != self.setup.server {
            tracing::warn!("{} has the disk from now on", fresh.server);
            self.setup.server = fresh.server;
        }
        Ok(())
    }

    /// The connections to make before one ends: to the server that is used while connections to it live, else to the first one that has
    /// the disk. A process that hangs ends no connection by itself, and the kernel sees that of one after the other; one that is about
    /// to end takes no new ones: of several servers another one that takes all connections follows it.
    async fn dial_fresh(&self, live: &[bool]) -> Result<FreshConnections, KernelError> {
        let used = &self.setup.server;
        let mut search = ServerSearch::new(self.servers()?);
        if live.contains(&true) {
            let dialed = self.dial_used(live).await;
            match dialed {
                Err(why) if search.left().len() > 1 && !matches!(why, KernelError::Fenced(_)) => {
                    search.refuse(used, why);
                }
                dialed => return dialed,
            }
        }
        while !search.left().is_empty() {
            let first = match self
                .dial_checked(search.left(), self.setup.silent_for)
                .await
            {
                Ok(first) => first,
                Err((Some(server), why)) => {
                    search.refuse(&server, why);
                    continue;
                }
                Err((None, why)) => return Err(search.fail(why)),
            };
            let mut fresh = FreshConnections::from(first);
            let first = self.plan(live, &fresh).first;
            match self.dial_up_to(first, &mut fresh).await {
                Ok(()) => {
                    for why in search.failures() {
                        tracing::warn!("{} is used instead of another server: {why}", fresh.server);
                    }
                    return Ok(fresh);
                }
                Err(why) => search.refuse(&fresh.server, why),
            }
        }
        Err(search.into_error())
    }

    /// Connections to the server that is used, of which others live.
    async fn dial_used(&self, live: &[bool]) -> Result<FreshConnections, KernelError> {
        let used = std::slice::from_ref(&self.setup.server);
        let dialed = self.dial_checked(used, self.redial_for()?).await;
        let mut fresh = FreshConnections::from(dialed.map_err(|(_, error)| error)?);
        let first = self.plan(live, &fresh).first;
        self.dial_up_to(first, &mut fresh).await?;
        Ok(fresh)
    }

    /// Makes connections to the server of `fresh` until there are `count`.
    async fn dial_up_to(
        &self,
        count: usize,
        fresh: &mut FreshConnections,
    ) -> Result<(), KernelError> {
        let limit = self.redial_for()?;
        while fresh.sockets.len() < count {
            let server = &fresh.server;
            let taken = fresh.sockets.len();
            let dialed = dial(&self.setup, std::slice::from_ref(server), limit).await;
            let dialed = dialed.map_err(|why| match why {
                KernelError::Server(why) => {
                    KernelError::Server(format!("{why} (after {taken} of {count} connections)"))
                }
                why => why,
            })?;
            // The next attempt finds out which servers have the disk.
            check_identity(server, &self.disk, &dialed.disk)
                .map_err(|changed| KernelError::Server(changed.to_string()))?;
            if dialed.size() != fresh.size {
                return Err(growth::size_mismatch(fresh.size, dialed.size()).into());
            }
            fresh.sockets.push(dialed.socket);
        }
        Ok(())
    }

    fn plan(&self, live: &[bool], fresh: &FreshConnections) -> ConnectionPlan {
        ConnectionPlan::new(
            live,
            fresh.server != self.setup.server,
            fresh.size > self.negotiated,
        )
    }

    /// How long a server may take for a connection that is not the first one.
    fn redial_for(&self) -> Result<Duration, KernelError> {
        Ok(match self.servers()?.len() {
            1 => self.setup.silent_for,
            _ => REDIAL_FOR.min(self.setup.silent_for),
        })
    }

    /// The servers that may be used, from the one that is used on. What the kernel wrote it does not write again to another one.
    fn servers(&self) -> Result<Vec<String>, KernelError> {
        let NbdSetup { uri, server, .. } = &self.setup;
        match self.setup.read_only {
            true => remote::servers(uri, server).map_err(KernelError::Server),
            false => Ok(vec![server.clone()]),
        }
    }

    /// One connection to the first of `servers` that answers, if it has the disk. An error names the server that answered without it.
    async fn dial_checked(
        &self,
        servers: &[String],
        limit: Duration,
    ) -> Result<NegotiatedConnection, (Option<String>, KernelError)> {
        let dialed = dial(&self.setup, servers, limit).await;
        let dialed = dialed.map_err(|e| (None, e))?;
        match self.check_disk(&dialed) {
            Ok(()) => Ok(dialed),
            Err(why) => Err((Some(dialed.server), why)),
        }
    }

    /// Whether the connection leads to the disk that was attached, and the device's size fits it.
    fn check_disk(&self, dialed: &NegotiatedConnection) -> Result<(), KernelError> {
        let (server, size) = (&dialed.server, dialed.size());
        check_identity(server, &self.disk, &dialed.disk)?;
        let named = |why: String| KernelError::Server(format!("{server}: {why}"));
        if size < self.negotiated {
            return Err(named(
                growth::size_mismatch(self.negotiated, size).to_string(),
            ));
        }
        if size > self.negotiated {
            sysfs::check_shape(size, self.shape.block_size).map_err(named)?;
        }
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
        let size = tokio::select! {
            size = remote::size(server, timeout) => size.map_err(KernelError::Server)?,
            () = self.wait_for_loss() => {
                return Err(KernelError::Server(format!("{server}: connection lost")));
            }
        };
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

    /// Until a connection ends. A server that has fallen silent does not delay what follows by the timeout of a request for the size.
    async fn wait_for_loss(&self) {
        while self.all_alive() {
            engine::clock::sleep(LOOK_EVERY).await;
        }
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

/// The timers of [`watch`], and what it logged.
#[derive(Debug)]
struct WatchTimers {
    wait: Duration,
    size_checked: Instant,
    last_failure: LastSizeFailure,
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
        last_failure: LastSizeFailure::default(),
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
            if timers.last_failure.is_new(&grown)
                && let Err(why) = &grown
            {
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
