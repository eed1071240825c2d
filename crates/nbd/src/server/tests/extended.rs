//! Transmission in chunks: extended headers, the status of blocks, holes in reads, whole disks.

use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::time::Duration;

use block::{BlockDevice, Errno, IoBufs, Operation, Range, WriteFlags};
use bytes::Bytes;
use futures_util::FutureExt;
use nbd_proto::{ChunkKind, Command, CommandFlags, StatusFilter};
use testkit::{Effect, Fault, FaultDisk, HeldDisk, MemDisk, gather, pattern};

use super::wide::Chunky;
use super::{EIO, Limits, request, serving};
use crate::file_disk;

const SIZE: u64 = 8 << 20;
const TIB: u64 = 1 << 40;
const LONG: Duration = Duration::from_secs(20);

/// Where a disk has data that has nothing else.
const DATA_AT: Range = Range::new(1 << 20, 64 << 10);

/// As `base:allocation` says it.
const HOLE: u64 = 3;
const DATA: u64 = 0;

fn patterned() -> Arc<MemDisk> {
    Arc::new(MemDisk::from_bytes(pattern(1, Range::new(0, SIZE))))
}

#[test]
fn what_is_written_under_extended_headers_is_read_back_at_every_size() {
    serving(patterned(), Limits::default(), |address| async move {
        let mut client = Chunky::connect(address, true).await;
        for (seed, len) in [1u64, 511, 4096, 65_536, 300_000, 3 << 20]
            .into_iter()
            .enumerate()
        {
            for fua in [false, true] {
                let range = Range::new(13 * len % 4096, len);
                let data = pattern(u8::try_from(seed).expect("few"), range);
                let mut write = request(Command::Write, range.offset, len);
                write.flags.set(CommandFlags::FUA, fua);
                client.done(&write, &data).await;
                let read = request(Command::Read, range.offset, len);
                assert!(client.read(&read).await == data);
            }
        }
        client.done(&request(Command::Flush, 0, 0), &[]).await;
        for command in [Command::Trim, Command::WriteZeroes, Command::Cache] {
            client.done(&request(command, 4096, 8192), &[]).await;
        }
        let nothing = request(Command::Read, 77, 0);
        client.done(&nothing, &[]).await;
    });
}

#[test]
fn any_cutting_of_an_extended_stream_gives_the_same_answers() {
    serving(patterned(), Limits::default(), |address| async move {
        for cut in [1, 7, 31, 32, 33, 4096] {
            let mut client = Chunky::connect(address, true).await;
            let write = request(Command::Write, 5, 9000);
            let mut status = request(Command::BlockStatus, 512, 12);
            status.flags = CommandFlags::PAYLOAD_LEN;
            let filter = StatusFilter {
                len: 512,
                ids: vec![client.id],
            };
            let read = request(Command::Read, 0, 10_000);
            let mut stream = Vec::new();
            write.encode_to(client.framing, &mut stream);
            stream.extend(pattern(9, Range::new(5, 9000)));
            status.encode_to(client.framing, &mut stream);
            stream.extend(filter.encode());
            read.encode_to(client.framing, &mut stream);
            for piece in stream.chunks(cut) {
                client.raw.say(piece).await;
            }
            assert_eq!(client.reply(&write).await[0].kind, ChunkKind::None);
            // The status waits for its disk, the read does not.
            let mut kinds = Vec::new();
            for _ in 0..2 {
                let head = client.raw.take(32).await;
                let len = u64::from_be_bytes(head[24..].try_into().expect("eight"));
                client.raw.take(usize::try_from(len).expect("short")).await;
                kinds.push(u16::from_be_bytes([head[6], head[7]]));
            }
            kinds.sort_unstable();
            assert_eq!(kinds, [1, 6]);
        }
    });
}

