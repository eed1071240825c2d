//! An attachment of ours with a filesystem that is mounted, for the bench and for a soak; detached when dropped.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};

use crate::shell;

/// How often a disk is detached that is in use.
const DETACH_TRIES: u32 = 20;

/// The time between two of these.
const DETACH_AGAIN: Duration = Duration::from_millis(500);

/// A disk that is attached and mounted.
#[derive(Debug)]
pub(crate) struct Attached {
    binary: PathBuf,
    pub(crate) mount: PathBuf,
    is_over: bool,
}

impl Attached {
    /// Attaches `disk` with these options, and mounts it on a folder that is made where there is none.
    pub(crate) fn new(binary: &Path, disk: &str, options: &[&str], mount: PathBuf) -> Result<Self> {
        std::fs::create_dir_all(&mount).context("no folder to mount on")?;
        let mut attach = Command::new(binary);
        attach.args(["attach", disk]).args(options).arg("--mount");
        shell::output(attach.arg(&mount))?;
        Ok(Self {
            binary: binary.to_path_buf(),
            mount,
            is_over: false,
        })
    }

    pub(crate) fn detach(mut self) -> Result<()> {
        self.is_over = true;
        self.run_detach()
    }

    /// Other programs of the machine hold a new mount for a moment. Once it is unmounted, what `detach` reports is final.
    fn run_detach(&self) -> Result<()> {
        let mut detach = Command::new(&self.binary);
        detach.arg("detach").arg(&self.mount);
        for _ in 0..DETACH_TRIES {
            let outcome = shell::output(&mut detach);
            if outcome.is_ok() || !is_mounted(&self.mount) {
                return outcome.map(drop);
            }
            std::thread::sleep(DETACH_AGAIN);
        }
        shell::output(&mut detach).map(drop)
    }
}

impl Drop for Attached {
    fn drop(&mut self) {
        if !self.is_over {
            self.run_detach().ok();
        }
    }
}

/// Whether something is mounted there; yes where that cannot be read.
fn is_mounted(mount: &Path) -> bool {
    let mounts = std::fs::read_to_string("/proc/self/mounts");
    let mount = mount.display().to_string();
    mounts.map_or(true, |mounts| {
        let mut points = mounts.lines().filter_map(|line| line.split(' ').nth(1));
        points.any(|point| point == mount)
    })
}
