//! [`Control`]: reads and changes a server while it serves.
//!
//! # Invariants
//!
//! * A change touches the clients of the export that it names, and no others.
//! * An export that is removed or replaced ends like a server that stops: its clients are disconnected, what
//!   they have in flight is finished, the disk is flushed, and only then closed.
//! * Each of these steps has [`Limits::stop_timeout`]; what does not end in time is logged and stays
//!   open.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use super::budget::Budget;
use super::client_disks::{ClientName, DiskPerClient};
use super::connection_count::Connections;
use super::error::ChangeError;
use super::exports::{Export, Exports, Rules};
use super::limits::Limits;
use super::served_export::ServedExport;
use super::stats::ServerFigures;
use super::stop::flush;
use crate::tls::{Demand, ServerTls};

/// What a server and its handles share.
#[derive(Debug)]
pub(super) struct ServerCore {
    pub(super) exports: Exports,
    pub(super) limits: Arc<Limits>,
    pub(super) budget: Budget,
    pub(super) connections: Arc<Connections>,
    /// TLS, and which clients must use it; set before serving or never.
    pub(super) tls: OnceLock<(ServerTls, Demand)>,
    ids: AtomicU64,
}

impl ServerCore {
    pub(super) fn new(exports: Exports, limits: Limits) -> Arc<Self> {
        Arc::new(Self {
            exports,
            budget: Budget::new(limits.in_flight_bytes_total_max),
            limits: Arc::new(limits),
            connections: Arc::default(),
            tls: OnceLock::new(),
            ids: AtomicU64::new(1),
        })
    }

    /// A number that no client had before.
    pub(super) fn next_id(&self) -> u64 {
        self.ids.fetch_add(1, Ordering::Relaxed)
    }
}

/// A handle of a server. Clones share it.
#[derive(Debug, Clone)]
pub struct Control(pub(super) Arc<ServerCore>);

/// The sizes of an export before and after a resize, bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Resized {
    /// Before.
    pub from: u64,
    /// Now.
    pub to: u64,
}

impl Control {
    /// Serves one more export, behind the others.
    ///
    /// # Errors
    /// [`ChangeError::NameTwice`], [`ChangeError::NameTooLong`].
    pub fn add(&self, export: Export, rules: Rules) -> Result<(), ChangeError> {
        self.0.exports.add(ServedExport::new(export, rules))
    }

    /// Serves one more, behind the others, of which the content was changed by `by`, not by its clients: one that wrote
    /// to it before, and returns with what it has not flushed, is refused as if `by` had taken over writing.
    ///
    /// # Errors
    /// As [`add`](Self::add); [`ChangeError::NotFenced`].
    pub async fn add_changed(
        &self,
        export: Export,
        rules: Rules,
        by: &str,
    ) -> Result<(), ChangeError> {
        let served = ServedExport::new(export, rules);
        let limit = self.0.limits.stop_timeout;
        let fenced = served.fence(self.0.next_id(), by, limit).await;
        fenced.map_err(|why| ChangeError::NotFenced {
            name: served.name().to_owned(),
            why,
        })?;
        self.0.exports.add(served)
    }

    /// How many connections an export has.
    ///
    /// # Errors
    /// [`ChangeError::Unknown`].
    pub fn clients(&self, name: &str) -> Result<usize, ChangeError> {
        Ok(self.named(name)?.clients())
    }

    /// Ends an export: resolves when its disk is flushed and closed.
    ///
    /// # Errors
    /// [`ChangeError::Unknown`]; [`ChangeError::Busy`] and [`ChangeError::Flush`], after which it is
    /// gone all the same.
    pub async fn remove(&self, name: &str) -> Result<(), ChangeError> {
        let served = self.0.exports.take_out(name, None)?;
        self.end(served).await
    }

    /// Puts `export` into the place of the one of that name, and disconnects its clients.
    ///
    /// # Errors
    /// As [`remove`](Self::remove).
    pub async fn replace(&self, export: Export, rules: Rules) -> Result<(), ChangeError> {
        let name = export.name.clone();
        let served = self.0.exports.take_out(&name, Some((export, rules)))?;
        self.end(served).await
    }

    /// Gives an export other rules and another text. Clients that may not use it any more are
    /// ended; the others do not notice.
    ///
    /// # Errors
    /// [`ChangeError::Unknown`].
    pub fn update(&self, name: &str, description: &str, rules: Rules) -> Result<(), ChangeError> {
        let served = self.named(name)?;
        served.update(description.to_owned(), rules);
        Ok(())
    }

