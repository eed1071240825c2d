//! Two servers that stand by over one volume, and a client that goes on with the other one when one ends: in a folder, and on versitygw
//! behind a proxy that delays requests as a store on the Internet.
//!
//! # Fault model
//!
//! The server in use is killed, and started again; or stopped for a while (SIGSTOP), in which it does not end its connections, and goes
//! on later with what it had in memory.
//!
//! # Invariants
//!
//! * No request of the client fails.
//! * A block is what the last write made it that was acknowledged before the last flush, or a later one.
//! * Nothing of a server that was stopped lands after another one was used.

use std::cell::Cell;
use std::ops::Range as RunRange;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use engine::clock;
use nbd::client::{AccessMode, Client, ClientConfig, ClientToken, WriterAccess};
use rustix::process::Signal;
use testkit::proc::Process;

use super::kills::Writer;
use super::{LIMIT, Place, on_slow_s3};

/// How often each server is killed.
const KILLS: u32 = 2;
/// Flushes before a server is killed, and after that.
const FLUSHES: RunRange<u64> = 2..12;
/// Longest request while a server is killed, on a machine that does much else.
const REQUEST_MAX: Duration = Duration::from_secs(20);

/// Two servers of one export `root`, each at a port that it keeps.
pub(super) struct ServerPair {
    pub(super) ports: [u16; 2],
    pub(super) servers: [Process; 2],
}

impl ServerPair {
    /// Those that `serve` starts, with their ports.
    pub(super) fn start(serve: impl FnMut(usize) -> (Process, u16)) -> Self {
        let [(first, one), (second, two)] = [0, 1].map(serve);
        Self {
            ports: [one, two],
            servers: [first, second],
        }
    }

    pub(super) fn uri(&self) -> String {
        let [one, two] = self.ports;
        format!("nbd://127.0.0.1:{one},127.0.0.1:{two}/root")
    }

    /// The number of the server that the client uses.
    pub(super) fn in_use(&self, client: &Client) -> usize {
        let server = client.health().server;
        let is_it = |port: &u16| server.contains(&format!(":{port}/"));
        self.ports.iter().position(is_it).expect("one of the two")
    }

    /// `kill -9`
    pub(super) fn kill(&mut self, nth: usize) {
        self.servers[nth].signal(Signal::KILL).expect("it runs");
        self.servers[nth].wait(LIMIT).expect("it was killed");
    }

    /// What the status of a server has of its export.
    pub(super) fn export(&self, place: &Place<'_>, nth: usize) -> serde_json::Value {
        let servers = place.servers();
        let process = u64::from(self.servers[nth].id());
        let found = servers.iter().find(|one| one["process"] == process);
        found.expect("it runs")["figures"]["exports"][0].clone()
    }
}

/// The two servers and their volume.
struct TwoServers<'a> {
    place: Place<'a>,
    volume: String,
    pair: ServerPair,
}

impl<'a> TwoServers<'a> {
    /// With a key the volume is compressed and encrypted.
    fn start(place: Place<'a>, key: &[&str]) -> Self {
        let volume = format!("{}/lab/root", place.prefix);
        let mut create = vec!["bucket", "create", &volume, "8M"];
        if let [_, file] = key {
            place.done(&["bucket", "key", "create", file]);
            create.extend(["--compress", "lz4"]);
        }
        place.done(&[&create, key].concat());
        let volume = match key {
            [_, file] => format!("bucket({volume}, key={file})"),
            _ => volume,
        };
        let pair = ServerPair::start(|nth| serve(&place, &volume, nth, 0));
        Self {
            place,
            volume,
            pair,
        }
    }

    fn restart(&mut self, nth: usize) {
        let port = self.pair.ports[nth];
        self.pair.servers[nth] = serve(&self.place, &self.volume, nth, port).0;
    }

    /// What the status of a server has of its standby.
    fn standby(&self, nth: usize) -> serde_json::Value {
        self.pair.export(&self.place, nth)["standby"].clone()
    }
}

/// A server that stands by, and its port.
fn serve(place: &Place<'_>, volume: &str, nth: usize, port: u16) -> (Process, u16) {
    let disk = format!("root={volume}");
    serve_at(place, &[&disk, "--standby"], nth, port)
}

