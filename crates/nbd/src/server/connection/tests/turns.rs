//! Turns: what one connection does before others of its core may.

use std::io::Read;
use std::sync::Arc;
use std::task::Poll;

use block::Node;
use nbd_proto::Command;
use testkit::MemDisk;

use super::{connection, on_engine, pair, request};
use crate::file_disk;
use crate::server::limits::Limits;
use crate::server::scratch::SEND_LEN;

const DISK_LEN: u64 = 32 << 20;
/// 2 MiB, what the last call may send beyond, and what is gathered for it.
const TURN_MAX: u64 = (2 << 20) + 2 * SEND_LEN as u64;

/// Sends many requests, takes replies as fast as they come, and returns the most that leaves in a turn.
fn most_in_a_turn(disk: Node, len: u64, count: usize) -> u64 {
    on_engine(|| async move {
        let (socket, mut client) = pair();
        let bytes = request(Command::Read, 0, len).encode().repeat(count);
        let total = count as u64 * (16 + len);
        let drain = engine::thread("drain", move || {
            let mut buffer = vec![0; 1 << 20];
            let mut taken = 0;
            while taken < total {
                taken += client.read(&mut buffer).expect("received") as u64;
            }
        });
        let mut connection = connection(socket, disk, Limits::default(), bytes);
        let mut most = 0;
        while connection.outbox.sent() < total {
            let before = connection.outbox.sent();
            std::future::poll_fn(|cx| match connection.step(cx) {
                Poll::Ready(end) => panic!("ended: {end}"),
                Poll::Pending => Poll::Ready(()),
            })
            .await;
            most = most.max(connection.outbox.sent() - before);
            tokio::task::yield_now().await;
        }
        drain.expect("a thread").join().expect("no panic");
        most
    })
}

fn file() -> (tempfile::TempDir, Node) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("disk");
    let len = usize::try_from(DISK_LEN).expect("small");
    std::fs::write(&path, vec![1; len]).expect("a file");
    let disk = file_disk::open(&path, nodes::FileOptions::default()).expect("a disk");
    (folder, Arc::new(disk))
}

/// A client that takes long replies as fast as they come had its core for itself until its queue
/// was empty, hundreds of megabytes later.
#[test]
fn long_replies_are_sent_in_turns() {
    for len in [DISK_LEN, 256 << 10] {
        let (_folder, disk) = file();
        let most = most_in_a_turn(disk, len, 16);
        assert!(most <= TURN_MAX, "{most} bytes at once");
    }
}

/// The same for many small requests in one receive.
#[test]
fn many_small_replies_are_sent_in_turns() {
    let disk = Arc::new(MemDisk::new(DISK_LEN));
    let most = most_in_a_turn(disk, 60_000, 2000);
    assert!(most <= TURN_MAX, "{most} bytes at once");
}
