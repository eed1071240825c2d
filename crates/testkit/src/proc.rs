//! Programs under test: started, waited for with a deadline, and ended by their id when dropped.
//!
//! What a program prints goes to temporary files, so that a full pipe never stops it and no thread
//! is needed to read it.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

/// Time between two looks at what is waited for.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// Why waiting for a program ended without what was waited for.
#[derive(Debug, thiserror::Error)]
pub enum WaitError {
    /// The deadline passed.
    #[error("{program}: no {what} within {waited:?}; it printed:\n{printed}")]
    Late {
        /// The program.
        program: String,
        /// What was waited for.
        what: String,
        /// How long.
        waited: Duration,
        /// Its stderr so far.
        printed: String,
    },
    /// The program ended.
    #[error("{program}: ended with {status} before {what}; it printed:\n{printed}")]
    Ended {
        /// The program.
        program: String,
        /// How.
        status: ExitStatus,
        /// What was waited for.
        what: String,
        /// Its stderr.
        printed: String,
    },
    /// The system refused something.
    #[error("{program}: {source}")]
    System {
        /// The program.
        program: String,
        /// Why.
        #[source]
        source: io::Error,
    },
}

/// A running program. Killed and waited for when dropped.
#[derive(Debug)]
pub struct Process {
    program: String,
    child: Child,
    stdout: File,
    stderr: File,
}

impl Process {
    /// Starts `command` with its stdout and stderr kept; stdin is closed unless the command has
    /// one.
    ///
    /// # Errors
    /// If the program cannot be started or there is no place for temporary files.
    pub fn start(command: &mut Command) -> Result<Self, WaitError> {
        Self::start_with(command.stdin(Stdio::null()))
    }

    /// The same, with the stdin of the command.
    ///
    /// # Errors
    /// If the program cannot be started or there is no place for temporary files.
    pub fn start_with(command: &mut Command) -> Result<Self, WaitError> {
        let program = command.get_program().to_string_lossy().into_owned();
        let mut start = || {
            let stdout = tempfile::tempfile()?;
            let stderr = tempfile::tempfile()?;
            let child = command
                .stdout(stdout.try_clone()?)
                .stderr(stderr.try_clone()?)
                .spawn()?;
            Ok((child, stdout, stderr))
        };
        match start() {
            Ok((child, stdout, stderr)) => Ok(Self {
                program,
                child,
                stdout,
                stderr,
            }),
            Err(source) => Err(WaitError::System { program, source }),
        }
    }

    /// Its process id.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// What it printed on stderr so far.
    #[must_use]
    pub fn stderr(&self) -> String {
        read_whole(&self.stderr)
    }

    /// What it printed on stdout so far.
    #[must_use]
    pub fn stdout(&self) -> String {
        read_whole(&self.stdout)
    }

    /// Waits for a file with a whole line in it, as a port file has, and returns the line.
    ///
    /// # Errors
    /// [`WaitError`].
    pub fn wait_for_file(&mut self, path: &Path, limit: Duration) -> Result<String, WaitError> {
        self.wait_until(&format!("line in {}", path.display()), limit, |_| {
            let text = std::fs::read_to_string(path).ok()?;
            let (line, _) = text.split_once('\n')?;
            Some(line.to_owned())
        })
    }

    /// Waits for a line on stdout or stderr that holds `part`, and returns it.
    ///
    /// # Errors
    /// [`WaitError`].
    pub fn wait_for_line(&mut self, part: &str, limit: Duration) -> Result<String, WaitError> {
        self.wait_until(&format!("line with {part:?}"), limit, |process| {
            let printed = process.stdout() + &process.stderr();
            let mut whole = printed
                .split_inclusive('\n')
                .filter(|line| line.ends_with('\n'));
            let line = whole.find(|line| line.contains(part))?;
            Some(line.trim_end().to_owned())
        })
    }

    /// Waits until a Unix socket at `path` takes connections.
    ///
    /// # Errors
    /// [`WaitError`].
    pub fn wait_for_socket(&mut self, path: &Path, limit: Duration) -> Result<(), WaitError> {
        self.wait_until(&format!("socket {}", path.display()), limit, |_| {
            std::os::unix::net::UnixStream::connect(path).ok().map(drop)
        })
    }

    /// Waits for the program's end.
    ///
    /// # Errors
    /// [`WaitError::Late`] with the program still running.
    pub fn wait(&mut self, limit: Duration) -> Result<ExitStatus, WaitError> {
        match self.wait_until("end", limit, |_| None::<()>) {
            Err(WaitError::Ended { status, .. }) => Ok(status),
            Err(e) => Err(e),
            Ok(()) => unreachable!("nothing but the end was waited for"),
        }
    }

    /// Sends a signal.
    ///
    /// # Errors
    /// [`WaitError::System`].
    pub fn signal(&self, signal: Signal) -> Result<(), WaitError> {
        let result = kill_process(Pid::from_child(&self.child), signal);
        result.map_err(|e| self.system(e.into()))
    }

    /// Waits until `look` finds something, the program ends or `limit` has passed. `what` names
    /// it for the error.
    ///
    /// # Errors
    /// [`WaitError`].
    pub fn wait_until<T>(
        &mut self,
        what: &str,
        limit: Duration,
        mut look: impl FnMut(&Self) -> Option<T>,
    ) -> Result<T, WaitError> {
        let start = now();
        loop {
            // The exit is polled first: what is found after it was there at the end.
            let ended = self.child.try_wait().map_err(|e| self.system(e))?;
            if let Some(found) = look(self) {
                return Ok(found);
            }
            if let Some(status) = ended {
                return Err(WaitError::Ended {
                    program: self.program.clone(),
                    status,
                    what: what.to_owned(),
                    printed: self.stderr(),
                });
            }
            if now().duration_since(start) >= limit {
                return Err(WaitError::Late {
                    program: self.program.clone(),
                    what: what.to_owned(),
                    waited: limit,
                    printed: self.stderr(),
                });
            }
            std::thread::sleep(LOOK_EVERY);
        }
    }

    fn system(&self, source: io::Error) -> WaitError {
        WaitError::System {
            program: self.program.clone(),
            source,
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Both fail only if it has ended and been waited for already.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// Path of outboard's binary: `OUTBOARD_BIN`, or the one next to the running test.
///
/// # Errors
/// Says how to build it.
pub fn outboard() -> Result<PathBuf, String> {
    if let Some(path) = std::env::var_os("OUTBOARD_BIN") {
        return Ok(path.into());
    }
    let test = std::env::current_exe().map_err(|e| e.to_string())?;
    // A test is target/PROFILE/deps/NAME; a binary is target/PROFILE/NAME.
    let found = test
        .ancestors()
        .skip(1)
        .take(2)
        .map(|folder| folder.join("outboard"))
        .find(|path| path.is_file());
    found.ok_or_else(|| {
        format!(
            "no outboard next to {}: run `cargo build -p outboard` or set OUTBOARD_BIN",
            test.display()
        )
    })
}

/// The whole file, read at offsets: its position is shared with the program that writes it.
fn read_whole(file: &File) -> String {
    const PIECE: usize = 4096;
    let mut text = Vec::new();
    loop {
        let start = text.len();
        text.resize(start + PIECE, 0);
        match file.read_at(&mut text[start..], start as u64) {
            Ok(count) => text.truncate(start + count),
            Err(e) => return format!("(what it printed cannot be read: {e})"),
        }
        if text.len() == start {
            return String::from_utf8_lossy(&text).into_owned();
        }
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "waits for real programs in real time"
)]
fn now() -> Instant {
    Instant::now()
}
