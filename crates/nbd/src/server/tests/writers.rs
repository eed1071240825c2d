//! Several clients that write to one export: over real sockets, ours and bare ones, from two addresses.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use block::{BlockDevice, Node, Range, WriteFlags};
use nbd_proto::{AccessMode, ClientToken, Command, WriterAccess, WriterPolicy};
use testkit::{HeldDisk, MemDisk, gather, single};

use super::harness::{controlled, export, memory, wait_for_clients, wait_until};
use super::{EPERM, RawClient, request};
use crate::client::{Address, Client, ClientConfig, ClientError, Target};
use crate::server::{Control, Limits, Rules, WriterRules};

const SECTOR: usize = 512;

fn rules(policy: WriterPolicy, record: Option<&Path>) -> Rules {
    Rules {
        writers: WriterRules {
            policy,
            record: record.map(Path::to_owned),
        },
        ..Rules::default()
    }
}

/// Runs `body` while a server of `disk` with `rules` runs.
fn with_rules<F: Future>(
    disk: Node,
    rules: Rules,
    body: impl FnOnce(SocketAddr, Control) -> F,
) -> F::Output {
    controlled(vec![(export(disk), rules)], Limits::default(), body)
}

fn one() -> Rules {
    rules(WriterPolicy::One, None)
}

/// A client of ours, which is number `client` and requests `mode`.
async fn ours(
    address: SocketAddr,
    client: u8,
    mode: AccessMode,
) -> Result<Arc<Client>, ClientError> {
    let address = Address::Tcp {
        host: address.ip().to_string(),
        port: address.port(),
    };
    let target = Target::new(address, "disk".to_owned());
    let config = ClientConfig {
        connections: 2,
        reconnect_for: Duration::from_secs(5),
        read_only: mode == AccessMode::Read,
        writer: Some(WriterAccess {
            token: ClientToken::new([client; 16]),
            mode,
        }),
        ..ClientConfig::default()
    };
    Client::connect(target, config).await
}

/// A client that sends no identity, from this address of the machine.
async fn foreign(address: SocketAddr, from: u8) -> RawClient {
    let socket = tokio::net::TcpSocket::new_v4().expect("a socket");
    let from = IpAddr::V4(Ipv4Addr::new(127, 0, 0, from));
    socket.bind((from, 0).into()).expect("loopback has it");
    let stream = socket.connect(address).await.expect("a listening server");
    let mut raw = RawClient { stream };
    raw.choose().await;
    raw
}

async fn write(client: &Client, value: u8) -> Result<(), block::IoError> {
    let range = Range::new(0, SECTOR as u64);
    let data = single(vec![value; SECTOR]);
    client.write(range, data, WriteFlags::empty()).await
}

async fn raw_write(raw: &mut RawClient, value: u8) -> u32 {
    let request = request(Command::Write, 0, SECTOR as u64);
    raw.ask(request, &[value; SECTOR]).await.0
}

/// Waits until the export has no writer.
async fn free(control: &Control) {
    wait_for_writer(control, false).await;
}

/// Waits until the export has a writer, or has none.
async fn wait_for_writer(control: &Control, is_there: bool) {
    let has_writer = || {
        let figures = control.figures().exports[0].writers.clone();
        figures.expect("it takes claims").writer.is_some()
    };
    wait_until(async || has_writer() == is_there).await;
}

#[test]
fn a_client_that_was_closed_is_the_writer_no_more() {
    with_rules(memory(), one(), |address, control| async move {
        for client in 1..20 {
            let writer = ours(address, client, AccessMode::Write).await;
            let writer = writer.expect("the one before was closed");
            write(&writer, 1).await.expect("it is the writer");
            writer.close().await;
            let figures = control.figures().exports[0].writers.clone();
            let holder = figures.expect("it takes claims").writer;
            assert!(holder.is_none(), "{holder:?}");
        }
    });
}

