//! Attachments made by the binary, with a runtime directory of their own, detached at the end.

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use testkit::requires;

use crate::image::Folder;
use crate::said::{self, Said};

/// How long a command may run: `detach` ends within its own limits, of 30 s for a step, and says then what it waited for.
const LIMIT: Duration = Duration::from_secs(200);

/// A world of attachments that knows nothing of others on this machine.
#[derive(Debug, Default)]
pub struct World {
    folder: Folder,
}

impl World {
    /// A world to attach in without the kernel's nbd; `None` where this machine cannot, why is printed.
    #[must_use]
    pub fn new() -> Option<Self> {
        let needs = [
            requires::root(),
            requires::fuse(),
            requires::loop_device(),
            requires::command("mkfs.ext4"),
        ];
        requires::all(&needs).then(Self::default)
    }

    /// Where this world's attachments are written down.
    #[must_use]
    pub fn runtime(&self) -> PathBuf {
        self.folder.path().join("run")
    }

    /// The path of something in this world's folder.
    #[must_use]
    pub fn at(&self, name: &str) -> String {
        self.folder.at(name)
    }

    /// Our binary with `args` in this world.
    #[must_use]
    pub fn outboard(&self, args: &[&str]) -> Command {
        let mut command = said::outboard(args);
        command
            .env("OUTBOARD_RUNTIME_DIR", self.runtime())
            .env("XDG_STATE_HOME", self.folder.path());
        command
    }

    /// The same, run to its end.
    ///
    /// # Panics
    /// If it does not end.
    #[must_use]
    #[track_caller]
    pub fn run(&self, args: &[&str]) -> Said {
        said::run_explained(&mut self.outboard(args), LIMIT, || self.waiting())
    }

    /// Attaches `uri` over FUSE and loop; the device.
    ///
    /// # Panics
    /// If it cannot.
    #[must_use]
    #[track_caller]
    pub fn attach(&self, uri: &str) -> String {
        self.attachment(uri).device()
    }

    /// An attachment of `uri` over FUSE and loop that is still to be made.
    #[must_use]
    pub fn attachment<'a>(&'a self, uri: &'a str) -> Attachment<'a> {
        Attachment {
            world: self,
            args: vec!["attach", uri, "--via", "fuse"],
        }
    }

    /// A folder to mount on.
    ///
    /// # Panics
    /// If it cannot be made.
    #[must_use]
    pub fn mount_point(&self) -> String {
        let path = self.folder.at("mnt");
        std::fs::create_dir_all(&path).expect("a folder to mount on");
        path
    }

    /// What is left of attachments: the runtime directory, mounts, loop devices, processes.
    #[must_use]
    pub fn traces(&self) -> Vec<String> {
        let here = self.folder.path().to_string_lossy().into_owned();
        let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        let mut found: Vec<String> = mounts
            .lines()
            .filter(|line| line.contains(&here))
            .map(|line| format!("mount: {line}"))
            .collect();
        if self.runtime().exists() {
            found.push(format!("folder: {}", self.runtime().display()));
        }
        found.extend(loops(&here));
        let processes = self.processes().into_iter();
        found.extend(processes.map(|id| format!("process {id}")));
        found
    }

    /// The processes that own this world's attachments, their workers aside.
    #[must_use]
    pub fn processes(&self) -> Vec<u32> {
        self.find_processes(|command| command != b"attach-worker")
    }

    /// The worker processes of this world's attachments.
    #[must_use]
    pub fn workers(&self) -> Vec<u32> {
        self.find_processes(|command| command == b"attach-worker")
    }

    /// The processes of our binary in this world with a matching first argument.
    fn find_processes(&self, matches: impl Fn(&[u8]) -> bool) -> Vec<u32> {
        let here = self.folder.path().to_string_lossy().into_owned();
        let all = std::fs::read_dir("/proc").into_iter().flatten();
        all.filter_map(Result::ok)
            .filter(|entry| {
                let exe = entry.path().join("exe").read_link();
                exe.is_ok_and(|exe| is_ours(&exe))
            })
            .filter(|entry| {
                let words = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
                matches(words.split(|b| *b == 0).nth(1).unwrap_or_default())
            })
            .filter(|entry| {
                let environment = std::fs::read(entry.path().join("environ")).unwrap_or_default();
                String::from_utf8_lossy(&environment).contains(&here)
            })
            .filter_map(|entry| entry.file_name().to_string_lossy().parse().ok())
            .collect()
    }

    /// The logs of this world's attachments, and the kernel stacks of their threads.
    fn waiting(&self) -> String {
        let folders = std::fs::read_dir(self.runtime()).into_iter().flatten();
        let logs = folders.filter_map(|folder| {
            let log = folder.ok()?.path().join("log");
            std::fs::read_to_string(log).ok()
        });
        let mut lines: Vec<String> = logs.collect();
        for process in self.processes().into_iter().chain(self.workers()) {
            let threads = std::fs::read_dir(format!("/proc/{process}/task"));
            for thread in threads.into_iter().flatten().filter_map(Result::ok) {
                let text = |file: &str| {
                    let text = std::fs::read_to_string(thread.path().join(file));
                    text.unwrap_or_default().trim().replace('\n', " ")
                };
                lines.push(format!("{process} {}: {}", text("comm"), text("stack")));
            }
        }
        lines.join("\n")
    }

