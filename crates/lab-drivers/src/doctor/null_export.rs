//! [`NullExport`]: a server of our own with a disk of nothing, as another process. What it does
//! not carry, no server of ours carries on this machine.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use lab::supervisor::{Supervised, Terminate};

use super::disk::ExaminedDisk;
use super::session::DoctorSession;
use crate::DriverError;

/// How long it may take to listen.
const START: Duration = Duration::from_secs(20);
/// How long it may take to end.
const GRACE: Duration = Duration::from_secs(2);
/// Between two looks at whether it does.
const LOOK: Duration = Duration::from_millis(10);
/// Its size: no measurement gets to its end.
const DISK: &str = "null(1T)";
/// Below the doctor's folder.
const CERTIFICATES: &str = "certificates";

/// How it is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Over {
    /// A Unix socket.
    Unix,
    /// TCP over loopback.
    Tcp,
    /// TCP over loopback, with TLS.
    Tls,
}

impl Over {
    /// A null export that is reached so, in words.
    pub(super) const fn named(self) -> &'static str {
        match self {
            Self::Unix => "a null export of our own over a Unix socket",
            Self::Tcp => "a null export of our own over loopback",
            Self::Tls => "a null export of our own over loopback, with TLS",
        }
    }
}

/// A running server; ended when dropped.
#[derive(Debug)]
pub(super) struct NullExport {
    child: Supervised,
    uri: String,
    over: Over,
}

impl NullExport {
    /// Starts one that ends with this process at the latest.
    pub(super) fn start(session: &DoctorSession<'_>, over: Over) -> Result<Self, DriverError> {
        let folder = session.folder();
        let name = match over {
            Over::Unix => "unix",
            Over::Tcp => "tcp",
            Over::Tls => "tls",
        };
        let port_file = folder.join(format!("{name}.port"));
        let socket = folder.join(format!("{name}.socket"));
        let mut command = ourselves(folder)?;
        command.args(["serve", DISK, "--exit-with-parent"]);
        match over {
            Over::Unix => command
                .arg("--listen")
                .arg(format!("unix:{}", socket.display())),
            Over::Tcp | Over::Tls => command
                .args(["--listen", "127.0.0.1:0", "--port-file"])
                .arg(&port_file),
        };
        if over == Over::Tls {
            certificates(folder)?;
            command.arg("--tls").arg(folder.join(CERTIFICATES));
        }
        let child = Supervised::spawn(&mut command);
        let child =
            child.map_err(|error| DriverError::because("cannot start a null export", error))?;
        let mut export = Self {
            child,
            uri: String::new(),
            over,
        };
        let ready = match over {
            Over::Unix => &socket,
            Over::Tcp | Over::Tls => &port_file,
        };
        let told = export.wait_for(session, ready)?;
        let certificates = folder.join(CERTIFICATES);
        export.uri = match over {
            Over::Unix => format!("nbd+unix:///?socket={}", socket.display()),
            Over::Tcp => format!("nbd://127.0.0.1:{told}/"),
            Over::Tls => format!(
                "nbds://127.0.0.1:{told}/?tls-certificates={}",
                certificates.display()
            ),
        };
        Ok(export)
    }

    /// Its only export.
    pub(super) fn disk(&self, session: &DoctorSession<'_>) -> Result<ExaminedDisk, DriverError> {
        session.args.disks.resolve(&self.uri)
    }

    pub(super) fn process(&self) -> u32 {
        self.child.id()
    }

    /// Waits for a file and returns its first line; a socket has none.
    fn wait_for(&self, session: &DoctorSession<'_>, path: &Path) -> Result<String, DriverError> {
        let line = || {
            let text = std::fs::read_to_string(path).unwrap_or_default();
            let is_whole = path.exists() && (self.over == Over::Unix || text.ends_with('\n'));
            is_whole.then(|| text.trim().to_owned())
        };
        let mut tick = |_| !session.is_cancelled();
        let found = self.child.wait_ready(START, LOOK, &mut tick, line);
        session.go_on()?;
        found.ok_or_else(|| DriverError::new("a null export of our own does not listen"))
    }
}

impl Drop for NullExport {
    fn drop(&mut self) {
        if let Err(error) = self.child.end(Terminate::Leader, GRACE) {
            tracing::warn!(%error, "a null export could not be ended");
        }
    }
}

/// This program, quiet, with a runtime directory of its own: `outboard status` does not show the doctor's servers.
fn ourselves(folder: &Path) -> Result<Command, DriverError> {
    let program = std::env::current_exe();
    let program =
        program.map_err(|error| DriverError::because("cannot find this program", error))?;
    let mut command = Command::new(program);
    let quiet = [Stdio::null(), Stdio::null(), Stdio::null()];
    let [stdin, stdout, stderr] = quiet;
    command.stdin(stdin).stdout(stdout).stderr(stderr);
    command.env(attach::RUNTIME_DIR_VARIABLE, folder.join("run"));
    command.env_remove("LISTEN_FDS").env_remove("LISTEN_PID");
    Ok(command)
}

/// Certificates for the doctor's own server and client, made once.
fn certificates(folder: &Path) -> Result<(), DriverError> {
    let target = folder.join(CERTIFICATES);
    if target.exists() {
        return Ok(());
    }
    let mut command = ourselves(folder)?;
    let made = command.args(["tls", "init"]).arg(&target).status();
    match made {
        Ok(status) if status.success() => Ok(()),
        _ => Err(DriverError::new(
            "cannot make certificates for a null export of our own",
        )),
    }
}
