//! Containers that are killed with a filesystem mounted on a disk that was attached inside.
//!
//! The last process of a mount namespace unmounts what is mounted there while it exits. When that was the process that
//! served the disk under the filesystem, it waited for itself: it stayed in the kernel after SIGKILL, its FUSE connection and
//! its loop device stayed, and `sync` of the whole machine hung until the connection was aborted by hand.
#![expect(clippy::unwrap_used, reason = "helpers of tests may panic as tests do")]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use outboard_tests::attachment::{FuseConnection, World};
use outboard_tests::image::{Folder, MIB};
use outboard_tests::said::{LIMIT, program};
use outboard_tests::server::Server;
use testkit::proc::Process;
use testkit::{UNMOUNT_OTHERS, requires};

/// After how long nothing of the container may be left.
const GONE_WITHIN: Duration = Duration::from_secs(10);
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// `OUTBOARD ARGS…`, a file with dirty pages on `$MOUNT`, then a process for others to kill.
const SCRIPT: &str = r#"
    "$@" || exit 1
    head -c 4194304 /dev/urandom >"$MOUNT/unsaved" || exit 1
    echo mounted
    exec sleep 600
"#;

/// Whether the server lives when the container is killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Peer {
    Alive,
    Dead,
}

/// A mount namespace, with or without a PID namespace, and an attachment with dirty pages in it.
struct Container {
    world: World,
    unshare: Process,
    owner: u32,
    workers: Vec<u32>,
    device: LoopDevice,
    connection: FuseConnection,
    _server: Option<Server>,
    _folder: Folder,
}

impl Container {
    fn start(namespaces: &[&str], peer: Peer, options: &[&str]) -> Option<Self> {
        let world = World::new()?;
        if !requires::all(&[requires::command("unshare")]) {
            return None;
        }
        let folder = Folder::new();
        let image = folder.empty("a.img", 64 * MIB);
        let server = Server::start(&[&image]);
        let (uri, mount) = (server.uri(""), world.at("mnt"));
        let attach = world.attachment(&uri).ext4().on(&mount).with(options);
        let attach = attach.command();
        let mut command = Command::new("unshare");
        command
            .args(["--mount", "--propagation", "private"])
            .args(namespaces)
            .args(["sh", "-c", &format!("{UNMOUNT_OTHERS}{SCRIPT}"), "sh"])
            .arg(attach.get_program())
            .args(attach.get_args())
            .env("MOUNT", &mount);
        for (name, value) in attach.get_envs() {
            command.env(name, value.unwrap_or_default());
        }
        let mut unshare = Process::start(&mut command).unwrap();
        unshare.wait_for_line("mounted", LIMIT).unwrap();
        let owners = world.processes();
        assert_eq!(owners.len(), 1, "{owners:?}");
        let connections = world.fuse_connections();
        let [connection] = <[FuseConnection; 1]>::try_from(connections).unwrap();
        let stdout = unshare.stdout();
        let device = LoopDevice::of(stdout.lines().next().unwrap());
        Some(Self {
            owner: owners[0],
            workers: world.workers(),
            device,
            connection,
            world,
            unshare,
            _server: match peer {
                Peer::Alive => Some(server),
                Peer::Dead => {
                    server.kill();
                    None
                }
            },
            _folder: folder,
        })
    }

    /// Kills PID 1 of the container's PID namespace, and with it every process there.
    fn kill_init(&self) {
        let unshare = self.unshare.id();
        let path = format!("/proc/{unshare}/task/{unshare}/children");
        let children = std::fs::read_to_string(path).unwrap();
        kill(children.trim().parse().unwrap());
    }

    /// Kills the process that serves the disk after every other one of its mount namespace.
    fn kill_owner_last(&mut self) {
        self.workers.iter().copied().for_each(kill);
        kill(self.unshare.id());
        self.unshare.wait(LIMIT).unwrap();
        let workers = self.workers.clone();
        wait_for("the end of the workers", || is_gone(&workers));
        kill(self.owner);
    }

    #[track_caller]
    fn assert_gone(self) {
        let mut processes = self.workers.clone();
        processes.push(self.owner);
        wait_for("the end of the processes", || is_gone(&processes));
        wait_for("the end of the FUSE connection", || {
            self.connection.is_gone()
        });
        wait_for("the end of the loop device", || self.device.is_gone());
        // Other processes write, too, so it may take long; a mount that hangs makes it hang.
        Process::start(&mut Command::new("sync"))
            .unwrap()
            .wait(LIMIT)
            .unwrap();
        let detached = self.world.run(&["detach", "--all"]);
        assert_eq!(detached.code, Some(1), "{detached:?}");
        assert!(detached.stderr.contains("may be lost"), "{detached:?}");
        self.world.assert_clean();
    }
}

/// A loop device, by its directory in sysfs and the number of this use of it.
struct LoopDevice {
    sysfs: PathBuf,
    sequence: String,
}

impl LoopDevice {
    fn of(device: &str) -> Self {
        let sysfs = Path::new("/sys/block").join(device.strip_prefix("/dev/").unwrap());
        let sequence = std::fs::read_to_string(sysfs.join("diskseq")).unwrap();
        Self { sysfs, sequence }
    }

    fn is_gone(&self) -> bool {
        let is_another = std::fs::read_to_string(self.sysfs.join("diskseq"))
            .is_ok_and(|sequence| sequence != self.sequence);
        is_another || !self.sysfs.join("loop").exists()
    }
}

fn kill(process: u32) {
    program("kill", &["-KILL", &process.to_string()]).ok();
}

/// Whether no thread of the processes is left, zombies aside: these only wait to be reaped.
fn is_gone(processes: &[u32]) -> bool {
    processes.iter().all(|process| {
        let tasks = std::fs::read_dir(format!("/proc/{process}/task"));
        let mut tasks = tasks.into_iter().flatten().flatten();
        tasks.all(|task| {
            let stat = std::fs::read_to_string(task.path().join("stat")).unwrap_or_default();
            let state = stat
                .rsplit_once(") ")
                .and_then(|(_, rest)| rest.chars().next());
            matches!(state, None | Some('Z' | 'X'))
        })
    })
}

#[track_caller]
fn wait_for(what: &str, mut is_done: impl FnMut() -> bool) {
    for _ in 0..GONE_WITHIN.as_millis() / POLL_INTERVAL.as_millis() {
        if is_done() {
            return;
        }
        std::thread::sleep(POLL_INTERVAL);
    }
    panic!("no {what} within {GONE_WITHIN:?}");
}

const CONTAINER: &[&str] = &["--pid", "--fork", "--mount-proc"];
const MOUNTS_ONLY: &[&str] = &[];

#[test]
fn a_container_that_is_killed_leaves_the_machine_free() {
    for peer in [Peer::Alive, Peer::Dead] {
        let Some(container) = Container::start(CONTAINER, peer, &[]) else {
            return;
        };
        container.kill_init();
        container.assert_gone();
    }
}

#[test]
fn an_owner_that_is_killed_as_the_last_of_its_mount_namespace_leaves_the_machine_free() {
    for peer in [Peer::Alive, Peer::Dead] {
        let Some(mut container) = Container::start(MOUNTS_ONLY, peer, &[]) else {
            return;
        };
        container.kill_owner_last();
        container.assert_gone();
    }
}

#[test]
fn an_owner_that_is_kept_for_the_root_filesystem_leaves_the_machine_free_when_killed_last() {
    let Some(mut container) = Container::start(MOUNTS_ONLY, Peer::Dead, &["--for-root"]) else {
        return;
    };
    container.kill_owner_last();
    container.assert_gone();
}
