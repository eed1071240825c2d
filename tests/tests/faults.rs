//! Faults of the disk below and of the client above: the server says what it must and lives.

use std::io::{Read, Write};
use std::net::Shutdown;

use outboard_tests::image::{Folder, MIB, bytes_at, pattern};
use outboard_tests::raw::{self, FUA, READ, Request, WRITE};
use outboard_tests::said::{nbdsh, needs_nbdsh};
use outboard_tests::server::Server;
use outboard_tests::server_fixture;
use rustix::process::Signal;
use testkit::TmpfsMount;
use testkit::requires;

/// A new client gets an answer, and the server still stops as it should.
#[track_caller]
fn assert_lives(server: Server) {
    let mut client = raw::connected(server.port());
    raw::read(&mut client, 7, 0, 512).expect("an answer");
    drop(client);
    assert_eq!(server.stop(Signal::TERM), Some(0));
}

#[test]
fn a_full_disk_is_reported_to_the_client_and_the_server_lives() {
    if !requires::all(&[requires::root(), needs_nbdsh()]) {
        return;
    }
    let small = TmpfsMount::of_size(8 * MIB).unwrap();
    let image = small.path().join("a.img");
    let file = std::fs::File::create(&image).unwrap();
    file.set_len(64 * MIB).unwrap();
    let server = Server::start(&[image.to_str().unwrap()]);
    nbdsh("full", &[&server.uri("")]).ok();
    assert_lives(server);
}

#[test]
fn an_image_that_is_truncated_under_the_server_fails_reads_and_nothing_else() {
    if !requires::all(&[needs_nbdsh()]) {
        return;
    }
    let folder = Folder::new();
    for (name, disk) in [("a.img", "{}"), ("b.img", "file({},direct=true)")] {
        let image = folder.filled(name, 8 * MIB, 6);
        let server = Server::start(&[&disk.replace("{}", &image)]);
        nbdsh("truncated", &[&server.uri(""), &image]).ok();
        assert_lives(server);
    }
}

#[test]
fn an_image_that_is_truncated_while_it_is_read_kills_no_server() {
    let folder = Folder::new();
    for round in 0..20_u64 {
        let image = folder.filled("a.img", 8 * MIB, round);
        let server = Server::start(&[&image]);
        let mut client = raw::connected(server.port());
        for cookie in 0..64 {
            let read = Request {
                command: READ,
                cookie,
                offset: (cookie % 8) * MIB,
                len: 1 << 20,
                ..Request::default()
            };
            client.write_all(&read.bytes()).unwrap();
        }
        let file = std::fs::OpenOptions::new()
            .write(true)
            .open(&image)
            .unwrap();
        std::thread::sleep(std::time::Duration::from_millis(round));
        file.set_len(MIB).unwrap();
        client.shutdown(Shutdown::Write).unwrap();
        raw::assert_closed(client);
        assert_lives(server);
    }
}

#[test]
fn clients_that_are_gone_in_the_middle_of_a_write_leave_no_trace() {
    let (image, server) = server_fixture::filled(4 * MIB, 8);
    let whole = vec![b'w'; 1 << 20];
    for cut in [0, 1, 27, 28, 4096, 65_536, (1 << 20) - 1] {
        for _ in 0..8 {
            let mut client = raw::connected(server.port());
            let request = Request {
                command: WRITE,
                offset: MIB,
                len: 1 << 20,
                ..Request::default()
            };
            let mut bytes = request.bytes();
            bytes.extend(&whole);
            client.write_all(&bytes[..cut]).unwrap();
        }
    }
    // What is around the range of those writes is as it was.
    assert_eq!(bytes_at(&image, 0, 1 << 20), pattern(MIB, 8));
    assert_eq!(
        bytes_at(&image, 2 * MIB, 16),
        pattern(4 * MIB, 8)[2 << 20..][..16]
    );
    assert_lives(server);
}

