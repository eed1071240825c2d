//! Overlays on an object store: each client has a clone of the volume that is served, and finds it at every server of the store.
//!
//! # Fault model
//!
//! A server is killed under its clients; a second one opens a clone that the first one has open.
//!
//! # Invariants
//!
//! * A client finds what it wrote, at whichever server it connects, and nothing that another client wrote.
//! * What a flush acknowledged is there after its server was killed.
//! * Of two servers with one clone the last one has it: the client of the other one is disconnected, and what it wrote is not there.

use std::net::{SocketAddr, TcpStream};

use rustix::net::{AddressFamily, SocketType};
use rustix::process::Signal;
use testkit::proc::Process;
use testkit::requires;
use testkit::s3::{S3Make, S3Server};

use super::super::sockets::NbdSession;
use super::{LIMIT, Place, write_image};

/// Bytes that are written and compared: a block.
const LEN: u32 = 4096;

/// A golden volume and the place of the clones.
struct Fleet<'a> {
    place: Place<'a>,
    volume: String,
    overlays: String,
    /// Of commands, if the volume is encrypted.
    key: &'a [&'a str],
}

/// A server of the volume, and its port.
struct FleetServer {
    process: Process,
    port: u16,
}

impl<'a> Fleet<'a> {
    /// With a key the volume is encrypted.
    fn new(place: Place<'a>, key: &'a [&'a str]) -> Self {
        let volume = format!("{}/golden", place.prefix);
        let overlays = format!("{}/overlays", place.prefix);
        if let [_, file] = key {
            place.done(&["bucket", "key", "create", file]);
        }
        place.done(&[&["bucket", "create", &volume, "8M"], key].concat());
        Self {
            place,
            volume,
            overlays,
            key,
        }
    }

    /// The volume, as a disk.
    fn disk(&self) -> String {
        match self.key {
            [_, file] => format!("bucket({}, key={file})", self.volume),
            _ => self.volume.clone(),
        }
    }

    /// Makes a snapshot behind a block of `byte` at the front.
    fn publish(&self, byte: u8, name: &str) {
        let path = self.place.folder.join("golden.img");
        let mut image = std::fs::read(&path).unwrap_or_else(|_| vec![0; 8 << 20]);
        image[..LEN as usize].fill(byte);
        std::fs::write(&path, image).expect("it is written");
        let copy = ["copy", "golden.img", &self.disk(), "--force"];
        self.place.done(&copy);
        let snapshot = ["bucket", "snapshot", "create", &self.volume, name];
        self.place.done(&[&snapshot, self.key].concat());
    }

    fn serve(&self, name: &str) -> FleetServer {
        let file = self.place.folder.join(name);
        let disk = format!("root={}", self.disk());
        let path = file.display().to_string();
        let arguments = [
            "serve",
            &disk,
            "--overlay-per-client",
            &self.overlays,
            "--listen",
            "127.0.0.1:0",
            "--port-file",
            &path,
        ];
        let process = Process::start(&mut self.place.command(&arguments));
        let mut process = process.expect("it starts");
        let port = process.wait_for_file(&file, LIMIT).expect("it serves");
        let port = port.trim().parse().expect("a port");
        FleetServer { process, port }
    }

    /// The overlays that a server has in its status.
    fn listed(&self, server: &FleetServer) -> Vec<serde_json::Value> {
        let servers = self.place.servers();
        let process = u64::from(server.process.id());
        let found = servers.iter().find(|one| one["process"] == process);
        let disks = &found.expect("it runs")["figures"]["exports"][0]["client_disks"];
        disks.as_array().expect("a list").clone()
    }

    fn clone_of(&self, host: u8) -> String {
        format!("{}/export-root/addr-127.0.7.{host}", self.overlays)
    }
}

impl FleetServer {
    /// The client at 127.0.7.`host`.
    fn client(&self, host: u8) -> NbdSession<TcpStream> {
        let socket = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None);
        let socket = socket.expect("a socket");
        let from = SocketAddr::from(([127, 0, 7, host], 0));
        rustix::net::bind(&socket, &from).expect("an address of the loopback");
        let to = SocketAddr::from(([127, 0, 0, 1], self.port));
        rustix::net::connect(&socket, &to).expect("it listens");
        let stream = TcpStream::from(socket);
        stream.set_read_timeout(Some(LIMIT)).expect("a time limit");
        NbdSession::open(stream, "root").expect("it is served")
    }

    /// `kill -9`
    fn kill(mut self) {
        self.process.signal(Signal::KILL).expect("it runs");
        self.process.wait(LIMIT).expect("it was killed");
    }
}

/// The block at the front, which is all of one byte.
fn front(session: &mut NbdSession<TcpStream>) -> u8 {
    let block = session.read(LEN).expect("it is served");
    assert!(block.iter().all(|byte| *byte == block[0]), "a torn block");
    block[0]
}

fn write(session: &mut NbdSession<TcpStream>, byte: u8) {
    session.write(&[byte; LEN as usize]).expect("acknowledged");
}

