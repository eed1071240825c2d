//! Exports that give each client a disk of its own.

mod ends;
mod fence;

use std::collections::HashMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use block::{Geometry, Node};
use nbd_proto::Command;
use testkit::{CrashDisk, MemDisk};
use tokio::net::TcpSocket;
use tokio::sync::Semaphore;

use super::harness::{controlled, wait_until};
use super::{RawClient, request};
use crate::server::client_disks::OPENS_MAX;
use crate::server::{
    Access, CannotOpen, ClientDiskFigures, ClientFuture, ClientName, Control, DiskPerClient,
    Export, ExportDisk, Limits, NamedBy, Nameless, Peer, Rules,
};

const SIZE: u64 = 1 << 20;

/// Makes disks in memory, which stay until they are removed.
#[derive(Debug)]
struct Maker {
    geometry: Geometry,
    named_by: NamedBy,
    image: &'static str,
    disks: Mutex<HashMap<ClientName, Node>>,
    opened: AtomicUsize,
    closed: AtomicUsize,
    /// Openings that go on at once, and the most there ever were.
    opening: AtomicUsize,
    opening_most: AtomicUsize,
    /// Openings that may go on.
    gate: Semaphore,
    /// Every opening fails.
    fails: bool,
}

fn maker(image: &'static str) -> Maker {
    Maker {
        geometry: Geometry::native(SIZE),
        named_by: NamedBy::Address,
        image,
        disks: Mutex::default(),
        opened: AtomicUsize::new(0),
        closed: AtomicUsize::new(0),
        opening: AtomicUsize::new(0),
        opening_most: AtomicUsize::new(0),
        gate: Semaphore::new(Semaphore::MAX_PERMITS),
        fails: false,
    }
}

impl Maker {
    /// The disk of a client is this one.
    fn give(&self, host: u8, disk: Node) {
        let mut disks = self.disks.lock().expect("no panic");
        disks.insert(client(host), disk);
    }

    fn made(&self) -> usize {
        self.disks.lock().expect("no panic").len()
    }

    fn opened(&self) -> usize {
        self.opened.load(Ordering::SeqCst)
    }

    fn closed(&self) -> usize {
        self.closed.load(Ordering::SeqCst)
    }

    async fn all_closed(&self) {
        wait_until(async || self.closed() >= self.opened()).await;
    }
}

impl DiskPerClient for Maker {
    fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    fn name(&self, peer: &Peer) -> Result<ClientName, Nameless> {
        self.named_by.name(peer)
    }

    fn image(&self) -> &str {
        self.image
    }

    fn open<'a>(&'a self, name: &'a ClientName) -> ClientFuture<'a, Result<Node, CannotOpen>> {
        Box::pin(async move {
            let now = self.opening.fetch_add(1, Ordering::SeqCst) + 1;
            self.opening_most.fetch_max(now, Ordering::SeqCst);
            let turn = self.gate.acquire().await.expect("never closed");
            self.opening.fetch_sub(1, Ordering::SeqCst);
            drop(turn);
            if self.fails {
                return Err(CannotOpen {
                    client_message: "no room for it".to_owned(),
                    cause: "no room in /srv/secret".to_owned(),
                });
            }
            self.opened.fetch_add(1, Ordering::SeqCst);
            let mut disks = self.disks.lock().expect("no panic");
            let fresh = || Arc::new(MemDisk::new(SIZE)) as Node;
            Ok(disks.entry(name.clone()).or_insert_with(fresh).clone())
        })
    }

    fn closed<'a>(&'a self, _: &'a ClientName) -> ClientFuture<'a, ()> {
        Box::pin(async move {
            self.closed.fetch_add(1, Ordering::SeqCst);
        })
    }

    fn remove<'a>(
        &'a self,
        name: &'a ClientName,
        _: &'a str,
    ) -> ClientFuture<'a, Result<(), String>> {
        Box::pin(async move {
            let removed = self.disks.lock().expect("no panic").remove(name);
            removed.map(drop).ok_or_else(|| "there is none".to_owned())
        })
    }

    fn list(&self) -> Vec<ClientDiskFigures> {
        let disks = self.disks.lock().expect("no panic");
        let figures = disks.keys().map(|name| ClientDiskFigures {
            name: name.clone(),
            connections: 0,
            bytes: None,
            quota: None,
            last_seen: None,
            image: self.image.to_owned(),
            image_id: self.image.to_owned(),
            is_older: false,
        });
        figures.collect()
    }
}

