//! Floods: clients that request much at once, and what another client gets meanwhile.
//!
//! The map of a fragmented file is requested with 28 bytes and takes hundreds of thousands of seeks. Sixteen clients
//! with 64 such requests each made another client wait 2.9 s for a read, 15 s for a status, and with blocking
//! threads 17 s for a write. The work went on for up to 31 s after they had left, and a stop took 35 s.

use std::net::SocketAddr;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use block::{Node, Operation};
use engine::BackendChoice;
use nbd_proto::{Command, CommandFlags};
use testkit::{HeldDisk, MemDisk};

use super::harness::{ServerSetup, cores, named, run_server, tcp, wait_until};
use super::wide::Chunky;
use super::{Limits, request, serving};
use crate::file_disk;
use crate::server::connection::QUERIES_MAX;

/// Of a file with a hole behind each page of data.
const SIZE: u64 = 64 << 20;
const PAGE: usize = 4096;
const FLOODS: usize = 16;
const DEPTH: u64 = 64;
/// What a request of another client may take on a machine that has much else to do.
const LIMIT: Duration = Duration::from_secs(1);
/// What the stop may take.
const STOP_LIMIT: Duration = Duration::from_secs(2);

fn fragmented(folder: &Path) -> Node {
    let path = folder.join("fragmented");
    let file = std::fs::File::create(&path).expect("a file");
    file.set_len(SIZE).expect("room");
    for offset in (0..SIZE).step_by(2 * PAGE) {
        file.write_all_at(&[7; PAGE], offset).expect("written");
    }
    // Not by the flush of the stop.
    file.sync_all().expect("synced");
    let options = nodes::FileOptions::default();
    Arc::new(file_disk::open(&path, options).expect("a disk"))
}

/// A client that has [`DEPTH`] requests for the map of the whole disk in flight, and takes no reply.
async fn flood(address: SocketAddr) -> Chunky {
    let mut client = Chunky::connect(address, false).await;
    let map = request(Command::BlockStatus, 0, SIZE);
    for _ in 0..DEPTH {
        client.send(&map, &[]).await;
    }
    client
}

/// What one command takes, at its worst.
async fn worst(client: &mut Chunky, command: Command) -> Duration {
    let mut worst = Duration::ZERO;
    for nth in 0..20 {
        let offset = nth * (2 << 20);
        let start = engine::clock::now();
        match command {
            Command::Read => {
                client.read(&request(command, offset, 4096)).await;
            }
            Command::Write => {
                let mut write = request(command, offset, 4096);
                write.flags = CommandFlags::FUA;
                client.done(&write, &[1; PAGE]).await;
            }
            _ => {
                let map = client.status(&request(command, offset, 1 << 20), &[]).await;
                assert!(map.len() >= 255, "{map:?}");
            }
        }
        worst = worst.max(engine::clock::now() - start);
    }
    worst
}

#[test]
fn a_flood_of_maps_starves_no_other_client_and_leaves_nothing_behind() {
    let folder = tempfile::tempdir().expect("a folder");
    for backend in [BackendChoice::Uring, BackendChoice::Threads] {
        let setup = ServerSetup {
            engine: engine::Config {
                backend,
                ..cores(2)
            },
            ..ServerSetup::new(vec![named("disk", fragmented(folder.path()))])
        };
        let (stopping, end) = run_server(setup, |address, _| async move {
            let address = tcp(address);
            let mut client = Chunky::connect(address, false).await;
            let mut floods = Vec::new();
            for _ in 0..FLOODS {
                floods.push(flood(address).await);
            }
            for command in [Command::Read, Command::Write, Command::BlockStatus] {
                let worst = worst(&mut client, command).await;
                assert!(worst < LIMIT, "{backend:?}, {command:?}: {worst:?}");
            }
            // Each has its share.
            let map = request(Command::BlockStatus, 0, SIZE);
            for flood in &mut floods {
                let answered = engine::clock::timeout(20 * LIMIT, flood.reply(&map)).await;
                assert!(answered.is_ok(), "a flooding client gets nothing");
            }
            engine::clock::now()
        });
        end.expect("a clean stop");
        let took = engine::clock::now() - stopping;
        assert!(took < STOP_LIMIT, "{backend:?}: the stop took {took:?}");
    }
}

/// Requests in flight of a client that had left were carried out to the last.
#[test]
fn a_client_has_a_few_queries_at_work_and_none_when_it_has_left() {
    let disk = HeldDisk::new(Arc::new(MemDisk::new(SIZE)));
    let held = disk.clone();
    serving(disk, Limits::default(), |address| async move {
        held.hold(true);
        let flood = flood(address).await;
        held.arrivals(QUERIES_MAX).await;
        // Reads pass them.
        let mut other = Chunky::connect(address, false).await;
        let read = request(Command::Read, 0, 4096);
        other.send(&read, &[]).await;
        held.arrivals(QUERIES_MAX + 1).await;
        let operations: Vec<_> = held.held().iter().map(|held| held.operation).collect();
        let (last, queries) = operations.split_last().expect("some");
        assert_eq!(*last, Operation::Read);
        assert_eq!(queries, [Operation::Extents; QUERIES_MAX]);
        drop(flood);
        // Though no query was carried out.
        wait_until(async || held.held().len() == 1).await;
        held.hold(false);
        held.release_all().await;
        other.reply(&read).await;
    });
}
