//! The failover of docs/guide/mirror.md over real processes: a second host goes on from the backup's half while the primary runs,
//! sleeps, is cut off or is started again.
//!
//! Found by people who tried it: the second host wrote, then the primary, which had been idle, paused or just alive. It wrote over
//! the superblock that said that it had failed; both halves said that they were complete, the data differed, and nothing was
//! logged. And a mirror that was idle wrote to any disk that its backup's server came back with.

use std::process::Command;
use std::time::Duration;

use outboard_tests::image::{Folder, MIB, bytes_at};
use outboard_tests::mirror::{
    create, data_offset, refused, state_of, status, wait_until, wait_until_whole,
};
use outboard_tests::proxy::Proxy;
use outboard_tests::raw::{self, Request, WRITE};
use outboard_tests::server::{LIMIT, Server, free_port, kill};
use rustix::process::Signal;
use serde_json::Value;
use testkit::proc::Process;
use testkit::requires;

const SIZE: u64 = 16 * MIB;
const RECORD: usize = 4096;
/// EIO, as NBD has it.
const EIO: u32 = 5;
/// How long a superblock counts (`nodes::array::VALID_FOR`), and some more.
const WINDOW: Duration = Duration::from_secs(6);

/// The program that serves the backup.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Backup {
    /// One that knows nothing of writers.
    Nbdkit,
    /// Ours, where a takeover is kept next to the image.
    SingleWriter,
    /// Ours, as it is without options.
    Outboard,
}

/// The backup's server, of one kind or the other.
enum Serving {
    Other(Process, u16),
    Ours(Server),
}

impl Serving {
    #[track_caller]
    fn start(kind: Backup, image: &str, port: u16) -> Self {
        match kind {
            Backup::Outboard => Self::Ours(Server::start_on(port, &[image])),
            Backup::SingleWriter => Self::Ours(Server::start_on(port, &["--single-writer", image])),
            Backup::Nbdkit => {
                let port = if port == 0 { free_port() } else { port };
                let mut command = Command::new("nbdkit");
                let port_text = port.to_string();
                command.args(["-f", "-i", "127.0.0.1", "-p", &port_text, "file", image]);
                let mut process = Process::start(&mut command).expect("nbdkit");
                let listens = process.wait_until("a server that listens", LIMIT, |_| {
                    std::net::TcpStream::connect(("127.0.0.1", port))
                        .ok()
                        .map(drop)
                });
                listens.unwrap_or_else(|e| panic!("{e}"));
                Self::Other(process, port)
            }
        }
    }

    fn port(&self) -> u16 {
        match self {
            Self::Other(_, port) => *port,
            Self::Ours(server) => server.port(),
        }
    }

    /// Kills it; its port.
    #[track_caller]
    fn kill(self) -> u16 {
        match self {
            Self::Other(mut process, port) => {
                kill(&mut process);
                port
            }
            Self::Ours(server) => server.kill(),
        }
    }
}

/// A primary with a half of its own and one on a backup, which it reaches through a proxy.
struct Site {
    folder: Folder,
    kind: Backup,
    local: String,
    far: String,
    backup: Serving,
    proxy: Proxy,
    primary: Server,
}

impl Site {
    #[track_caller]
    fn start(kind: Backup) -> Self {
        let folder = Folder::new();
        let (local, far) = (folder.empty("a.img", SIZE), folder.empty("b.img", SIZE));
        create(&[&local, &far], &[]);
        let backup = Serving::start(kind, &far, 0);
        let proxy = Proxy::start(backup.port());
        let primary = Server::start(&[&both(&local, &proxy.uri())]);
        let mut site = Self {
            folder,
            kind,
            local,
            far,
            backup,
            proxy,
            primary,
        };
        assert_eq!(write(&site.primary, 1), (0, 0));
        site.wait_until_idle();
        site
    }

    /// Clean: nothing is under way, and nothing is written by itself.
    #[track_caller]
    fn wait_until_idle(&mut self) {
        wait_until(&mut self.primary, "clean", |status| status["clean"] == true);
    }

    /// What the guide says: the second host goes on from the backup's half.
    #[track_caller]
    fn take_over(&self) -> Server {
        let uri = format!("nbd://127.0.0.1:{}", self.backup.port());
        let second = Server::start(&[&format!("array({uri}, missing, run=true)")]);
        assert_eq!(write(&second, 2), (0, 0));
        second
    }