/// The server `nth` with these arguments at `port`, or at any one if that is 0; with its port.
pub(super) fn serve_at(
    place: &Place<'_>,
    arguments: &[&str],
    nth: usize,
    port: u16,
) -> (Process, u16) {
    let file: PathBuf = place.folder.join(format!("port-{nth}"));
    // What a server that was killed left.
    drop(std::fs::remove_file(&file));
    let (path, listen) = (file.display().to_string(), format!("127.0.0.1:{port}"));
    let more = ["--listen", &listen, "--port-file", &path];
    let arguments = [&["serve"][..], arguments, &more].concat();
    let mut server = Process::start(&mut place.command(&arguments)).expect("it starts");
    let port = server.wait_for_file(&file, LIMIT).expect("it serves");
    (server, port.trim().parse().expect("a port"))
}

pub(super) async fn connect(uri: &str) -> Arc<Client> {
    let config = ClientConfig {
        connections: 2,
        request_timeout: Duration::from_secs(3),
        flush_timeout: Duration::from_secs(3),
        reconnect_for: LIMIT,
        writer: Some(WriterAccess {
            token: ClientToken::new([1; 16]),
            mode: AccessMode::Write,
        }),
        ..ClientConfig::default()
    };
    let client = Client::connect(uri.parse().expect("a URI"), config).await;
    client.expect("a server opens the volume")
}

/// Writes and flushes until so many flushes have succeeded; the longest time of a request, or of some that were made at once.
pub(super) async fn work(writer: &mut Writer, client: &Client, flushes: u64) -> Duration {
    let (mut longest, until) = (Duration::ZERO, writer.flushes + flushes);
    while writer.flushes < until {
        for is_flush in [false, false, true] {
            let begun = clock::now();
            let done = match is_flush {
                false => writer.change(client).await,
                true => writer.flush(client).await,
            };
            done.expect("no request fails");
            longest = longest.max(clock::now().saturating_duration_since(begun));
        }
    }
    longest
}

/// Each server is killed under writes and started again, in turn. The longest request of each time.
async fn kill_in_turn(
    two: &mut TwoServers<'_>,
    client: &Client,
    writer: &mut Writer,
) -> Vec<Duration> {
    let mut rng = fastrand::Rng::with_seed(2);
    let mut longest = Vec::new();
    for nth in 0..2 * KILLS {
        work(writer, client, rng.u64(FLUSHES)).await;
        let used = two.pair.in_use(client);
        let is_killed = Cell::new(false);
        let working = async {
            let mut longest = Duration::ZERO;
            // Some flushes begin behind the end of the server, however fast these are.
            loop {
                let is_last = is_killed.get();
                longest = longest.max(work(writer, client, FLUSHES.end).await);
                if is_last {
                    return longest;
                }
            }
        };
        let killing = async {
            clock::sleep(Duration::from_millis(rng.u64(0..300))).await;
            two.pair.kill(used);
            is_killed.set(true);
        };
        let (took, ()) = futures_util::future::join(working, killing).await;
        longest.push(took);
        let other = two.pair.in_use(client);
        assert_ne!(other, used, "the killed one answers");
        assert_eq!(client.health().server_changes, u64::from(nth) + 1);
        let log = two.pair.servers[other].stderr();
        let mut opened = log
            .lines()
            .filter(|line| line.contains("took the disk over"));
        let opened = opened.next_back().expect("it is in the log");
        eprintln!("  {took:?}; {opened}");
        let standby = two.standby(other);
        assert_eq!(standby["is_open"], true, "{standby}");
        two.restart(used);
        let standby = two.standby(used);
        assert_eq!(standby["is_open"], false, "{standby}");
        assert_eq!(standby["takeovers"], 0, "{standby}");
    }
    writer.flush(client).await.expect("it flushes");
    writer.verify(client).await;
    longest
}

/// The server in use does nothing for a while, with changes in memory, and goes on then.
async fn stop_one(two: &mut TwoServers<'_>, client: &Client, writer: &mut Writer) {
    work(writer, client, 2).await;
    writer.change(client).await.expect("it is acknowledged");
    let used = two.pair.in_use(client);
    two.pair.servers[used]
        .signal(Signal::STOP)
        .expect("it runs");
    let took = work(writer, client, 3).await;
    eprintln!("  a stopped server: the longest request took {took:?}");
    let other = two.pair.in_use(client);
    assert_ne!(other, used, "a stopped server answers");
    two.pair.servers[used]
        .signal(Signal::CONT)
        .expect("it runs");
    let stands_by = two.pair.servers[used].wait_for_line("in standby: ", LIMIT);
    let line = stands_by.expect("it finds that it lost the volume");
    assert!(line.contains("another server"), "{line}");
    assert_eq!(two.standby(used)["is_open"], false);
    work(writer, client, 2).await;
    writer.verify(client).await;
    assert_eq!(two.pair.in_use(client), other, "it stays");
}