#[test]
fn a_second_client_that_would_write_is_refused_and_one_that_reads_is_not() {
    with_rules(memory(), one(), |address, control| async move {
        let first = ours(address, 1, AccessMode::Write).await.expect("free");
        write(&first, 1).await.expect("it is the writer");
        let busy = ours(address, 2, AccessMode::Write).await.unwrap_err();
        assert!(matches!(busy, ClientError::Busy { .. }), "{busy}");
        let text = busy.to_string();
        assert!(
            text.contains("already attached for writing by 127.0.0.1:"),
            "{text}"
        );
        assert!(text.contains(" UTC; detach it there"), "{text}");

        let reader = ours(address, 3, AccessMode::Read).await.expect("it reads");
        let read = reader.read(Range::new(0, 1)).await.expect("it reads");
        assert_eq!(gather(&read), [1]);
        // A client without an identity is not refused either, until it writes.
        let mut bare = foreign(address, 2).await;
        bare.assert_in_step().await;
        assert_eq!(raw_write(&mut bare, 9).await, EPERM);
        let zeroes = request(Command::WriteZeroes, 0, 512);
        assert_eq!(bare.ask(zeroes, &[]).await.0, EPERM);
        let trim = request(Command::Trim, 0, 512);
        assert_eq!(bare.ask(trim, &[]).await.0, EPERM);
        bare.assert_in_step().await;

        first.close().await;
        free(&control).await;
        // What was refused before is granted now, on the same connection.
        assert_eq!(raw_write(&mut bare, 9).await, 0);
        let busy = ours(address, 2, AccessMode::Write).await.unwrap_err();
        assert!(matches!(busy, ClientError::Busy { .. }), "{busy}");
    });
}

#[test]
fn clients_that_say_nothing_are_one_for_each_address() {
    with_rules(memory(), one(), |address, control| async move {
        let (mut first, mut second) = (foreign(address, 1).await, foreign(address, 1).await);
        let mut other = foreign(address, 2).await;
        assert_eq!(raw_write(&mut first, 1).await, 0);
        assert_eq!(raw_write(&mut second, 1).await, 0);
        assert_eq!(raw_write(&mut other, 2).await, EPERM);
        drop(first);
        other.assert_in_step().await;
        assert_eq!(raw_write(&mut other, 2).await, EPERM);
        drop(second);
        free(&control).await;
        assert_eq!(raw_write(&mut other, 2).await, 0);
    });
}

#[test]
fn a_writer_does_not_return_to_a_disk_that_was_changed_without_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let record = folder.path().join("record");
    for rules in [one(), rules(WriterPolicy::Fenced, Some(&record))] {
        let again = rules.clone();
        with_rules(memory(), rules, |address, control| async move {
            let first = ours(address, 1, AccessMode::Write).await.expect("free");
            first.abort().await;
            free(&control).await;
            assert_eq!(control.clients("disk").expect("it is served"), 0);
            control.remove("disk").await.expect("it ends");
            let changed = control.add_changed(export(memory()), again, "a merge");
            changed.await.expect("it is served");
            let fenced = ours(address, 1, AccessMode::Resume).await.unwrap_err();
            assert!(matches!(fenced, ClientError::Fenced { .. }), "{fenced}");
            assert!(fenced.to_string().contains("a merge"), "{fenced}");
            ours(address, 2, AccessMode::Write).await.expect("free");
        });
    }
}

#[test]
fn a_writer_that_returns_after_another_has_written_is_fenced() {
    with_rules(memory(), one(), |address, control| async move {
        let first = ours(address, 1, AccessMode::Write).await.expect("free");
        first.abort().await;
        free(&control).await;
        let second = ours(address, 2, AccessMode::Write).await.expect("free");
        let fenced = ours(address, 1, AccessMode::Resume).await.unwrap_err();
        assert!(matches!(fenced, ClientError::Fenced { .. }), "{fenced}");
        second.close().await;
        free(&control).await;
        let fenced = ours(address, 1, AccessMode::Resume).await.unwrap_err();
        assert!(matches!(fenced, ClientError::Fenced { .. }), "{fenced}");
        ours(address, 2, AccessMode::Resume)
            .await
            .expect("the last writer");
    });
}

/// The promise of a takeover: when the new writer has its answer, nothing of the old one lands any more,
/// however slow the disk is.
#[test]
fn a_takeover_is_answered_when_nothing_of_the_other_is_in_flight() {
    let held = HeldDisk::new(memory());
    held.hold(false);
    let disk = held.clone();
    with_rules(held.clone(), one(), |address, control| async move {
        let first = ours(address, 1, AccessMode::Write).await.expect("free");
        disk.hold(true);
        let late = {
            let first = first.clone();
            engine::spawn(async move { write(&first, 1).await })
        };
        disk.arrivals(1).await;
        let takes_over = engine::spawn(ours(address, 2, AccessMode::Takeover));
        // Its connections are ended, and still the write is on its way to the disk.
        wait_for_clients(&control, 1).await;
        engine::clock::sleep(Duration::from_millis(50)).await;
        assert!(
            !takes_over.is_finished(),
            "a write of the other one is in flight"
        );
        disk.hold(false);
        disk.release_all().await;
        let second = takes_over.await.expect("no panic").expect("it takes over");
        assert_eq!(disk.held().len(), 0);
        drop(late);
        write(&second, 2).await.expect("it is the writer");
        first.abort().await;
        let read = second.read(Range::new(0, 1)).await.expect("it reads");
        assert_eq!(gather(&read), [2]);
        for mode in [AccessMode::Resume, AccessMode::Write] {
            let fenced = ours(address, 1, mode).await.unwrap_err();
            assert!(matches!(fenced, ClientError::Fenced { .. }), "{fenced}");
        }
    });
}

