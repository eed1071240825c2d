//! The NBD server: listeners, a handshake per client, connections spread over the cores.
//!
//! # Invariants
//!
//! * A connection lives on one core; a panic in it ends it alone.
//! * A connection begins when the writes of those that ended before it, at the same export, have
//!   landed: a client that comes back finds none of its old writes under way.
//! * Connections are counted before anything is read from them ([`Limits::connections_max`],
//!   [`Limits::connections_per_address_max`]).
//! * An export that a client may not use is unknown to it, and its disk is not touched for it.
//! * One client at a time writes to an export, unless its rules permit more (`writers`).
//! * A stop finishes what is in flight and flushes every disk, each within a limit, and only then
//!   returns.
//! * The transmission code does not know whether it is under TLS; a short send is retried with the same
//!   bytes.
//! * A payload that has not arrived holds one piece of at most 1 MiB. Requests on the fast path allocate
//!   nothing, and read no clock of their own for the metrics.
//! * Bytes in flight are bounded for each connection and for the process.
//! * A connection holds its disk, not the table of exports: a change of the table affects only clients of the
//!   export that it names.
//! * A counter has one writer, the connection; a reader may be a step late and never blocks it.
//! * Export names are never paths.
//! * A connection that holds the claim to write is ended before another client gets it; a takeover is
//!   acknowledged when no request of the previous writer is in flight.
//! * A disk in standby is another server's until a client may write to it; a connection ends with the opening that it is of (`standby`).
//! * A client's own disk is opened after access was granted, shared by its connections alone, and settled,
//!   flushed and closed after the last one before it is opened again. A new image is for new clients
//!   (`client_disks`).
//!
mod access;
mod budget;
mod client_disks;
mod clients;
mod connection;
mod connection_count;
mod control;
mod error;
mod export_disks;
mod export_selection;
mod exports;
mod handshake;
mod limits;
mod listener;
mod log_limit;
mod peer;
mod plan;
mod scratch;
mod served_export;
mod socket;
mod socket_file;
mod standby;
mod stats;
mod stop;
mod writers;

use std::os::fd::OwnedFd;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::FutureExt;
use nbd_proto::CloseReason;
use tokio::sync::watch;

pub use access::{Access, Origin, OriginError};
pub use client_disks::{
    CannotOpen, ClientDiskFigures, ClientFuture, ClientName, DiskFence, DiskPerClient, NamedBy,
    Nameless,
};
pub use control::{Control, Resized};
pub use error::{ChangeError, ServeError};
pub use exports::{Export, ExportDisk, Rules};
pub use limits::Limits;
pub use listener::{ListenAddress, Listener};
pub use peer::Peer;
pub use socket_file::lock_place;
pub use standby::{StandbyDisk, StandbyOpening};
pub use stats::{
    BUCKETS, ClientFigures, CommandFigures, ExportFigures, Figures, Op, ServerFigures,
    StandbyFigures, WriterFigures, WritersFigures, bucket_limit,
};
pub use writers::WriterRules;

use crate::tls::{Demand, ServerTls};
use clients::AdmittedClient;
use connection::{Connection, ConnectionEnd, ConnectionSetup};
use connection_count::Counted;
use control::ServerCore;
use export_selection::ExportSelection;
use exports::Exports;
use handshake::{NegotiatedSession, NoSession, ServerOffer, negotiate};
use listener::{Acceptor, is_clients_fault};
use log_limit::LogLimit;
use served_export::NotAdmitted;
use socket::Socket;
use stop::{flush_all, stop_all};

/// Pause after an accept that failed for want of descriptors or memory.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

#[derive(Debug)]
struct ServerShared {
    core: Arc<ServerCore>,
    /// Connections of each core.
    loads: Vec<AtomicUsize>,
    /// Log lines about clients that were refused.
    refusals: LogLimit,
    handle: engine::Handle,
}

/// A server that has its exports and its bounds.
#[derive(Debug)]
pub struct Server(Arc<ServerCore>);

impl Server {
    /// A server of `exports` for all clients; the first is also the default.
    ///
    /// # Errors
    /// [`ServeError::NoExports`], [`ServeError::NameTwice`], [`ServeError::NameTooLong`].
    pub fn new(exports: Vec<Export>, limits: Limits) -> Result<Self, ServeError> {
        let free = exports.into_iter().map(|e| (e, Rules::default()));
        Self::with_rules(free.collect(), limits)
    }

