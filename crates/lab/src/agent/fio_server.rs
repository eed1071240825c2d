//! fio as a server that waits for jobs of another fio.
//!
//! fio's server authenticates no client, and a job may name commands to run: a client that reaches its port can do
//! what this user can. So it is started on demand only, on one address, and ended with its connection.
//!
//! Invariants: it ends with the jobs that it started, and works in folders that are removed afterwards: one
//! of its own, and one in each directory that jobs are to read and write in.

use std::io;
use std::net::IpAddr;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use super::protocol::{FioFolder, FioReady};
use crate::LabError;
use crate::fio::process::Fio;
use crate::host::mounts::{self, Mount};
use crate::host::sockets;
use crate::sensors::{ProcessCpu, read};
use crate::supervisor::{Supervised, Terminate};
use crate::units::Bytes;

/// How long it may take to listen.
const START_LIMIT: Duration = Duration::from_secs(5);
/// How long they may take to end after they were killed.
const GRACE: Duration = Duration::from_secs(1);
/// How folders begin; a run of the lab that works in the directory later removes what a machine that
/// lost its power left there.
const PREFIX: &str = crate::runner::FOLDER_PREFIX;
/// Between two looks at it.
const POLL: Duration = Duration::from_millis(10);

/// Why there is no fio to send jobs to.
#[derive(Debug, thiserror::Error)]
pub enum FioServerError {
    /// None, or an old one.
    #[error("{0}")]
    NoFio(Box<LabError>),
    /// It could not be started.
    #[error("cannot start fio's server: {0}")]
    System(#[from] io::Error),
    /// There is no folder in a directory.
    #[error("cannot work in {}: {source}", directory.display())]
    Folder {
        /// As it was requested.
        directory: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// It ended, or never listened.
    #[error("fio's server does not listen")]
    Deaf,
}

/// A fio that waits for jobs, until this is dropped.
#[derive(Debug)]
pub struct FioServer {
    child: Supervised,
    ready: FioReady,
    /// Where it and its jobs work; removed behind it.
    _folders: Vec<TempDir>,
}

impl FioServer {
    /// Starts one at `address`, on a free port, with a folder in each of `directories`. Blocks until it
    /// listens.
    ///
    /// # Errors
    /// [`FioServerError`]; nothing is left running or lying about then.
    pub fn start(address: IpAddr, directories: &[PathBuf]) -> Result<Self, FioServerError> {
        let fio = Fio::find().map_err(|error| FioServerError::NoFio(Box::new(error)))?;
        let own = tempfile::tempdir()?;
        let made = directories.iter().map(|directory| folder_in(directory));
        let made: Vec<(TempDir, FioFolder)> = made.collect::<Result<_, _>>()?;
        let (mut folders, told): (Vec<TempDir>, Vec<FioFolder>) = made.into_iter().unzip();
        let port = sockets::free_port(address)?;
        let kind = if address.is_ipv6() { "ip6" } else { "ip" };
        let mut command = Command::new(&fio.program);
        command
            .arg(format!("--server={kind}:{address},{port}"))
            .current_dir(own.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .env("LC_ALL", "C");
        folders.push(own);
        let server = Self {
            child: Supervised::spawn(&mut command)?,
            ready: FioReady {
                version: fio.version,
                port,
                folders: told,
            },
            _folders: folders,
        };
        server.wait_until_it_listens()?;
        Ok(server)
    }

    /// Where it is, for the other side.
    #[must_use]
    pub const fn ready(&self) -> &FioReady {
        &self.ready
    }

    /// Whether it still runs.
    #[must_use]
    pub fn is_running(&self) -> bool {
        !self.child.has_ended()
    }

    fn wait_until_it_listens(&self) -> Result<(), FioServerError> {
        let listens = || sockets::listens(self.ready.port).then_some(());
        self.child
            .wait_ready(START_LIMIT, POLL, &mut |_| true, listens)
            .ok_or(FioServerError::Deaf)
    }

    /// The server, its helpers and its jobs, which put themselves into sessions of their own.
    fn processes(&self) -> Vec<(u32, ProcessCpu)> {
        let server = self.child.id();
        std::iter::once(server)
            .chain(read::below(server))
            .filter_map(|pid| Some((pid, read::one_process(pid)?)))
            .collect()
    }
}

impl Drop for FioServer {
    /// Kills all of them: after SIGTERM fio reports what it has measured so far as if that were all. Nothing is lost,
    /// their folders are removed. The server is reaped last: as long as it is not, its id belongs to no other process.
    fn drop(&mut self) {
        let processes = self.processes();
        for (pid, known) in &processes {
            kill(*pid, known);
        }
        // Its jobs are in sessions of their own, and no children of ours.
        let killed = engine::clock::now();
        let is_there = |(pid, known): &(u32, ProcessCpu)| is_same(*pid, known);
        while processes[..].iter().skip(1).any(is_there)
            && engine::clock::now().duration_since(killed) <= GRACE
        {
            std::thread::sleep(POLL);
        }
        if let Err(error) = self.child.end(Terminate::Leader, GRACE) {
            tracing::warn!(pid = self.child.id(), %error, "fio's server could not be ended");
        }
    }
}

/// A folder of our own in a directory, and what it is on.
fn folder_in(directory: &Path) -> Result<(TempDir, FioFolder), FioServerError> {
    let failed = |source| FioServerError::Folder {
        directory: directory.to_owned(),
        source,
    };
    let directory = std::fs::canonicalize(directory).map_err(failed)?;
    let folder = tempfile::Builder::new()
        .prefix(PREFIX)
        .tempdir_in(&directory);
    let folder = folder.map_err(failed)?;
    let found = std::fs::metadata(folder.path()).map_err(failed)?;
    let space = rustix::fs::statvfs(folder.path()).map_err(|error| failed(error.into()))?;
    let mounts = mounts::of_this_process();
    let mount = mounts::find(&mounts, &directory);
    let told = |of: fn(&Mount) -> &String| mount.map_or("unknown", |mount| of(mount)).to_owned();
    let told = FioFolder {
        path: folder.path().to_owned(),
        filesystem: told(|mount| &mount.filesystem),
        source: told(|mount| &mount.source),
        options: told(|mount| &mount.options),
        device: found.dev(),
        free: Bytes(space.f_bavail.saturating_mul(space.f_frsize)),
    };
    Ok((folder, told))
}

/// Whether the process of that id is still the one that was seen.
fn is_same(pid: u32, known: &ProcessCpu) -> bool {
    read::one_process(pid).is_some_and(|now| now.started == known.started)
}

/// What has ended meanwhile is not killed.
fn kill(pid: u32, known: &ProcessCpu) {
    let id = i32::try_from(pid).ok().and_then(Pid::from_raw);
    if let Some(id) = id
        && is_same(pid, known)
    {
        kill_process(id, Signal::KILL).unwrap_or_default();
    }
}
