//! docs/guide/several-servers.md over real processes: servers of one disk are killed while a disk on them is used.
//!
//! The disk is one that another server of ours has, by its client, which is the same below `attach`, an array or a cache.

#![expect(
    clippy::print_stdout,
    reason = "the times of a run, which --nocapture shows"
)]

use std::net::TcpStream;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use outboard_tests::attachment::World;
use outboard_tests::image::{Folder, MIB, assert_same, bytes_at, pattern};
use outboard_tests::metrics;
use outboard_tests::raw::{self, Request, WRITE};
use outboard_tests::said::{outboard, program};
use outboard_tests::server::{LIMIT, Server, free_port, kill};
use rustix::process::Signal;
use serde_json::Value;
use testkit::proc::Process;

const SIZE: u64 = 16 * MIB;
const RECORD: u64 = 4096;
/// How long a request may take that the end of its server falls into, where the other one listens.
const MOVE_MAX: Duration = Duration::from_secs(3);
/// Kills of a server under writes.
const KILLS: u64 = 4;
const BETWEEN_KILLS: Duration = Duration::from_millis(400);
/// Writes between two kills at least, however busy the machine is.
const WRITES_BETWEEN_KILLS: u64 = 40;

/// A disk on two servers of this machine.
fn uri(ports: [u16; 2], query: &str) -> String {
    format!(
        "nbd://127.0.0.1:{},127.0.0.1:{}/{query}",
        ports[0], ports[1]
    )
}

/// What writers have done: the last serial number of each record, and the longest time of a request.
struct Written {
    serials: Vec<u64>,
    flushed: Vec<u64>,
    longest: Duration,
}

#[expect(
    clippy::disallowed_methods,
    reason = "a test of processes of their own has no simulated time"
)]
fn now() -> Instant {
    Instant::now()
}

/// A writer, as the test sees it while it writes.
#[derive(Default)]
struct Writing {
    stop: AtomicBool,
    /// Writes that were answered.
    answered: AtomicU64,
}

