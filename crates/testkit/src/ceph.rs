//! [`CephCluster`]: a Ceph of one monitor and one OSD on loopback, with one pool, in a folder, ended with the test.
//!
//! # Invariants
//!
//! * What was acknowledged as durable is in a file when the OSD is killed by `SIGKILL`: the OSD has BlueStore.
//! * Nothing authenticates, nothing is replicated, and no file outside the folder is written.
//!
//! `cargo xtask bench` has this file as well, so it needs nothing of the crate but the module of processes next to it.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use rustix::process::Signal;

use super::proc::{Process, WaitError};

/// The pool.
pub const POOL: &str = "disks";

/// When a program of Ceph counts as stuck.
const LIMIT: Duration = Duration::from_secs(120);
/// How often a monitor is started that ends at once.
const STARTS_MAX: usize = 5;
/// The OSD's only name; any UUID will do.
const OSD: &str = "6f1cf4cf-2d3a-4b2e-9a51-70e9d1a2c001";
/// A running cluster.
#[derive(Debug)]
pub struct CephCluster {
    folder: PathBuf,
    address: String,
    _monitor: Process,
    osd: Process,
}

impl CephCluster {
    /// Starts it in `folder`, an empty one.
    ///
    /// # Panics
    /// If this machine lacks a program of Ceph, or the cluster is not ready in time.
    #[must_use]
    pub fn start(folder: &Path) -> Self {
        let ((monitor, address), folder) = (1..=STARTS_MAX)
            .find_map(|attempt| {
                let folder = folder.join(format!("ceph{attempt}"));
                std::fs::create_dir_all(folder.join("osd")).expect("a folder");
                std::fs::create_dir_all(folder.join("mon")).expect("a folder");
                // Another program may take the port meanwhile.
                Some((start_monitor(&folder).ok()?, folder))
            })
            .expect("a monitor that finds a port");
        succeed(ceph(&folder).args(["osd", "new", OSD, "0"]));
        let mut make = Command::new("ceph-osd");
        succeed(with_conf(&mut make, &folder).args(["-i", "0", "--mkfs", "--osd-uuid", OSD]));
        let cluster = Self {
            osd: start_osd(&folder),
            _monitor: monitor,
            address,
            folder,
        };
        succeed(ceph(&cluster.folder).args(["osd", "pool", "create", POOL, "8", "8"]));
        succeed(ceph(&cluster.folder).args(["osd", "pool", "application", "enable", POOL, "rbd"]));
        cluster
    }

    /// Its configuration.
    #[must_use]
    pub fn conf(&self) -> PathBuf {
        self.folder.join("ceph.conf")
    }

    /// Where its monitor listens, as `mon host` of a configuration has it.
    #[must_use]
    pub fn monitor(&self) -> &str {
        &self.address
    }

    /// Runs `rbd` with these arguments, and returns what it prints.
    ///
    /// # Panics
    /// If it fails.
    pub fn rbd(&self, arguments: &[&str]) -> String {
        let mut command = Command::new("rbd");
        succeed(with_conf(&mut command, &self.folder).args(arguments))
    }

    /// Runs `ceph` with these arguments, and returns what it prints.
    ///
    /// # Panics
    /// If it fails.
    pub fn ceph(&self, arguments: &[&str]) -> String {
        succeed(ceph(&self.folder).args(arguments))
    }

    /// Makes an image of so many bytes, a multiple of 1 MiB, in [`POOL`].
    ///
    /// # Panics
    /// If it exists.
    pub fn create(&self, image: &str, size: u64) {
        let size = format!("{}M", size >> 20);
        let made = self.rbd(&["create", "--size", &size, &format!("{POOL}/{image}")]);
        assert_eq!(made, "", "it prints nothing");
    }

    /// Address of the client that watches an image.
    ///
    /// # Panics
    /// If none does.
    #[must_use]
    pub fn watcher(&self, image: &str) -> String {
        let status = self.rbd(&["status", &format!("{POOL}/{image}")]);
        let address = status.split_once("watcher=").map(|(_, rest)| rest);
        let address = address.and_then(|rest| rest.split_whitespace().next());
        address
            .unwrap_or_else(|| panic!("no watcher in {status}"))
            .to_owned()
    }

