//! The error for a file that was truncated while a reply was sent from it.

use std::io::Read;
use std::sync::Arc;
use std::time::Duration;

use nbd_proto::Command;

use super::{connection, on_engine, pair, request};
use crate::file_disk;
use crate::server::limits::Limits;

const SIZE: usize = 32 << 20;

#[test]
fn a_connection_that_a_cut_file_ends_says_so() {
    // In one turn, and in several.
    for len in [256 << 10, 8 << 20] {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("disk");
        std::fs::write(&path, vec![1; SIZE]).expect("a file");
        let disk = file_disk::open(&path, nodes::FileOptions::default()).expect("a disk");
        let end = on_engine(|| async move {
            let (socket, mut client) = pair();
            let bytes = request(Command::Read, 0, len).encode().repeat(64);
            let connection = connection(socket, Arc::new(disk), Limits::default(), bytes);
            let run = engine::spawn(connection.run(std::future::pending()));
            engine::clock::sleep(Duration::from_millis(100)).await;
            let file = std::fs::File::options().write(true).open(&path);
            file.and_then(|file| file.set_len(len - 8192)).expect("cut");
            let drain = engine::thread("drain", move || {
                let mut buffer = vec![0; 1 << 20];
                while client.read(&mut buffer).is_ok_and(|count| count > 0) {}
            });
            let end = engine::clock::timeout(Duration::from_secs(10), run).await;
            drop(drain.expect("a thread"));
            let (end, _) = end.expect("it ends").expect("no panic");
            end.to_string()
        });
        assert!(end.contains("truncated while in use"), "{end}");
    }
}
