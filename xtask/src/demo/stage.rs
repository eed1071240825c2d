//! Where the demo plays: a folder, the binary with an environment that points into it, and the server.

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use signal_hook::consts::{SIGINT, SIGTERM};

use crate::clock;
use crate::shell::{self, Running};

/// How long the server may take to listen.
const LISTEN_LIMIT: Duration = Duration::from_secs(20);

/// How long the server may take to stop: it gives requests in flight 20 s and then each flush 20 s. What a slow disk still has to write by
/// then is written before, without a limit.
const STOP_LIMIT: Duration = Duration::from_secs(60);

/// The folder and what runs in it.
#[derive(Debug)]
pub(super) struct Stage {
    binary: PathBuf,
    folder: PathBuf,
    server: RefCell<Option<Running>>,
    /// Set by Ctrl-C: the next step is not taken, and what there is, is cleared.
    interrupted: Arc<AtomicBool>,
}

impl Stage {
    /// A new folder below `above`.
    pub(super) fn new(binary: PathBuf, above: &Path) -> Result<Self> {
        let folder = above.join(format!("run-{}", std::process::id()));
        std::fs::create_dir_all(&folder)
            .with_context(|| format!("cannot make {}", folder.display()))?;
        let interrupted = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM] {
            signal_hook::flag::register(signal, Arc::clone(&interrupted))?;
        }
        Ok(Self {
            binary,
            interrupted,
            folder: folder.canonicalize()?,
            server: RefCell::new(None),
        })
    }

    /// Where it is.
    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Runs the binary and shows what it prints.
    pub(super) fn outboard(&self, args: &[&str]) -> Result<()> {
        self.show("outboard", args)?;
        shell::run(&mut self.command(args))
    }

    /// Runs the binary and returns what it prints.
    pub(super) fn outboard_says(&self, args: &[&str]) -> Result<String> {
        self.show("outboard", args)?;
        shell::output(&mut self.command(args))
    }

    /// Runs a line of shell in the folder.
    pub(super) fn sh(&self, script: &str) -> Result<()> {
        self.show(script, &[])?;
        let mut command = Command::new("sh");
        command.args(["-ec", script]).current_dir(&self.folder);
        shell::run(&mut command)
    }

    /// Serves `disk` on a free port; the URI of its export.
    pub(super) fn serve(&self, disk: &str) -> Result<String> {
        let args = [
            "serve",
            disk,
            "--listen",
            "127.0.0.1:0",
            "--port-file",
            "port",
        ];
        self.show("outboard", &args)?;
        let log = self.folder.join("server.log");
        let mut server = Running::start_in(&self.folder, &self.binary, args, &log)?;
        let port = clock::poll(LISTEN_LIMIT, || {
            let told = std::fs::read_to_string(self.folder.join("port")).ok()?;
            told.trim().parse::<u16>().ok()
        });
        let logged = || std::fs::read_to_string(&log).unwrap_or_default();
        server.still_runs().with_context(logged)?;
        let port = port.with_context(|| format!("the server does not listen: {}", logged()))?;
        *self.server.borrow_mut() = Some(server);
        let (name, _) = disk.split_once('=').unwrap_or(("", disk));
        Ok(format!("nbd://127.0.0.1:{port}/{name}"))
    }

    /// Stops the server, which must end well.
    pub(super) fn stop_serving(&self) -> Result<()> {
        let Some(mut server) = self.server.borrow_mut().take() else {
            return Ok(());
        };
        // A slow disk may need minutes for what the page cache holds: nothing of that is left for the server's last flush.
        self.sh("sync -f .")?;
        println!("$ kill {}   # may take {STOP_LIMIT:?}", server.id());
        let status = server.terminate(STOP_LIMIT)?;
        ensure!(status.success(), "the server ended with {status}");
        Ok(())
    }

    /// Takes down everything that still runs, also after a failure, and removes the folder.
    pub(super) fn clear(&self) -> Result<()> {
        let detached = shell::output(&mut self.command(&["detach", "--all"]));
        drop(self.server.borrow_mut().take());
        detached?;
        std::fs::remove_dir_all(&self.folder)
            .with_context(|| format!("cannot remove {}", self.folder.display()))
    }

    /// The binary with attachments and results of its own.
    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(&self.binary);
        command
            .args(args)
            .current_dir(&self.folder)
            .env("OUTBOARD_RUNTIME_DIR", self.folder.join("run"))
            .env("XDG_DATA_HOME", self.folder.join("data"))
            .env("XDG_STATE_HOME", self.folder.join("state"));
        command
    }

    /// Prints a command before it runs, unless nothing more is to run.
    fn show(&self, program: &str, args: &[&str]) -> Result<()> {
        ensure!(!self.interrupted.load(Ordering::Relaxed), "interrupted");
        let words = [&[program], args].concat();
        println!("$ {}", words.join(" "));
        Ok(())
    }
}