fn client(host: u8) -> ClientName {
    ClientName::Address(address_of(host).into())
}

const fn address_of(host: u8) -> Ipv4Addr {
    Ipv4Addr::new(127, 0, 7, host)
}

/// Through the handshake from 127.0.7.`host`; `None` if the server refuses.
async fn connect(address: SocketAddr, host: u8) -> Option<RawClient> {
    let socket = TcpSocket::new_v4().expect("a socket");
    let from = SocketAddr::from((address_of(host), 0));
    socket.bind(from).expect("an address of the loopback");
    let stream = socket.connect(address).await.expect("a listening server");
    let mut raw = RawClient { stream };
    raw.greet().await;
    raw.option(1, b"disk").await;
    let mut told = [0; 10];
    let read = tokio::io::AsyncReadExt::read_exact(&mut raw.stream, &mut told).await;
    read.ok().map(|_| raw)
}

async fn connected(address: SocketAddr, host: u8) -> RawClient {
    connect(address, host).await.expect("served")
}

async fn write(raw: &mut RawClient, byte: u8) {
    let write = request(Command::Write, 0, 512);
    assert_eq!(raw.ask(write, &[byte; 512]).await.0, 0);
}

async fn read(raw: &mut RawClient) -> u8 {
    let (error, data) = raw.ask(request(Command::Read, 0, 512), &[]).await;
    assert_eq!(error, 0);
    data[0]
}

async fn say_goodbye(mut raw: RawClient) {
    raw.say(&request(Command::Disconnect, 0, 0).encode()).await;
    assert!(raw.is_closed().await);
}

fn export(disk: ExportDisk) -> Export {
    Export {
        name: "disk".to_owned(),
        description: String::new(),
        disk,
    }
}

/// Runs `body` while a server runs that has an export with disks of `maker`.
fn per_client<F: Future<Output = ()>>(
    maker: &Arc<Maker>,
    rules: Rules,
    limits: Limits,
    body: impl FnOnce(SocketAddr, Control) -> F,
) {
    let exports = vec![(export(ExportDisk::PerClient(maker.clone())), rules)];
    controlled(exports, limits, body);
}

#[test]
fn connections_of_a_client_share_its_disk_and_no_other_client_ever_sees_it() {
    let maker = Arc::new(maker("a"));
    per_client(
        &maker,
        Rules::default(),
        Limits::default(),
        |address, control| async move {
            let mut first = connected(address, 1).await;
            let mut second = connected(address, 1).await;
            let mut other = connected(address, 2).await;
            write(&mut first, 1).await;
            assert_eq!(read(&mut second).await, 1);
            assert_eq!(read(&mut other).await, 0);
            write(&mut other, 2).await;
            assert_eq!((read(&mut first).await, read(&mut second).await), (1, 1));
            let figures = control.figures().exports.remove(0);
            let mut disks = figures.client_disks.expect("each has its own");
            disks.sort_by(|a, b| a.name.cmp(&b.name));
            let used: Vec<_> = disks.iter().map(|disk| disk.connections).collect();
            assert_eq!(used, [2, 1]);
        },
    );
    assert_eq!(maker.opened(), 2, "once for each client");
}

#[test]
fn a_disk_is_flushed_and_closed_behind_the_last_connection_and_found_again() {
    let maker = Arc::new(maker("a"));
    let disk = Arc::new(CrashDisk::new(SIZE));
    maker.give(1, disk.clone());
    let kept = maker.clone();
    per_client(
        &maker,
        Rules::default(),
        Limits::default(),
        |address, _| async move {
            let (mut first, second) = (connected(address, 1).await, connected(address, 1).await);
            write(&mut first, 7).await;
            say_goodbye(second).await;
            first.assert_in_step().await;
            assert_eq!(disk.durable()[0], 0, "the other one is still there");
            drop(first);
            kept.all_closed().await;
            assert_eq!(disk.durable()[0], 7);
            let mut again = connected(address, 1).await;
            assert_eq!(read(&mut again).await, 7);
            assert_eq!(kept.opened(), 2);
        },
    );
    assert_eq!(maker.made(), 1);
}

