//! Requests and replies on the wire.

use std::io::Write;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use block::{BlockDevice, Node, Range};
use nbd_proto::{Command, CommandFlags};
use testkit::pattern;
use testkit::{HeldDisk, MemDisk};
use tokio::io::AsyncReadExt;

use super::super::{Export, Server};
use super::{EINVAL, Limits, RawClient, request, serving};
use crate::file_disk;

const SIZE: u64 = 4 << 20;

fn patterned() -> Arc<MemDisk> {
    Arc::new(MemDisk::from_bytes(pattern(1, Range::new(0, SIZE))))
}

#[test]
fn what_is_written_is_read_back_at_every_size() {
    let disk = Arc::new(MemDisk::new(SIZE));
    serving(disk.clone(), Limits::default(), |address| async move {
        let mut raw = RawClient::simple(address).await;
        for (seed, len) in [1u64, 511, 4096, 65_535, 65_536, 300_000, 1 << 20]
            .into_iter()
            .enumerate()
        {
            let range = Range::new(13 * len % 4096, len);
            let data = pattern(u8::try_from(seed).expect("few"), range);
            let write = request(Command::Write, range.offset, len);
            assert_eq!(raw.ask(write, &data).await.0, 0);
            let read = request(Command::Read, range.offset, len);
            assert!(raw.ask(read, &[]).await == (0, data));
        }
        let flush = request(Command::Flush, 0, 0);
        assert_eq!(raw.ask(flush, &[]).await.0, 0);
    });
}

#[test]
fn any_cutting_of_the_stream_gives_the_same_answers() {
    serving(patterned(), Limits::default(), |address| async move {
        for cut in [1, 7, 28, 29, 4096, 100_000] {
            let mut raw = RawClient::simple(address).await;
            let mut stream = Vec::new();
            let write = request(Command::Write, 5, 9000);
            let read = request(Command::Read, 0, 10_000);
            stream.extend_from_slice(&write.encode());
            stream.extend_from_slice(&pattern(9, Range::new(5, 9000)));
            stream.extend_from_slice(&read.encode());
            for piece in stream.chunks(cut) {
                raw.say(piece).await;
            }
            assert_eq!(raw.simple_reply(&write).await.0, 0);
            let (error, data) = raw.simple_reply(&read).await;
            assert_eq!(error, 0);
            assert_eq!(data[..5], pattern(1, Range::new(0, 5)));
            assert_eq!(data[5..9005], pattern(9, Range::new(5, 9000)));
        }
    });
}

#[test]
fn a_thousand_requests_in_one_send_are_all_answered() {
    serving(patterned(), Limits::default(), |address| async move {
        let mut raw = RawClient::simple(address).await;
        let reads: Vec<_> = (0..1000)
            .map(|i| request(Command::Read, i * 4096 % SIZE, 4096))
            .collect();
        let stream: Vec<u8> = reads.iter().flat_map(nbd_proto::Request::encode).collect();
        // Sent and taken at once: the replies are far more than the socket holds.
        let (mut from, mut to) = raw.stream.split();
        let send = async {
            tokio::io::AsyncWriteExt::write_all(&mut to, &stream)
                .await
                .expect("sent")
        };
        let receive = async {
            for _ in 0..reads.len() {
                let mut reply = vec![0; 16 + 4096];
                from.read_exact(&mut reply).await.expect("a reply");
                assert_eq!(reply[4..8], [0; 4]);
                let cookie = u64::from_be_bytes(reply[8..16].try_into().expect("eight bytes"));
                let read = reads
                    .iter()
                    .find(|r| r.cookie == cookie)
                    .expect("a request of ours");
                assert_eq!(reply[16..], pattern(1, Range::new(read.offset, 4096)));
            }
        };
        tokio::join!(send, receive);
    });
}

#[test]
fn replies_come_out_of_order() {
    let disk = HeldDisk::new(patterned());
    serving(disk.clone(), Limits::default(), |address| async move {
        disk.hold(true);
        let mut raw = RawClient::simple(address).await;
        let (slow, fast) = (
            request(Command::Read, 0, 512),
            request(Command::Read, 512, 512),
        );
        raw.say(&slow.encode()).await;
        disk.arrival().await;
        let first = disk.held()[0].id;
        raw.say(&fast.encode()).await;
        disk.arrivals(2).await;
        let second = disk.held().iter().map(|h| h.id).find(|&id| id != first);
        disk.release(second.expect("two are held")).await;
        raw.simple_reply(&fast).await;
        disk.release(first).await;
        raw.simple_reply(&slow).await;
        // The stop flushes.
        disk.hold(false);
    });
}