    /// The primary has stopped, and says who took over; its requests fail, and what the second host writes stays.
    #[track_caller]
    fn assert_lost(mut self, second: Server) {
        wait_until(&mut self.primary, "stopped", |status| {
            status["taken_over"].is_object()
        });
        let told = status(&mut self.primary);
        let why = told["taken_over"]["why"].as_str().unwrap_or_default();
        match self.kind {
            Backup::Nbdkit => assert!(why.contains("part 0 has failed"), "{told:#}"),
            Backup::SingleWriter | Backup::Outboard => {
                assert!(why.contains("took over"), "{told:#}")
            }
        }
        assert_eq!(write(&self.primary, 9), (EIO, EIO));
        assert_eq!(write(&second, 3), (0, 0));
        let log = self.primary.process().stderr();
        assert_eq!(
            log.matches("array m: another host took over").count(),
            1,
            "{log}"
        );
        // It cannot notify its members that it ends.
        self.primary.kill();
        assert_eq!(second.stop(Signal::TERM), Some(0));
        self.backup.kill();
        assert_eq!(record_of(&self.far), 3, "what the second host wrote last");
        assert_ne!(record_of(&self.local), 3);
        // Neither half is taken for the other one.
        let whole = Server::start(&[
            "--read-only",
            &format!("array({}, {})", self.local, self.far),
        ]);
        let mut whole = whole;
        assert_eq!(state_of(&status(&mut whole), &self.far), "in_sync");
        assert_eq!(state_of(&status(&mut whole), &self.local), "stale");
        assert_eq!(whole.stop(Signal::TERM), Some(0));
    }
}

fn both(local: &str, uri: &str) -> String {
    format!("array({local}, {uri}, member-timeout=3s)")
}

/// Writes a record and flushes: what both answer.
#[track_caller]
fn write(server: &Server, fill: u8) -> (u32, u32) {
    let mut stream = raw::connected(server.port());
    let request = Request {
        command: WRITE,
        cookie: 1,
        len: u32::try_from(RECORD).expect("small"),
        ..Request::default()
    };
    let written = raw::write(&mut stream, request, &[fill; RECORD]).expect("an answer");
    let flushed = raw::flush(&mut stream, 2).expect("an answer");
    (written.0, flushed.0)
}

/// What the record of a half holds.
#[track_caller]
fn record_of(image: &str) -> u8 {
    let bytes = bytes_at(image, data_offset(image), RECORD);
    assert!(bytes.iter().all(|byte| *byte == bytes[0]), "it is torn");
    bytes[0]
}

/// The kinds of servers that are here.
fn kinds() -> Vec<Backup> {
    let mut kinds = vec![Backup::Outboard, Backup::SingleWriter];
    if requires::all(&[requires::command("nbdkit")]) {
        kinds.push(Backup::Nbdkit);
    }
    kinds
}

#[test]
fn a_primary_that_is_alive_and_idle_loses_to_the_host_that_takes_over() {
    for kind in kinds() {
        let site = Site::start(kind);
        let second = site.take_over();
        assert_eq!(write(&site.primary, 9), (EIO, EIO), "{kind:?}");
        site.assert_lost(second);
    }
}

#[test]
fn a_primary_that_was_paused_loses_when_it_wakes_up() {
    for kind in kinds() {
        let mut site = Site::start(kind);
        site.primary
            .process()
            .signal(Signal::STOP)
            .expect("a process");
        let second = site.take_over();
        std::thread::sleep(WINDOW);
        site.primary
            .process()
            .signal(Signal::CONT)
            .expect("a process");
        assert_eq!(write(&site.primary, 9), (EIO, EIO), "{kind:?}");
        site.assert_lost(second);
    }
}

#[test]
fn a_primary_that_was_cut_off_loses_when_it_reaches_the_backup_again() {
    for kind in kinds() {
        let mut site = Site::start(kind);
        site.proxy.cut(true, true);
        let second = site.take_over();
        // It goes on alone, and knows nothing.
        assert_eq!(write(&site.primary, 9), (0, 0), "{kind:?}");
        site.proxy.cut(false, false);
        wait_until(&mut site.primary, "stopped", |status| {
            status["taken_over"].is_object()
        });
        assert_eq!(write(&site.primary, 9), (EIO, EIO), "{kind:?}");
        drop(second);
    }
}

/// What a fenced host is refused it is refused by a server that was started again, too.
#[test]
fn a_primary_loses_although_the_backup_was_started_again_meanwhile() {
    let mut site = Site::start(Backup::SingleWriter);
    site.primary
        .process()
        .signal(Signal::STOP)
        .expect("a process");
    let second = site.take_over();
    assert_eq!(second.stop(Signal::TERM), Some(0));
    let port = site.backup.kill();
    site.backup = Serving::start(Backup::SingleWriter, &site.far, port);
    site.primary
        .process()
        .signal(Signal::CONT)
        .expect("a process");
    assert_eq!(write(&site.primary, 9), (EIO, EIO));
    assert_eq!(record_of(&site.far), 2);
}