    /// The FUSE connections of this world's attachments that serve a loop device.
    #[must_use]
    pub fn fuse_connections(&self) -> Vec<FuseConnection> {
        let folders = std::fs::read_dir(self.runtime()).into_iter().flatten();
        let records = folders.filter_map(Result::ok).map(|folder| {
            let text = std::fs::read(folder.path().join("state.json")).unwrap_or_default();
            serde_json::from_slice(&text).unwrap_or_default()
        });
        let connections = records.filter_map(|record: serde_json::Value| {
            let name = record["device"].as_str()?.trim_start_matches("/dev/");
            let file = format!("/sys/block/{name}/loop/backing_file");
            let backing = std::fs::read_to_string(file).unwrap_or_default();
            // Another filesystem may have the number by now.
            let is_backed = backing.starts_with("/outboard-");
            record["fuse_connection"].as_u64().filter(|_| is_backed)
        });
        connections.filter_map(FuseConnection::open).collect()
    }

    /// Fails if anything is left.
    ///
    /// # Panics
    /// If so.
    #[track_caller]
    pub fn assert_clean(&self) {
        let traces = self.traces();
        assert!(traces.is_empty(), "left behind: {traces:#?}");
    }
}

/// Builder of an `attach` command.
#[derive(Debug, Clone)]
pub struct Attachment<'a> {
    world: &'a World,
    args: Vec<&'a str>,
}

impl<'a> Attachment<'a> {
    /// Mounted on `dir`.
    #[must_use]
    pub fn on(self, dir: &'a str) -> Self {
        self.with(&["--mount", dir])
    }

    /// With an ext4 made first.
    #[must_use]
    pub fn ext4(self) -> Self {
        self.with(&["--mkfs", "ext4"])
    }

    /// With other options.
    #[must_use]
    pub fn with(mut self, args: &[&'a str]) -> Self {
        self.args.extend(args);
        self
    }

    /// Tries it.
    ///
    /// # Panics
    /// If it does not end.
    #[must_use]
    #[track_caller]
    pub fn run(&self) -> Said {
        self.world.run(&self.args)
    }

    /// The command that does it.
    #[must_use]
    pub fn command(&self) -> Command {
        self.world.outboard(&self.args)
    }

    /// Makes it; the device.
    ///
    /// # Panics
    /// If it cannot be made.
    #[track_caller]
    pub fn device(&self) -> String {
        let printed = self.run().ok();
        let device = printed.trim().to_owned();
        assert!(device.starts_with("/dev/"), "{printed}");
        device
    }
}

/// A FUSE connection, by its directory in fusectl: it stays this connection's when the number is used again.
#[derive(Debug)]
pub struct FuseConnection {
    control: OwnedFd,
}

impl FuseConnection {
    /// The connection with this number; `None` where there is none.
    fn open(number: u64) -> Option<Self> {
        let folder = tempfile::tempdir().ok()?;
        let place = folder.path();
        let run = |args: &[&str]| Command::new(args[0]).args(&args[1..]).arg(place).status();
        run(&["mount", "-t", "fusectl", "none"]).ok()?;
        let path = place.join(number.to_string());
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let control = rustix::fs::open(path, flags, Mode::empty());
        // The descriptor keeps the mount.
        drop(run(&["umount", "--lazy"]));
        control.ok().map(|control| Self { control })
    }

    /// Whether the kernel has removed it.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        self.file("waiting", OFlags::RDONLY).err() == Some(Errno::NOENT)
    }

    /// Aborts it: what waits for its server fails.
    fn abort(&self) -> rustix::io::Result<()> {
        rustix::io::write(self.file("abort", OFlags::WRONLY)?, b"1").map(drop)
    }

    fn file(&self, name: &str, access: OFlags) -> rustix::io::Result<OwnedFd> {
        let flags = access | OFlags::CLOEXEC;
        rustix::fs::openat(&self.control, name, flags, Mode::empty())
    }
}

impl Drop for World {
    fn drop(&mut self) {
        // A test that failed half way must not leave devices to the next one.
        if !self.traces().is_empty() {
            // The server may be a process that a failed test has killed: `sync` of the whole machine would wait for it.
            if std::thread::panicking() {
                for connection in self.fuse_connections() {
                    if let Err(e) = connection.abort() {
                        eprintln!("{connection:?} is not aborted: {e}");
                    }
                }
            }
            drop(self.outboard(&["detach", "--all"]).output());
        }
    }
}

/// Loop devices over files of this world.
fn loops(here: &str) -> Vec<String> {
    let blocks = std::fs::read_dir("/sys/block").into_iter().flatten();
    blocks
        .filter_map(Result::ok)
        .filter_map(|entry| {
            let file = entry.path().join("loop/backing_file");
            let backing = std::fs::read_to_string(file).ok()?;
            let name = entry.file_name().to_string_lossy().into_owned();
            backing
                .contains(here)
                .then(|| format!("{name}: {}", backing.trim()))
        })
        .collect()
}

/// Whether a process runs our binary, or ran one that was built again since.
fn is_ours(exe: &Path) -> bool {
    let name = |path: &Path| {
        path.file_name()
            .map(|name| name.to_string_lossy().into_owned())
    };
    let ours = testkit::proc::outboard().ok().as_deref().and_then(name);
    let theirs = name(exe);
    theirs.is_some_and(|theirs| {
        let theirs = theirs.trim_end_matches(" (deleted)");
        ours.is_some_and(|ours| ours == theirs)
    })
}
