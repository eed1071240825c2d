//! What exists while a target is measured, torn down in the reverse order.
//!
//! Invariants: what was made is noted as soon as it is there. Once something stays, the folders
//! below it stay too: removing one would remove what is mounted in it.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use attach::{AttachError, DetachOptions, DetachTarget};
use lab::runner::TakeDown;
use lab::supervisor::{Supervised, Terminate};

/// How long a server may take to flush and end after it was sent SIGTERM.
const GRACE: Duration = Duration::from_secs(20);

/// One thing that has to be taken down.
#[derive(Debug)]
pub(super) enum Resource {
    /// A folder of ours with files of ours.
    Folder(PathBuf),
    /// An attachment, by its directory or its device.
    Attachment(PathBuf),
    /// A process of ours.
    Process {
        /// What it is called.
        name: String,
        /// It.
        child: Supervised,
    },
    /// A mount that no other part takes down.
    Mount(PathBuf),
    /// Something of the system's, and the command that takes it away.
    Made(Vec<String>),
    /// A folder of the system that was not there; removed if it is empty.
    Borrowed(PathBuf),
}

/// All of a target.
#[derive(Debug, Default)]
pub(super) struct Teardown(Vec<Resource>);

impl Teardown {
    /// Notes what was made.
    pub(super) fn add(&mut self, part: Resource) {
        self.0.push(part);
    }

    fn fall(&mut self) -> Result<(), String> {
        let mut left: Vec<String> = Vec::new();
        while let Some(part) = self.0.pop() {
            if !left.is_empty() && matches!(part, Resource::Folder(_)) {
                continue;
            }
            left.extend(part.take_down().err());
        }
        match left.is_empty() {
            true => Ok(()),
            false => Err(left.join("; ")),
        }
    }
}

impl TakeDown for Teardown {
    fn take_down(mut self: Box<Self>) -> Result<(), String> {
        self.fall()
    }
}

impl Drop for Teardown {
    fn drop(&mut self) {
        if let Err(left) = self.fall() {
            tracing::error!("{left}");
        }
    }
}

impl Resource {
    fn take_down(self) -> Result<(), String> {
        match self {
            Self::Folder(path) => remove(&path),
            Self::Attachment(at) => detach(&at),
            Self::Process { name, child } => end(&name, child),
            Self::Mount(at) => unmount(&at),
            Self::Made(words) => {
                undo(&words).map_err(|why| format!("`{}` failed: {why}", words.join(" ")))
            }
            Self::Borrowed(path) => {
                // Another process may use it by now.
                drop(std::fs::remove_dir(path));
                Ok(())
            }
        }
    }
}

fn remove(path: &Path) -> Result<(), String> {
    match std::fs::remove_dir_all(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(format!("{} could not be removed: {error}", path.display()))
        }
        _ => Ok(()),
    }
}

fn detach(at: &Path) -> Result<(), String> {
    let try_once = |force| {
        let options = DetachOptions {
            timeout: attach::DETACH_TIMEOUT,
            force,
        };
        let all = attach::detach(&DetachTarget::Path(at.to_owned()), &options)?;
        all.into_iter().try_for_each(|one| one.result.map(drop))
    };
    match try_once(false) {
        Ok(()) => Ok(()),
        // All on it was made for the run: a disk that lost its drives cannot be flushed, and has to
        // go. It may have gone already, with the complaint that data may be lost.
        Err(_) => match try_once(true) {
            Ok(()) | Err(AttachError::NotAttached(_)) => Ok(()),
            Err(error) => Err(format!("{} could not be detached: {error}", at.display())),
        },
    }
}

fn end(name: &str, mut child: Supervised) -> Result<(), String> {
    match child.end(Terminate::Leader, GRACE) {
        Err(error) => Err(format!("{name} could not be ended: {error}")),
        Ok(ended) if ended.was_killed => {
            Err(format!("{name} did not end after SIGTERM, and was killed"))
        }
        Ok(_) => Ok(()),
    }
}

/// Unmounts; tries again if it is busy.
fn unmount(at: &Path) -> Result<(), String> {
    let words = ["umount".to_owned(), at.to_string_lossy().into_owned()];
    undo(&words).map_err(|why| format!("{} could not be unmounted: {why}", at.display()))
}

/// Runs a command that takes something away; tries again if that is busy.
fn undo(words: &[String]) -> Result<(), String> {
    let (program, args) = words.split_first().ok_or("nothing to run")?;
    let run = || {
        let output = Command::new(program)
            .args(args)
            .stdin(Stdio::null())
            .output()
            .map_err(|error| format!("{program} cannot be started: {error}"))?;
        match output.status.success() {
            true => Ok(()),
            false => Err(String::from_utf8_lossy(&output.stderr).trim().to_owned()),
        }
    };
    run().or_else(|_| {
        // What still flushes is busy for a moment.
        std::thread::sleep(Duration::from_millis(500));
        run()
    })
}