fn play(place: Place<'_>, key: &[&str]) -> Vec<Duration> {
    let mut two = TwoServers::start(place, key);
    let uri = two.pair.uri();
    let longest = engine::run(&engine::Config::default(), |_| async {
        for nth in [0, 1] {
            assert_eq!(two.standby(nth)["takeovers"], 0, "nothing is opened");
        }
        let client = connect(&uri).await;
        let mut writer = Writer::new(1);
        let longest = kill_in_turn(&mut two, &client, &mut writer).await;
        stop_one(&mut two, &client, &mut writer).await;
        client.close().await;
        longest
    });
    let longest = longest.expect("an engine");
    drop(two.pair.servers);
    let uri = format!("{}/lab/root", two.place.prefix);
    let check = [&["bucket", "check", &uri, "--data"], key].concat();
    let check = two.place.done(&check);
    assert!(check.contains("no problem found"), "{check}");
    longest
}

pub(super) fn assert_short(longest: &[Duration], about: &str) {
    eprintln!("{about}: the longest request at each kill took {longest:?}");
    assert!(
        longest.iter().all(|took| *took < REQUEST_MAX),
        "{longest:?}"
    );
}

#[test]
fn a_client_goes_on_with_the_other_server_of_a_volume_in_a_folder() {
    let folder = tempfile::tempdir().expect("a folder");
    let place = Place::in_folder(folder.path());
    assert_short(
        &play(place, &["--key", "volume.key"]),
        "a folder, encrypted",
    );
}

#[test]
fn a_client_goes_on_with_the_other_server_of_a_volume_on_an_s3_server() {
    on_slow_s3(|place| {
        let longest = play(place, &[]);
        assert_short(&longest, "S3, 15 ms for a read and 30 ms for a write");
    });
}

/// An export that is added to a server that runs.
#[test]
fn an_export_that_is_added_stands_by() {
    let folder = tempfile::tempdir().expect("a folder");
    let place = Place::in_folder(folder.path());
    let volume = format!("{}/root", place.prefix);
    place.done(&["bucket", "create", &volume, "8M"]);
    let (server, port) = serve_at(&place, &["spare=memory(1M)"], 0, 0);
    let disk = format!("root={volume}");
    place.fails(
        &["export", "add", "root=memory(1M)", "--standby"],
        "only a volume on an object store",
    );
    place.fails(
        &["export", "add", &disk, "--standby", "--read-only"],
        "--read-only",
    );
    place.done(&["export", "add", &disk, "--standby"]);
    let standby = || {
        let figures = &place.servers()[0]["figures"];
        let mut exports = figures["exports"].as_array().expect("a list").iter();
        let root = exports.find(|export| export["name"] == "root");
        root.expect("it was added")["standby"].clone()
    };
    assert_eq!(standby()["is_open"], false);
    let uri = format!("nbd://127.0.0.1:{port}/root");
    let write = async {
        let client = connect(&uri).await;
        let mut writer = Writer::new(1);
        work(&mut writer, &client, 2).await;
        client.close().await;
    };
    engine::run(&engine::Config::default(), |_| write).expect("an engine");
    assert_eq!(standby()["is_open"], true);
    drop(server);
}

/// Nothing but a volume fences a server.
#[test]
fn only_volumes_stand_by() {
    let folder = tempfile::tempdir().expect("a folder");
    let place = Place::in_folder(folder.path());
    let volume = format!("{}/root", place.prefix);
    place.done(&["bucket", "create", &volume, "8M"]);
    std::fs::write(folder.path().join("image"), [0; 4096]).expect("it is written");
    let serve = |disk: &str, with: &str| {
        place.fails(&["serve", disk, "--standby", "--check"], with);
    };
    serve("image", "only a volume on an object store");
    serve("memory(1M)", "only a volume on an object store");
    serve(&format!("cache({volume}, c)"), "a cache does not stand by");
    serve(
        &format!("bucket({volume}, read-only=true)"),
        "any number of servers may read it",
    );
    serve(
        &format!("{volume}@first"),
        "any number of servers may read it",
    );
    let config = |disk: &str, more: &str| {
        let text =
            format!("[[export]]\nname = \"root\"\ndisk = \"{disk}\"\nstandby = true\n{more}");
        let path: &Path = &folder.path().join("config");
        std::fs::write(path, text).expect("it is written");
    };
    config("image", "");
    place.fails(&["serve", "--config", "config", "--check"], "line 3");
    config(&volume, "read_only = true");
    place.fails(
        &["serve", "--config", "config", "--check"],
        "a read-only export",
    );
    config(&volume, "");
    place.done(&["serve", "--config", "config", "--check"]);
}
