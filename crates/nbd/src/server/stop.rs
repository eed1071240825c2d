//! The end of serving: connections finish what they have begun, then every disk is flushed.
//!
//! # Invariants
//!
//! * Both have [`Limits::stop_timeout`](super::Limits::stop_timeout): a disk that does not answer
//!   keeps neither the server from ending nor another disk from being flushed.

use futures_util::future::join_all;
use tokio::sync::watch;

use super::error::ServeError;
use super::{Export, Shared};

/// Tells everybody to stop, waits for them within the limit, and flushes.
pub(super) async fn stop_all(
    shared: &Shared,
    stopping: watch::Sender<()>,
) -> Result<(), ServeError> {
    // No receiver left is as good as all told.
    let _told = stopping.send(());
    let limit = shared.limits.stop_timeout;
    if engine::clock::timeout(limit, stopping.closed())
        .await
        .is_err()
    {
        let left = stopping.receiver_count();
        tracing::warn!("{left} connections did not end within {limit:?} of the stop");
    }
    flush_all(shared).await
}

/// Flushes every disk. All failures are logged; the first is returned.
pub(super) async fn flush_all(shared: &Shared) -> Result<(), ServeError> {
    let changed = |export: &&Export| !export.disk.geometry().read_only;
    let exports = shared.exports.iter().filter(changed);
    let flushes = join_all(exports.map(|export| flush(shared, export))).await;
    let mut result = Ok(());
    for failure in flushes.into_iter().filter_map(Result::err) {
        tracing::error!("{failure}");
        result = result.and(Err(failure));
    }
    result
}

async fn flush(shared: &Shared, export: &Export) -> Result<(), ServeError> {
    let limit = shared.limits.stop_timeout;
    let name = || export.name.clone();
    match engine::clock::timeout(limit, export.disk.flush()).await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(source)) => Err(ServeError::Flush {
            name: name(),
            source,
        }),
        Err(_) => Err(ServeError::FlushTimeout {
            name: name(),
            limit,
        }),
    }
}
