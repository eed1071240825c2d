//! Two hundred clients of one golden image, each with an overlay of its own: at once, again, after the
//! server was killed, with a full quota. What the image holds never changes.

mod client;

use std::fs;
use std::path::Path;

use outboard_tests::image::{Folder, MIB, pattern};
use outboard_tests::said;
use outboard_tests::server::Server;
use rustix::process::Signal;

use self::client::{Client, address};

const CLIENTS: u8 = 200;
const SIZE: u64 = 64 * MIB;
/// What each client writes, and where: across the end of one piece and at both ends of the disk.
const WRITES: [(u64, usize); 4] = [
    (0, 4096),
    (MIB - 1000, 3000),
    (20 * MIB, 128 << 10),
    (SIZE - 65536, 65536),
];
/// An offset that no client writes.
const UNTOUCHED: (u64, usize) = (40 * MIB, 65536);
/// Memory that a connected client may cost the server, with what it wrote, bytes. This is a
/// build without optimisation.
const MEMORY_MAX: u64 = 512 << 10;

/// A golden image and a place for overlays.
struct Stage {
    _folder: Folder,
    golden: String,
    overlays: String,
}

impl Stage {
    fn new() -> Self {
        let folder = Folder::new();
        let golden = folder.filled("golden.img", SIZE, 1);
        let overlays = folder.at("overlays");
        Self {
            _folder: folder,
            golden,
            overlays,
        }
    }

    fn serve(&self, port: u16, quota: &str) -> Server {
        let options = [
            "--overlay-per-client",
            &self.overlays,
            "--overlay-quota",
            quota,
        ];
        Server::start_on(port, &[&options[..], &[&self.golden]].concat())
    }

    fn assert_unchanged(&self) {
        let now = fs::read(&self.golden).expect("the golden image");
        assert!(now == pattern(SIZE, 1), "the golden image was written");
    }

    /// Overlays that there are.
    fn overlays(&self) -> usize {
        fn stores(folder: &Path) -> usize {
            let entries = fs::read_dir(folder).expect("a folder").flatten();
            let count = |path: &Path| match path.is_dir() {
                true => stores(path),
                false => usize::from(path.extension().is_some_and(|ending| ending == "cow")),
            };
            entries.map(|entry| count(&entry.path())).sum()
        }
        stores(Path::new(&self.overlays))
    }
}

/// What a client writes there.
fn own(number: u8, (offset, len): (u64, usize)) -> Vec<u8> {
    pattern(len as u64, offset ^ (u64::from(number) << 40))
}

/// All clients at once, each through its handshake.
fn all(port: u16) -> Vec<Client> {
    let mut clients: Vec<Client> = (1..=CLIENTS).map(|n| Client::ask(port, n)).collect();
    for client in &mut clients {
        assert_eq!(client.size(), Some(SIZE));
    }
    clients
}

fn assert_own(clients: &mut [Client], golden: &[u8]) {
    for (number, client) in (1..).zip(clients) {
        for place in WRITES {
            let found = client.read(place.0, place.1);
            assert!(
                found == own(number, place),
                "client {number} at {}",
                place.0
            );
        }
        let found = client.read(UNTOUCHED.0, UNTOUCHED.1);
        assert!(found == golden, "client {number} does not see the image");
    }
}

/// Memory of a process that is its own, bytes.
fn memory(process: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).expect("it runs");
    let line = status.lines().find(|line| line.starts_with("RssAnon:"));
    let words = line.expect("what it takes").split_whitespace();
    let kib: u64 = words.skip(1).flat_map(str::parse).next().expect("a number");
    kib << 10
}

/// How often a process has a file open.
fn times_open(process: u32, path: &str) -> usize {
    let fds = fs::read_dir(format!("/proc/{process}/fd"))
        .expect("it runs")
        .flatten();
    let links = fds.filter_map(|fd| fs::read_link(fd.path()).ok());
    links.filter(|link| link == Path::new(path)).count()
}