/// A disk with data at 1 MiB, 64 KiB long, and nothing else.
fn sparse() -> Arc<MemDisk> {
    let disk = Arc::new(MemDisk::new(SIZE));
    let data = IoBufs::from_iter([Bytes::from(vec![7; 64 << 10])]);
    let write = disk
        .write(DATA_AT, data, WriteFlags::empty())
        .now_or_never();
    write.expect("memory does not wait").expect("written");
    disk
}

#[test]
fn the_status_of_blocks_is_what_the_disk_says() {
    serving(sparse(), Limits::default(), |address| async move {
        for extended in [false, true] {
            let mut client = Chunky::connect(address, extended).await;
            let whole = request(Command::BlockStatus, 0, SIZE);
            let rest = SIZE - DATA_AT.end();
            let all = [(DATA_AT.offset, HOLE), (DATA_AT.len, DATA), (rest, HOLE)];
            assert_eq!(client.status(&whole, &[]).await, all);
            let mut one = request(Command::BlockStatus, 4096, SIZE - 4096);
            one.flags = CommandFlags::REQ_ONE;
            assert_eq!(
                client.status(&one, &[]).await,
                [(DATA_AT.offset - 4096, HOLE)]
            );
            let within = request(Command::BlockStatus, DATA_AT.offset + 512, 1024);
            assert_eq!(client.status(&within, &[]).await, [(1024, DATA)]);
            client.assert_in_step().await;
        }
    });
}

#[test]
fn a_filter_chooses_the_contexts_of_a_status() {
    serving(sparse(), Limits::default(), |address| async move {
        let mut client = Chunky::connect(address, true).await;
        let asks = |ids: &[u32]| {
            let payload = StatusFilter {
                len: SIZE,
                ids: ids.to_vec(),
            }
            .encode();
            let mut status = request(Command::BlockStatus, 0, payload.len() as u64);
            status.flags = CommandFlags::PAYLOAD_LEN;
            (status, payload)
        };
        let (status, payload) = asks(&[client.id]);
        assert_eq!(client.status(&status, &payload).await.len(), 3);
        let (status, payload) = asks(&[]);
        client.done(&status, &payload).await;
        client.assert_in_step().await;
    });
}

/// The pages of a file that are holes are in no cache, so such a read was made of zeroes.
#[test]
fn a_read_of_a_sparse_file_leaves_out_its_holes_unless_it_must_not_be_cut() {
    for extended in [false, true] {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("disk");
        let file = std::fs::File::create(&path).expect("a file");
        file.set_len(SIZE).expect("sized");
        let data = pattern(5, DATA_AT);
        file.write_all_at(&data, DATA_AT.offset).expect("written");
        let disk = file_disk::open(&path, nodes::FileOptions::default()).expect("a disk");
        serving(Arc::new(disk), Limits::default(), |address| async move {
            let mut client = Chunky::connect(address, extended).await;
            let mut read = request(Command::Read, 0, 2 << 20);
            let chunks = client.ask(&read, &[]).await;
            let kinds: Vec<_> = chunks.iter().map(|chunk| chunk.kind).collect();
            let (hole, bytes) = (ChunkKind::OffsetHole, ChunkKind::OffsetData);
            assert_eq!(kinds, [hole, bytes, hole]);
            assert_eq!(chunks[1].data(), (DATA_AT.offset, &data[..]));
            let mut expected = vec![0; 2 << 20];
            expected[DATA_AT.offset.try_into().expect("small")..][..data.len()]
                .copy_from_slice(&data);
            assert!(client.read(&read).await == expected);
            read.flags = CommandFlags::DF;
            let chunks = client.ask(&read, &[]).await;
            assert_eq!(chunks.len(), 1);
            assert!(chunks[0].data().1 == expected);
        });
    }
}

