//! The process that runs fio: found, started in its own process group, waited for, ended by its id.
//!
//! Invariants: while fio runs, the caller's `tick` is called every [`POLL`] and nothing else waits,
//! so cancelling, deadlines and sensors need no thread. A [`Running`] that is dropped takes its fio
//! with it.

use std::ffi::OsString;
use std::fs::OpenOptions;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::command;
use crate::LabError;
use crate::supervisor::{NotEnded, Supervised, Terminate};

/// How often a running fio is looked at.
const POLL: Duration = Duration::from_millis(10);
/// How long fio may take to end after it was sent SIGTERM, before it is killed.
const GRACE: Duration = Duration::from_secs(1);
/// The oldest version with JSON that has latencies in nanoseconds and the options used here.
const VERSION_MIN: (u32, u32) = (3, 5);

/// fio as installed here.
#[derive(Debug, Clone)]
pub struct Fio {
    /// What is started.
    pub program: PathBuf,
    /// As it says: `fio-3.33`.
    pub version: String,
    /// The argument that has it send its jobs to the fio of another machine.
    pub client: Option<String>,
}

/// Why one start of fio gave no result.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The caller's `tick` returned false.
    #[error("stopped")]
    Cancelled,
    /// It took longer than it may.
    #[error("fio did not end within {} s; the target does not answer", .0.as_secs())]
    TimedOut(Duration),
    /// It ended with an error; its own words.
    #[error("{0}")]
    Failed(String),
    /// It could not be started or its output not be read.
    #[error("cannot run fio: {0}")]
    System(#[from] std::io::Error),
}

impl Fio {
    /// Finds fio on the path and reads its version.
    ///
    /// # Errors
    /// [`LabError::NoFio`], [`LabError::OldFio`].
    pub fn find() -> Result<Self, LabError> {
        Self::at(PathBuf::from("fio"))
    }

    /// The same for a program of another name.
    ///
    /// # Errors
    /// [`LabError::NoFio`], [`LabError::OldFio`].
    pub fn at(program: PathBuf) -> Result<Self, LabError> {
        let output = Command::new(&program)
            .arg("--version")
            .stdin(Stdio::null())
            .output()
            .map_err(|_| LabError::NoFio)?;
        let version = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        if parse_version(&version).is_none_or(|found| found < VERSION_MIN) {
            return Err(LabError::OldFio {
                found: if version.is_empty() {
                    "this fio".into()
                } else {
                    version
                },
                needed: "3.5",
            });
        }
        Ok(Self {
            program,
            version,
            client: None,
        })
    }

    /// Runs fio with `args`, here or where its jobs are sent, until it ends, `tick` says stop (returns false) or `limit` has passed.
    /// Returns the text it wrote to `output`.
    ///
    /// # Errors
    /// [`RunError`].
    pub fn run(
        &self,
        args: &[OsString],
        output: &Path,
        limit: Duration,
        tick: &mut dyn FnMut(Instant) -> bool,
    ) -> Result<String, RunError> {
        let errors = output.with_extension("errors");
        let sent = self.client.as_ref().map(|client| {
            let job = output.with_extension("fio");
            let (args, text) = command::sent(args, client, &job);
            std::fs::write(&job, text.as_encoded_bytes()).map(|()| args)
        });
        let sent = sent.transpose()?;
        let args = sent.as_deref().unwrap_or(args);
        // What an earlier job left there would be taken for the answer of one that never got there.
        match std::fs::remove_file(output) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error.into()),
            _ => {}
        }
        let mut options = OpenOptions::new();
        let options = options.create(true).write(true).truncate(true);
        let mut command = Command::new(&self.program);
        command
            .args(args)
            // fio prints decimal commas under some locales, even in JSON.
            .env("LC_ALL", "C")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(options.open(&errors)?);
        let mut running = Running(Supervised::spawn(&mut command)?);
        let ended = running.wait(limit, tick)?;
        if !ended {
            // What fio says on its standard error names the cause; its exit status does not.
            let said = std::fs::read_to_string(&errors).unwrap_or_default()
                + &std::fs::read_to_string(output).unwrap_or_default();
            return Err(RunError::Failed(reason(&said)));
        }
        Ok(std::fs::read_to_string(output)?)
    }
}

/// A started fio.
struct Running(Supervised);

impl Running {
    /// Whether it ended well.
    fn wait(
        &mut self,
        limit: Duration,
        tick: &mut dyn FnMut(Instant) -> bool,
    ) -> Result<bool, RunError> {
        let waited = self.0.wait_ended(limit, POLL, tick);
        waited.map_err(|why| match why {
            NotEnded::Cancelled => RunError::Cancelled,
            NotEnded::TimedOut => RunError::TimedOut(limit),
        })?;
        let ended = self.0.end(Terminate::Leader, GRACE)?;
        Ok(ended.status.is_some_and(|status| status.success()))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Err(error) = self.0.end(Terminate::Leader, GRACE) {
            tracing::warn!(pid = self.0.id(), %error, "fio could not be ended");
        }
    }
}

/// `fio-3.33-12-gabc` is (3, 33).
pub(super) fn parse_version(text: &str) -> Option<(u32, u32)> {
    let mut parts = text.strip_prefix("fio-")?.split(['.', '-']);
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

/// The line of fio's complaints that says why, without its process id and source line.
pub(super) fn reason(said: &str) -> String {
    let lines = || said.lines().map(str::trim).filter(|line| !line.is_empty());
    let telling = lines()
        .find(|line| line.contains("error="))
        .or_else(|| lines().find(|line| line.starts_with("fio:")))
        .or_else(|| lines().next());
    match telling {
        None => "fio failed and did not say why".into(),
        Some(line) => match line.rsplit_once("error=") {
            Some((_, cause)) => cause.to_owned(),
            None => line.trim_start_matches("fio:").trim().to_owned(),
        },
    }
}
