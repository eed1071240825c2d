//! Attachments with a dead server and dirty pages: their processes can be killed at any time,
//! and nothing on the machine waits for them afterwards.
//!
//! The process that served the FUSE file called fsync(2) and umount(2) itself. With the server dead these wait for
//! the process, and a thread that waits in the kernel keeps the process's descriptors open even after SIGKILL:
//! the FUSE connection was never aborted. `sync` of the whole machine hung, and no container shut down,
//! until the connection was aborted by hand.
#![expect(clippy::unwrap_used, reason = "helpers of tests may panic as tests do")]

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use outboard_tests::attachment::World;
use outboard_tests::image::{Folder, MIB};
use outboard_tests::said::program;
use outboard_tests::server::Server;
use testkit::proc::Process;

/// Until when the machine must be free again.
const FREE_WITHIN: Duration = Duration::from_secs(10);
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// The least time between SIGTERM and SIGKILL at a shutdown.
const PAUSE: Duration = Duration::from_secs(3);

/// A mounted attachment with dirty pages, its server dead.
struct Orphaned {
    world: World,
    mount: String,
    device: String,
    owner: u32,
    _folder: Folder,
}

impl Orphaned {
    fn new() -> Option<Self> {
        let world = World::new()?;
        let folder = Folder::new();
        let image = folder.empty("a.img", 64 * MIB);
        let server = Server::start(&[&image]);
        let mount = world.at("mnt");
        let device = world.attachment(&server.uri("")).ext4().on(&mount).device();
        std::fs::write(format!("{mount}/unsaved"), vec![b'u'; 4 << 20]).unwrap();
        server.kill();
        let owners = world.processes();
        assert_eq!(owners.len(), 1, "{owners:?}");
        Some(Self {
            owner: owners[0],
            world,
            mount,
            device,
            _folder: folder,
        })
    }

    fn signal(&self, signal: &str) {
        program("kill", &[signal, &self.owner.to_string()]).ok();
    }

    /// Waits until the process is gone, with all of its threads; prints their states if they stay.
    #[track_caller]
    fn assert_ends_within(&self, limit: Duration) {
        let tasks = format!("/proc/{}/task", self.owner);
        let alive = || {
            let mut states = states(&tasks);
            // A process that only waits to be reaped holds nothing.
            states.retain(|(_, state)| state != "Z" && state != "X");
            states
        };
        for _ in 0..limit.as_millis() / LOOK_EVERY.as_millis() {
            if alive().is_empty() {
                return;
            }
            std::thread::sleep(LOOK_EVERY);
        }
        panic!("it still has {:?}", alive());
    }

    /// Fails if writing the device's page cache waits for ever.
    #[track_caller]
    fn assert_syncs_within(&self, limit: Duration) {
        for command in [
            ["sync", "-f", &self.mount],
            ["blockdev", "--flushbufs", &self.device],
        ] {
            let mut sync = Process::start(Command::new(command[0]).args(&command[1..])).unwrap();
            if let Err(e) = sync.wait(limit) {
                panic!("{command:?}: {e}");
            }
        }
    }
}

/// The threads of a process: name and state.
fn states(tasks: &str) -> Vec<(String, String)> {
    let entries = std::fs::read_dir(tasks).into_iter().flatten();
    let stats =
        entries.filter_map(|entry| std::fs::read_to_string(entry.ok()?.path().join("stat")).ok());
    stats
        .filter_map(|stat| {
            let (name, rest) = stat.rsplit_once(") ")?;
            let state = rest.split(' ').next()?;
            Some((name.to_owned(), state.to_owned()))
        })
        .collect()
}

#[test]
fn a_process_that_is_terminated_and_then_killed_leaves_the_machine_free() {
    let Some(orphaned) = Orphaned::new() else {
        return;
    };
    orphaned.signal("-TERM");
    std::thread::sleep(PAUSE);
    orphaned.signal("-KILL");
    orphaned.assert_ends_within(FREE_WITHIN);
    orphaned.assert_syncs_within(FREE_WITHIN);
    let said = orphaned.world.run(&["detach", "--all"]);
    assert_eq!(said.code, Some(1), "{said:?}");
    assert!(said.stderr.contains("may be lost"), "{said:?}");
    orphaned.world.assert_clean();
}

#[test]
fn a_process_that_is_killed_while_detach_flushes_leaves_the_machine_free() {
    let Some(orphaned) = Orphaned::new() else {
        return;
    };
    let args = ["detach", &orphaned.mount, "--timeout", "60"];
    let mut detach = Process::start(&mut orphaned.world.outboard(&args)).unwrap();
    assert!(detach.wait(PAUSE).is_err(), "it waits for the server");
    orphaned.signal("-KILL");
    orphaned.assert_ends_within(FREE_WITHIN);
    orphaned.assert_syncs_within(FREE_WITHIN);
    let status = detach.wait(FREE_WITHIN).unwrap();
    assert_eq!(status.code(), Some(1), "{}", detach.stderr());
    assert!(
        detach.stderr().contains("may be lost"),
        "{}",
        detach.stderr()
    );
    orphaned.world.assert_clean();
}

#[test]
fn a_process_that_is_terminated_ends_by_itself_and_takes_everything_down() {
    let Some(orphaned) = Orphaned::new() else {
        return;
    };
    orphaned.signal("-TERM");
    orphaned.assert_ends_within(2 * FREE_WITHIN);
    orphaned.world.assert_clean();
    assert!(!Path::new(&orphaned.mount).exists());
}

#[test]
fn a_stopped_process_is_ended_by_detach_and_nothing_waits_for_it() {
    let Some(orphaned) = Orphaned::new() else {
        return;
    };
    orphaned.signal("-STOP");
    let said = orphaned
        .world
        .run(&["detach", &orphaned.mount, "--timeout", "5"]);
    assert_eq!(said.code, Some(1), "{said:?}");
    assert!(said.stderr.contains("may be lost"), "{said:?}");
    orphaned.assert_ends_within(FREE_WITHIN);
    orphaned.world.assert_clean();
}