#[test]
fn a_takeover_survives_a_restart_of_the_server() {
    let folder = tempfile::tempdir().expect("a folder");
    let record = folder.path().join("disk.img.writer");
    let fenced = || rules(WriterPolicy::Fenced, Some(&record));
    with_rules(memory(), fenced(), |address, _| async move {
        let first = ours(address, 1, AccessMode::Write).await.expect("free");
        let second = ours(address, 2, AccessMode::Takeover).await;
        write(&second.expect("it takes over"), 2)
            .await
            .expect("it is the writer");
        first.abort().await;
    });
    with_rules(memory(), fenced(), |address, control| async move {
        let refused = ours(address, 1, AccessMode::Resume).await.unwrap_err();
        let text = refused.to_string();
        assert!(
            text.contains("fenced: 127.0.0.1:") && text.contains(" took over writing at 20"),
            "{text}"
        );
        let second = ours(address, 2, AccessMode::Resume)
            .await
            .expect("the writer");
        let figures = control.figures().exports[0]
            .writers
            .clone()
            .expect("claims");
        assert_eq!((figures.policy.as_str(), figures.generation), ("fenced", 2));
        assert_eq!(figures.writer.expect("it is there").connections, 2);
        // A client without a token cannot be recognized after a restart.
        let mut bare = foreign(address, 1).await;
        bare.assert_in_step().await;
        assert_eq!(raw_write(&mut bare, 9).await, EPERM);
        second.close().await;
    });
    std::fs::write(&record, "outboard writer 2\n").expect("a file");
    with_rules(memory(), fenced(), |address, _| async move {
        for mode in [AccessMode::Write, AccessMode::Resume, AccessMode::Takeover] {
            let refused = ours(address, 2, mode).await.unwrap_err();
            let text = refused.to_string();
            assert!(
                text.contains("disk.img.writer: it is of version 2"),
                "{text}"
            );
        }
        ours(address, 3, AccessMode::Read).await.expect("it reads");
    });
}

#[test]
fn other_rules_of_a_running_server_count_at_once() {
    with_rules(memory(), one(), |address, control| async move {
        let first = ours(address, 1, AccessMode::Write).await.expect("free");
        let refused = ours(address, 2, AccessMode::Shared).await.unwrap_err();
        assert!(refused.to_string().contains("--writers many"), "{refused}");
        let many = rules(WriterPolicy::Many, None);
        control.update("disk", "", many).expect("it is served");
        let second = ours(address, 2, AccessMode::Shared).await.expect("many");
        write(&second, 2).await.expect("many");
        write(&first, 1).await.expect("it goes on");
        // Of many that wrote, one stays: both are ended, and the first to come back has it.
        control.update("disk", "", one()).expect("it is served");
        write(&first, 3).await.expect("it comes back");
        wait_for_writer(&control, true).await;
        let refused = ours(address, 3, AccessMode::Write).await.unwrap_err();
        assert!(matches!(refused, ClientError::Busy { .. }), "{refused}");
        second.abort().await;
        first.close().await;
    });
}

#[test]
fn an_export_says_which_disk_it_is_and_each_opening_is_another_incarnation() {
    let disk = memory();
    let disks = [disk.clone(), disk, memory()].map(|disk| {
        with_rules(disk, one(), |address, _| async move {
            let client = ours(address, 1, AccessMode::Write).await.expect("free");
            client.disk_identity().clone()
        })
    });
    let [first, again, other] = disks;
    assert!(first.identity.is_some());
    assert_eq!(first.identity, again.identity);
    assert_ne!(first.incarnation, again.incarnation);
    assert_ne!(first.identity, other.identity);
    assert_eq!(first.writers, Some(WriterPolicy::One));
}

#[test]
fn no_claim_is_needed_where_no_client_can_write() {
    let disk = MemDisk::new(1 << 20).with_geometry(|geometry| geometry.read_only = true);
    with_rules(Arc::new(disk), one(), |address, control| async move {
        let _first = ours(address, 1, AccessMode::Write)
            .await
            .expect("read-only");
        let _second = ours(address, 2, AccessMode::Write)
            .await
            .expect("read-only");
        assert_eq!(control.figures().exports[0].writers, None);
    });
}
