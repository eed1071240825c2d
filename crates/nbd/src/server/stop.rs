//! The end of serving: connections finish what they have begun, then every disk is flushed.
//!
//! # Invariants
//!
//! * Both have [`Limits::stop_timeout`](super::Limits::stop_timeout): a disk that does not answer
//!   keeps neither the server from ending nor another disk from being flushed.

use std::time::Duration;

use block::Node;
use futures_util::future::join_all;
use tokio::sync::watch;

use super::client_disks::{ClientName, NotClosed};
use super::control::ServerCore;
use super::error::ServeError;
use super::served_export::ServedExport;

/// Stops all connections, waits for them within the timeout, and flushes.
pub(super) async fn stop_all(
    core: &ServerCore,
    stopping: watch::Sender<()>,
) -> Result<(), ServeError> {
    // Without receivers there is nothing to notify.
    let _notified = stopping.send(());
    let limit = core.limits.stop_timeout;
    if engine::clock::timeout(limit, stopping.closed())
        .await
        .is_err()
    {
        let left = stopping.receiver_count();
        tracing::warn!("{left} connections did not end within {limit:?} of the stop");
    }
    flush_all(core).await
}

/// Flushes every disk. All failures are logged; the first is returned.
pub(super) async fn flush_all(core: &ServerCore) -> Result<(), ServeError> {
    let exports = core.exports.all_open();
    let limit = core.limits.stop_timeout;
    let flushes = join_all(exports.iter().map(|served| flush(served, limit))).await;
    let mut result = Ok(());
    for failure in flushes.into_iter().filter_map(Result::err) {
        tracing::error!("{failure}");
        result = result.and(Err(failure));
    }
    result
}

/// Flushes the disks of one export that can have changed. The first failure.
pub(super) async fn flush(served: &ServedExport, limit: Duration) -> Result<(), ServeError> {
    let label = |client: Option<&ClientName>| match client {
        Some(client) => format!("{} (client {client})", served.name()),
        None => served.name().to_owned(),
    };
    let disks = served.open_disks();
    let flushes = disks
        .iter()
        .map(|(client, disk)| flush_disk(label(client.as_ref()), disk, limit));
    let flushed = join_all(flushes).await;
    let closed = served.take_failed().into_iter().map(|(client, why)| {
        let name = label(Some(&client));
        Err(match why {
            NotClosed::Flush(source) => ServeError::Flush { name, source },
            NotClosed::Timeout(limit) => ServeError::FlushTimeout { name, limit },
        })
    });
    flushed.into_iter().chain(closed).collect()
}

async fn flush_disk(name: String, disk: &Node, limit: Duration) -> Result<(), ServeError> {
    let geometry = disk.geometry();
    // A remote disk may know no flush: its server promises nothing, and a stop has nothing to wait for.
    if geometry.read_only || !geometry.flush.any() {
        return Ok(());
    }
    match engine::clock::timeout(limit, disk.flush()).await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(source)) => Err(ServeError::Flush { name, source }),
        Err(_) => Err(ServeError::FlushTimeout { name, limit }),
    }
}
