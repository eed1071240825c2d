//! Tests of whole sessions: a server of ours on a real socket, clients that are good, bad, slow or
//! in the clear.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use block::{BlockDevice, Node, Range, WriteFlags};
use nbd_proto::UriTls;
use testkit::{MemDisk, gather, single};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::pki::{Life, Pki};
use crate::client::{Address, Client, ClientConfig, ClientError, Target};
use crate::file_disk;
use crate::server::tests::harness::{ServerSetup, run_server, tcp};
use crate::server::{Access, Export, Limits, Rules};
use crate::tls::{Demand, ServerTls, ServerTlsFiles};

const SIZE: u64 = 8 << 20;
/// Nothing here takes as long.
const LIMIT: Duration = Duration::from_secs(60);

/// Runs `body` while a server of `exports` with `tls` runs, on TCP.
pub(super) fn serving<F: Future<Output = ()>>(
    exports: Vec<(Export, Rules)>,
    limits: Limits,
    tls: Option<(ServerTls, Demand)>,
    body: impl FnOnce(SocketAddr) -> F,
) {
    let setup = ServerSetup {
        limits,
        tls,
        ..ServerSetup::new(exports)
    };
    let ((), end) = run_server(setup, |address, _| async {
        let done = engine::clock::timeout(LIMIT, Box::pin(body(tcp(address)))).await;
        done.expect("the test hangs");
    });
    end.expect("a clean stop");
}

/// A disk in memory under this name.
fn export(name: &str) -> Export {
    named(name, Arc::new(MemDisk::new(SIZE)))
}

pub(super) fn named(name: &str, disk: Node) -> Export {
    Export {
        name: name.to_owned(),
        description: String::new(),
        disk: disk.into(),
    }
}

fn one() -> Vec<(Export, Rules)> {
    vec![(export("disk"), Rules::default())]
}

pub(super) fn target(address: SocketAddr, export: &str, certificates: Option<&Path>) -> Target {
    let address = Address::Tcp {
        host: "localhost".to_owned(),
        port: address.port(),
    };
    Target {
        tls: certificates.map(|folder| UriTls {
            certificates: Some(folder.to_owned()),
            ..UriTls::default()
        }),
        ..Target::new(address, export.to_owned())
    }
}

async fn connect(target: Target) -> Result<Arc<Client>, ClientError> {
    let config = ClientConfig {
        connections: 2,
        ..ClientConfig::default()
    };
    Client::connect(target, config).await
}

fn pattern(len: usize, seed: usize) -> Vec<u8> {
    (0..len)
        .map(|at| (at ^ (at >> 8) ^ (at >> 16) ^ seed).to_le_bytes()[0])
        .collect()
}

/// Writes and reads pieces of many sizes, several at once.
pub(super) async fn exercise(client: &Client) {
    let size = client.geometry().size;
    for (seed, len) in [
        (1usize, 512u64),
        (2, 4096),
        (3, 100_352),
        (4, 1 << 20),
        (5, 3 << 20),
    ] {
        let offsets = [0, (size - len) / 2 / 512 * 512, size - len];
        for offset in offsets {
            let data = pattern(usize::try_from(len).expect("short"), seed);
            let range = Range::new(offset, len);
            let written = client.write(range, single(data.clone()), WriteFlags::default());
            written.await.expect("written");
            let (a, b) = tokio::join!(client.read(range), client.read(range));
            assert!(gather(&a.expect("read")) == data, "{len} at {offset}");
            assert!(gather(&b.expect("read")) == data, "{len} at {offset}");
        }
    }
    client.flush().await.expect("flushed");
}

#[test]
fn data_goes_both_ways_under_tls_from_memory_and_from_files() {
    let pki = Pki::new();
    let files = ServerTlsFiles::in_folder(pki.folder());
    // Keys change every few records, so that hundreds of changes are in the way.
    let tls = ServerTls::with_rekey_after(files, 7).expect("good files");
    let folder = tempfile::tempdir().expect("a folder");
    let image = folder.path().join("image");
    let file = std::fs::File::create(&image).expect("a file");
    file.set_len(SIZE).expect("room");
    let file = file_disk::open(&image, nodes::FileOptions::default()).expect("a disk");
    let mut exports = one();
    exports.push((named("file", Arc::new(file)), Rules::default()));
    let tls = Some((tls, Demand::Network));
    let certificates = pki.folder();
    serving(exports, Limits::default(), tls, |address| async move {
        for export in ["disk", "file"] {
            let target = target(address, export, Some(certificates));
            let client = connect(target).await.expect("let in");
            exercise(&client).await;
            assert_eq!(client.health().reconnects, 0);
            client.close().await;
        }
    });
}

