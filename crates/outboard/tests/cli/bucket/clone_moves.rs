//! Two servers that give each client a clone of one volume, and a client that goes on with its clone at the other one when one ends: in a
//! folder, and on versitygw behind a proxy that delays requests as a store on the Internet.
//!
//! # Fault model
//!
//! The server in use is killed under writes, and started again; or stopped for a while (SIGSTOP), in which it does not end its
//! connections, and goes on later with what it had in memory.
//!
//! # Invariants
//!
//! * No request of the client fails, and a block is what the last write made it that was acknowledged.
//! * Nothing of a server that was stopped reaches the clone after another one was used.
//! * The clone of another client is what that one wrote.
//! * A list makes no clone.

use std::cell::Cell;
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use engine::clock;
use nbd::client::Client;
use rustix::net::{AddressFamily, SocketType};
use rustix::process::Signal;
use testkit::proc::Process;

use super::super::sockets::NbdSession;
use super::kills::Writer;
use super::standby::{ServerPair, assert_short, connect, serve_at, work};
use super::{LIMIT, Place, on_slow_s3};

/// Bytes that clients of the test itself write: a block.
const LEN: usize = 4096;
/// The client of which the moves are tested, as all from this machine that choose no address.
const MOVING: u8 = 0;
/// Another one.
const OTHER: u8 = 2;

/// The two servers, their volume and where the clones are.
struct CloneServers<'a> {
    place: Place<'a>,
    arguments: [String; 2],
    pair: ServerPair,
}

impl<'a> CloneServers<'a> {
    fn start(place: Place<'a>) -> Self {
        let volume = format!("{}/golden", place.prefix);
        place.done(&["bucket", "create", &volume, "8M"]);
        place.done(&["bucket", "snapshot", "create", &volume, "first"]);
        let overlays = format!("{}/overlays", place.prefix);
        let arguments = [format!("root={volume}"), overlays];
        let pair = ServerPair::start(|nth| serve(&place, &arguments, nth, 0));
        Self {
            place,
            arguments,
            pair,
        }
    }

    fn restart(&mut self, nth: usize) {
        let port = self.pair.ports[nth];
        self.pair.servers[nth] = serve(&self.place, &self.arguments, nth, port).0;
    }

    /// Connections to the clone of the client that moves, in the status of a server.
    fn connections(&self, nth: usize) -> u64 {
        let export = self.pair.export(&self.place, nth);
        let disks = &export["client_disks"];
        let mut disks = disks.as_array().expect("a list").iter();
        let own = disks.find(|disk| disk["name"]["address"] == "127.0.0.1");
        own.map_or(0, |disk| disk["connections"].as_u64().expect("a number"))
    }

    fn clone_of_moving(&self) -> String {
        format!("{}/export-root/addr-127.0.0.1", self.arguments[1])
    }

    /// A client of the server `nth`: at 127.0.7.`host`, or the one that moves.
    fn session(&self, nth: usize, host: u8) -> NbdSession<TcpStream> {
        let socket = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None);
        let socket = socket.expect("a socket");
        if host != MOVING {
            let from = SocketAddr::from(([127, 0, 7, host], 0));
            rustix::net::bind(&socket, &from).expect("an address of the loopback");
        }
        let to = SocketAddr::from(([127, 0, 0, 1], self.pair.ports[nth]));
        rustix::net::connect(&socket, &to).expect("it listens");
        let stream = TcpStream::from(socket);
        stream.set_read_timeout(Some(LIMIT)).expect("a time limit");
        NbdSession::open(stream, "root").expect("it is served")
    }
}

/// A server of clones, and its port.
fn serve(place: &Place<'_>, arguments: &[String; 2], nth: usize, port: u16) -> (Process, u16) {
    let [disk, overlays] = arguments.each_ref().map(String::as_str);
    serve_at(place, &[disk, "--overlay-per-client", overlays], nth, port)
}

