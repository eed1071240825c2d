//! Many small worlds, each from a seed: disks that answer at once or later, clients that pause in
//! the middle of anything, bounds so tight that everything waits for something. Every request must
//! be answered rightly and in time; a wake-up that is lost shows as a client that waits.

mod client;
mod random_delay_disk;

use std::sync::Arc;
use std::time::Duration;

use block::Node;
use engine::BackendChoice;
use testkit::MemDisk;
use tokio::net::UnixStream;

use self::random_delay_disk::RandomDelayDisk;
use super::harness::{ServerSetup, named, run_server};
use super::{Dice, Limits, Listener, RawClient};
use crate::file_disk;

/// Worlds of one run.
const WORLDS: u64 = 40;
const CLIENTS: u64 = 3;
/// Requests of one client at once; each has a slot of the disk for itself.
const DEPTH: u64 = 6;
const SLOT_LEN: u64 = 49 * 4096;
const SIZE: u64 = CLIENTS * DEPTH * SLOT_LEN;
/// A world takes a fraction of a second.
const LONG: Duration = Duration::from_secs(30);

/// Bounds that a few requests reach.
fn tight(dice: &mut Dice) -> Limits {
    let mut from = |min: u64| usize::try_from(min << dice.below(8)).expect("small");
    Limits {
        in_flight_requests_max: from(1),
        in_flight_bytes_max: from(10_000),
        in_flight_bytes_total_max: from(2 * SLOT_LEN),
        busy_wait_max: Duration::from_micros(dice.below(3) * 100),
        ..Limits::default()
    }
}

/// One world; panics if a client gets a wrong answer or none.
fn live(seed: u64, disk: Node) {
    let mut dice = Dice(seed);
    let limits = tight(&mut dice);
    let disk = Arc::new(RandomDelayDisk::new(disk, Dice(seed + 1000)));
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("socket");
    let listener = Listener::unix(&path).expect("a free path");
    let config = engine::Config {
        backend: [BackendChoice::Auto, BackendChoice::Threads][usize::from(dice.below(3) == 0)],
        cores: 1 + usize::from(dice.below(2) == 0),
    };
    let body = |_| async move {
        let mut clients = Vec::new();
        for nth in 0..CLIENTS {
            let stream = UnixStream::connect(&path).await.expect("listening");
            let mut raw = RawClient { stream };
            raw.choose().await;
            let start = nth * DEPTH * SLOT_LEN;
            let client = client::run(raw.stream, start, seed * 10 + nth);
            clients.push(engine::spawn(client));
        }
        for client in clients {
            let lived = engine::clock::timeout(LONG, client).await;
            let lived = lived.unwrap_or_else(|_| panic!("seed {seed}: a client waits for ever"));
            lived.unwrap_or_else(|e| panic!("seed {seed}: {e}"));
        }
    };
    let setup = ServerSetup {
        engine: config,
        limits,
        listener,
        ..ServerSetup::new(vec![named("disk", disk)])
    };
    let ((), end) = run_server(setup, |address, _| body(address));
    end.unwrap_or_else(|e| panic!("seed {seed}: {e}"));
}

#[test]
fn every_request_is_answered_rightly_and_in_time_from_memory() {
    for seed in 0..WORLDS {
        live(seed, Arc::new(MemDisk::new(SIZE)));
    }
}

#[test]
fn every_request_is_answered_rightly_and_in_time_from_a_file() {
    for seed in 0..WORLDS {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("disk");
        let file = std::fs::File::create(&path).expect("a file");
        file.set_len(SIZE).expect("a length");
        let disk = file_disk::open(&path, nodes::FileOptions::default()).expect("a disk");
        live(seed, Arc::new(disk));
    }
}
