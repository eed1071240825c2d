//! Which programs are there, in which version, and which Debian package has those that are not.

use std::fmt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde::{Deserialize, Serialize};

use super::{Invocation, ToolError};

/// A program that a tool needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Program {
    /// What is started.
    pub name: &'static str,
    /// The Debian package that has it.
    pub package: &'static str,
    /// What makes it say its version.
    pub version_args: &'static [&'static str],
}

/// What makes the load of a scenario.
pub(super) const FIO: Program = Program {
    name: "fio",
    package: "fio",
    version_args: &["--version"],
};

/// A job of fio, on a file of its name in `folder` if there is one. `options` have no blanks in them.
pub(super) fn fio_job(
    installed: &Installed,
    name: &str,
    folder: Option<&Path>,
    options: &str,
) -> Invocation {
    let file = folder.map(|folder| format!("--filename={}", folder.join(name).display()));
    let head = std::iter::once(format!("--name={name}")).chain(file);
    let args = head.chain(options.split(' ').map(str::to_owned));
    Invocation::new(&installed.program, args)
}

/// A program as installed here.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Installed {
    /// What is started.
    pub program: PathBuf,
    /// Its version, without its name: `4.00`.
    pub version: String,
}

impl Program {
    /// Checks how long it is to run: it counts in seconds.
    pub(super) fn whole_seconds(&self, runtime_ms: u64) -> Result<(), String> {
        if runtime_ms < 1000 || !runtime_ms.is_multiple_of(1000) {
            return Err(format!(
                "runtime_ms is {runtime_ms}, {} needs whole seconds",
                self.name
            ));
        }
        Ok(())
    }

    /// What it printed is no result.
    pub(super) const fn unreadable(&self, what: &'static str) -> ToolError {
        ToolError::Unreadable {
            tool: self.name,
            what,
        }
    }

    /// It ended as if all were well, and it was not.
    pub(super) fn failed(&self, reason: impl Into<String>) -> ToolError {
        ToolError::Failed {
            tool: self.name.into(),
            reason: reason.into(),
        }
    }
}

/// A program that is not here. Its text is one line that says what to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Missing(pub Program);

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Program { name, package, .. } = self.0;
        write!(f, "needs {name}: apt-get install {package}")
    }
}

/// Finds `program` on the path and reads its version.
///
/// # Errors
/// [`ToolError::Missing`] when it cannot be started.
pub fn find(program: Program) -> Result<Installed, ToolError> {
    let output = Command::new(program.name)
        .args(program.version_args)
        .env("LC_ALL", "C")
        .stdin(Stdio::null())
        .output()
        .map_err(|_| ToolError::Missing(Missing(program)))?;
    let said = [output.stdout, output.stderr].concat();
    Ok(Installed {
        program: PathBuf::from(program.name),
        version: version(&String::from_utf8_lossy(&said)).unwrap_or_else(|| "unknown".into()),
    })
}

/// The first word that is a version: it begins with a digit and has a point in it.
pub(super) fn version(said: &str) -> Option<String> {
    let words = said.split_whitespace();
    let mut words = words.map(|word| word.trim_end_matches([',', '.', ')']));
    words
        .find(|word| word.starts_with(|first: char| first.is_ascii_digit()) && word.contains('.'))
        .map(str::to_owned)
}
