//! Exports that come, go and change while clients use others.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use block::Node;
use nbd_proto::{Command, CommandFlags};
use nodes::{File, FileOptions};
use testkit::{CrashDisk, Effect, Fault, FaultDisk, HeldDisk, MemDisk};

use super::harness::{controlled, memory, named, wait_for_clients, wait_until};
use super::{RawClient, request};
use crate::file_disk;
use crate::server::{Access, ChangeError, Limits, Op, Rules};

const SIZE: u64 = 1 << 20;

fn only(origin: &str) -> Rules {
    Rules {
        access: Access {
            origins: Some(vec![origin.parse().expect("an origin")]),
            certificates: None,
        },
        connections_max: None,
        ..Rules::default()
    }
}

impl RawClient {
    /// Through the handshake to the export `name`; `None` if the server refuses it.
    async fn to(address: std::net::SocketAddr, name: &str) -> Option<(Self, u64)> {
        let mut raw = Self::connect(address).await;
        raw.greet().await;
        raw.option(1, name.as_bytes()).await;
        let mut size = [0; 10];
        let read = tokio::io::AsyncReadExt::read_exact(&mut raw.stream, &mut size).await;
        read.ok()?;
        Some((
            raw,
            u64::from_be_bytes(size[..8].try_into().expect("eight bytes")),
        ))
    }

    /// The names in the reply to LIST.
    async fn names(address: std::net::SocketAddr) -> Vec<String> {
        let mut raw = Self::connect(address).await;
        raw.greet().await;
        raw.option(3, b"").await;
        let mut names = Vec::new();
        loop {
            let head = raw.take(20).await;
            let len = u32::from_be_bytes(head[16..].try_into().expect("four bytes"));
            let data = raw.take(len as usize).await;
            if head[12..16] == [0, 0, 0, 1] {
                return names;
            }
            let name_len = u32::from_be_bytes(data[..4].try_into().expect("four bytes"));
            let name = data[4..4 + name_len as usize].to_vec();
            names.push(String::from_utf8(name).expect("UTF-8"));
        }
    }
}

fn image(folder: &Path, size: u64) -> std::path::PathBuf {
    let path = folder.join("image");
    let made = std::fs::File::create(&path).and_then(|file| file.set_len(size));
    made.expect("an image");
    path
}

fn open(path: &Path) -> Node {
    Arc::new(file_disk::open(path, FileOptions::default()).expect("a disk"))
}

#[test]
fn a_removed_export_is_finished_flushed_and_closed_and_others_do_not_notice() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = image(folder.path(), SIZE);
    let exports = vec![named("kept", memory()), named("gone", open(&path))];
    controlled(exports, Limits::default(), |address, control| async move {
        let (mut kept, _) = RawClient::to(address, "kept").await.expect("served");
        let (mut gone, _) = RawClient::to(address, "gone").await.expect("served");
        // A long read is sent from the file.
        let read = request(Command::Read, 0, 512 << 10);
        assert_eq!(gone.ask(read, &[]).await.0, 0);
        let write = request(Command::Write, 0, 4096);
        assert_eq!(gone.ask(write, &[7; 4096]).await.0, 0);
        let second = File::open(&path, FileOptions::default()).await;
        assert!(second.is_err(), "it is locked");
        control.remove("gone").await.expect("it ends");
        assert!(gone.is_closed().await);
        kept.assert_in_step().await;
        assert!(RawClient::to(address, "gone").await.is_none());
        assert_eq!(RawClient::names(address).await, ["kept"]);
        let closed = File::open(&path, FileOptions::default()).await;
        assert!(closed.is_ok(), "the file is closed");
        assert_eq!(std::fs::read(&path).expect("its bytes")[..4096], [7; 4096]);
        assert!(matches!(
            control.remove("gone").await,
            Err(ChangeError::Unknown(_))
        ));
    });
}

