//! The NBD server: listeners, a handshake per client, connections spread over the cores.
//!
//! # Invariants
//!
//! * A connection lives on one core; a panic in it ends it alone.
//! * Connections are counted before anything is read from them ([`Limits::connections_max`]).
//! * A stop finishes what is in flight, flushes every disk, and only then returns.
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

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::watch;

pub use error::ServeError;
pub use exports::Export;
pub use limits::Limits;
pub use listener::{ListenAddress, Listener};

use budget::Budget;
use connection::{Connection, End, Start};
use exports::Exports;
use handshake::{NoSession, negotiate};
use listener::Acceptor;
use maps::Maps;
use socket::Socket;

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
        let mut accepting = Vec::new();
        for listener in listeners {
            let accept = accept(shared.clone(), listener, stopping.subscribe());
            accepting.push(engine::spawn(accept));
        }
        tokio::pin!(stop);
        let failed = async {
            for task in &mut accepting {
                if let Ok(Err(e)) = task.await {
                    return e;
                }
            }
            std::future::pending().await
        };
        let failure = tokio::select! {
            () = &mut stop => None,
            e = failed => Some(e),
        };
        let listened = stop_all(&shared, stopping).await;
        for task in accepting {
            task.abort();
        }
        failure.map_or(listened, |e| Err(ServeError::Descriptor(e)))
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
        let socket = Socket::from_fd(fd).map_err(ServeError::Descriptor)?;
        serve_client(&shared, socket, "stdin", stop).await;
        flush_all(&shared).await
    }
}

/// Tells everybody to stop, waits for them within the limit, and flushes.
async fn stop_all(shared: &Arc<Shared>, stopping: watch::Sender<()>) -> Result<(), ServeError> {
    // No receiver left is as good as all told.
    let _told = stopping.send(());
    let limit = shared.limits.stop_timeout;
    if engine::clock::timeout(limit, stopping.closed())
        .await
        .is_err()
    {
        tracing::warn!("some connections did not end within {limit:?}");
    }
    flush_all(shared).await
}

async fn flush_all(shared: &Shared) -> Result<(), ServeError> {
    let mut result = Ok(());
    for export in shared.exports.iter() {
        if export.disk.geometry().read_only {
            continue;
        }
        if let Err(source) = export.disk.flush().await {
            tracing::error!(export = export.name, "flush at the stop: {source}");
            result = Err(ServeError::Flush {
                name: export.name.clone(),
                source,
            });
        }
    }
    result
}

/// Accepts clients until told to stop.
async fn accept(
    shared: Arc<Shared>,
    listener: Listener,
    mut stopping: watch::Receiver<()>,
) -> io::Result<()> {
    let acceptor = Acceptor::new(&listener)?;
    loop {
        let accepted = tokio::select! {
            accepted = acceptor.accept() => accepted,
            _ = stopping.changed() => return Ok(()),
        };
        match accepted {
            Ok((fd, peer)) => hand_over(&shared, fd, peer, stopping.clone()),
            Err(e) => {
                tracing::warn!("accept: {e}");
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
        tracing::warn!(peer, "refused: {total} connections are open already");
        return;
    }
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
    let Some(export) = shared.exports.find(&agreed.requested_name) else {
        return tracing::warn!(peer, "export {:?} is gone", agreed.requested_name);
    };
    tracing::info!(peer, export = export.name, "connected");
    let connection = Box::new(Connection::new(Start {
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
    match connection.run(stop).await {
        end @ (End::Disconnected | End::Closed | End::Stopped) => {
            tracing::info!(peer, export = export.name, "{end}");
        }
        end => tracing::warn!(peer, export = export.name, "{end}"),
    }
}

#[cfg(test)]
mod tests;
