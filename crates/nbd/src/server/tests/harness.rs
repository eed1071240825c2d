//! Harness of the tests: a server on a free port of the loopback interface, which runs for as long as the
//! body of a test, and what bodies share.
//!
//! [`run_server`] is the only function that starts and stops a server; the others fill in a [`ServerSetup`].

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use block::Node;
use testkit::MemDisk;
use tokio::sync::oneshot;

use crate::server::{Control, Export, Limits, ListenAddress, Listener, Rules, ServeError, Server};
use crate::tls::{Demand, ServerTls};

/// Longest time that a server takes to stop.
const STOP_TIMEOUT: Duration = Duration::from_secs(30);
/// Longest time that a condition takes to become true.
const CONDITION_TIMEOUT: Duration = Duration::from_secs(20);
/// Interval at which a condition is polled.
const POLL_INTERVAL: Duration = Duration::from_millis(2);

/// A server to run, and the engine to run it on.
pub(crate) struct ServerSetup {
    pub(crate) engine: engine::Config,
    pub(crate) exports: Vec<(Export, Rules)>,
    pub(crate) limits: Limits,
    pub(crate) listener: Listener,
    pub(crate) tls: Option<(ServerTls, Demand)>,
}

impl ServerSetup {
    /// These exports with default limits, on two cores, on a free TCP port, without TLS.
    pub(crate) fn new(exports: Vec<(Export, Rules)>) -> Self {
        Self {
            engine: cores(2),
            exports,
            limits: Limits::default(),
            listener: local(),
            tls: None,
        }
    }
}

/// An engine of `count` cores.
pub(super) fn cores(count: usize) -> engine::Config {
    engine::Config {
        cores: count,
        ..engine::Config::default()
    }
}

/// Runs `body` while the server runs, then stops the server. Returns the result of `body`, which lives
/// until the server has stopped, and the result of the server.
pub(crate) fn run_server<F: Future>(
    setup: ServerSetup,
    body: impl FnOnce(ListenAddress, Control) -> F,
) -> (F::Output, Result<(), ServeError>) {
    let ServerSetup {
        engine,
        exports,
        limits,
        listener,
        tls,
    } = setup;
    let run = engine::run(&engine, |handle| async move {
        let mut server = Server::with_rules(exports, limits).expect("valid exports");
        if let Some((tls, demand)) = tls {
            server = server.with_tls(tls, demand);
        }
        let control = server.control();
        let address = listener.address().clone();
        let (stop, stopped) = oneshot::channel::<()>();
        let stopped = async move { drop(stopped.await) };
        let serve =
            engine::spawn(async move { server.serve(&handle, vec![listener], stopped).await });
        let result = body(address, control).await;
        drop(stop);
        let end = engine::clock::timeout(STOP_TIMEOUT, serve).await;
        (result, end.expect("the server stops").expect("no panic"))
    });
    run.expect("the engine starts")
}

/// The address of a TCP listener.
pub(crate) fn tcp(address: ListenAddress) -> SocketAddr {
    let ListenAddress::Tcp(address) = address else {
        panic!("a TCP listener has a TCP address")
    };
    address
}

/// Runs `body` while a server of `disk` runs, and asserts that the server stopped without an error.
pub(super) fn serving<F: Future>(
    disk: Node,
    limits: Limits,
    body: impl FnOnce(SocketAddr) -> F,
) -> F::Output {
    let (result, end) = serving_on(2, disk, limits, local(), |address| body(tcp(address)));
    end.expect("a clean stop");
    result
}

/// [`serving`] on an engine of `count` cores and on `listener`; also returns the result of the server.
pub(super) fn serving_on<F: Future>(
    count: usize,
    disk: Node,
    limits: Limits,
    listener: Listener,
    body: impl FnOnce(ListenAddress) -> F,
) -> (F::Output, Result<(), ServeError>) {
    let setup = ServerSetup {
        engine: cores(count),
        limits,
        listener,
        ..ServerSetup::new(vec![(export(disk), Rules::default())])
    };
    run_server(setup, |address, _| body(address))
}

/// Runs `body` while a server of `exports` runs, and asserts that the server stopped without an error.
pub(super) fn controlled<F: Future>(
    exports: Vec<(Export, Rules)>,
    limits: Limits,
    body: impl FnOnce(SocketAddr, Control) -> F,
) -> F::Output {
    let (result, end) = controlled_to_the_end(exports, limits, body);
    end.expect("a clean stop");
    result
}

/// [`controlled`]; also returns the result of the server.
pub(super) fn controlled_to_the_end<F: Future>(
    exports: Vec<(Export, Rules)>,
    limits: Limits,
    body: impl FnOnce(SocketAddr, Control) -> F,
) -> (F::Output, Result<(), ServeError>) {
    let setup = ServerSetup {
        limits,
        ..ServerSetup::new(exports)
    };
    run_server(setup, |address, control| body(tcp(address), control))
}

/// Waits until `is_so` returns true.
///
/// # Panics
/// If it does not within 20 s.
pub(super) async fn wait_until(mut is_so: impl AsyncFnMut() -> bool) {
    let poll = async {
        while !is_so().await {
            engine::clock::sleep(POLL_INTERVAL).await;
        }
    };
    let end = engine::clock::timeout(CONDITION_TIMEOUT, poll).await;
    end.expect("the condition becomes true");
}

/// Waits until at most `max` clients of the first export are connected.
pub(super) async fn wait_for_clients(control: &Control, max: usize) {
    wait_until(async || control.figures().exports[0].clients.len() <= max).await;
}

/// The export `disk`.
pub(super) fn export(disk: Node) -> Export {
    Export {
        name: "disk".to_owned(),
        description: "a disk".to_owned(),
        disk: disk.into(),
    }
}

/// The export `name` with default rules.
pub(crate) fn named(name: &str, disk: Node) -> (Export, Rules) {
    let export = Export {
        name: name.to_owned(),
        description: format!("the disk {name}"),
        disk: disk.into(),
    };
    (export, Rules::default())
}

/// A disk of 1 MiB in memory.
pub(super) fn memory() -> Node {
    Arc::new(MemDisk::new(1 << 20))
}

/// A free TCP port of the loopback interface.
pub(super) fn local() -> Listener {
    Listener::tcp(([127, 0, 0, 1], 0).into()).expect("a free port")
}