#[test]
fn no_disk_is_made_for_a_query_or_for_a_client_that_may_not_use_it() {
    let maker = Arc::new(maker("a"));
    let rules = Rules {
        access: Access {
            origins: Some(vec!["127.0.7.1".parse().expect("an origin")]),
            certificates: None,
        },
        connections_max: Some(1),
        ..Rules::default()
    };
    let kept = maker.clone();
    per_client(&maker, rules, Limits::default(), |address, _| async move {
        assert!(connect(address, 2).await.is_none());
        // INFO, from a client that may use it.
        let socket = TcpSocket::new_v4().expect("a socket");
        let from = SocketAddr::from((address_of(1), 0));
        socket.bind(from).expect("an address of the loopback");
        let stream = socket.connect(address).await.expect("a server");
        let mut raw = RawClient { stream };
        raw.greet().await;
        raw.option(6, b"\0\0\0\x04disk\0\0").await;
        let head = raw.take(20).await;
        assert_eq!(head[12..16], [0, 0, 0, 3], "NBD_REP_INFO");
        let info = raw.take(12).await;
        assert_eq!(info[2..10], SIZE.to_be_bytes());
        assert_eq!(kept.opened(), 0);
        let mut one = connected(address, 1).await;
        // It may have one connection only; the server counts it before it answers a request.
        one.assert_in_step().await;
        assert!(connect(address, 1).await.is_none());
        assert_eq!((kept.opened(), kept.made()), (1, 1));
    });
}

/// What GO is answered: the kind of the reply and its text.
async fn go(address: SocketAddr) -> (u32, String) {
    let mut raw = RawClient::connect(address).await;
    raw.greet().await;
    raw.option(7, b"\0\0\0\x04disk\0\0").await;
    let head = raw.take(20).await;
    let number = |at: usize| u32::from_be_bytes(head[at..at + 4].try_into().expect("four bytes"));
    let text = raw.take(number(16) as usize).await;
    (number(12), String::from_utf8(text).expect("UTF-8"))
}

#[test]
fn a_disk_that_cannot_be_opened_is_reported_in_the_handshake_without_paths() {
    let failing = Arc::new(Maker {
        fails: true,
        ..maker("a")
    });
    per_client(
        &failing,
        Rules::default(),
        Limits::default(),
        |address, _| async move {
            let (kind, text) = go(address).await;
            assert_eq!(kind & (1 << 31), 1 << 31, "an error");
            assert!(text.contains("no room for it"), "{text}");
            assert!(!text.contains("secret"), "{text}");
        },
    );
    let strict = Arc::new(Maker {
        named_by: NamedBy::Certificate,
        ..maker("a")
    });
    per_client(
        &strict,
        Rules::default(),
        Limits::default(),
        |address, _| async move {
            let (kind, text) = go(address).await;
            assert_eq!(kind, (1 << 31) | 2, "NBD_REP_ERR_POLICY");
            assert!(text.contains("certificate"), "{text}");
        },
    );
    assert_eq!(strict.opened(), 0);
}

#[test]
fn a_client_that_connects_twice_at_once_opens_one_disk_and_a_cancelled_one_blocks_no_other() {
    let held = Arc::new(Maker {
        gate: Semaphore::new(0),
        ..maker("a")
    });
    let limits = Limits {
        handshake_timeout: Duration::from_secs(2),
        ..Limits::default()
    };
    let kept = held.clone();
    per_client(
        &held,
        Rules::default(),
        limits,
        |address, control| async move {
            let gone = connect(address, 1).await;
            assert!(gone.is_none(), "its handshake took too long");
            kept.gate.add_permits(1);
            let (a, b) = tokio::join!(connect(address, 1), connect(address, 1));
            let (mut a, mut b) = (a.expect("served"), b.expect("served"));
            write(&mut a, 3).await;
            assert_eq!(read(&mut b).await, 3);
            assert_eq!(kept.opened(), 1);
            assert_eq!(control.figures().handshakes_failed, 1);
        },
    );
}

#[test]
fn only_so_many_disks_are_opened_at_once() {
    const CLIENTS: u8 = 60;
    let held = Arc::new(Maker {
        gate: Semaphore::new(0),
        ..maker("a")
    });
    let kept = held.clone();
    per_client(
        &held,
        Rules::default(),
        Limits::default(),
        |address, _| async move {
            let clients = (1..=CLIENTS).map(|host| connect(address, host));
            let clients = futures_util::future::join_all(clients);
            let open_up = async {
                wait_until(async || kept.opening.load(Ordering::SeqCst) >= OPENS_MAX).await;
                kept.gate.add_permits(1);
            };
            let (clients, ()) = tokio::join!(clients, open_up);
            assert_eq!(clients.iter().flatten().count(), usize::from(CLIENTS));
        },
    );
    assert_eq!(held.opening_most.load(Ordering::SeqCst), OPENS_MAX);
    assert_eq!(held.made(), usize::from(CLIENTS));
}
