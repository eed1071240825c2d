//! Tests of the choice of a server, with servers on the loopback interface. The kernel has no part in them.

use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;

use nbd::client::{AccessMode, DiskIdentity, WriterAccess, random_token};
use nbd::server::{Export, Limits, ListenAddress, Listener, Rules, Server};
use testkit::MemDisk;
use tokio::sync::oneshot;

use super::super::netlink::{NbdIndex, NbdShape};
use super::super::{KernelError, NbdSetup};
use super::NbdLink;

const SIZE: u64 = 1 << 20;
/// The time limit of a server in these tests.
const SILENT_FOR: Duration = Duration::from_secs(20);
/// Far less than that, and much more than a head start on a busy machine.
const SOON: Duration = Duration::from_secs(10);

/// The connections of a device, each alive or not.
const NONE_LIVES: &[bool] = &[false; 3];
const ONE_LIVES: &[bool] = &[false, true, false];

fn dead(live: &[bool]) -> usize {
    live.iter().filter(|live| !**live).count()
}

/// Runs `body` with the ports of servers of disks with these sizes and identities.
fn with_servers<F: Future<Output = ()>>(disks: &[(u64, &str)], body: impl FnOnce(Vec<u16>) -> F) {
    let unlimited = Limits::default().connections_max;
    let disks: Vec<_> = disks.iter().map(|disk| (*disk, unlimited)).collect();
    with_limited_servers(&disks, body);
}

/// The same, of servers that take so many connections at once.
fn with_limited_servers<F: Future<Output = ()>>(
    disks: &[((u64, &str), usize)],
    body: impl FnOnce(Vec<u16>) -> F,
) {
    let run = engine::run(&engine::Config::default(), |handle| async move {
        let (mut ports, mut running) = (Vec::new(), Vec::new());
        for ((size, identity), connections_max) in disks {
            let export = Export {
                name: "root".to_owned(),
                description: String::new(),
                disk: Arc::new(MemDisk::new(*size)).into(),
            };
            let rules = Rules {
                identity: Some(identity.parse().unwrap()),
                ..Rules::default()
            };
            let limits = Limits {
                connections_max: *connections_max,
                ..Limits::default()
            };
            let server = Server::with_rules(vec![(export, rules)], limits).unwrap();
            let listener = Listener::tcp(([127, 0, 0, 1], 0).into()).unwrap();
            let ListenAddress::Tcp(address) = *listener.address() else {
                panic!("a TCP listener has a TCP address")
            };
            ports.push(address.port());
            let (stop, stopped) = oneshot::channel::<()>();
            let handle = handle.clone();
            let serve = engine::spawn(async move {
                let stopped = async { drop(stopped.await) };
                server.serve(&handle, vec![listener], stopped).await
            });
            running.push((stop, serve));
        }
        body(ports).await;
        for (stop, serve) in running {
            drop(stop);
            serve.await.unwrap().unwrap();
        }
    });
    run.unwrap();
}

/// A listener that accepts connections and never answers, as a process that hangs.
fn silent() -> (TcpListener, u16) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    (listener, port)
}

fn server(port: u16) -> String {
    format!("nbd://127.0.0.1:{port}/root")
}

/// A device with the disk `one` on these servers, over the first of them.
fn link(ports: &[u16], read_only: bool) -> NbdLink {
    let hosts: Vec<String> = ports.iter().map(|p| format!("127.0.0.1:{p}")).collect();
    let setup = NbdSetup {
        uri: format!("nbd://{}/root", hosts.join(",")),
        server: server(ports[0]),
        connections: 1,
        read_only,
        silent_for: SILENT_FOR,
        timeout: SILENT_FOR,
        backend: "test".to_owned(),
        writer: WriterAccess {
            token: random_token(),
            mode: AccessMode::Read,
        },
    };
    let shape = NbdShape {
        size: SIZE,
        block_size: 512,
    };
    let disk = DiskIdentity {
        identity: Some("one".parse().unwrap()),
        ..DiskIdentity::default()
    };
    NbdLink::new(setup, NbdIndex(0), shape, disk, Vec::new())
}

/// A server lost power: each server was dialed for up to 15 s before the next one, the one that had just died first. With `--timeout` of no
/// more than that the kernel had failed all I/O by then.
#[test]
fn a_silent_server_does_not_delay_the_next_one() {
    let (_listener, hangs) = silent();
    with_servers(&[(SIZE, "one")], |ports| async move {
        let link = link(&[hangs, ports[0]], true);
        let found = engine::clock::timeout(SOON, link.dial_fresh(NONE_LIVES)).await;
        let found = found.expect("the second server is found soon").unwrap();
        assert_eq!(found.server, server(ports[0]));
    });
}