fn life_of_a_fleet(place: Place<'_>, key: &[&str]) {
    let fleet = Fleet::new(place, key);
    let disk = format!("root={}", fleet.disk());
    let serve = ["serve", &disk, "--overlay-per-client", &fleet.overlays];
    fleet.place.fails(&serve, "has no snapshot, and clones");
    fleet.publish(100, "first");
    let first = fleet.serve("first");

    // Two clients write, and find it when they reconnect.
    let (mut one, mut two) = (first.client(1), first.client(2));
    assert_eq!((front(&mut one), front(&mut two)), (100, 100));
    write(&mut one, 1);
    write(&mut two, 2);
    one.say_goodbye();
    let mut one = first.client(1);
    assert_eq!((front(&mut one), front(&mut two)), (1, 2));
    let listed = fleet.listed(&first);
    assert_eq!(listed.len(), 2, "{listed:?}");
    let two_listed = &listed[1];
    assert_eq!(two_listed["name"]["address"], "127.0.7.2", "{two_listed}");
    assert_eq!(two_listed["connections"], 1, "{two_listed}");
    assert!(two_listed["bytes"].is_null(), "{two_listed}");

    // A later snapshot is for later clients.
    fleet.publish(101, "second");
    let mut three = first.client(3);
    assert_eq!((front(&mut three), front(&mut one)), (101, 1));
    two.say_goodbye();
    assert_eq!(front(&mut first.client(2)), 2);

    // Its server is killed, and another one has what was flushed.
    write(&mut one, 11);
    one.flush().expect("it is in the store");
    first.kill();
    let second = fleet.serve("second");
    assert_eq!(fleet.listed(&second).len(), 3, "found in the store");
    let mut one = second.client(1);
    assert_eq!(front(&mut one), 11);

    fence(&fleet, &second, one);
    drop(second);
    let check = ["bucket", "check", &fleet.clone_of(1), "--data"];
    let check = fleet.place.done(&[&check, key].concat());
    assert!(check.contains("no problem found"), "{check}");
}

/// Two servers have the clone of client 1, which is connected to `first`.
fn fence(fleet: &Fleet<'_>, first: &FleetServer, mut one: NbdSession<TcpStream>) {
    let second = fleet.serve("third");
    write(&mut one, 12);
    let mut moved = second.client(1);
    assert_eq!(front(&mut moved), 11, "12 was not flushed");
    write(&mut moved, 13);
    moved.flush().expect("it is in the store");
    assert!(one.flush().is_none(), "it is fenced, and disconnected");
    assert_eq!(front(&mut moved), 13);
    moved.say_goodbye();
    // It takes the clone back.
    assert_eq!(front(&mut first.client(1)), 13);
    let process = second.process.id().to_string();
    let dropped = ["client", "drop-overlay", "127.0.7.2", "--server", &process];
    let dropped = fleet.place.done(&dropped);
    assert!(dropped.contains("the overlay of 127.0.7.2"), "{dropped}");
    let status = ["bucket", "status", &fleet.clone_of(2)];
    fleet.place.fails(&status, "there is no volume at");
    assert_eq!(front(&mut second.client(2)), 101, "it begins again");
}

#[test]
fn clones_in_a_folder_follow_their_clients() {
    let folder = tempfile::tempdir().expect("a folder");
    life_of_a_fleet(Place::in_folder(folder.path()), &["--key", "volume.key"]);
}

#[test]
fn clones_on_an_s3_server_follow_their_clients() {
    if !requires::all(&[S3Make::Versity.is_there()]) {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let server = S3Server::start(S3Make::Versity, folder.path());
    life_of_a_fleet(Place::s3(folder.path(), server.port()), &[]);
}

#[test]
fn what_clones_cannot_be_of_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let fleet = Fleet::new(Place::in_folder(folder.path()), &[]);
    write_image(folder.path());
    let serve = |disk: &str, overlays: &str, with: &str| {
        let arguments = ["serve", disk, "--overlay-per-client", overlays];
        fleet.place.fails(&arguments, with);
    };
    serve("image", &fleet.overlays, "`image`: overlays on an object");
    serve(&fleet.volume, "gopher://a/b", "is no URI of a volume");
    serve(&fleet.volume, "s3://other/o", "is not in the store of");
    let quota = ["serve", &fleet.volume, "--overlay-quota", "1G"];
    let overlays = ["--overlay-per-client", &fleet.overlays];
    let arguments = [&quota[..], &overlays].concat();
    fleet.place.fails(&arguments, "have no quota");
    let config = |more: &str| {
        let (volume, overlays) = (&fleet.volume, &fleet.overlays);
        let text = format!(
            "[[export]]\nname = \"root\"\ndisk = \"{volume}\"\noverlay = \"per-client\"\noverlay_directory = \"{overlays}\"\n{more}"
        );
        std::fs::write(folder.path().join("config"), text).expect("it is written");
    };
    config("overlay_quota = \"1G\"");
    let check = ["serve", "--config", "config", "--check"];
    fleet.place.fails(&check, "line 6");
    config("");
    fleet.place.done(&check);

    // A volume of its own at the place of a clone stays as it is.
    fleet.publish(100, "first");
    let own = format!("{}/export-root/addr-127.0.0.1", fleet.overlays);
    fleet.place.done(&["bucket", "create", &own, "8M"]);
    let opened = || fleet.place.json(&["bucket", "status", &own, "--json"])["generation"].clone();
    let before = opened();
    let mut server = fleet.serve("port");
    let stream = TcpStream::connect(("127.0.0.1", server.port)).expect("it listens");
    assert!(NbdSession::open(stream, "root").is_none(), "it is refused");
    let line = server
        .process
        .wait_for_line("its disk is not opened", LIMIT);
    let line = line.expect("it is in the log");
    assert!(line.contains("is no clone of"), "{line}");
    assert_eq!(opened(), before, "it was not opened for writing");
}
