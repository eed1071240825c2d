//! Extents of a volume are moved while a client writes it: the server is killed in the middle, and the next one resumes the move; a
//! move is ended while it runs.

use std::time::Duration;

use outboard_tests::image::{Folder, MIB};
use outboard_tests::mirror::{Kept, Load};
use outboard_tests::said::{LIMIT, outboard, run};
use outboard_tests::server::Server;
use rustix::process::Signal;
use serde_json::Value;
use testkit::proc::Process;

/// A group of two disks with a volume on the first one.
struct Group {
    folder: Folder,
    disks: [String; 2],
}

impl Group {
    fn new() -> Self {
        let folder = Folder::new();
        let disks = ["a.img", "b.img"].map(|name| folder.empty(name, 96 * MIB));
        let group = Self { folder, disks };
        let words = ["create", "vg0/media", "--size", "64M", "--disks"];
        run(&mut group.volume(&words, true)).ok();
        group
    }

    /// `outboard volume`, with all disks or without.
    fn volume(&self, words: &[&str], with_disks: bool) -> std::process::Command {
        let mut command = outboard(&["volume"]);
        command.args(words);
        if with_disks {
            command.args(&self.disks);
        }
        command.arg("--backup").arg(self.folder.path());
        command
    }

    fn expression(&self) -> String {
        format!(
            "volume({}, {}, name=vg0/media)",
            self.disks[0], self.disks[1]
        )
    }

    /// A move in the server, which goes on in the background.
    fn move_in(&self, server: &mut Server, more: &[&str]) -> Process {
        let process = server.process().id().to_string();
        let words = [&["move", "vg0", "--server", &process], more].concat();
        Process::start(&mut self.volume(&words, false)).expect("a command to start")
    }

    /// What a client has flushed is in the volume, which no server has open.
    #[track_caller]
    fn assert_kept(&self, kept: &Kept) {
        let copy = self.folder.at("copy.img");
        let words = ["copy", &self.expression(), &copy];
        run(&mut outboard(&words)).ok();
        kept.assert_in_copy(&copy);
        std::fs::remove_file(copy).expect("the copy");
    }

    /// The group as the disks describe it.
    #[track_caller]
    fn status(&self) -> String {
        let words = ["volume", "status", &self.disks[0], &self.disks[1]];
        run(&mut outboard(&words)).ok()
    }
}

/// The last move of a server.
#[track_caller]
fn last_move(server: &mut Server) -> Value {
    let process = server.process().id();
    let status = run(&mut outboard(&["status", "--json"])).ok();
    let status: Value = serde_json::from_str(&status).expect("a status");
    let mut servers = status["servers"].as_array().into_iter().flatten();
    let found = servers.find(|one| one["process"] == process);
    found.map_or(Value::Null, |one| one["moves"][0].clone())
}

/// Waits until some of the move was copied.
#[track_caller]
fn wait_for_copy(server: &mut Server) {
    for _ in 0..LIMIT.as_millis() / 50 {
        let last = last_move(server);
        if last["copied"]
            .as_u64()
            .is_some_and(|copied| copied >= 4 * MIB)
        {
            assert_eq!(last["state"], "running", "{last}");
            return;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    panic!("nothing is copied\n{}", server.process().stderr());
}

#[test]
fn a_move_is_resumed_by_the_next_server_and_nothing_that_was_flushed_is_lost() {
    let group = Group::new();
    let mut server = Server::start(&[&group.expression()]);
    let load = Load::start(&server);
    load.wait_for(60);
    let mut command = group.move_in(
        &mut server,
        &["--from", &group.disks[0], "--max-rate", "4M"],
    );
    wait_for_copy(&mut server);
    load.wait_for(60);
    server.kill();
    assert_ne!(command.wait(LIMIT).expect("its end").code(), Some(0));
    let first = load.cut_off();
    group.assert_kept(&first);
    assert!(group.status().contains("pvmove0"), "{}", group.status());

    let mut server = Server::start(&[&group.expression()]);
    let load = Load::start(&server);
    load.wait_for(20);
    let mut command = group.move_in(&mut server, &[]);
    let ended = command.wait(LIMIT).expect("its end");
    assert_eq!(ended.code(), Some(0), "{}", command.stderr());
    assert_eq!(last_move(&mut server)["state"], "done");
    load.wait_for(60);
    let second = load.stop();
    assert_eq!(server.stop(Signal::TERM), Some(0));
    group.assert_kept(&second);
    let status = group.status();
    assert!(!status.contains("pvmove"), "{status}");
    // The old disk can go: nothing is on it.
    let words = ["remove-disk", "vg0", "--disk", &group.disks[0]];
    run(&mut group.volume(&words, true)).ok();
}

#[test]
fn a_move_is_ended_while_it_runs_and_everything_stays_where_it_was() {
    let group = Group::new();
    let mut server = Server::start(&[&group.expression()]);
    let load = Load::start(&server);
    load.wait_for(60);
    let before = group.status();
    let mut command = group.move_in(
        &mut server,
        &["--from", &group.disks[0], "--max-rate", "4M"],
    );
    wait_for_copy(&mut server);
    let second = group
        .move_in(&mut server, &["--from", &group.disks[0]])
        .wait(LIMIT);
    assert_eq!(second.expect("its end").code(), Some(1));
    let mut abort = group.move_in(&mut server, &["--abort"]);
    let ended = abort.wait(LIMIT).expect("its end");
    assert_eq!(ended.code(), Some(0), "{}", abort.stderr());
    assert_eq!(command.wait(LIMIT).expect("its end").code(), Some(1));
    assert_eq!(last_move(&mut server)["state"], "aborted");
    load.wait_for(60);
    let kept = load.stop();
    assert_eq!(server.stop(Signal::TERM), Some(0));
    group.assert_kept(&kept);
    let lines = |status: &str| {
        let lines = status.lines().filter(|line| !line.contains("change"));
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(lines(&group.status()), lines(&before));
}