/// The kernel ends connections to a process that hangs one after the other, each after 15 s. While one of them lived no other server was
/// used.
#[test]
fn a_silent_server_with_connections_that_live_is_left() {
    let (_listener, hangs) = silent();
    with_servers(&[(SIZE, "one")], |ports| async move {
        let link = link(&[hangs, ports[0]], true);
        let found = engine::clock::timeout(SOON, link.dial_fresh(ONE_LIVES)).await;
        let found = found.expect("the second server is found soon").unwrap();
        assert_eq!(found.server, server(ports[0]));
    });
}

#[test]
fn the_server_that_is_used_is_kept_while_it_answers() {
    let disks = [(SIZE, "one"), (SIZE, "one")];
    with_servers(&disks, |ports| async move {
        let link = link(&[ports[1], ports[0]], true);
        for live in [NONE_LIVES, ONE_LIVES] {
            let found = link.dial_fresh(live).await.unwrap();
            assert_eq!(found.server, server(ports[1]));
            assert_eq!(found.sockets.len(), dead(live), "those that live are kept");
        }
    });
}

#[test]
fn servers_with_another_disk_or_a_smaller_one_are_left_out() {
    let disks = [(SIZE, "two"), (SIZE / 2, "one"), (SIZE, "one")];
    with_servers(&disks, |ports| async move {
        let link = link(&ports, true);
        for live in [NONE_LIVES, ONE_LIVES] {
            let found = link.dial_fresh(live).await.unwrap();
            assert_eq!(found.server, server(ports[2]));
        }
    });
}

#[test]
fn another_disk_on_all_servers_is_final_and_on_some_is_not() {
    let disks = [(SIZE, "two"), (SIZE, "three"), (SIZE / 2, "one")];
    with_servers(&disks, |ports| async move {
        let error = link(&ports[..2], true)
            .dial_fresh(NONE_LIVES)
            .await
            .unwrap_err();
        assert!(matches!(error, KernelError::AnotherDisk { .. }), "{error}");
        let error = link(&ports, true).dial_fresh(NONE_LIVES).await.unwrap_err();
        assert!(matches!(error, KernelError::Server(_)), "{error}");
        let text = error.to_string();
        let names_all = ports.iter().all(|port| text.contains(&server(*port)));
        assert!(names_all, "{text}");
    });
}

/// What the kernel wrote to one server it does not write again to another one.
#[test]
fn a_device_that_is_written_to_stays_with_its_server() {
    let (listener, gone) = silent();
    drop(listener);
    with_servers(&[(SIZE, "one")], |ports| async move {
        let link = link(&[gone, ports[0]], false);
        let error = link.dial_fresh(NONE_LIVES).await.unwrap_err();
        assert!(error.to_string().contains(&server(gone)), "{error}");
    });
}

/// Its process is about to end: it takes no new connection, while requests on one that it has are not answered any more. The error of the
/// connect was the end of each attempt.
#[test]
fn a_server_that_takes_no_connection_while_others_live_is_left() {
    let (listener, gone) = silent();
    drop(listener);
    with_servers(&[(SIZE, "one")], |ports| async move {
        let link = link(&[gone, ports[0]], true);
        let found = link.dial_fresh(ONE_LIVES).await.unwrap();
        assert_eq!(found.server, server(ports[0]));
        assert_eq!(found.sockets.len(), ONE_LIVES.len(), "all lead to it");
    });
}

/// The connections that lived had been ended for it before it was known that it took one connection only.
#[test]
fn a_server_that_takes_fewer_connections_than_the_device_has_is_left_out() {
    let (listener, gone) = silent();
    drop(listener);
    let disks = [((SIZE, "one"), 1), ((SIZE, "one"), 2), ((SIZE, "one"), 3)];
    with_limited_servers(&disks, |ports| async move {
        for live in [NONE_LIVES, ONE_LIVES] {
            let all = link(&[gone, ports[0], ports[1], ports[2]], true);
            let found = all.dial_fresh(live).await.unwrap();
            assert_eq!(found.server, server(ports[2]));
            assert_eq!(found.sockets.len(), live.len());
            drop(found);
            let few = link(&[gone, ports[0], ports[1]], true);
            let error = few.dial_fresh(live).await.unwrap_err();
            assert!(!error.is_final(), "{error}");
            let text = error.to_string();
            assert!(text.contains("(after 2 of 3 connections)"), "{text}");
        }
    });
}