#[test]
fn large_reads_of_a_file_come_from_the_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let content = pattern(3, Range::new(0, SIZE));
    let disk = file_disk(&folder.path().join("disk"), &content);
    check_large_reads(disk, content);
}

#[test]
fn large_reads_of_a_disk_on_several_files_come_from_the_files() {
    const CHUNK: u64 = 64 << 10;
    let folder = tempfile::tempdir().expect("a folder");
    let content = pattern(4, Range::new(0, SIZE));
    let members = (0..4).map(|member: usize| {
        let chunks = content.chunks(Range::new(0, CHUNK).len_usize());
        let own: Vec<u8> = chunks.skip(member).step_by(4).flatten().copied().collect();
        nodes::Segment::whole(file_disk(&folder.path().join(member.to_string()), &own))
    });
    let disk = nodes::Stripe::new(members.collect(), CHUNK).expect("a disk");
    check_large_reads(Arc::new(disk), content);
}

fn file_disk(path: &Path, content: &[u8]) -> Node {
    let mut file = std::fs::File::create(path).expect("a file");
    file.write_all(content).expect("written");
    let options = nodes::FileOptions::default();
    Arc::new(file_disk::open(path, options).expect("a disk"))
}

fn check_large_reads(disk: Node, content: Vec<u8>) {
    serving(disk, Limits::default(), |address| async move {
        for _ in 0..2 {
            let mut raw = RawClient::simple(address).await;
            for (offset, len) in [(0, SIZE), (1, 65_536), (777, 1 << 20), (4096, 128 << 10)] {
                let read = request(Command::Read, offset, len);
                let (error, data) = raw.ask(read, &[]).await;
                assert_eq!(error, 0);
                let at = usize::try_from(offset).expect("small");
                assert!(data == content[at..][..data.len()]);
            }
            let mut raw = RawClient::structured(address).await;
            let read = request(Command::Read, 4096, 128 << 10);
            raw.say(&read.encode()).await;
            let chunk = raw.take(28 + (128 << 10)).await;
            assert_eq!(chunk[..8], [0x66, 0x8e, 0x33, 0xef, 0, 1, 0, 1]);
            assert!(chunk[28..] == content[4096..][..128 << 10]);
        }
    });
}

#[test]
fn a_disconnect_is_obeyed_after_what_came_before_it() {
    serving(patterned(), Limits::default(), |address| async move {
        let mut raw = RawClient::simple(address).await;
        let read = request(Command::Read, 0, 4096);
        let mut stream = read.encode().to_vec();
        stream.extend_from_slice(&request(Command::Disconnect, 0, 0).encode());
        raw.say(&stream).await;
        assert_eq!(
            raw.simple_reply(&read).await.1,
            pattern(1, Range::new(0, 4096))
        );
        assert!(raw.is_closed().await);
    });
}

#[test]
fn requests_behind_the_handshake_in_one_send_are_answered() {
    serving(patterned(), Limits::default(), |address| async move {
        let mut raw = RawClient::connect(address).await;
        let mut stream = 3u32.to_be_bytes().to_vec();
        stream.extend_from_slice(b"IHAVEOPT\0\0\0\x01\0\0\0\x04disk");
        let read = request(Command::Read, 0, 64);
        stream.extend_from_slice(&read.encode());
        raw.say(&stream).await;
        raw.take(18 + 10).await;
        assert_eq!(
            raw.simple_reply(&read).await.1,
            pattern(1, Range::new(0, 64))
        );
    });
}

#[test]
fn a_refused_request_leaves_the_connection_in_step() {
    serving(patterned(), Limits::default(), |address| async move {
        let mut raw = RawClient::simple(address).await;
        let past = request(Command::Write, SIZE - 1, 4096);
        assert_eq!(raw.ask(past, &[7; 4096]).await.0, super::ENOSPC);
        raw.assert_in_step().await;
        let mut odd = request(Command::Read, 0, 16);
        odd.flags = CommandFlags::from_bits_retain(0x4000);
        assert_eq!(raw.ask(odd, &[]).await.0, EINVAL);
        let unknown = request(Command::Unknown(99), 0, 0);
        assert_eq!(raw.ask(unknown, &[]).await.0, EINVAL);
        raw.assert_in_step().await;
    });
}

#[test]
fn under_structured_replies_an_error_has_a_text() {
    serving(patterned(), Limits::default(), |address| async move {
        let mut raw = RawClient::structured(address).await;
        raw.say(&request(Command::Read, SIZE, 1).encode()).await;
        let head = raw.take(20).await;
        assert_eq!(head[4..8], [0, 1, 0x80, 1]);
        let len = u32::from_be_bytes(head[16..].try_into().expect("four bytes"));
        let body = raw.take(len as usize).await;
        assert_eq!(body[..4], EINVAL.to_be_bytes());
        let text = String::from_utf8(body[6..].to_vec()).expect("text");
        assert!(text.contains("ends behind the disk"), "{text}");
    });
}