/// More holes than chunks are worth: the read is sent as it is.
#[test]
fn a_read_of_many_holes_is_whole_and_right() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("disk");
    let file = std::fs::File::create(&path).expect("a file");
    file.set_len(SIZE).expect("sized");
    let mut expected = vec![0; 4 << 20];
    for at in (0..4 << 20).step_by(128 << 10) {
        let piece = pattern(3, Range::new(at, 4096));
        file.write_all_at(&piece, at).expect("written");
        expected[at.try_into().expect("small")..][..4096].copy_from_slice(&piece);
    }
    let disk = file_disk::open(&path, nodes::FileOptions::default()).expect("a disk");
    serving(Arc::new(disk), Limits::default(), |address| async move {
        let mut client = Chunky::connect(address, true).await;
        let read = request(Command::Read, 0, 4 << 20);
        let chunks = client.ask(&read, &[]).await;
        assert_eq!(chunks.len(), 1);
        assert!(chunks[0].data() == (0, &expected[..]));
    });
}

/// A stop waited for terabytes of zeroes, and ended without the flushes it owed.
#[test]
fn a_stop_does_not_wait_for_a_whole_disk_to_be_zeroed() {
    let disk = HeldDisk::new(Arc::new(nodes::Null::new(16 * TIB)));
    let held = disk.clone();
    let mut client = serving(disk.clone(), Limits::default(), |address| async move {
        disk.hold(true);
        let mut client = Chunky::connect(address, true).await;
        let zero = request(Command::WriteZeroes, 0, 16 * TIB);
        client.send(&zero, &[]).await;
        disk.arrival().await;
        // Released only after the stop began.
        drop(engine::spawn(async move {
            engine::clock::sleep(Duration::from_millis(100)).await;
            held.hold(false);
            held.release_all().await;
        }));
        client.raw.stream.into_std().expect("a socket")
    });
    client.set_nonblocking(false).expect("a socket");
    let mut reply = Vec::new();
    std::io::Read::read_to_end(&mut client, &mut reply).expect("a reply and the end");
    // One extended chunk, an error: the server shuts down.
    assert_eq!(reply[6..8], [0x80, 2]);
    assert_eq!(reply[32..36], 108u32.to_be_bytes());
}

/// A trim of 16 TiB in one request, and its reply at once.
#[test]
fn whole_disks_are_trimmed_and_zeroed_in_one_request() {
    let size = 16 * TIB;
    serving(
        Arc::new(nodes::Null::new(size)),
        Limits::default(),
        |address| async move {
            let mut client = Chunky::connect(address, true).await;
            for command in [Command::Trim, Command::WriteZeroes, Command::Cache] {
                let whole = request(command, 0, size);
                let done = engine::clock::timeout(LONG, client.done(&whole, &[])).await;
                done.expect("before long");
            }
            let status = request(Command::BlockStatus, 0, size);
            assert_eq!(client.status(&status, &[]).await, [(size, HOLE)]);
            // A compact header has no room for more than 4 GiB.
            let mut client = Chunky::connect(address, false).await;
            let most = request(Command::BlockStatus, 0, u64::from(u32::MAX) / 512 * 512);
            let told = client.status(&most, &[]).await;
            assert!(told[0].0 > 3 << 30 && told[0].0 <= most.len, "{told:?}");
        },
    );
}

#[test]
fn other_requests_are_answered_while_a_whole_disk_is_zeroed() {
    let disk = HeldDisk::new(Arc::new(nodes::Null::new(16 * TIB)));
    serving(disk.clone(), Limits::default(), |address| async move {
        disk.hold(true);
        let mut client = Chunky::connect(address, true).await;
        let zero = request(Command::WriteZeroes, 0, 16 * TIB);
        client.send(&zero, &[]).await;
        disk.arrival().await;
        disk.hold(false);
        client.assert_in_step().await;
        disk.release_all().await;
        assert_eq!(client.reply(&zero).await[0].kind, ChunkKind::None);
    });
}