#[test]
fn what_is_in_flight_at_a_removal_is_answered() {
    let held = HeldDisk::new(Arc::new(MemDisk::new(SIZE)));
    held.hold(true);
    let disk = held.clone();
    let exports = vec![named("kept", memory()), named("gone", held)];
    controlled(exports, Limits::default(), |address, control| async move {
        let (mut raw, _) = RawClient::to(address, "gone").await.expect("served");
        let mut write = request(Command::Write, 0, 512);
        write.flags = CommandFlags::FUA;
        raw.say(&write.encode()).await;
        raw.say(&[1; 512]).await;
        disk.arrival().await;
        let removal = engine::spawn(async move { control.remove("gone").await });
        engine::clock::sleep(Duration::from_millis(50)).await;
        assert!(!removal.is_finished(), "it waits for the write");
        disk.hold(false);
        disk.release_all().await;
        assert_eq!(raw.simple_reply(&write).await.0, 0);
        assert!(raw.is_closed().await);
        removal.await.expect("no panic").expect("it ends");
    });
}

#[test]
fn a_disk_that_does_not_answer_is_named_and_delays_no_other() {
    let held = HeldDisk::new(Arc::new(MemDisk::new(SIZE)));
    held.hold(true);
    let disk = held.clone();
    let limits = Limits {
        stop_timeout: Duration::from_millis(100),
        ..Limits::default()
    };
    let exports = vec![named("kept", memory()), named("stuck", held)];
    controlled(exports, limits, |address, control| async move {
        let (mut raw, _) = RawClient::to(address, "stuck").await.expect("served");
        let mut write = request(Command::Write, 0, 512);
        write.flags = CommandFlags::FUA;
        raw.say(&write.encode()).await;
        raw.say(&[1; 512]).await;
        disk.arrival().await;
        let error = control.remove("stuck").await.expect_err("it does not end");
        assert!(error.to_string().contains("\"stuck\""), "{error}");
        let (mut kept, _) = RawClient::to(address, "kept").await.expect("served");
        kept.assert_in_step().await;
        disk.hold(false);
        disk.release_all().await;
        assert!(!raw.is_closed().await, "its reply comes all the same");
    });
}

#[test]
fn a_failed_last_flush_is_reported() {
    let fault = Fault::new(Effect::Fail(block::Errno::Io)).on(block::Operation::Flush);
    let disk = FaultDisk::new(memory(), 1, vec![fault]);
    let exports = vec![named("kept", memory()), named("bad", disk)];
    controlled(exports, Limits::default(), |_, control| async move {
        let error = control.remove("bad").await.expect_err("not flushed");
        assert!(matches!(error, ChangeError::Flush(_)), "{error}");
    });
}

#[test]
fn a_replaced_export_keeps_its_place_and_flushes_the_old_disk() {
    let old = Arc::new(CrashDisk::new(SIZE));
    let exports = vec![named("disk", old.clone()), named("other", memory())];
    controlled(exports, Limits::default(), |address, control| async move {
        let (mut client, _) = RawClient::to(address, "disk").await.expect("served");
        let (mut other, _) = RawClient::to(address, "other").await.expect("served");
        let write = request(Command::Write, 0, 512);
        assert_eq!(client.ask(write, &[9; 512]).await.0, 0);
        let (export, rules) = named("disk", Arc::new(MemDisk::new(2 * SIZE)));
        control.replace(export, rules).await.expect("it changes");
        assert!(client.is_closed().await);
        assert!(old.durable()[..512].iter().all(|&b| b == 9), "flushed");
        let (mut client, size) = RawClient::to(address, "").await.expect("still the default");
        assert_eq!(size, 2 * SIZE);
        client.assert_in_step().await;
        other.assert_in_step().await;
    });
}

#[test]
fn an_export_that_is_added_is_there_at_once_and_the_order_decides_the_default() {
    let exports = vec![named("a", memory())];
    controlled(exports, Limits::default(), |address, control| async move {
        let (export, rules) = named("b", Arc::new(MemDisk::new(2 * SIZE)));
        control
            .add(export.clone(), rules.clone())
            .expect("a new name");
        let twice = control.add(export, rules);
        assert!(matches!(twice, Err(ChangeError::NameTwice(_))));
        assert_eq!(RawClient::names(address).await, ["a", "b"]);
        control.arrange(&["b".to_owned(), "a".to_owned()]);
        let (_, size) = RawClient::to(address, "").await.expect("the default");
        assert_eq!(size, 2 * SIZE);
    });
}