    /// Gives new clients of an export disks from `source`, for which it takes the place of the one
    /// before; a client that is connected, or reconnects within a minute of losing its connections, keeps
    /// its disk.
    ///
    /// # Errors
    /// [`ChangeError::Unknown`]; [`ChangeError::Shared`].
    pub fn renew(&self, name: &str, source: Arc<dyn DiskPerClient>) -> Result<(), ChangeError> {
        self.named(name)?.renew(source)
    }

    /// Removes the disk of a client of an export that changes the image of that number. If it is
    /// connected, that is refused, or, where `force`, its connections are ended first.
    ///
    /// # Errors
    /// [`ChangeError::Unknown`]; [`ChangeError::Shared`]; [`ChangeError::ClientConnected`];
    /// [`ChangeError::ClientBusy`]; [`ChangeError::NotRemoved`].
    pub async fn remove_client_disk(
        &self,
        export: &str,
        client: &ClientName,
        image: &str,
        force: bool,
    ) -> Result<(), ChangeError> {
        let served = self.named(export)?;
        let limit = self.0.limits.stop_timeout;
        let removal = served.remove_client_disk(client, image, force);
        match engine::clock::timeout(limit, removal).await {
            Ok(removed) => removed,
            Err(_) => Err(ChangeError::ClientBusy {
                client: client.to_string(),
                limit,
            }),
        }
    }

    /// Refreshes the size of an export's disk. Connected clients keep the size that they negotiated;
    /// new ones get the new size.
    ///
    /// # Errors
    /// [`ChangeError::Unknown`]; [`ChangeError::PerClient`]; [`ChangeError::Measure`];
    /// [`ChangeError::Shrinks`] for a disk that became smaller under its clients.
    pub async fn resize(&self, name: &str) -> Result<Resized, ChangeError> {
        let served = self.named(name)?;
        let disk = served.shared_disk();
        let disk = disk.ok_or_else(|| ChangeError::PerClient(name.to_owned()))?;
        let from = disk.geometry().size;
        let measured = disk.revalidate().await;
        let measured = measured.map_err(|source| ChangeError::Measure {
            name: name.to_owned(),
            source,
        })?;
        let Some(disk) = measured else {
            return Ok(Resized { from, to: from });
        };
        let to = disk.geometry().size;
        served.resize(disk)?;
        Ok(Resized { from, to })
    }

    /// Puts the exports into the order of `names`. The first one is the default.
    pub fn arrange(&self, names: &[String]) {
        self.0.exports.arrange(names);
    }

    /// Ends a client; what it has in flight is finished. Whether there was one of that number.
    #[must_use]
    pub fn disconnect(&self, client: u64) -> bool {
        let exports = self.0.exports.all_open();
        exports.iter().any(|served| served.dismiss(client))
    }

    /// What the server did so far and has at hand. May block where clients have disks of their own.
    #[must_use]
    pub fn figures(&self) -> ServerFigures {
        let connections = &self.0.connections;
        let count = |count: &AtomicU64| count.load(Ordering::Relaxed);
        ServerFigures {
            connections: connections.open() as u64,
            accepted: count(&connections.accepted),
            refused: count(&connections.refused),
            handshakes_failed: count(&connections.handshakes_failed),
            memory: self.0.budget.used() as u64,
            exports: self.0.exports.all().iter().map(|s| s.figures()).collect(),
        }
    }

    fn named(&self, name: &str) -> Result<Arc<ServedExport>, ChangeError> {
        let found = self.0.exports.named(name);
        found.ok_or_else(|| ChangeError::Unknown(name.to_owned()))
    }

    /// Ends what was taken out of the table.
    async fn end(&self, served: Arc<ServedExport>) -> Result<(), ChangeError> {
        served.retire();
        let limit = self.0.limits.stop_timeout;
        if engine::clock::timeout(limit, served.vacated())
            .await
            .is_err()
        {
            // It stays among those that a stop flushes.
            return Err(ChangeError::Busy {
                name: served.name().to_owned(),
                clients: served.clients(),
                limit,
            });
        }
        let flushed = flush(&served, limit).await;
        self.0.exports.forget(&served);
        flushed.map_err(ChangeError::Flush)
    }
}