#[test]
fn two_hundred_clients_at_once_keep_what_they_wrote_and_the_image_stays_as_it_is() {
    let stage = Stage::new();
    let golden = &pattern(SIZE, 1)[40 << 20..][..UNTOUCHED.1];
    let mut server = stage.serve(0, "64M");
    let (port, process) = (server.port(), server.process().id());
    let before = memory(process);
    let mut clients = all(port);
    for place in WRITES {
        for (number, client) in (1..).zip(&mut clients) {
            client.send_write(place.0, &own(number, place));
        }
        for client in &mut clients {
            assert_eq!(client.answer(), 0);
        }
    }
    assert_own(&mut clients, golden);
    let each = memory(process).saturating_sub(before) / u64::from(CLIENTS);
    eprintln!(
        "{CLIENTS} clients with overlays take {} KiB each",
        each >> 10
    );
    assert!(each < MEMORY_MAX, "{each} bytes for each client");
    assert_eq!(times_open(process, &stage.golden), 1, "all share the image");
    assert_eq!(stage.overlays(), usize::from(CLIENTS));

    // One half says goodbye, the other is cut off; all come back.
    for (number, client) in (1..=CLIENTS).zip(clients) {
        if number % 2 == 0 {
            client.say_goodbye();
        }
    }
    let mut clients = all(port);
    assert_own(&mut clients, golden);

    // What was acknowledged as durable is there after a server that was killed.
    let port = server.kill();
    drop(clients);
    let server = stage.serve(port, "64M");
    let mut clients = all(server.port());
    assert_own(&mut clients, golden);
    drop(clients);
    assert_eq!(server.stop(Signal::TERM), Some(0));
    stage.assert_unchanged();
    assert_eq!(stage.overlays(), usize::from(CLIENTS));
}

#[test]
fn a_client_that_has_used_up_its_quota_gets_enospc_and_no_other_client_does() {
    const ENOSPC: u32 = 28;
    let stage = Stage::new();
    let server = stage.serve(0, "4M");
    let mut greedy = Client::connect(server.port(), 1);
    let mut modest = Client::connect(server.port(), 2);
    let piece = pattern(256 << 10, 5);
    let mut kept = 0;
    while kept < SIZE && greedy.write(kept, &piece) == 0 {
        kept += piece.len() as u64;
    }
    assert!((2 * MIB..4 * MIB).contains(&kept), "{kept} bytes fit 4 MiB");
    assert_eq!(greedy.write(kept + MIB, &piece), ENOSPC);
    assert_eq!(
        greedy.write(0, &piece),
        0,
        "what is in the overlay can be written again"
    );
    assert_eq!(greedy.read(kept - 4096, 4096), piece[piece.len() - 4096..]);
    for at in 0..4 {
        assert_eq!(modest.write(at * MIB, &piece), 0);
    }
    drop((greedy, modest));
    assert_eq!(server.stop(Signal::TERM), Some(0));
    stage.assert_unchanged();
}

#[test]
fn an_address_is_a_client_whatever_its_connections_and_a_second_server_is_kept_off_its_overlay() {
    let stage = Stage::new();
    let server = stage.serve(0, "64M");
    let mut first = Client::connect(server.port(), 1);
    let mut second = Client::connect(server.port(), 1);
    assert_eq!(first.write(4096, &[9; 4096]), 0);
    assert_eq!(second.read(4096, 4096), [9; 4096]);
    let other = stage.serve(0, "64M");
    assert_eq!(
        Client::ask(other.port(), 1).size(),
        None,
        "its overlay is in use"
    );
    Client::connect(other.port(), 2).say_goodbye();
    assert_eq!(other.stop(Signal::TERM), Some(0));
    first.say_goodbye();
    second.say_goodbye();
    assert_eq!(server.stop(Signal::TERM), Some(0));
    assert_eq!(stage.overlays(), 2);
    let named = fs::read_dir(Path::new(&stage.overlays).join("export-"));
    let image = named.expect("a folder").flatten().next().expect("an image");
    let overlay = image.path().join(format!("addr-{}.cow", address(1)));
    assert!(overlay.exists(), "{}", overlay.display());
}

#[test]
fn what_cannot_be_served_with_overlays_is_reported_in_one_line() {
    let folder = Folder::new();
    let golden = folder.filled("golden.img", MIB, 1);
    let serve = |options: &[&str]| said::run(&mut said::outboard(&[&["serve"], options].concat()));
    let file = serve(&["--overlay-per-client", &golden, &golden]).complaint(1);
    assert!(file.contains("cannot make the folder"), "{file}");
    let empty = serve(&["--overlay-per-client", "o", "memory(1M)"]).complaint(2);
    assert!(empty.contains("no image"), "{empty}");
    let small = serve(&[
        "--overlay-per-client",
        "o",
        "--overlay-quota",
        "1K",
        &golden,
    ]);
    assert!(small.complaint(2).contains("from 1M"));
    let alone = serve(&["--overlay-quota", "1G", &golden]).complaint(2);
    assert!(alone.contains("--overlay-per-client"), "{alone}");
}
