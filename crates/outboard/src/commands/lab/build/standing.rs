//! What stands while a target is measured, taken down in the reverse order.
//!
//! Invariants: what was made is noted as soon as it is there. Once something stays, the folders
//! below it stay too: removing one would remove what is mounted in it.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use attach::{AttachError, DetachOptions, Which};
use lab::runner::TakeDown;
use rustix::process::{Pid, Signal, kill_process};

/// How long a server may take to flush and end after it was asked to.
const GRACE: Duration = Duration::from_secs(20);
/// Between two looks.
const POLL: Duration = Duration::from_millis(20);

/// One thing that has to be taken down.
#[derive(Debug)]
pub(super) enum Part {
    /// A folder of ours with files of ours.
    Folder(PathBuf),
    /// An attachment, by its directory or its device.
    Attachment(PathBuf),
    /// A process of ours.
    Process {
        /// What it is called.
        name: String,
        /// It.
        child: Child,
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
pub(super) struct Standing(Vec<Part>);

impl Standing {
    /// Notes what was made.
    pub(super) fn add(&mut self, part: Part) {
        self.0.push(part);
    }

    fn fall(&mut self) -> Result<(), String> {
        let mut left: Vec<String> = Vec::new();
        while let Some(part) = self.0.pop() {
            if !left.is_empty() && matches!(part, Part::Folder(_)) {
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

impl TakeDown for Standing {
    fn take_down(mut self: Box<Self>) -> Result<(), String> {
        self.fall()
    }
}

impl Drop for Standing {
    fn drop(&mut self) {
        if let Err(left) = self.fall() {
            tracing::error!("{left}");
        }
    }
}

impl Part {
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
                // Somebody may use it by now.
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
        let all = attach::detach(&Which::At(at.to_owned()), &options)?;
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

fn end(name: &str, mut child: Child) -> Result<(), String> {
    let failed = |error: std::io::Error| format!("{name} could not be ended: {error}");
    let signal = |child: &Child, signal| {
        let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
        pid.map_or(Ok(()), |pid| kill_process(pid, signal))
            .map_err(|error| failed(error.into()))
    };
    if child.try_wait().map_err(failed)?.is_some() {
        return Ok(());
    }
    signal(&child, Signal::TERM)?;
    let asked = engine::clock::now();
    while child.try_wait().map_err(failed)?.is_none() {
        if engine::clock::now().duration_since(asked) > GRACE {
            signal(&child, Signal::KILL)?;
            child.wait().map_err(failed)?;
            return Err(format!("{name} did not end when asked to, and was killed"));
        }
        std::thread::sleep(POLL);
    }
    Ok(())
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
