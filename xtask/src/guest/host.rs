//! The host's part of a script: what is done at the speed of this machine, outside the guest.
//!
//! It is a shell script of its own, run from its first line for every `@host WORD…` with these words as its
//! arguments, in the folder of the run, where the images of the disks are, with `outboard` found first and
//! the folder of the scripts in `SCRIPTS`.
//! What it prints is shown with the console; its last line is the answer to the guest. When it fails, so
//! does the whole script.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

use crate::shell;

/// The part, written where it is run.
#[derive(Debug)]
pub(super) struct HostPart {
    script: PathBuf,
    folder: PathBuf,
    path: OsString,
}

impl HostPart {
    /// Writes the part into the folder of the run.
    pub(super) fn write(folder: &Path, text: &str, binary: Option<&Path>) -> Result<Self> {
        let script = folder.join("host.sh");
        std::fs::write(&script, text)
            .with_context(|| format!("cannot write {}", script.display()))?;
        let mut path = OsString::new();
        if let Some(programs) = binary.and_then(Path::parent) {
            path.push(programs);
            path.push(":");
        }
        path.push(std::env::var_os("PATH").unwrap_or_default());
        path.push(":/usr/sbin:/sbin");
        Ok(Self {
            script,
            folder: folder.to_owned(),
            path,
        })
    }

    /// Runs the part with `words`; its output joins the console, and the last line is returned.
    pub(super) fn run(&self, words: &[String], console: &mut Vec<String>) -> Result<String> {
        let what = words.join(" ");
        let log = self.folder.join("host.log");
        let output = std::fs::File::create(&log)?;
        // Not a pipe: a server that the part leaves running would keep it open.
        let status = Command::new("setpriv")
            .args(["--pdeathsig", "KILL", "--", "sh", "-eu"])
            .arg(&self.script)
            .args(words)
            .current_dir(&self.folder)
            .env("PATH", &self.path)
            .env("SCRIPTS", shell::root().join("tests/guest"))
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output)
            .status()
            .context("cannot start sh")?;
        let output = String::from_utf8_lossy(&std::fs::read(&log)?).into_owned();
        console.extend(output.lines().map(|line| format!("host: {line}")));
        ensure!(
            status.success(),
            "the host's part of {what} ended with {status}"
        );
        Ok(output.lines().last().unwrap_or("").to_owned())
    }
}