/// Each server is killed under writes and started again, in turn. The longest request of each time.
async fn kill_in_turn(
    two: &mut CloneServers<'_>,
    client: &Client,
    writer: &mut Writer,
) -> Vec<Duration> {
    let mut longest = Vec::new();
    for moves in 1..=2 {
        work(writer, client, 3).await;
        let used = two.pair.in_use(client);
        assert_eq!(two.connections(used), 2, "both have the same disk");
        writer.change(client).await.expect("it is acknowledged");
        let is_killed = Cell::new(false);
        let working = async {
            let mut longest = Duration::ZERO;
            loop {
                let is_last = is_killed.get();
                longest = longest.max(work(writer, client, 8).await);
                if is_last {
                    return longest;
                }
            }
        };
        let killing = async {
            clock::sleep(Duration::from_millis(70 * moves)).await;
            two.pair.kill(used);
            is_killed.set(true);
        };
        let (took, ()) = futures_util::future::join(working, killing).await;
        longest.push(took);
        let other = two.pair.in_use(client);
        assert_ne!(other, used, "the killed one answers");
        assert_eq!(client.health().server_changes, moves);
        two.restart(used);
        assert_eq!(two.connections(used), 0, "it stays where it is");
    }
    writer.flush(client).await.expect("it flushes");
    writer.verify(client).await;
    longest
}

/// The server in use does nothing for a while, with changes in memory, and goes on then.
async fn stop_one(two: &mut CloneServers<'_>, client: &Client, writer: &mut Writer) -> Duration {
    work(writer, client, 2).await;
    let used = two.pair.in_use(client);
    // Another program of the same client, which writes nothing again.
    let mut left = two.session(used, MOVING);
    left.write(&[0xee; LEN]).expect("it is acknowledged");
    two.pair.servers[used]
        .signal(Signal::STOP)
        .expect("it runs");
    let took = work(writer, client, 3).await;
    assert_ne!(two.pair.in_use(client), used, "a stopped server answers");
    two.pair.servers[used]
        .signal(Signal::CONT)
        .expect("it runs");
    assert!(left.flush().is_none(), "it is fenced, and disconnected");
    let stood = two.pair.servers[used].wait_for_line("another server", LIMIT);
    stood.expect("it finds that it lost the clone");
    work(writer, client, 2).await;
    writer.flush(client).await.expect("it flushes");
    writer.verify(client).await;
    took
}

fn play(place: Place<'_>) -> Vec<Duration> {
    let mut two = CloneServers::start(place);
    let uri = two.pair.uri();
    let list = format!("nbd://127.0.0.1:{}", two.pair.ports[0]);
    two.place.done(&["ls", &list]);
    let status = ["bucket", "status", &two.clone_of_moving()];
    two.place.fails(&status, "there is no volume at");
    let mut other = two.session(0, OTHER);
    other.write(&[7; LEN]).expect("it is acknowledged");
    other.flush().expect("it is in the store");
    let longest = engine::run(&engine::Config::default(), |_| async {
        let client = connect(&uri).await;
        let mut writer = Writer::new(1);
        assert_eq!(two.pair.in_use(&client), 0);
        let longest = kill_in_turn(&mut two, &client, &mut writer).await;
        let took = stop_one(&mut two, &client, &mut writer).await;
        eprintln!("  a stopped server: the longest request took {took:?}");
        client.close().await;
        longest
    });
    let mut other = two.session(1, OTHER);
    assert_eq!(other.read(8192), Some([[7; LEN], [0; LEN]].concat()));
    other.say_goodbye();
    let clone = two.clone_of_moving();
    drop(two.pair);
    let check = two.place.done(&["bucket", "check", &clone, "--data"]);
    assert!(check.contains("no problem found"), "{check}");
    longest.expect("an engine")
}

#[test]
fn a_client_goes_on_with_its_clone_at_the_other_server_in_a_folder() {
    let folder = tempfile::tempdir().expect("a folder");
    let longest = play(Place::in_folder(folder.path()));
    assert_short(&longest, "a folder");
}

#[test]
fn a_client_goes_on_with_its_clone_at_the_other_server_on_an_s3_server() {
    on_slow_s3(|place| {
        let longest = play(place);
        assert_short(&longest, "S3, 15 ms for a read and 30 ms for a write");
    });
}