#[test]
fn memory_beyond_the_bounds_is_waited_for() {
    let disk = HeldDisk::new(patterned());
    let limits = Limits {
        in_flight_bytes_total_max: 1 << 20,
        payload_max: 512 << 10,
        ..Limits::default()
    };
    serving(disk.clone(), limits, |address| async move {
        disk.hold(true);
        let mut raws = Vec::new();
        let read = request(Command::Read, 0, 512 << 10);
        for _ in 0..4 {
            let mut raw = RawClient::simple(address).await;
            raw.say(&read.encode()).await;
            raws.push(raw);
        }
        disk.arrivals(2).await;
        engine::clock::sleep(Duration::from_millis(50)).await;
        assert_eq!(disk.held().len(), 2, "the others wait for memory");
        disk.hold(false);
        disk.release_all().await;
        for mut raw in raws {
            assert_eq!(raw.simple_reply(&read).await.1.len(), 512 << 10);
        }
    });
}

#[test]
fn a_connected_socket_is_served_without_a_listener() {
    let (ours, theirs) = std::os::unix::net::UnixStream::pair().expect("a pair");
    theirs.set_nonblocking(true).expect("a socket");
    let disk = patterned();
    engine::run(&engine::Config::default(), |handle| async move {
        let export = Export {
            name: String::new(),
            description: String::new(),
            disk: disk.clone().into(),
        };
        let server = Server::new(vec![export], Limits::default()).expect("one export");
        let serve = engine::spawn(async move {
            server
                .serve_connection(&handle, OwnedFd::from(ours), std::future::pending())
                .await
        });
        let mut client = tokio::net::UnixStream::from_std(theirs).expect("a socket");
        let mut bytes = 3u32.to_be_bytes().to_vec();
        bytes.extend_from_slice(b"IHAVEOPT\0\0\0\x01\0\0\0\0");
        bytes.extend_from_slice(&request(Command::Read, 0, 16).encode());
        bytes.extend_from_slice(&request(Command::Disconnect, 0, 0).encode());
        tokio::io::AsyncWriteExt::write_all(&mut client, &bytes)
            .await
            .expect("sent");
        let mut answer = Vec::new();
        client.read_to_end(&mut answer).await.expect("received");
        assert_eq!(answer.len(), 18 + 10 + 16 + 16);
        assert_eq!(answer[44..], pattern(1, Range::new(0, 16)));
        serve.await.expect("no panic").expect("a clean end");
        assert_eq!(disk.geometry().size, SIZE);
    })
    .expect("the engine starts");
}

/// "Zero length: ok, does nothing." Disks got such requests nevertheless: one that had failed returned
/// its error, and to the kernel a hint of zero bytes means the file to its end, so a cache
/// command of no bytes read ahead a whole disk.
#[test]
fn a_request_of_no_bytes_asks_nothing_of_the_disk() {
    let fault = testkit::Fault::new(testkit::Effect::Fail(block::Errno::Io));
    let disk = testkit::FaultDisk::new(patterned(), 1, vec![fault]);
    let counted = disk.clone();
    let commands = [
        Command::Read,
        Command::Write,
        Command::Trim,
        Command::WriteZeroes,
        Command::Cache,
    ];
    let (_, end) = super::serving_on(
        1,
        disk,
        Limits::default(),
        super::local(),
        |at| async move {
            let super::ListenAddress::Tcp(address) = at else {
                panic!("a TCP listener has a TCP address")
            };
            let mut simple = RawClient::simple(address).await;
            let mut structured = RawClient::structured(address).await;
            for command in commands {
                for offset in [0, 1, SIZE] {
                    let nothing = request(command, offset, 0);
                    assert_eq!(simple.ask(nothing, &[]).await.0, 0, "{command:?}");
                    structured.say(&nothing.encode()).await;
                    if command == Command::Read {
                        // One chunk of no kind, the last one.
                        let chunk = structured.take(20).await;
                        assert_eq!(chunk[..8], [0x66, 0x8e, 0x33, 0xef, 0, 1, 0, 0]);
                        assert_eq!(chunk[16..], [0; 4]);
                    } else {
                        assert_eq!(structured.simple_reply(&nothing).await.0, 0);
                    }
                }
                let past = request(command, SIZE + 1, 0);
                assert_ne!(simple.ask(past, &[]).await.0, 0, "{command:?}");
            }
            assert_eq!(counted.hits(), 0);
        },
    );
    // The fault hits the flush at the stop too.
    assert!(end.is_err());
}
