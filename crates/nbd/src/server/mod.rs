//! The NBD server: listeners, a handshake per client, connections spread over the cores.
//!
//! # Invariants
//!
//! * A connection lives on one core; a panic in it ends it alone.
//! * A connection begins when the writes of those that ended before it, at the same export, have
//!   landed: a client that comes back finds none of its old writes under way.
//! * Connections are counted before anything is read from them ([`Limits::connections_max`]).
//! * A stop finishes what is in flight and flushes every disk, each within a limit, and only then
//!   returns.
//!
//! # What it does not do yet
//!
//! TLS, extended headers, metadata contexts, access lists and reload: their places are the
//! handshake (`handshake.rs`), [`plan`](self) and the export table.

mod budget;
mod connection;
mod error;
mod exports;
mod handshake;
mod limits;
mod listener;
mod maps;
mod plan;
mod scratch;
mod socket;
mod stop;

use std::os::fd::OwnedFd;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::FutureExt;
use tokio::sync::watch;

pub use error::ServeError;
pub use exports::Export;
pub use limits::Limits;
pub use listener::{ListenAddress, Listener};

use budget::Budget;
use connection::{Connection, End, Start};
use exports::{Exports, Served};
use handshake::{NoSession, negotiate};
use listener::{Acceptor, is_clients_fault};
use maps::Maps;
use socket::Socket;
use stop::{flush_all, stop_all};

/// Pause after an accept that failed for want of descriptors or memory.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

#[derive(Debug)]
struct Shared {
    exports: Exports,
    limits: Arc<Limits>,
    budget: Budget,
    maps: Arc<Maps>,
    /// Connections of each core.
    connections: Vec<AtomicUsize>,
    /// The last client was refused.
    refuses: AtomicBool,
    handle: engine::Handle,
}

/// A server that has its exports and its bounds.
#[derive(Debug)]
pub struct Server {
    exports: Exports,
    limits: Limits,
}

impl Server {
    /// A server of `exports`; the first is also the default.
    ///
    /// # Errors
    /// [`ServeError::NoExports`], [`ServeError::NameTwice`], [`ServeError::NameTooLong`].
    pub fn new(exports: Vec<Export>, limits: Limits) -> Result<Self, ServeError> {
        Ok(Self {
            exports: Exports::new(exports)?,
            limits,
        })
    }

    fn share(self, handle: &engine::Handle) -> Arc<Shared> {
        Arc::new(Shared {
            exports: self.exports,
            budget: Budget::new(self.limits.in_flight_bytes_total_max),
            maps: Arc::default(),
            limits: Arc::new(self.limits),
            connections: (0..handle.cores()).map(|_| AtomicUsize::new(0)).collect(),
            refuses: AtomicBool::new(false),
            handle: handle.clone(),
        })
    }

    /// Serves the clients of `listeners` until `stop` resolves; then finishes what is in flight and
    /// flushes the disks.
    ///
    /// # Errors
    /// [`ServeError::Flush`]; [`ServeError::Descriptor`] if a listener cannot be watched.
    pub async fn serve(
        self,
        handle: &engine::Handle,
        listeners: Vec<Listener>,
        stop: impl Future<Output = ()>,
    ) -> Result<(), ServeError> {
        let shared = self.share(handle);
        let stopping = watch::Sender::new(());
        for listener in listeners {
            let acceptor = Acceptor::new(listener).map_err(ServeError::Descriptor)?;
            let accept = accept(shared.clone(), acceptor, stopping.subscribe());
            drop(engine::spawn(accept));
        }
        stop.await;
        stop_all(&shared, stopping).await
    }

    /// Serves one connected socket until its client goes or `stop` resolves.
    ///
    /// # Errors
    /// [`ServeError::Descriptor`] if it is no socket; [`ServeError::Flush`].
    pub async fn serve_connection(
        self,
        handle: &engine::Handle,
        fd: OwnedFd,
        stop: impl Future<Output = ()>,
    ) -> Result<(), ServeError> {
        let shared = self.share(handle);
        let socket = Socket::connected(fd).map_err(ServeError::Descriptor)?;
        let stopping = watch::Sender::new(());
        let mut told = stopping.subscribe();
        let client = async {
            let stopped = async { drop(told.changed().await) };
            serve_client(&shared, socket, "stdin", stopped).await;
        };
        tokio::pin!(client);
        tokio::select! {
            () = &mut client => {}
            () = stop => {
                // Somebody listens: the client is still there.
                let _told = stopping.send(());
                let limit = shared.limits.stop_timeout;
                if engine::clock::timeout(limit, client).await.is_err() {
                    tracing::warn!("the connection did not end within {limit:?} of the stop");
                }
            }
        }
        flush_all(&shared).await
    }
}