#[test]
fn bytes_that_make_no_sense_end_their_own_connection_only() {
    let server = Server::start(&["memory(1M)"]);
    let handshakes: [&[u8]; 6] = [
        b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
        &[0xff; 64],
        b"\0\0\0\x03NOTMAGIC\0\0\0\x07\0\0\0\0",
        // An option of almost 4 GiB.
        b"\0\0\0\x03IHAVEOPT\0\0\0\x07\xff\xff\xff\xf0",
        // An export name of almost 4 GiB.
        b"\0\0\0\x03IHAVEOPT\0\0\0\x01\xff\xff\xff\xff",
        // INFO with a name longer than the option; then silence of this side.
        b"\0\0\0\x03IHAVEOPT\0\0\0\x06\0\0\0\x06\xff\xff\xff\xff\0\0",
    ];
    for bytes in handshakes {
        let mut client = raw::greeted(server.port());
        client.write_all(bytes).unwrap();
        client.shutdown(Shutdown::Write).unwrap();
        raw::assert_closed(client);
    }
    for bytes in [
        &[0_u8; 28][..],
        &[0xff; 28],
        b"\x25\x60\x95\x14 almost the right magic.",
    ] {
        let mut client = raw::connected(server.port());
        client.write_all(bytes).unwrap();
        raw::assert_closed(client);
    }
    assert_lives(server);
}

#[test]
fn a_write_beyond_what_is_taken_is_refused_or_ends_the_connection() {
    let server = Server::start(&["memory(1M)"]);
    let mut client = raw::connected(server.port());
    let request = Request {
        command: WRITE,
        len: u32::MAX,
        ..Request::default()
    };
    client.write_all(&request.bytes()).unwrap();
    raw::assert_closed(client);
    assert_lives(server);
}

/// A server that had too much to send once went to sleep when the socket took all of it in one go:
/// it had stopped receiving, and nothing woke it again.
#[test]
fn many_large_reads_at_once_are_all_answered() {
    const LEN: u32 = 256 << 10;
    const AT_ONCE: u64 = 32;
    let server = Server::start(&["memory(16M)"]);
    let mut client = raw::connected(server.port());
    let mut data = vec![0; LEN as usize];
    for round in 0..100 {
        let requests = (0..AT_ONCE).flat_map(|number| {
            let read = Request {
                command: READ,
                cookie: round * AT_ONCE + number,
                offset: number * u64::from(LEN),
                len: LEN,
                ..Request::default()
            };
            read.bytes()
        });
        client.write_all(&requests.collect::<Vec<_>>()).unwrap();
        for _ in 0..AT_ONCE {
            let (error, _) = raw::reply(&mut client).unwrap();
            assert_eq!(error, 0);
            client.read_exact(&mut data).unwrap();
        }
    }
    assert_lives(server);
}

#[test]
fn nothing_that_was_acknowledged_is_lost_when_the_server_is_killed_again_and_again() {
    const BLOCK: u64 = 4096;
    let folder = Folder::new();
    let image = folder.empty("a.img", 16 * MIB);
    let mut port = 0;
    let mut acknowledged: Vec<u64> = Vec::new();
    let mut next = 0;
    for round in 0..8_u64 {
        let server = Server::start_on(port, &[&image]);
        let mut client = raw::connected(server.port());
        let mut server = Some(server);
        loop {
            let request = Request {
                command: WRITE,
                flags: FUA,
                cookie: next,
                offset: next * BLOCK,
                len: 4096,
            };
            let data = pattern(BLOCK, next);
            match raw::write(&mut client, request, &data) {
                Ok((0, cookie)) => acknowledged.push(cookie),
                Ok((error, _)) => panic!("error {error}"),
                Err(_) => break,
            }
            next += 1;
            if acknowledged.len() as u64 == (round + 1) * 100
                && let Some(server) = server.take()
            {
                // One more is on its way when the server dies.
                client.write_all(&request.bytes()).unwrap();
                port = server.kill();
            }
        }
    }
    assert_eq!(acknowledged.len(), 800);
    for block in acknowledged {
        let found = bytes_at(&image, block * BLOCK, 4096);
        assert!(found == pattern(BLOCK, block), "block {block} is lost");
    }
}

/// The silence of a server while its disk flushes was taken for a lost connection, again and again, until the flush
/// failed.
#[test]
fn a_disk_that_takes_four_times_the_timeout_to_flush_is_waited_for() {
    let slow = Server::start(&["delay(memory(8M), flush=4s)"]);
    let near = Server::start(&[&format!("remote({}, timeout=1s)", slow.uri(""))]);
    let mut client = raw::connected(near.port());
    let write = Request {
        command: WRITE,
        cookie: 1,
        len: 4096,
        ..Request::default()
    };
    let data = pattern(4096, 9);
    assert_eq!(raw::write(&mut client, write, &data).unwrap(), (0, 1));
    assert_eq!(raw::flush(&mut client, 2).unwrap(), (0, 2));
    // The servers are killed when dropped: each flushes before it stops, which takes as long again.
}
