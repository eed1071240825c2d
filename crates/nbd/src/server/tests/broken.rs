//! Disks that break their promises: a bug in one, a file that is cut while it is served.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use block::{BlockDevice, IoBufs, IoFuture, Node, Range};
use nbd_proto::{Command, CommandFlags};
use testkit::{HeldDisk, MemDisk};
use tokio::io::AsyncReadExt;

use super::{EIO, Limits, RawClient, request, serving};
use crate::file_disk;

const SIZE: u64 = 8 << 20;
const LONG: Duration = Duration::from_secs(10);

/// A disk with broken reads: they return nothing for any request.
#[derive(Debug)]
struct EmptyReads(Node);

impl BlockDevice for EmptyReads {
    testkit::forward!(0: geometry, write, flush, write_zeroes, trim, extents, identity, settle);

    fn read(&self, _range: Range) -> IoFuture<'_, IoBufs> {
        Box::pin(async { Ok(IoBufs::new()) })
    }
}

/// A panic dropped the writes of its connection and let the next client in at once: the old write
/// could land on what that one wrote. Now the disk settles first.
#[test]
fn a_panic_ends_its_connection_alone_and_leaves_no_write_behind() {
    let held = HeldDisk::new(Arc::new(MemDisk::new(SIZE)));
    let limits = Limits {
        connections_max: 2,
        ..Limits::default()
    };
    let disk = Arc::new(EmptyReads(held.clone()));
    serving(disk, limits, |address| async move {
        let mut bystander = RawClient::simple(address).await;
        held.hold(true);
        let mut victim = RawClient::simple(address).await;
        let mut write = request(Command::Write, 0, 512);
        write.flags = CommandFlags::FUA;
        victim.say(&write.encode()).await;
        victim.say(&[1; 512]).await;
        held.arrival().await;
        victim.say(&request(Command::Read, 0, 512).encode()).await;
        assert!(victim.is_closed().await);
        while !held.held()[0].abandoned {
            engine::clock::sleep(Duration::from_millis(1)).await;
        }
        assert!(RawClient::connect(address).await.is_closed().await);
        held.hold(false);
        held.release_all().await;
        // Its place is free now, and other clients were not affected.
        let next = async { while RawClient::connect(address).await.is_closed_at_once().await {} };
        assert!(engine::clock::timeout(LONG, next).await.is_ok());
        let flush = request(Command::Flush, 0, 0);
        assert_eq!(bystander.ask(flush, &[]).await.0, 0);
    });
}

/// A file of so many bytes, and the disk in it.
fn file(len: u64) -> (tempfile::TempDir, PathBuf, Node) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("disk");
    let len = usize::try_from(len).expect("small");
    std::fs::write(&path, vec![1; len]).expect("written");
    let disk = file_disk::open(&path, nodes::FileOptions::default()).expect("a disk");
    (folder, path, Arc::new(disk))
}

fn cut(path: &std::path::Path, len: u64) {
    let file = std::fs::File::options().write(true).open(path);
    file.and_then(|file| file.set_len(len)).expect("cut");
}

/// The page in which a cut file ends stays cached, so the end of a long read went out as zeroes, or
/// its connection was dropped and that again at each new attempt. A file that was cut before the
/// request is an error like any other.
#[test]
fn a_file_that_was_cut_gives_an_error_and_the_connection_goes_on() {
    for len in [4096, 64 << 10, 256 << 10, 1 << 20, 4 << 20] {
        for missing in [1, 100, 4096, 5000] {
            let (_folder, path, disk) = file(SIZE);
            serving(disk, Limits::default(), |address| async move {
                let mut simple = RawClient::simple(address).await;
                let mut structured = RawClient::structured(address).await;
                let read = request(Command::Read, 0, len);
                assert_eq!(simple.ask(read, &[]).await.0, 0);
                cut(&path, len.saturating_sub(missing));
                assert_eq!(simple.ask(read, &[]).await.0, EIO, "{len} less {missing}");
                structured.say(&read.encode()).await;
                let head = structured.take(20).await;
                assert_eq!(head[4..8], [0, 1, 0x80, 1], "an error, and the last chunk");
                let text = u32::from_be_bytes(head[16..].try_into().expect("four bytes"));
                let body = structured.take(text as usize).await;
                assert!(String::from_utf8_lossy(&body).contains("truncated"));
                if len > missing {
                    simple.assert_in_step().await;
                }
            });
        }
    }
}

/// The header of a reply is gone when its file turns out to end too early: nothing is left but to
/// drop the connection, at once and not when the client is taken for stalled.
#[test]
fn a_file_that_is_cut_within_a_reply_ends_the_connection_at_once() {
    for len in [128 << 10, 4 << 20] {
        let (_folder, path, disk) = file(SIZE);
        serving(disk, Limits::default(), |address| async move {
            let mut raw = RawClient::simple(address).await;
            let count = usize::try_from((64 << 20) / len).expect("few");
            raw.say(&request(Command::Read, 0, len).encode().repeat(count))
                .await;
            // Until the sockets are full.
            engine::clock::sleep(Duration::from_millis(100)).await;
            cut(&path, len - 20_000);
            let mut rest = Vec::new();
            let end = engine::clock::timeout(LONG, raw.stream.read_to_end(&mut rest)).await;
            assert!(end.is_ok(), "the client is left waiting");
            assert!(rest.len() < 64 << 20);
        });
    }
}