#[test]
fn a_primary_that_is_started_again_is_refused_while_the_second_host_has_the_half() {
    let site = Site::start(Backup::SingleWriter);
    let array = both(&site.local, &site.proxy.uri());
    site.primary.kill();
    let uri = format!("nbd://127.0.0.1:{}", site.backup.port());
    let second = Server::start(&[&format!("array({uri}, missing, run=true)")]);
    assert_eq!(write(&second, 2), (0, 0));
    let line = refused(&["serve", &array]);
    assert!(line.contains("already attached for writing"), "{line}");
    assert!(line.contains("missing"), "{line}");
    assert_eq!(second.stop(Signal::TERM), Some(0));
    assert_eq!(record_of(&site.far), 2);
}

/// What the guide warns of: a server of others lets the primary in that is started again while the second host has the half. The
/// primary finds the backup's half the fresher one and goes on from it; the second host stops.
#[test]
fn a_primary_that_is_started_again_takes_the_half_back_from_a_server_of_others() {
    if !requires::all(&[requires::command("nbdkit")]) {
        return;
    }
    let site = Site::start(Backup::Nbdkit);
    let array = both(&site.local, &site.proxy.uri());
    site.primary.kill();
    let uri = format!("nbd://127.0.0.1:{}", site.backup.port());
    let mut second = Server::start(&[&format!("array({uri}, missing, run=true)")]);
    assert_eq!(write(&second, 2), (0, 0));
    // Until then it writes superblocks itself, and either could be the one that is refused.
    wait_until(&mut second, "clean", |status| status["clean"] == true);
    let mut primary = Server::start(&[&array]);
    // Its own half lacks what the second host wrote, and gets it.
    wait_until_whole(&mut primary);
    assert_eq!(record_of(&site.local), 2, "what the second host wrote");
    assert_eq!(write(&primary, 4), (0, 0));
    std::thread::sleep(WINDOW);
    assert_eq!(write(&second, 9), (EIO, EIO));
    let told = status(&mut second);
    let why = told["taken_over"]["why"].as_str().unwrap_or_default();
    assert!(why.contains("events where this array wrote"), "{told:#}");
    assert_eq!(write(&primary, 5), (0, 0));
    // It cannot mark its members clean.
    second.kill();
    assert_eq!(primary.stop(Signal::TERM), Some(0));
    site.backup.kill();
    assert_eq!((record_of(&site.local), record_of(&site.far)), (5, 5));
}

/// The server of an idle mirror's half comes back with another disk of the same size.
#[test]
fn another_disk_in_the_place_of_the_half_is_never_written() {
    for kind in kinds() {
        let mut site = Site::start(kind);
        let another = site.folder.empty("c.img", SIZE);
        create(&[&another, &site.folder.empty("d.img", SIZE)], &[]);
        let others = [
            ("blank.img", None),
            ("old.img", Some(site.far.clone())),
            ("other.img", Some(another.clone())),
        ];
        for (name, copy_of) in others {
            let other = match copy_of {
                None => site.folder.empty(name, SIZE),
                Some(of) => {
                    let other = site.folder.at(name);
                    std::fs::copy(of, &other).expect("a copy");
                    other
                }
            };
            // An old copy is older than this.
            assert_eq!(write(&site.primary, 4), (0, 0), "{kind:?}, {name}");
            site.wait_until_idle();
            let before = std::fs::read(&other).expect("an image");
            let port = site.backup.kill();
            site.backup = Serving::start(kind, &other, port);
            std::thread::sleep(WINDOW);
            assert_eq!(write(&site.primary, 5), (0, 0), "{kind:?}, {name}");
            let told: Value = status(&mut site.primary);
            let uri = site.proxy.uri();
            let log = site.primary.process().stderr();
            let state = state_of(&told, &uri);
            assert_eq!(state, "failed", "{kind:?}, {name}: {told:#}\n{log}");
            let after = std::fs::read(&other).expect("an image");
            assert!(before == after, "{kind:?}: {name} was written");
            // The half is there again, and comes back.
            let port = site.backup.kill();
            site.backup = Serving::start(kind, &site.far, port);
            let process = site.primary.process().id().to_string();
            let again = ["array", "re-add", "m", "--disk", &uri, "--server", &process];
            outboard_tests::said::run(&mut outboard_tests::said::outboard(&again)).ok();
            wait_until_whole(&mut site.primary);
        }
    }
}
