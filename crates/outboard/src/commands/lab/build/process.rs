//! Processes of ours that go on while a target stands: how they are started, and waited for.
//!
//! Invariant: a process that was started stands in the target from then on, whatever comes of it.

use std::fs::OpenOptions;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use lab::tools::Invocation;

use super::carry_out::Work;
use super::facts::Facts;
use super::standing::Part;
use crate::commands::lab::said::last_line;

/// How long a process may take until it is ready.
const START: Duration = Duration::from_secs(30);
/// Between two looks.
const POLL: Duration = Duration::from_millis(10);

/// A process that was started.
#[derive(Debug)]
pub(super) struct Started {
    /// Its id.
    pub(super) pid: u32,
    /// The file that it prints into.
    log: PathBuf,
}

impl Started {
    /// What it has printed so far.
    pub(super) fn said(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Whether it is there and has not ended.
    fn is_running(&self) -> bool {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.pid)).unwrap_or_default();
        stat.rsplit_once(") ")
            .is_some_and(|(_, rest)| !rest.starts_with('Z'))
    }
}

impl Work<'_> {
    /// Starts what is called `name` and prints into `log`.
    pub(super) fn start(
        &mut self,
        name: &str,
        invocation: &Invocation,
        log: &Path,
    ) -> Result<Started, String> {
        use std::os::unix::process::CommandExt;
        let program = &invocation.program;
        let failed = |error: std::io::Error| format!("cannot start {}: {error}", program.display());
        let open = || {
            let mut options = OpenOptions::new();
            options.create(true).append(true).open(log).map_err(failed)
        };
        let child = Command::new(program)
            .args(&invocation.args)
            // It ends with us, and so does smbd with it.
            .stdin(Stdio::piped())
            .stdout(open()?)
            .stderr(open()?)
            // Ctrl-C in a terminal reaches us; what stands is then taken down in its order.
            .process_group(0)
            .spawn()
            .map_err(failed)?;
        let pid = child.id();
        self.standing.add(Part::Process {
            name: name.to_owned(),
            child,
        });
        Ok(Started {
            pid,
            log: log.to_owned(),
        })
    }

    /// Waits until `ready`. A process that ends before that, or takes too long, has said why in its last
    /// line; if it said nothing, `otherwise` is the reason.
    pub(super) fn wait_until(
        &self,
        process: &Started,
        otherwise: &str,
        ready: impl Fn() -> bool,
    ) -> Result<(), String> {
        let started = engine::clock::now();
        while !ready() {
            if self.cancel.is_cancelled() {
                return Err("stopped".into());
            }
            let waited = engine::clock::now().duration_since(started);
            if !process.is_running() || waited > START {
                let said = process.said();
                return Err(last_line(&said).unwrap_or(otherwise).to_owned());
            }
            std::thread::sleep(POLL);
        }
        Ok(())
    }
}

/// The program that runs now.
pub(super) fn own_program() -> Result<PathBuf, String> {
    std::env::current_exe().map_err(|error| format!("cannot tell where this program is: {error}"))
}

/// Where a program of the system's is.
pub(super) fn program(name: &str) -> Result<PathBuf, String> {
    let found = Facts::of_this_machine().program(name);
    found.ok_or_else(|| format!("there is no {name}"))
}

/// A port of loopback that nobody listens on.
pub(super) fn free_port() -> Result<u16, String> {
    lab::host::listeners::free_port(std::net::Ipv4Addr::LOCALHOST.into())
        .map_err(|error| format!("cannot find a free port: {error}"))
}
