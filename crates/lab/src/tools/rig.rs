//! A disk of our own on a target, for scenarios that pull its drives: images, faults, an attachment.
//!
//! Invariants: all of it is below the directory it was given, and is taken down on every way out, by
//! force if need be, since a disk without drives cannot be flushed. What is run is this program
//! itself, which has to be `outboard`.

use std::ffi::OsString;
use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::FallocateFlags;
use rustix::io::Errno;

use super::files::{check_cancelled, make_folder, remove_folder};
use super::layout::RigLayout;
use super::process::Running;
use super::{Invocation, Tick, ToolDirs, ToolError};
use crate::host::mounts;
use crate::stats::Rng;
use crate::units::{Bytes, MIB};

/// How long one command of ours may take.
const LIMIT: Duration = Duration::from_secs(120);
/// How long a server may take until it listens.
const START: Duration = Duration::from_secs(20);

/// A disk of our own.
#[derive(Debug)]
pub(super) struct Rig<'a> {
    place: ToolDirs<'a>,
    outboard: PathBuf,
    layout: RigLayout,
    attached: Option<PathBuf>,
    servers: Vec<Running>,
    /// What was run, as it can be pasted into a shell.
    pub(super) commands: Vec<String>,
}

impl<'a> Rig<'a> {
    /// A folder for it.
    pub(super) fn new(place: ToolDirs<'a>) -> Result<Self, ToolError> {
        let outboard = std::env::current_exe()
            .map_err(|error| ToolError::system("find the path of this program", error))?;
        let layout = RigLayout::of(&place);
        let rig = Self {
            place,
            outboard,
            layout,
            attached: None,
            servers: Vec::new(),
            commands: Vec::new(),
        };
        make_folder(rig.layout.folder())?;
        Ok(rig)
    }

    /// Where a file of this name is.
    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.layout.path(name)
    }

    /// An image with all of its space taken, and zeroes in it.
    pub(super) fn image(&self, name: &str, size: Bytes) -> Result<PathBuf, ToolError> {
        let path = self.path(name);
        let mut options = OpenOptions::new();
        let options = options.create(true).write(true).truncate(true);
        let failed = failed("make", &path);
        let file = options.open(&path).map_err(&failed)?;
        match rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, size.0) {
            Err(Errno::OPNOTSUPP) => file.set_len(size.0).map_err(failed)?,
            other => other.map_err(|error| failed(error.into()))?,
        }
        Ok(path)
    }

    /// Pulls a drive.
    pub(super) fn pull(&self, name: &str) -> Result<(), ToolError> {
        let switch = self.layout.switch(name);
        fs::write(&switch, []).map_err(failed("make", &switch))
    }

    /// Plugs it in again.
    pub(super) fn plug(&self, name: &str) -> Result<(), ToolError> {
        let switch = self.layout.switch(name);
        fs::remove_file(&switch).map_err(failed("remove", &switch))
    }

    /// Runs one of our own commands.
    pub(super) fn outboard(
        &mut self,
        words: impl IntoIterator<Item = impl Into<OsString>>,
        tick: Tick<'_>,
    ) -> Result<String, ToolError> {
        let command = Invocation::new(&self.outboard, words);
        let shown = crate::fio::command::shown("outboard", &command.args);
        // The status is polled.
        if !self.commands.contains(&shown) {
            self.commands.push(shown);
        }
        command
            .run(&self.own_place(), LIMIT, tick)
            .map(|ran| ran.output)
    }

    /// Commands of ours work in the rig's folder.
    fn own_place(&self) -> ToolDirs<'_> {
        ToolDirs {
            directory: self.layout.folder(),
            ..self.place
        }
    }

    /// Attaches a disk with a new filesystem; where it is mounted.
    pub(super) fn attach(&mut self, disk: &str, tick: Tick<'_>) -> Result<PathBuf, ToolError> {
        self.outboard(self.layout.attach(disk), tick)?;
        let at = self.layout.mounted();
        self.attached = Some(at.clone());
        Ok(at)
    }

    /// Serves a disk, only to be read; its URI.
    pub(super) fn serve(&mut self, disk: &str, tick: Tick<'_>) -> Result<String, ToolError> {
        let port = self.path("port");
        let command = Invocation::new(&self.outboard, self.layout.serve(disk));
        self.commands
            .push(crate::fio::command::shown("outboard", &command.args));
        let running = command.start(&self.own_place())?;
        let look = || {
            let found = fs::read_to_string(&port).unwrap_or_default();
            found.trim().parse::<u16>().ok()
        };
        let Some(port) = running.wait_until(START, tick, look)? else {
            let said = running.last_line();
            return Err(ToolError::Failed {
                tool: "outboard serve".into(),
                reason: said.unwrap_or_else(|| "it does not listen".into()),
            });
        };
        self.servers.push(running);
        Ok(format!("nbd://127.0.0.1:{port}/data"))
    }

    /// Takes all of it down.
    pub(super) fn take_down(mut self) -> Result<(), ToolError> {
        self.fall()
    }

    fn fall(&mut self) -> Result<(), ToolError> {
        self.servers.clear();
        if let Some(at) = self.attached.take() {
            let is_mounted = || mounts::of_this_process().iter().any(|one| one.point == at);
            let path = at.to_string_lossy();
            let go = &mut |_| true;
            // A disk that lost drives goes with a complaint that data may be lost, which they are.
            let plain = self.outboard(["detach", &path], go);
            if plain.is_err() && is_mounted() {
                self.outboard(["detach", &path, "--force"], go)?;
            }
        }
        remove_folder(self.layout.folder())
    }
}

impl Drop for Rig<'_> {
    fn drop(&mut self) {
        if let Err(error) = self.fall() {
            tracing::error!(%error, "a disk of the lab stays");
        }
    }
}

fn failed(what: &str, path: &Path) -> impl Fn(std::io::Error) -> ToolError + use<> {
    let what = format!("{what} {}", path.display());
    move |error| ToolError::system(what.clone(), error)
}

/// Bytes that neither compress nor repeat; the same for the same seed.
pub(super) fn random_mib(seed: u64) -> Vec<u8> {
    let mut rng = Rng::new(seed);
    let words = MIB / 8;
    (0..words).flat_map(|_| rng.next().to_le_bytes()).collect()
}

/// Writes `bytes`, whole MiB of [`random_mib`], and waits until they are on the disk.
pub(super) fn write_random(
    path: &Path,
    bytes: Bytes,
    seed: u64,
    tick: Tick<'_>,
) -> Result<(), ToolError> {
    let failed = |error| ToolError::system(format!("write {}", path.display()), error);
    let mut options = OpenOptions::new();
    let options = options.create(true).write(true).truncate(true);
    let mut file = options.open(path).map_err(failed)?;
    for number in 0..bytes.0 / MIB {
        check_cancelled(tick)?;
        file.write_all(&random_mib(seed ^ number)).map_err(failed)?;
    }
    file.sync_all().map_err(failed)
}