#[test]
fn an_export_for_others_is_unknown_and_not_listed() {
    let (export, _) = named("secret", memory());
    let exports = vec![(export, only("10.9.8.7")), named("open", memory())];
    controlled(exports, Limits::default(), |address, _| async move {
        assert_eq!(RawClient::names(address).await, ["open"]);
        assert!(RawClient::to(address, "secret").await.is_none());
        assert!(
            RawClient::to(address, "").await.is_none(),
            "no other takes its place"
        );
        // GO is answered with ERR_UNKNOWN, as for a name that never was.
        for name in ["secret", "nonsense"] {
            let mut raw = RawClient::connect(address).await;
            raw.greet().await;
            let len = u32::try_from(name.len()).expect("short").to_be_bytes();
            let data = [&len[..], name.as_bytes(), &[0, 0]].concat();
            raw.option(7, &data).await;
            let head = raw.take(20).await;
            assert_eq!(head[12..16], 0x8000_0006_u32.to_be_bytes(), "{name}");
        }
    });
}

#[test]
fn new_rules_disconnect_the_clients_that_they_exclude_and_no_others() {
    let exports = vec![named("disk", memory())];
    controlled(exports, Limits::default(), |address, control| async move {
        let (mut raw, _) = RawClient::to(address, "disk").await.expect("served");
        control
            .update("disk", "text", only("127.0.0.0/8"))
            .expect("it is there");
        raw.assert_in_step().await;
        control
            .update("disk", "text", only("10.0.0.0/8"))
            .expect("it is there");
        assert!(raw.is_closed().await);
        assert!(RawClient::to(address, "disk").await.is_none());
        assert_eq!(control.figures().exports[0].description, "text");
    });
}

#[test]
fn a_grown_file_is_seen_by_new_clients_and_old_ones_go_on() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = image(folder.path(), SIZE);
    let exports = vec![named("disk", open(&path))];
    controlled(exports, Limits::default(), |address, control| async move {
        let (mut old, size) = RawClient::to(address, "disk").await.expect("served");
        assert_eq!(size, SIZE);
        let long = request(Command::Read, 0, 256 << 10);
        assert_eq!(old.ask(long, &[]).await.0, 0);
        let file = std::fs::OpenOptions::new()
            .write(true)
            .open(&path)
            .expect("it");
        file.set_len(4 * SIZE).expect("it grows");
        let resized = control.resize("disk").await.expect("measured");
        assert_eq!((resized.from, resized.to), (SIZE, 4 * SIZE));
        let (mut new, size) = RawClient::to(address, "disk").await.expect("served");
        assert_eq!(size, 4 * SIZE);
        let behind = request(Command::Write, 3 * SIZE, 512);
        assert_eq!(new.ask(behind, &[5; 512]).await.0, 0);
        assert_eq!(
            new.ask(request(Command::Read, 2 * SIZE, SIZE), &[]).await.0,
            0
        );
        old.assert_in_step().await;
        let past = old.ask(request(Command::Read, 2 * SIZE, 512), &[]).await.0;
        assert_ne!(past, 0, "it got another size");

        file.set_len(2 * SIZE).expect("it shrinks");
        let error = control.resize("disk").await.expect_err("clients are there");
        assert!(
            matches!(error, ChangeError::Shrinks { clients: 2, .. }),
            "{error}"
        );
        drop((old, new));
        wait_for_clients(&control, 0).await;
        let resized = control
            .resize("disk")
            .await
            .expect("no client is connected");
        assert_eq!(resized.to, 2 * SIZE);
        assert_eq!(
            RawClient::to(address, "disk").await.expect("served").1,
            2 * SIZE
        );
    });
}