/// Accepts clients until told to stop.
async fn accept(shared: Arc<Shared>, acceptor: Acceptor, mut stopping: watch::Receiver<()>) {
    let mut is_short = false;
    loop {
        let accepted = tokio::select! {
            accepted = acceptor.accept() => accepted,
            _ = stopping.changed() => return,
        };
        match accepted {
            Ok((fd, peer)) => {
                is_short = false;
                hand_over(&shared, fd, peer, stopping.clone());
            }
            Err(e) if is_clients_fault(&e) => tracing::debug!("accept: {e}"),
            Err(e) => {
                // Said once for all that follow.
                if !std::mem::replace(&mut is_short, true) {
                    tracing::warn!("new clients must wait: accept: {e}");
                }
                engine::clock::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// Gives a client to the core with the fewest.
fn hand_over(shared: &Arc<Shared>, fd: OwnedFd, peer: String, mut stopping: watch::Receiver<()>) {
    let load = |core: &usize| shared.connections[*core].load(Ordering::Relaxed);
    let total: usize = (0..shared.handle.cores()).map(|core| load(&core)).sum();
    if total >= shared.limits.connections_max {
        // Said once until a client is taken again.
        if !shared.refuses.swap(true, Ordering::Relaxed) {
            tracing::warn!(peer, "refused: {total} connections are open already");
        }
        return;
    }
    shared.refuses.store(false, Ordering::Relaxed);
    let core = (0..shared.handle.cores()).min_by_key(load).unwrap_or(0);
    let counted = Counted::new(shared.clone(), core);
    shared.handle.spawn_on(core, move || async move {
        let shared = &counted.shared;
        match Socket::from_fd(fd) {
            Ok(socket) => {
                let stop = async { drop(stopping.changed().await) };
                serve_client(shared, socket, &peer, stop).await;
            }
            Err(e) => tracing::warn!(peer, "{e}"),
        }
    });
}

/// One connection in a core's count.
struct Counted {
    shared: Arc<Shared>,
    core: usize,
}

impl Counted {
    fn new(shared: Arc<Shared>, core: usize) -> Self {
        shared.connections[core].fetch_add(1, Ordering::Relaxed);
        Self { shared, core }
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.shared.connections[self.core].fetch_sub(1, Ordering::Relaxed);
    }
}

/// A client from its first byte to its last.
async fn serve_client(shared: &Shared, socket: Socket, peer: &str, stop: impl Future<Output = ()>) {
    tokio::pin!(stop);
    let limits = &shared.limits;
    let negotiation = negotiate(&socket, &shared.exports, limits.payload_max);
    let timed = engine::clock::timeout(limits.handshake_timeout, Box::pin(negotiation));
    let session = tokio::select! {
        session = timed => session,
        () = &mut stop => return,
    };
    let session = match session {
        Ok(Ok(session)) => session,
        Ok(Err(NoSession::Left)) => return tracing::debug!(peer, "left in the handshake"),
        Ok(Err(e)) => return tracing::info!(peer, "no session: {e}"),
        Err(_) => return tracing::info!(peer, "no session: the handshake took too long"),
    };
    let agreed = session.agreed;
    let Some(Served { export, leaving }) = shared.exports.find(&agreed.requested_name) else {
        return tracing::warn!(peer, "export {:?} is gone", agreed.requested_name);
    };
    // Its client may be one that lost its connection: nothing from there may land later.
    tokio::select! {
        () = leaving.settled() => {}
        () = &mut stop => return,
    }
    tracing::info!(peer, export = export.name, "connected");
    let connection = Box::new(Connection::new(Start {
        name: export.name.clone(),
        leaving: leaving.clone(),
        socket,
        disk: export.disk.clone(),
        terms: plan::Terms {
            flags: agreed.export.flags,
            structured: agreed.structured,
            payload_max: limits.payload_max,
        },
        limits: limits.clone(),
        budget: shared.budget.clone(),
        maps: shared.maps.clone(),
        received: session.received,
    }));
    let end = AssertUnwindSafe(connection.run(stop)).catch_unwind().await;
    let export_name = &export.name;
    match end {
        Ok(end @ (End::Disconnected | End::Closed | End::Stopped)) => {
            tracing::info!(peer, export = export_name, "{end}");
        }
        Ok(end) => tracing::warn!(peer, export = export_name, "{end}"),
        Err(_) => {
            tracing::error!(peer, export = export_name, "a bug ended this connection");
            // Its writes were dropped with it; none may land behind its end.
            let _ticket = leaving.ticket();
            if let Err(e) = export.disk.settle().await {
                tracing::error!(export = export_name, "{e}");
            }
        }
    }
}

#[cfg(test)]
mod tests;