/// A client that had gone was waited for until its terabytes were zeroed, and so did the next client
/// of the export.
#[test]
fn a_client_that_is_gone_delays_no_other_with_its_terabytes() {
    let disk = HeldDisk::new(Arc::new(nodes::Null::new(16 * TIB)));
    serving(disk.clone(), Limits::default(), |address| async move {
        for goes_by_reset in [true, false] {
            disk.hold(true);
            let mut client = Chunky::connect(address, true).await;
            let zero = request(Command::WriteZeroes, 0, 16 * TIB);
            client.send(&zero, &[]).await;
            disk.arrival().await;
            let first = disk.held()[0].range.expect("a range");
            assert!(first.len < 16 * TIB, "{first}");
            if goes_by_reset {
                client.raw.reset();
            } else {
                drop(client);
            }
            engine::clock::sleep(Duration::from_millis(50)).await;
            // The job submits one piece more if the end was not seen yet; then none.
            for _ in 0..2 {
                disk.release_all().await;
                engine::clock::sleep(Duration::from_millis(50)).await;
            }
            disk.hold(false);
            disk.release_all().await;
            let mut successor = Chunky::connect(address, true).await;
            let served = engine::clock::timeout(LONG, successor.assert_in_step()).await;
            served.expect("its predecessor is over");
        }
    });
}

/// A long payload goes to the disk in pieces; it is one request nevertheless.
#[test]
fn a_payload_that_goes_to_the_disk_in_pieces_is_answered_once() {
    let fails_at = Range::new(3 << 20, 512);
    let fault = Fault::new(Effect::Fail(Errno::Io)).on(Operation::Write);
    let disk = FaultDisk::new(patterned(), 1, vec![fault.at(fails_at)]);
    let seen = disk.clone();
    serving(disk, Limits::default(), |address| async move {
        for extended in [false, true] {
            let mut client = Chunky::connect(address, extended).await;
            let mut write = request(Command::Write, 4096, (2 << 20) + 512);
            write.flags = CommandFlags::FUA;
            let range = Range::new(write.offset, write.len);
            let data = pattern(9, range);
            client.done(&write, &data).await;
            assert!(gather(&seen.read(range).await.expect("readable")) == data);
            write.len = 5 << 20;
            let said = client.refused(&write, &vec![1; 5 << 20]).await;
            assert_eq!(said.error, EIO);
            assert!(said.text.contains("write"), "{}", said.text);
            // Where the piece is that failed.
            assert_eq!(said.at, Some(3 << 20));
            client.assert_in_step().await;
        }
    });
}

#[test]
fn an_error_that_is_all_of_the_request_has_no_place() {
    let fault = Fault::new(Effect::Fail(Errno::NoSpace)).on(Operation::WriteZeroes);
    let disk = FaultDisk::new(patterned(), 1, vec![fault]);
    serving(disk, Limits::default(), |address| async move {
        let mut client = Chunky::connect(address, true).await;
        let said = client
            .refused(&request(Command::WriteZeroes, 512, 4096), &[])
            .await;
        assert_eq!((said.error, said.at), (super::ENOSPC, None));
        client.assert_in_step().await;
    });
}

#[test]
fn blocks_that_were_advertised_are_kept_to() {
    for block in [512u32, 4096] {
        let disk = MemDisk::new(SIZE).with_geometry(|g| g.block_size = block);
        serving(Arc::new(disk), Limits::default(), |address| async move {
            let mut client = Chunky::connect(address, true).await;
            let block = u64::from(block);
            for command in [0, 1, 4, 5, 6, 7].map(Command::from) {
                for (offset, len) in [(1, block), (0, block - 1), (block / 2, block)] {
                    let odd = request(command, offset, len);
                    let payload = if command == Command::Write { len } else { 0 };
                    let payload = vec![1; usize::try_from(payload).expect("small")];
                    let said = client.refused(&odd, &payload).await;
                    assert_eq!(said.error, super::EINVAL, "{odd:?}");
                    assert!(said.text.contains("aligned"), "{}", said.text);
                }
            }
            let write = request(Command::Write, block, block);
            let data = pattern(3, Range::new(block, block));
            client.done(&write, &data).await;
            let read = request(Command::Read, block, block);
            assert!(client.read(&read).await == data);
        });
    }
}