impl Writing {
    /// Lets it write for a while.
    fn proceeds(&self) {
        let least = self.answered.load(Ordering::Relaxed) + WRITES_BETWEEN_KILLS;
        std::thread::sleep(BETWEEN_KILLS);
        let begun = now();
        while self.answered.load(Ordering::Relaxed) < least && begun.elapsed() < LIMIT {
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// Writes records with a serial number each, one after the other, and flushes now and then, until it is to stop.
fn write_records(port: u16, writing: &Writing) -> Written {
    let mut stream = raw::connected(port);
    let count = usize::try_from(SIZE / RECORD).expect("few");
    let mut written = Written {
        serials: vec![0; count],
        flushed: vec![0; count],
        longest: Duration::ZERO,
    };
    for serial in 1_u64.. {
        if writing.stop.load(Ordering::Relaxed) {
            break;
        }
        let begun = now();
        // All over a part of the disk, each record several times.
        let record = serial * 2_654_435_761 % (count as u64 / 8);
        let request = Request {
            command: WRITE,
            cookie: serial,
            offset: record * RECORD,
            len: u32::try_from(RECORD).expect("small"),
            ..Request::default()
        };
        let answer = raw::write(&mut stream, request, &pattern(RECORD, serial));
        assert_eq!(answer.expect("an answer"), (0, serial));
        written.serials[usize::try_from(record).expect("few")] = serial;
        if serial % 16 == 0 {
            flush(&mut stream);
            written.flushed.clone_from(&written.serials);
        }
        written.longest = written.longest.max(begun.elapsed());
        writing.answered.store(serial, Ordering::Relaxed);
    }
    flush(&mut stream);
    written
}

fn flush(stream: &mut TcpStream) {
    assert_eq!(raw::flush(stream, 7).expect("an answer"), (0, 7));
}

/// One volume, which one server after the other has: `kill -9` of it while records are written.
#[test]
fn a_volume_loses_nothing_when_its_servers_are_killed_under_writes() {
    let folder = Folder::new();
    let image = folder.empty("a.img", SIZE);
    let ports = [free_port(), free_port()];
    let writing = Writing::default();
    let written = std::thread::scope(|scope| {
        // Both are killed where this fails, which ends the writer.
        let mut server = Server::start_on(ports[0], &[&image]);
        let front = Server::start(&[&format!("remote({}, timeout=60s)", uri(ports, ""))]);
        let (port, writing) = (front.port(), &writing);
        let writer = scope.spawn(move || write_records(port, writing));
        for kill in 1..=KILLS {
            writing.proceeds();
            server.kill();
            let next = ports[usize::try_from(kill % 2).expect("0 or 1")];
            server = Server::start_on(next, &[&image]);
        }
        writing.proceeds();
        writing.stop.store(true, Ordering::Relaxed);
        let written = writer.join().expect("a writer without a failure");
        assert_eq!(front.stop(Signal::TERM), Some(0));
        server.kill();
        written
    });
    println!(
        "{KILLS} kills under {} writes; the longest request took {:?}, with the start of the other server",
        written.serials.iter().max().expect("records"),
        written.longest
    );
    let mut records = 0;
    for (record, serial) in written.serials.iter().enumerate() {
        if *serial > 0 {
            let at = record as u64 * RECORD;
            let found = bytes_at(&image, at, usize::try_from(RECORD).expect("small"));
            assert!(
                found == pattern(RECORD, *serial),
                "record {record}, written as {serial}"
            );
            records += 1;
        }
    }
    assert!(
        records > 100,
        "{records} records: hardly anything was written"
    );
    assert!(written.flushed.iter().any(|serial| *serial > 0));
}

/// A server of a copy of an image, with this identity.
fn serve_copy(folder: &Folder, name: &str, image: &str, identity: &str, port: u16) -> Process {
    let config = folder.at(&format!("{name}.toml"));
    let text = format!(
        "listen = [\"127.0.0.1:{port}\"]\n[[export]]\nname = \"root\"\ndisk = \"{image}\"\n\
         read_only = true\nidentity = \"{identity}\"\n"
    );
    std::fs::write(&config, text).expect("a file");
    let mut command: Command = outboard(&["serve", "--config", &config]);
    let mut process = Process::start(&mut command).expect("a server");
    let listens = process.wait_until("a server that listens", LIMIT, |_| {
        TcpStream::connect(("127.0.0.1", port)).ok().map(drop)
    });
    listens.unwrap_or_else(|e| panic!("{e}"));
    process
}

/// Reads a record, and returns the time that this took.
#[track_caller]
fn read(stream: &mut TcpStream, offset: u64, image: &str) -> Duration {
    let len = usize::try_from(RECORD).expect("small");
    let begun = now();
    let short = u32::try_from(len).expect("small");
    let found = raw::read(stream, offset, offset, short).expect("an answer");
    assert!(
        found == bytes_at(image, offset, len),
        "the bytes at {offset}"
    );
    begun.elapsed()
}

/// The metrics name the server that is used, and count how often another one took its place.
#[track_caller]
fn assert_used(port: u16, ports: [u16; 2], used: u16, changes: f64) {
    let disk = uri(ports, "root");
    let value = |name: &str, more: &str| -> f64 {
        let series = format!("outboard_remote_{name}{{disk=\"{disk}\"{more}}}");
        metrics::value(port, &series).unwrap_or_else(|| panic!("no {series}"))
    };
    let clients = ports.map(|port| {
        let server = format!(",server=\"nbd://127.0.0.1:{port}/root\"");
        value("server_clients", &server)
    });
    assert_eq!(clients, ports.map(|port| f64::from(port == used)));
    assert_eq!(value("server_changes_total", ""), changes);
    assert_eq!(value("unreachable", ""), 0.0);
    let seconds = value("unreachable_seconds_total", "");
    assert!(
        seconds > 0.0 && seconds < 2.0 * MOVE_MAX.as_secs_f64(),
        "{seconds}"
    );
}

/// A golden image that two servers have a copy of each, at the same time.
#[test]
fn readers_of_an_image_go_on_with_the_copy_of_another_server() {
    let folder = Folder::new();
    let one = folder.filled("one.img", SIZE, 1);
    let two = folder.at("two.img");
    std::fs::copy(&one, &two).expect("a copy");
    assert_same(&one, &two);
    let ports = [free_port(), free_port()];
    let mut first = serve_copy(&folder, "one", &one, "golden-1", ports[0]);
    let mut second = serve_copy(&folder, "two", &two, "golden-1", ports[1]);
    let port = free_port();
    let mut front = Server::start(&[&uri(ports, "root"), &format!("--metrics=127.0.0.1:{port}")]);
    let mut stream = raw::connected(front.port());
    let mut longest = Duration::ZERO;
    let mut offsets = (0..SIZE / RECORD).map(|at| at * 97 % (SIZE / RECORD) * RECORD);
    let mut reads = |stream: &mut TcpStream, count: usize| {
        for offset in offsets.by_ref().take(count) {
            longest = longest.max(read(stream, offset, &one));
        }
    };
    reads(&mut stream, 200);
    kill(&mut first);
    reads(&mut stream, 200);
    assert_used(port, ports, ports[1], 1.0);
    first = serve_copy(&folder, "one", &one, "golden-1", ports[0]);
    kill(&mut second);
    reads(&mut stream, 200);
    assert_used(port, ports, ports[0], 2.0);
    println!("two kills; the longest read took {longest:?}");
    assert!(longest < MOVE_MAX, "{longest:?}");
    // Another image in the second's place is refused by name, and the first one is used when it is back.
    let other = serve_copy(&folder, "two", &two, "golden-2", ports[1]);
    kill(&mut first);
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| read(&mut stream, 0, &one));
        let expected = "expected identity golden-1, found identity golden-2";
        let log = front.process();
        let named = log.wait_until("a refusal by name", LIMIT, |process| {
            let log = process.stderr();
            let line = log.lines().find(|line| line.contains(expected))?;
            Some(line.to_owned())
        });
        let named = named.unwrap_or_else(|e| panic!("{e}"));
        assert!(named.contains(&format!(":{}/root", ports[1])), "{named}");
        first = serve_copy(&folder, "one", &one, "golden-1", ports[0]);
        reader.join().expect("the read ends well");
    });
    drop(first);
    drop(other);
}

