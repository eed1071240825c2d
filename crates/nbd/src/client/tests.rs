//! Tests of the client against [`fake::Fake`], a server that follows the script of a test, and
//! against the servers that are installed.

mod abort;
mod basics;
mod connect;
mod context_map;
mod dial;
mod extents;
mod fake;
mod flush_order;
mod hostile;
mod identity;
mod lost_writes;
mod peers;
mod power;
mod pure;
mod reconnect;
mod renewal;
mod resize;
mod server_choice;
mod servers;
mod slow_flush;
mod stuck_request;
mod surveys;
mod timeouts;
mod wire;
pub(super) mod worlds;
mod writers;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use crate::client::{Client, ClientConfig};
use fake::Fake;

/// Runs a test inside an engine of one core. Nothing in a test takes longer than two minutes, also on a machine under full load.
fn in_engine<F: Future<Output = ()>>(test: impl FnOnce() -> F) {
    let config = engine::Config {
        backend: engine::BackendChoice::Threads,
        cores: 1,
    };
    let limit = Duration::from_secs(120);
    let run = |_| async { engine::clock::timeout(limit, test()).await };
    engine::run(&config, run).unwrap().expect("the test hangs");
}

/// Short times, so that tests of limits are short; but a busy machine needed half a second for a greeting.
fn short_limits() -> ClientConfig {
    ClientConfig {
        connections: 1,
        request_timeout: Duration::from_secs(1),
        reconnect_for: Duration::from_secs(5),
        ..ClientConfig::default()
    }
}

/// One connection with the timeouts of users, for servers that are processes of their own: on a busy machine one took
/// more than a second for its greeting.
fn one_connection() -> ClientConfig {
    ClientConfig {
        connections: 1,
        ..ClientConfig::default()
    }
}

async fn connect(fake: &Fake, config: ClientConfig) -> Arc<Client> {
    Client::connect(fake.target(), config).await.unwrap()
}

/// Waits until `seen` is true.
async fn until(what: &str, mut seen: impl FnMut() -> bool) {
    for _ in 0..2000 {
        if seen() {
            return;
        }
        engine::clock::sleep(Duration::from_millis(5)).await;
    }
    panic!("never happened: {what}");
}

/// Polls a future once.
async fn poll_once<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
    std::future::poll_fn(|cx| Poll::Ready(Pin::new(&mut *future).poll(cx))).await
}
