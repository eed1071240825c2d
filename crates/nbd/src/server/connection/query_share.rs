//! [`QueryShare`]: what one client may have at work of requests that search or fetch much and change nothing.
//!
//! The map of a fragmented file, or fetching a gigabyte, takes many times as long as other requests, and is requested
//! with 28 bytes. All clients' queries share a few threads. A client that has hundreds of them in flight gets
//! there what others get that have a few: the rest of them wait here.
//!
//! # Invariants
//!
//! * At most [`QUERIES_MAX`] of a connection are at work; the others begin in the order they came.
//! * When the connection's requests are cancelled, a query ends at once, at work or not. What it has on another
//!   thread is dropped with its future.

use std::sync::Arc;

use block::{Errno, IoError, Operation, Range};
use tokio::sync::Semaphore;

use super::long::CancelFlag;

/// Queries of one connection at work. More than one: each may wait for a remote disk.
pub(in crate::server) const QUERIES_MAX: usize = 4;

/// A connection's. Clones share it.
#[derive(Debug, Clone)]
pub(super) struct QueryShare(Arc<Semaphore>);

impl Default for QueryShare {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(QUERIES_MAX)))
    }
}

impl QueryShare {
    /// Runs `query`, which is `what`, when it is its turn.
    pub(super) async fn run<T>(
        &self,
        query: impl Future<Output = Result<T, IoError>>,
        cancel: &CancelFlag,
        what: (Operation, Range),
    ) -> Result<T, IoError> {
        let in_turn = async {
            let _place = self.0.acquire().await;
            query.await
        };
        tokio::select! {
            biased;
            result = in_turn => result,
            () = cancel.cancelled() => {
                let (operation, range) = what;
                let cancelled = IoError::new(Errno::ShuttingDown, operation, Some(range));
                Err(cancelled.because("the connection ends before the query does"))
            }
        }
    }
}