#[test]
fn a_client_can_be_disconnected_by_its_number() {
    let exports = vec![named("disk", memory())];
    controlled(exports, Limits::default(), |address, control| async move {
        let (mut a, _) = RawClient::to(address, "disk").await.expect("served");
        let (mut b, _) = RawClient::to(address, "disk").await.expect("served");
        a.assert_in_step().await;
        b.assert_in_step().await;
        let clients = control.figures().exports[0].clients.clone();
        assert_eq!(clients.len(), 2);
        assert!(
            clients
                .iter()
                .all(|client| client.peer.starts_with("127.0.0.1:"))
        );
        assert!(control.disconnect(clients[0].id));
        assert!(a.is_closed().await);
        b.assert_in_step().await;
        assert!(!control.disconnect(u64::MAX));
    });
}

#[test]
fn an_export_takes_no_more_clients_than_its_rules_say() {
    let (export, _) = named("disk", memory());
    let rules = Rules {
        connections_max: Some(1),
        ..Rules::default()
    };
    let exports = vec![(export, rules), named("other", memory())];
    controlled(exports, Limits::default(), |address, control| async move {
        let (mut first, _) = RawClient::to(address, "disk").await.expect("served");
        first.assert_in_step().await;
        assert!(RawClient::to(address, "disk").await.is_none());
        assert!(RawClient::to(address, "other").await.is_some());
        drop(first);
        wait_until(async || RawClient::to(address, "disk").await.is_some()).await;
        assert_eq!(control.figures().exports[0].clients_ever, 2);
    });
}

#[test]
fn an_address_has_no_more_connections_than_its_share() {
    let limits = Limits {
        connections_per_address_max: 2,
        ..Limits::default()
    };
    let exports = vec![named("disk", memory())];
    controlled(exports, limits, |address, control| async move {
        let mut first = RawClient::connect(address).await;
        first.take(18).await;
        let mut second = RawClient::connect(address).await;
        second.take(18).await;
        assert!(RawClient::connect(address).await.is_closed_at_once().await);
        assert_eq!(control.figures().refused, 1);
        drop(first);
        wait_until(async || !RawClient::connect(address).await.is_closed_at_once().await).await;
    });
}

#[test]
fn figures_are_kept_when_a_client_leaves() {
    let exports = vec![named("disk", memory())];
    controlled(exports, Limits::default(), |address, control| async move {
        let (mut raw, _) = RawClient::to(address, "disk").await.expect("served");
        for _ in 0..3 {
            let (error, _) = raw.ask(request(Command::Read, 0, 4096), &[]).await;
            assert_eq!(error, 0);
        }
        let (error, _) = raw.ask(request(Command::Read, SIZE, 4096), &[]).await;
        assert_ne!(error, 0, "past the end");
        drop(raw);
        wait_for_clients(&control, 0).await;
        let read = control.figures().exports[0].figures.of(Op::Read);
        assert_eq!((read.requests, read.errors, read.bytes), (4, 1, 3 * 4096));
        assert_eq!((read.in_flight, read.latency.iter().sum::<u64>()), (0, 4));
    });
}

/// A connection that waits for its disk is not lost to the figures, nor counted twice.
#[test]
fn a_request_that_waits_is_in_flight_until_it_is_answered() {
    let held = HeldDisk::new(Arc::new(MemDisk::new(SIZE)));
    held.hold(true);
    let exports = vec![named("disk", held.clone())];
    controlled(exports, Limits::default(), |address, control| async move {
        let (mut raw, _) = RawClient::to(address, "disk").await.expect("served");
        let flush = request(Command::Flush, 0, 0);
        raw.say(&flush.encode()).await;
        held.arrival().await;
        let flushes = || control.figures().exports[0].figures.of(Op::Flush);
        assert_eq!((flushes().requests, flushes().in_flight), (1, 1));
        held.hold(false);
        held.release_all().await;
        assert_eq!(raw.simple_reply(&flush).await.0, 0);
        assert_eq!((flushes().requests, flushes().in_flight), (1, 0));
    });
}
