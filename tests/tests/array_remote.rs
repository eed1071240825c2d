//! Mirrors of a file and an export of another server, which goes away, hangs, and comes back.
//!
//! What is at stake: clients must not hang with it, what was written meanwhile must be on it when it
//! counts as in sync again, and nothing that it had received before may land on that.

use std::fs::OpenOptions;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use outboard_tests::image::{Folder, MIB};
use outboard_tests::mirror::{
    Load, RECORDS, assert_alike, create, refused, state_of, status, wait_until, wait_until_whole,
};
use outboard_tests::proxy::Proxy;
use outboard_tests::server::{LIMIT, Server, kill};
use rustix::process::Signal;
use testkit::proc::Process;
use testkit::requires;

/// Size of the members.
const SIZE: u64 = 64 * MIB;
/// How long a member may take to answer, and to be opened: a server that was just started, on a machine with
/// other things to do, took more than a second for that.
const MEMBER_TIMEOUT: Duration = Duration::from_secs(3);
/// What a request may take more on a machine with other things to do; one that hangs takes for ever.
const SLACK: Duration = Duration::from_secs(10);

/// A mirror of a file and a file behind a server, and the server that has both.
struct Pair {
    _folder: Folder,
    local: String,
    far: String,
    backup: Server,
    primary: Server,
}

impl Pair {
    #[track_caller]
    fn start() -> Self {
        let (pair, ()) = Self::start_through(|uri| (uri.to_owned(), ()));
        pair
    }

    /// The same over a way to the far half's URI: the URI at which that way begins, and what keeps it open.
    #[track_caller]
    fn start_through<T>(way: impl FnOnce(&str) -> (String, T)) -> (Self, T) {
        let folder = Folder::new();
        let local = folder.empty("a.img", SIZE);
        let far = folder.empty("b.img", SIZE);
        create(&[&local, &far], &[]);
        let backup = Server::start(&[&far]);
        let (uri, way) = way(&backup.uri(""));
        let primary = Server::start(&[&disk(&local, &uri, "")]);
        let pair = Self {
            _folder: folder,
            local,
            far,
            backup,
            primary,
        };
        (pair, way)
    }

    /// Stops both servers; the members must be identical, and complete.
    #[track_caller]
    fn end(self, load: Load) {
        let kept = load.stop();
        assert_eq!(self.primary.stop(Signal::TERM), Some(0));
        assert_eq!(self.backup.stop(Signal::TERM), Some(0));
        kept.assert_in(&self.local);
        kept.assert_in(&self.far);
        assert_alike(&self.local, &self.far);
    }
}

fn disk(local: &str, uri: &str, more: &str) -> String {
    let timeout = MEMBER_TIMEOUT.as_secs();
    format!("array({local}, {uri}, member-timeout={timeout}s{more})")
}

/// Fails if a request hung.
#[track_caller]
fn assert_prompt(load: &Load) {
    let longest = load.longest();
    assert!(
        longest < MEMBER_TIMEOUT + SLACK,
        "a request took {longest:?} with a member timeout of {MEMBER_TIMEOUT:?}"
    );
}

/// What the kernel counted of a server's reads and writes under `name`, bytes, see proc_pid_io(5).
#[track_caller]
fn counted_of(server: &mut Server, name: &str) -> u64 {
    let path = format!("/proc/{}/io", server.process().id());
    let text = std::fs::read_to_string(path).expect("a process");
    let mut counts = text.lines().filter_map(|line| line.split_once(": "));
    let (_, count) = counts.find(|(found, _)| *found == name).expect("a count");
    count.parse().expect("a number")
}