#[test]
fn a_client_without_tls_sees_nothing_where_it_is_required() {
    let pki = Pki::new();
    let tls = Some((pki.server_tls(), Demand::Network));
    serving(one(), Limits::default(), tls, |address| async move {
        let error = connect(target(address, "disk", None))
            .await
            .expect_err("refused");
        assert!(
            error.to_string().contains("the server requires TLS"),
            "{error}"
        );
        let error = crate::client::list(&target(address, "", None), LIMIT).await;
        assert!(error.is_err());
        // EXPORT_NAME has no answer but the end.
        let mut raw = RawSocket::connect(address).await;
        raw.option(1, b"disk").await;
        assert!(raw.is_closed().await);
    });
}

#[test]
fn a_client_with_tls_refuses_a_server_without_it() {
    let pki = Pki::new();
    let folder = pki.folder();
    serving(one(), Limits::default(), None, |address| async move {
        let error = connect(target(address, "disk", Some(folder)))
            .await
            .expect_err("no TLS");
        assert!(error.to_string().contains("does not offer TLS"), "{error}");
    });
}

#[test]
fn where_tls_is_optional_both_are_served() {
    let pki = Pki::new();
    let folder = pki.folder();
    let tls = Some((pki.server_tls(), Demand::Optional));
    serving(one(), Limits::default(), tls, |address| async move {
        for tls in [None, Some(folder)] {
            let client = connect(target(address, "disk", tls)).await.expect("let in");
            exercise(&client).await;
            client.close().await;
        }
    });
}

#[test]
fn exports_are_given_to_names_in_certificates() {
    let pki = Pki::new();
    let folder = pki.folder();
    let rules = |name: &str| Rules {
        access: Access {
            certificates: Some(vec![name.to_owned()]),
            ..Access::default()
        },
        ..Rules::default()
    };
    let exports = vec![
        (export("a"), rules("laptop")),
        (export("b"), rules("desktop")),
    ];
    let tls = Some((pki.server_tls(), Demand::Optional));
    serving(exports, Limits::default(), tls, |address| async move {
        let client = connect(target(address, "a", Some(folder)))
            .await
            .expect("its own");
        client.close().await;
        for (export, tls) in [("b", Some(folder)), ("a", None), ("b", None)] {
            let error = connect(target(address, export, tls))
                .await
                .expect_err("not its own");
            assert!(!matches!(error, ClientError::Closed { .. }), "{error}");
        }
        let listed = crate::client::list(&target(address, "", Some(folder)), LIMIT).await;
        let names: Vec<String> = listed
            .expect("listed")
            .into_iter()
            .map(|l| l.name)
            .collect();
        assert_eq!(names, ["a"]);
    });
}

#[test]
fn a_reload_ends_no_session_and_decides_about_the_next() {
    let (pki, other) = (Pki::new(), Pki::new());
    let tls = pki.server_tls();
    let reloaded = tls.clone();
    let (ours, theirs) = (pki.folder(), other.folder());
    serving(
        one(),
        Limits::default(),
        Some((tls, Demand::Network)),
        |address| async move {
            let old = connect(target(address, "disk", Some(ours)))
                .await
                .expect("let in");
            reloaded
                .replace(ServerTlsFiles::in_folder(theirs))
                .expect("good files");
            exercise(&old).await;
            assert_eq!(old.health().reconnects, 0);
            let error = connect(target(address, "disk", Some(ours)))
                .await
                .expect_err("other keys");
            assert!(
                error
                    .to_string()
                    .contains("no TLS: its certificate is not signed"),
                "{error}"
            );
            // An export has one writer.
            old.close().await;
            let new = connect(target(address, "disk", Some(theirs)))
                .await
                .expect("let in");
            exercise(&new).await;
            new.close().await;
        },
    );
}

#[test]
fn a_client_with_a_refused_certificate_gets_the_reason() {
    let pki = Pki::new();
    pki.client("laptop", &[], Life::Expired);
    let folder = pki.folder();
    let tls = Some((pki.server_tls(), Demand::Network));
    serving(one(), Limits::default(), tls, |address| async move {
        let error = connect(target(address, "disk", Some(folder)))
            .await
            .expect_err("expired");
        assert!(error.to_string().contains("has expired"), "{error}");
    });
}