    /// A server of `exports`, each for the clients that its rules admit; the first is also the default.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn with_rules(exports: Vec<(Export, Rules)>, limits: Limits) -> Result<Self, ServeError> {
        Ok(Self(ServerCore::new(Exports::new(exports)?, limits)))
    }

    /// Offers TLS, or demands it.
    ///
    /// # Panics
    /// If it does already.
    #[must_use]
    pub fn with_tls(self, tls: ServerTls, demand: Demand) -> Self {
        let set = self.0.tls.set((tls, demand));
        assert!(set.is_ok(), "TLS is set once");
        self
    }

    /// A handle for changes and questions while it serves.
    #[must_use]
    pub fn control(&self) -> Control {
        Control(self.0.clone())
    }

    fn share(self, handle: &engine::Handle) -> Arc<ServerShared> {
        Arc::new(ServerShared {
            core: self.0,
            loads: (0..handle.cores()).map(|_| AtomicUsize::new(0)).collect(),
            refusals: LogLimit::default(),
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
        stop_all(&shared.core, stopping).await
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
        let mut stop_signal = stopping.subscribe();
        let client = async {
            let stopped = async { drop(stop_signal.changed().await) };
            let peer = Peer::new("stdin", None).of_process(listener::process_of(&socket));
            serve_client(&shared.core, socket, peer, stopped).await;
        };
        tokio::pin!(client);
        tokio::select! {
            () = &mut client => {}
            () = stop => {
                // The receiver exists: the client is still connected.
                let _notified = stopping.send(());
                let limit = shared.core.limits.stop_timeout;
                if engine::clock::timeout(limit, client).await.is_err() {
                    tracing::warn!("the connection did not end within {limit:?} of the stop");
                }
            }
        }
        flush_all(&shared.core).await
    }
}

/// Accepts clients until `stopping` changes.
async fn accept(shared: Arc<ServerShared>, acceptor: Acceptor, mut stopping: watch::Receiver<()>) {
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
                // Logged once for all that follow.
                if !std::mem::replace(&mut is_short, true) {
                    tracing::warn!("new clients must wait: accept: {e}");
                }
                engine::clock::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// Gives a client to the core with the fewest.
fn hand_over(
    shared: &Arc<ServerShared>,
    fd: OwnedFd,
    peer: Peer,
    mut stopping: watch::Receiver<()>,
) {
    let limits = &shared.core.limits;
    let counted = match shared.core.connections.count(peer.address, limits) {
        Ok(counted) => counted,
        Err(too_many) => {
            if let Some(unlogged) = shared.refusals.admit(engine::clock::now()) {
                tracing::warn!(peer = peer.label, unlogged, "refused: {too_many}");
            }
            return;
        }
    };
    let load = |core: &usize| shared.loads[*core].load(Ordering::Relaxed);
    let core = (0..shared.handle.cores()).min_by_key(load).unwrap_or(0);
    let place = CoreSlot::new(shared.clone(), core, counted);
    shared.handle.spawn_on(core, move || async move {
        match Socket::from_fd(fd) {
            Ok(socket) => {
                let stop = async { drop(stopping.changed().await) };
                serve_client(&place.shared.core, socket, peer, stop).await;
            }
            Err(e) => tracing::warn!(peer = peer.label, "{e}"),
        }
    });
}

/// One connection's place on a core.
struct CoreSlot {
    shared: Arc<ServerShared>,
    core: usize,
    _counted: Counted,
}

impl CoreSlot {
    fn new(shared: Arc<ServerShared>, core: usize, counted: Counted) -> Self {
        shared.loads[core].fetch_add(1, Ordering::Relaxed);
        Self {
            shared,
            core,
            _counted: counted,
        }
    }
}

impl Drop for CoreSlot {
    fn drop(&mut self) {
        self.shared.loads[self.core].fetch_sub(1, Ordering::Relaxed);
    }
}

/// A client from its first byte to its last.
async fn serve_client(
    core: &ServerCore,
    mut socket: Socket,
    mut peer: Peer,
    stop: impl Future<Output = ()>,
) {
    tokio::pin!(stop);
    let mut selection = ExportSelection::new(core);
    let begun = {
        let negotiation = agree(core, &mut socket, &mut peer, &mut selection);
        tokio::select! {
            begun = negotiation => begun,
            () = &mut stop => None,
        }
    };
    // A client that never used its disk does not come back for it.
    let mut said_goodbye = true;
    let mut left = None;
    if let Some(session) = begun {
        match admit(core, &session, &peer, &selection) {
            Ok(admitted) => {
                (said_goodbye, left) = transmit(core, socket, session, &peer, admitted, stop).await;
            }
            Err(e) => tracing::warn!(peer = peer.label, "{e}"),
        }
    }
    selection.release_claim();
    // Only now: another client of the same user may write as soon as this one sees its connection end.
    drop(left);
    selection.leave(said_goodbye).await;
}

/// The handshake with a client within its time, and the log line if it fails.
async fn agree(
    core: &ServerCore,
    socket: &mut Socket,
    peer: &mut Peer,
    selection: &mut ExportSelection,
) -> Option<NegotiatedSession> {
    let limits = &core.limits;
    let offer = ServerOffer {
        exports: &core.exports,
        payload_max: limits.payload_max,
        tls: core.tls.get(),
    };
    let negotiation = Box::pin(negotiate(socket, peer, selection, offer));
    let session = engine::clock::timeout(limits.handshake_timeout, negotiation).await;
    let peer_name = peer.label.as_str();
    let why = match session {
        Ok(Ok(session)) => return Some(session),
        Ok(Err(NoSession::Left | NoSession::Closed(CloseReason::Aborted))) => {
            tracing::debug!(peer_name, "left in the handshake");
            return None;
        }
        Ok(Err(e)) => e.to_string(),
        Err(_) => "the handshake took too long".to_owned(),
    };
    let failed = &core.connections.handshakes_failed;
    failed.fetch_add(1, Ordering::Relaxed);
    tracing::info!(peer_name, "no session: {why}");
    None
}

/// Takes a client in at the export that it agreed on.
fn admit(
    core: &ServerCore,
    session: &NegotiatedSession,
    peer: &Peer,
    selection: &ExportSelection,
) -> Result<AdmittedClient, NotAdmitted> {
    let (id, announced) = (selection.connection(), &session.agreed.export);
    match selection.export() {
        Some(served) => served.admit(id, peer, announced, selection.held()),
        None => {
            let found = core.exports.find(&session.agreed.requested_name, peer);
            let served = found.ok_or(NotAdmitted::Gone)?;
            served.admit(id, peer, announced, None)
        }
    }
}

/// The transmission phase of a client, and the log line at its end. Returns whether the client sent `DISC`, and the socket
/// if it is still open.
async fn transmit(
    core: &ServerCore,
    socket: Socket,
    session: NegotiatedSession,
    peer: &Peer,
    admitted: AdmittedClient,
    stop: impl Future<Output = ()>,
) -> (bool, Option<Socket>) {
    let (served, disk) = (admitted.served(), admitted.disk());
    let gate = admitted.gate(session.agreed.writer);
    let certificate = peer.certificate_name.clone();
    let (peer, export) = (peer.label.as_str(), served.name());
    let ended = async {
        tokio::select! {
            () = stop => {}
            () = admitted.dismissed() => {}
        }
    };
    tokio::pin!(ended);
    // Its client may be one that lost its connection: nothing from there may land later.
    tokio::select! {
        () = admitted.leaving().settled() => {}
        () = &mut ended => return (false, Some(socket)),
    }
    match &certificate {
        Some(certificate) => tracing::info!(peer, export, certificate, "connected"),
        None => tracing::info!(peer, export, "connected"),
    }
    let connection = Box::new(Connection::new(ConnectionSetup {
        name: export.to_owned(),
        is_of_standby: admitted.is_of_standby(),
        leaving: admitted.leaving().clone(),
        socket,
        disk: disk.clone(),
        terms: plan::ConnectionTerms {
            flags: session.agreed.export.flags,
            framing: session.agreed.framing,
            contexts: session.agreed.contexts.clone(),
            payload_max: core.limits.payload_max,
        },
        limits: core.limits.clone(),
        budget: core.budget.clone(),
        meter: admitted.meter(),
        gate,
        received: session.received,
    }));
    match AssertUnwindSafe(connection.run(ended)).catch_unwind().await {
        Ok((
            end @ (ConnectionEnd::Disconnected | ConnectionEnd::Closed | ConnectionEnd::Stopped),
            socket,
        )) => {
            tracing::info!(peer, export, "{end}");
            (matches!(end, ConnectionEnd::Disconnected), Some(socket))
        }
        Ok((end, socket)) => {
            tracing::warn!(peer, export, "{end}");
            (false, Some(socket))
        }
        Err(_) => {
            tracing::error!(peer, export, "a bug ended this connection");
            // Its writes were dropped with it; none may land behind its end.
            let _ticket = admitted.leaving().ticket();
            if let Err(e) = disk.settle().await {
                tracing::error!(export, "{e}");
            }
            (false, None)
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