#[test]
fn a_half_that_is_killed_costs_no_write_and_comes_back_with_what_it_lacks() {
    let mut pair = Pair::start();
    let load = Load::start(&pair.primary);
    load.wait_for(150);
    // All bits of a new bitmap are set at first.
    wait_until(&mut pair.primary, "swept", |status| {
        status["bitmap"]["dirty"].as_u64() <= Some(RECORDS)
    });
    let far = pair.backup.uri("");
    let port = pair.backup.kill();
    load.wait_for(150);
    assert_prompt(&load);
    let degraded = status(&mut pair.primary);
    assert_eq!(state_of(&degraded, &far), "failed", "{degraded:#}");
    assert_eq!(state_of(&degraded, &pair.local), "in_sync", "{degraded:#}");
    // What is clean is counted when it is written. Not by sync(2), which waits for all other programs' writes.
    let image = OpenOptions::new().read(true).open(&pair.far);
    image.expect("the image").sync_all().expect("it is written");
    pair.backup = Server::start_on(port, &[&pair.far]);
    wait_until_whole(&mut pair.primary);
    let copied = counted_of(&mut pair.backup, "write_bytes");
    load.wait_for(150);
    assert_prompt(&load);
    // The chunks of all records, at most twice, and the metadata of the commits meanwhile.
    let most = RECORDS * 2 * (64 << 10) + (1 << 20);
    assert!(copied > 0 && copied < most, "{copied} bytes were copied");
    pair.end(load);
}

#[test]
fn a_half_that_hangs_costs_no_write_and_gets_nothing_late() {
    let mut pair = Pair::start();
    let load = Load::start(&pair.primary);
    load.wait_for(150);
    for _ in 0..3 {
        pair.backup.process().signal(Signal::STOP).unwrap();
        load.wait_for(150);
        assert_prompt(&load);
        pair.backup.process().signal(Signal::CONT).unwrap();
        wait_until_whole(&mut pair.primary);
        load.wait_for(150);
    }
    pair.end(load);
}

#[test]
fn a_half_whose_flushes_hang_is_failed_in_time() {
    let mut pair = Pair::start();
    pair.backup.process().signal(Signal::STOP).unwrap();
    // The first write of all: the members must record durably that the array is dirty before it.
    let load = Load::start(&pair.primary);
    load.wait_for(100);
    assert_prompt(&load);
    pair.backup.process().signal(Signal::CONT).unwrap();
    wait_until_whole(&mut pair.primary);
    pair.end(load);
}

#[test]
fn a_network_that_is_cut_either_way_costs_no_write_and_the_half_behind_it_comes_back() {
    let (mut pair, proxy) = Pair::start_through(|uri| {
        let proxy = Proxy::start(port_of(uri));
        (proxy.uri(), proxy)
    });
    let load = Load::start(&pair.primary);
    load.wait_for(100);
    for (to_server, to_client) in [(true, false), (false, true), (true, true)] {
        proxy.cut(to_server, to_client);
        load.wait_for(150);
        assert_prompt(&load);
        wait_until(&mut pair.primary, "degraded", |status| {
            state_of(status, &proxy.uri()) == "failed"
        });
        proxy.cut(false, false);
        wait_until_whole(&mut pair.primary);
        load.wait_for(100);
        assert_prompt(&load);
    }
    pair.end(load);
}

/// The port in a URI.
#[track_caller]
fn port_of(uri: &str) -> u16 {
    let (_, port) = uri.trim_end_matches('/').rsplit_once(':').expect("a port");
    port.parse().unwrap_or_else(|e| panic!("{uri}: {e}"))
}

#[test]
fn reads_stay_on_this_machine() {
    if !requires::all(&[requires::command("nbdcopy")]) {
        return;
    }
    let folder = Folder::new();
    let local = folder.filled("a.img", 64 * MIB, 3);
    let far = folder.filled("b.img", 64 * MIB, 3);
    create(&[&local, &far], &[]);
    let mut backup = Server::start(&[&far]);
    let primary = Server::start(&[&disk(&local, &backup.uri(""), "")]);
    let before = moved_by(&mut backup);
    let whole = Command::new("nbdcopy")
        .args([&primary.uri(""), "null:"])
        .status();
    assert!(whole.is_ok_and(|status| status.success()));
    let moved = moved_by(&mut backup) - before;
    assert!(moved < 8 * MIB, "the remote half moved {moved} bytes");
}

/// What a process read and wrote by system calls, bytes.
#[track_caller]
fn moved_by(server: &mut Server) -> u64 {
    counted_of(server, "rchar") + counted_of(server, "wchar")
}