/// A client of bytes, behind the greeting.
struct RawSocket(TcpStream);

impl RawSocket {
    async fn connect(address: SocketAddr) -> Self {
        let mut raw = Self(TcpStream::connect(address).await.expect("listening"));
        raw.take(18).await;
        raw.say(&3u32.to_be_bytes()).await;
        raw
    }

    /// After `STARTTLS` was agreed to.
    async fn before_tls(address: SocketAddr) -> Self {
        let mut raw = Self::connect(address).await;
        raw.option(5, b"").await;
        assert_eq!(raw.take(20).await[12..16], [0, 0, 0, 1], "an ACK");
        raw
    }

    async fn say(&mut self, bytes: &[u8]) {
        self.0.write_all(bytes).await.expect("the server listens");
    }

    async fn take(&mut self, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        self.0.read_exact(&mut bytes).await.expect("an answer");
        bytes
    }

    async fn option(&mut self, option: u32, data: &[u8]) {
        let mut bytes = b"IHAVEOPT".to_vec();
        bytes.extend(option.to_be_bytes());
        bytes.extend(u32::try_from(data.len()).expect("short").to_be_bytes());
        bytes.extend(data);
        self.say(&bytes).await;
    }

    /// Whether the server ends the connection, having sent no more than an alert.
    async fn is_closed(&mut self) -> bool {
        let mut rest = Vec::new();
        match self.0.read_to_end(&mut rest).await {
            Ok(_) => rest.len() < 64,
            Err(_) => true,
        }
    }
}

/// The server is there and in step for a good client.
async fn is_alive(address: SocketAddr, folder: &Path) {
    let client = connect(target(address, "disk", Some(folder)))
        .await
        .expect("let in");
    let read = client.read(Range::new(0, 4096)).await.expect("read");
    assert_eq!(gather(&read).len(), 4096);
    client.close().await;
}

#[test]
fn bytes_in_the_clear_behind_starttls_end_the_connection() {
    let pki = Pki::new();
    let folder = pki.folder();
    for demand in [Demand::Network, Demand::Optional] {
        let tls = Some((pki.server_tls(), demand));
        serving(one(), Limits::default(), tls, |address| async move {
            // An option right behind STARTTLS, which an attacker on the path could have injected.
            let mut raw = RawSocket::connect(address).await;
            let mut bytes = b"IHAVEOPT\0\0\0\x05\0\0\0\0".to_vec();
            bytes.extend(b"IHAVEOPT\0\0\0\x03\0\0\0\0");
            raw.say(&bytes).await;
            assert!(raw.is_closed().await);
            // And one that comes instead of TLS.
            let mut raw = RawSocket::before_tls(address).await;
            raw.option(3, b"").await;
            raw.0.shutdown().await.expect("a socket");
            assert!(raw.is_closed().await);
            is_alive(address, folder).await;
        });
    }
}

#[test]
fn garbage_for_tls_ends_the_connection_and_nothing_else() {
    let pki = Pki::new();
    let folder = pki.folder();
    let limits = Limits {
        handshake_timeout: Duration::from_secs(2),
        ..Limits::default()
    };
    let tls = Some((pki.server_tls(), Demand::Network));
    serving(one(), limits, tls, |address| async move {
        let garbage: [&[u8]; 4] = [
            &[0; 100],
            &[22, 3, 1, 0x40, 0],
            &[22, 3, 1, 0, 4, 1, 0, 0, 0],
            &[0xff; 70_000],
        ];
        for bytes in garbage {
            let mut raw = RawSocket::before_tls(address).await;
            // The server may close the connection before all is sent.
            drop(raw.0.write_all(bytes).await);
            assert!(raw.is_closed().await, "{:?}", &bytes[..5]);
        }
        is_alive(address, folder).await;
    });
}

#[test]
fn a_client_that_is_silent_in_tls_is_shown_the_door() {
    let pki = Pki::new();
    let folder = pki.folder();
    let limits = Limits {
        handshake_timeout: Duration::from_millis(300),
        ..Limits::default()
    };
    let tls = Some((pki.server_tls(), Demand::Network));
    serving(one(), limits, tls, |address| async move {
        let mut silent = RawSocket::before_tls(address).await;
        let mut slow = RawSocket::before_tls(address).await;
        slow.say(&[22, 3, 1, 2]).await;
        // `serving` limits the wait.
        assert!(silent.is_closed().await);
        assert!(slow.is_closed().await);
        is_alive(address, folder).await;
    });
}
