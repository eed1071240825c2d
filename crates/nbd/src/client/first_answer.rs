//! [`first_answer`]: the first of several servers of one disk that answers.
//!
//! They are tried in order, each with a head start of [`HEAD_START`] over the next one, as RFC 8305 has it for addresses of one
//! host: a server that refuses costs no time, one on a machine that is gone costs the head start and no timeout, and
//! the first one is used wherever it answers in time. What is begun with the others is dropped, before any request was sent.
//!
//! A server that has sent its greeting is alive, and may be opening the disk for this client: it has [`OPENING_WAIT`] more than one that
//! is silent, before the next one is tried and before the connection fails. Two servers that take the disk over from each other for one
//! client would both lose it.
//!
//! It does not know which servers may be used: the caller lists only those.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use engine::clock;
use futures_util::stream::{FuturesUnordered, StreamExt};

use crate::client::{ClientError, Target};

/// How much earlier a server is tried than the next one.
pub(super) const HEAD_START: Duration = Duration::from_millis(250);

/// How much longer a server has that sent its greeting: what outboard's server allows for a whole handshake, in which it opens a disk.
pub(super) const OPENING_WAIT: Duration = Duration::from_secs(10);

/// Whether a server has sent its greeting. Clones share it.
#[derive(Debug, Clone, Default)]
pub(super) struct Greeting(Arc<AtomicBool>);

impl Greeting {
    /// It has.
    pub(super) fn arrived(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    pub(super) fn has_arrived(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Calls `dial` for each of `servers` until one answers.
///
/// # Errors
/// [`ClientError`]: that of the only server, or those of all.
pub(super) async fn first_answer<T, F: Future<Output = Result<T, ClientError>>>(
    servers: Vec<Target>,
    dial: impl Fn(Target, Greeting) -> F,
) -> Result<T, ClientError> {
    let mut waiting = servers.into_iter();
    let mut dialing = FuturesUnordered::new();
    let mut failures = Vec::new();
    while let Some(server) = waiting.next() {
        let greeting = Greeting::default();
        dialing.push(dial(server, greeting.clone()));
        if waiting.len() == 0 {
            break;
        }
        let mut next = clock::timeout(HEAD_START, dialing.next()).await;
        if next.is_err() && greeting.has_arrived() {
            next = clock::timeout(OPENING_WAIT, dialing.next()).await;
        }
        match next {
            Ok(Some(Ok(answer))) => return Ok(answer),
            Ok(Some(Err(failure))) => failures.push(failure),
            Ok(None) | Err(clock::Elapsed) => {}
        }
    }
    while let Some(result) = dialing.next().await {
        match result {
            Ok(answer) => return Ok(answer),
            Err(failure) => failures.push(failure),
        }
    }
    Err(ClientError::of_servers(failures))
}