/// A mounted filesystem stays one when its server is killed and another one takes the volume.
#[test]
fn a_mounted_disk_proceeds_with_the_other_server_and_status_names_it() {
    let Some(world) = World::new() else {
        return;
    };
    let folder = Folder::new();
    let image = folder.empty("a.img", 64 * MIB);
    let ports = [free_port(), free_port()];
    let server = Server::start_on(ports[0], &[&image]);
    let mount = world.at("mnt");
    let disk = uri(ports, "");
    let device = world.attachment(&disk).ext4().on(&mount).device();
    let used = |port: u16, changes: u64| {
        let status = world.run(&["status", "--json"]).ok();
        let status: Value = serde_json::from_str(&status).expect("JSON");
        let server = format!("nbd://127.0.0.1:{port}/");
        let found = &status["attachments"][0];
        assert_eq!(found["server"], server, "{found:#}");
        assert_eq!(found["server_changes"], changes, "{found:#}");
        assert!(found["unreachable_s"].is_u64(), "{found:#}");
        assert_eq!(found["health"]["state"], "connected", "{found:#}");
    };
    used(ports[0], 0);
    let first = pattern(4 * MIB, 1);
    std::fs::write(format!("{mount}/first"), &first).expect("a file");
    server.kill();
    let server = Server::start_on(ports[1], &[&image]);
    let second = pattern(4 * MIB, 2);
    std::fs::write(format!("{mount}/second"), &second).expect("a file");
    program("sync", &["-f", &mount]).ok();
    used(ports[1], 1);
    world.run(&["detach", &device]).ok();
    assert_eq!(world.traces(), Vec::<String>::new());
    program("e2fsck", &["-fn", &image]).ok();
    assert_eq!(server.stop(Signal::TERM), Some(0));
    // Once more over both addresses: what was written is there.
    let server = Server::start_on(ports[1], &[&image]);
    world.attachment(&disk).on(&mount).device();
    for (name, expected) in [("first", &first), ("second", &second)] {
        let found = std::fs::read(format!("{mount}/{name}")).expect("a file");
        assert!(found == *expected, "{name}");
    }
    world.run(&["detach", &mount]).ok();
    drop(server);
}