#[test]
fn an_array_without_its_remote_half_starts_only_with_run_and_re_adds_it_later() {
    let mut pair = Pair::start();
    assert_eq!(pair.primary.stop(Signal::TERM), Some(0));
    let uri = pair.backup.uri("");
    let port = pair.backup.kill();
    let line = refused(&["serve", &disk(&pair.local, &uri, "")]);
    assert!(line.contains("run=true") && line.contains(&uri), "{line}");
    pair.primary = Server::start(&[&disk(&pair.local, &uri, ", run=true")]);
    let load = Load::start(&pair.primary);
    load.wait_for(100);
    pair.backup = Server::start_on(port, &[&pair.far]);
    wait_until_whole(&mut pair.primary);
    load.wait_for(100);
    assert_prompt(&load);
    pair.end(load);
}

/// Another one's server of an image on `port`, which ends when its process is killed.
fn other(name: &str, port: u16, image: &str, folder: &Path) -> Command {
    let port_text = port.to_string();
    match name {
        "nbdkit" => {
            let mut command = Command::new("nbdkit");
            command.args(["-f", "-i", "127.0.0.1", "-e", "disk", "-p", &port_text]);
            command.args(["file", image]);
            command
        }
        "qemu-nbd" => {
            let mut command = Command::new("qemu-nbd");
            command.args(["-t", "-e", "8", "-b", "127.0.0.1", "-x", "disk"]);
            command.args(["-f", "raw", "-p", &port_text, image]);
            command
        }
        _ => {
            let config = folder.join("nbd-server.conf");
            let text = format!(
                "[generic]\nlistenaddr = 127.0.0.1\nport = {port}\n\
                 [disk]\nexportname = {image}\nflush = true\nfua = true\n"
            );
            std::fs::write(&config, text).expect("a file");
            // It goes to the background and forks for each client: all of them end with the namespace.
            let both = format!("nbd-server -C {} && sleep 600", config.display());
            let mut command = Command::new("unshare");
            command.args(["--pid", "--fork", "--kill-child", "sh", "-c", &both]);
            command
        }
    }
}

#[test]
fn the_remote_half_may_be_any_server() {
    for name in ["nbdkit", "nbd-server", "qemu-nbd"] {
        if !requires::all(&[requires::command(name), requires::root()]) {
            continue;
        }
        let folder = Folder::new();
        let local = folder.empty("a.img", SIZE);
        let far = folder.empty("b.img", SIZE);
        create(&[&local, &far], &[]);
        // A port that is free now.
        let port = Server::start(&["null(1M)"]).kill();
        let start = || {
            let mut command = other(name, port, &far, folder.path());
            let mut process = Process::start(&mut command).unwrap();
            let listens = process.wait_until("a server that listens", LIMIT, |_| {
                std::net::TcpStream::connect(("127.0.0.1", port))
                    .ok()
                    .map(drop)
            });
            listens.unwrap_or_else(|e| panic!("{name}: {e}"));
            process
        };
        let mut backup = start();
        let uri = format!("nbd://127.0.0.1:{port}/disk");
        let mut primary = Server::start(&[&disk(&local, &uri, "")]);
        let load = Load::start(&primary);
        load.wait_for(100);
        kill(&mut backup);
        load.wait_for(150);
        assert_prompt(&load);
        wait_until(&mut primary, "degraded", |status| {
            state_of(status, &uri) == "failed"
        });
        backup = start();
        wait_until_whole(&mut primary);
        load.wait_for(100);
        let kept = load.stop();
        assert_eq!(primary.stop(Signal::TERM), Some(0), "{name}");
        kill(&mut backup);
        kept.assert_in(&local);
        kept.assert_in(&far);
        assert_alike(&local, &far);
    }
}

#[test]
fn the_last_half_is_waited_for_as_any_remote_disk_is() {
    let mut pair = Pair::start();
    assert_eq!(pair.primary.stop(Signal::TERM), Some(0));
    let uri = pair.backup.uri("");
    let timeout = MEMBER_TIMEOUT.as_secs();
    let alone = format!("array({uri}, missing, run=true, member-timeout={timeout}s)");
    pair.primary = Server::start(&[&alone]);
    let load = Load::start(&pair.primary);
    load.wait_for(100);
    let port = pair.backup.kill();
    std::thread::sleep(2 * MEMBER_TIMEOUT);
    pair.backup = Server::start_on(port, &[&pair.far]);
    load.wait_for(100);
    let kept = load.stop();
    assert_eq!(pair.primary.stop(Signal::TERM), Some(0));
    assert_eq!(pair.backup.stop(Signal::TERM), Some(0));
    kept.assert_in(&pair.far);
}