    /// Kills the OSD by `SIGKILL`: requests wait from now on.
    ///
    /// # Panics
    /// If it has ended before.
    pub fn kill_osd(&mut self) {
        let killed = self.osd.signal(Signal::KILL);
        killed.expect("an OSD runs until it is killed");
        self.osd.wait(LIMIT).expect("it was killed");
    }

    /// Starts the OSD again, with what it has in its file.
    ///
    /// # Panics
    /// If it cannot be started.
    pub fn restart_osd(&mut self) {
        self.osd = start_osd(&self.folder);
    }
}

/// The monitor, and where it listens.
fn start_monitor(folder: &Path) -> Result<(Process, String), WaitError> {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("it is bound").port();
    let address = format!("v2:127.0.0.1:{port}");
    std::fs::write(folder.join("ceph.conf"), conf(folder, &address)).expect("it is written");
    let map = folder.join("monmap").display().to_string();
    let addresses = format!("[{address}]");
    let mut make = Command::new("monmaptool");
    succeed(with_conf(&mut make, folder).args(["--create", "--addv", "a", &addresses, &map]));
    let mut make = Command::new("ceph-mon");
    succeed(with_conf(&mut make, folder).args(["-i", "a", "--mkfs", "--monmap", &map]));
    drop(listener);
    let mut command = Command::new("ceph-mon");
    with_conf(&mut command, folder).args(["-i", "a", "-f", "--public-addr", "127.0.0.1"]);
    let mut monitor = Process::start(&mut command)?;
    monitor.wait_until("port", LIMIT, |_| {
        std::net::TcpStream::connect(("127.0.0.1", port)).ok()
    })?;
    Ok((monitor, address))
}

/// Small and quick, without authentication, and durable where it has to be.
fn conf(folder: &Path, address: &str) -> String {
    let folder = folder.display();
    format!(
        "[global]
run dir = {folder}
log file = {folder}/$name.log
admin socket =
pid file =
crash dir = {folder}
mon host = {address}
mon initial members = a
ms bind msgr1 = false
auth cluster required = none
auth service required = none
auth client required = none
osd pool default size = 1
osd pool default min size = 1
osd pool default pg autoscale mode = off
osd crush chooseleaf type = 0
mon allow pool size one = true
mon data = {folder}/mon
mon data avail crit = 1
mon data avail warn = 1
mon tick interval = 1
paxos propose interval = 0.02
rocksdb cache size = 16777216
osd data = {folder}/osd
osd objectstore = bluestore
osd memory target = 939524096
osd client watch timeout = 5
bluestore block size = 8589934592
bluestore cache size = 33554432
"
    )
}

fn start_osd(folder: &Path) -> Process {
    let mut command = Command::new("ceph-osd");
    with_conf(&mut command, folder).args(["-i", "0", "-f", "--public-addr", "127.0.0.1"]);
    Process::start(&mut command).expect("an OSD starts")
}

fn ceph(folder: &Path) -> Command {
    let mut command = Command::new("ceph");
    with_conf(&mut command, folder);
    command
}

fn with_conf<'a>(command: &'a mut Command, folder: &Path) -> &'a mut Command {
    command.arg("-c").arg(folder.join("ceph.conf"));
    command
        .env_remove("CEPH_ARGS")
        .env_remove("CEPH_CONF")
        .stdin(Stdio::null())
}

/// Runs a command to its end, which must be a good one; what it prints.
fn succeed(command: &mut Command) -> String {
    let Output {
        status,
        stdout,
        stderr,
    } = command.output().expect("it can be started");
    let printed = String::from_utf8_lossy(&stderr);
    assert!(status.success(), "{command:?}: {status}: {printed}");
    String::from_utf8_lossy(&stdout).into_owned()
}
