//! Running other programs: where the repository is, one error line for a failed command, and children
//! that never outlive the command that started them.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::clock;

/// The root of the repository.
pub(crate) fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_path_buf()
}

/// Where builds and results go.
pub(crate) fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from)
}

/// A cargo command in the repository.
pub(crate) fn cargo<S: AsRef<OsStr>>(args: impl IntoIterator<Item = S>) -> Command {
    let program = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(program);
    command.args(args).current_dir(root());
    command
}

/// Runs a command with its output shown; anything but success is an error.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let status = command
        .stdin(Stdio::null())
        .status()
        .with_context(|| format!("cannot start {}", words(command)))?;
    if !status.success() {
        bail!("{} ended with {status}", words(command));
    }
    Ok(())
}

/// Runs a command and returns what it printed; its errors are shown when it fails.
pub(crate) fn output(command: &mut Command) -> Result<String> {
    let output = command
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("cannot start {}", words(command)))?;
    if !output.status.success() {
        bail!(
            "{} ended with {}: {}",
            words(command),
            output.status,
            String::from_utf8_lossy(&output.stderr).trim()
        );
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The programs that this command has built with the tests, by name.
static BUILT: OnceLock<BTreeMap<String, PathBuf>> = OnceLock::new();

/// Has [`build`] and [`built`] return programs that are there; those of the first call stay.
pub(crate) fn set_built(programs: BTreeMap<String, PathBuf>) {
    BUILT.get_or_init(|| programs);
}

/// A program that was built with the tests: the binary, or an example of a crate.
pub(crate) fn built(name: &str) -> Option<&'static Path> {
    BUILT.get()?.get(name).map(PathBuf::as_path)
}

/// Builds the binary in the tests' profile, with cargo's progress, unless the tests were built before; says where it is.
pub(crate) fn build() -> Result<PathBuf> {
    if let Some(built) = built("outboard") {
        return Ok(built.to_owned());
    }
    // The workspace's features, as the tests have them.
    run(&mut cargo(["build", "--bin=outboard"]))?;
    Ok(target().join("debug/outboard"))
}

/// Builds the release binary, with cargo's progress, and says where it is.
pub(crate) fn build_release() -> Result<PathBuf> {
    release(&["--package", "outboard"])
}

/// The same with volumes on object stores.
pub(crate) fn build_release_with_bucket() -> Result<PathBuf> {
    release(&crate::s3_servers::WITH_BUCKET)
}

fn release(selection: &[&str]) -> Result<PathBuf> {
    run(cargo(["build", "--release", "--bin=outboard"]).args(selection))?;
    Ok(target().join("release/outboard"))
}

/// The words of a command, for messages.
pub(crate) fn words(command: &Command) -> String {
    std::iter::once(command.get_program())
        .chain(command.get_args())
        .map(|word| word.to_string_lossy().into_owned())
        .collect::<Vec<_>>()
        .join(" ")
}

/// A child that is ended when this is dropped, and by the kernel should we be killed first.
#[derive(Debug)]
pub(crate) struct Running {
    child: Child,
    what: String,
}

impl Running {
    /// Starts `program` with its output going to `log`.
    pub(crate) fn start<S: AsRef<OsStr>>(
        program: impl AsRef<OsStr>,
        args: impl IntoIterator<Item = S>,
        log: &Path,
    ) -> Result<Self> {
        Self::start_in(Path::new("."), program, args, log)
    }

    /// The same in another folder than this one.
    pub(crate) fn start_in<S: AsRef<OsStr>>(
        folder: &Path,
        program: impl AsRef<OsStr>,
        args: impl IntoIterator<Item = S>,
        log: &Path,
    ) -> Result<Self> {
        let log = std::fs::File::create(log)
            .with_context(|| format!("cannot write {}", log.display()))?;
        let mut command = Command::new("setpriv");
        command
            .args(["--pdeathsig", "KILL", "--"])
            .arg(program)
            .args(args)
            .current_dir(folder)
            // A Ctrl-C is for us; what we started is ended in order.
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log);
        let what = words(&command);
        let child = command
            .spawn()
            .with_context(|| format!("cannot start {what}"))?;
        Ok(Self { child, what })
    }

    /// The process id.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Ends the child at once.
    pub(crate) fn kill(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }

    /// An error when the child has ended already.
    pub(crate) fn still_runs(&mut self) -> Result<()> {
        match self.child.try_wait()? {
            None => Ok(()),
            Some(status) => bail!("{} ended early with {status}", self.what),
        }
    }

    /// Waits for the end, at most `limit`.
    pub(crate) fn wait(&mut self, limit: Duration) -> Option<ExitStatus> {
        clock::poll(limit, || self.child.try_wait().ok().flatten())
    }

    /// Terminates the child and waits for it.
    pub(crate) fn terminate(&mut self, limit: Duration) -> Result<ExitStatus> {
        terminate(self.id());
        self.wait(limit)
            .with_context(|| format!("{} did not stop within {limit:?}", self.what))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            terminate(self.id());
            if self.wait(Duration::from_secs(5)).is_none() {
                self.child.kill().ok();
            }
        }
        self.child.wait().ok();
    }
}

/// Sends SIGTERM; one that is gone already is no error.
pub(crate) fn terminate(id: u32) {
    Command::new("kill")
        .arg(id.to_string())
        .stderr(Stdio::null())
        .status()
        .ok();
}
