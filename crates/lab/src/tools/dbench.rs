//! dbench: the file operations that a Samba server makes for its clients, from a trace.
//!
//! The paper on virtual disks calls it the best single indication of a server's disk. Writes dominate
//! in it, since reads of a real server mostly come from memory. Its figure is the data that its
//! clients read and wrote, in 10^6 bytes per second; it leaves dirty data behind, so `sync` is on
//! where the I/O path is measured and not memory.

use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::result::{ToolFigure, ToolResult, Unit};
use super::{Installed, Invocation, Program, Ran, Start, ToolDirs, ToolError, ToolKind, Writes};
use crate::plan::bounds;
use crate::units::{Bytes, Nanos};

/// What has to be installed.
pub const PROGRAM: Program = Program {
    name: "dbench",
    package: "dbench",
    version_args: &["--version"],
};
/// The most clients of one start.
pub const CLIENTS_MAX: u32 = 256;
/// It takes its figure once a second, and the first second is none.
pub(crate) const RUNTIME_MIN_MS: u64 = 2000;

/// Its options, as a plan has them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DbenchOptions {
    /// Clients at once, each with a directory of its own.
    pub clients: u32,
    /// How long; whole seconds.
    pub runtime_ms: u64,
    /// Every write waits for the disk.
    #[serde(default)]
    pub sync: bool,
}

/// The command.
#[must_use]
pub fn command(options: &DbenchOptions, installed: &Installed, place: &ToolDirs<'_>) -> Invocation {
    let seconds = (options.runtime_ms / 1000).to_string();
    let mut args: Vec<OsString> = vec!["-t".into(), seconds.into()];
    args.extend(["-D".into(), directory(place).into()]);
    if options.sync {
        args.push("-s".into());
    }
    args.push(options.clients.to_string().into());
    Invocation::new(&installed.program, args)
}

/// It leaves the directories of its clients behind, so it gets one that can be removed.
fn directory(place: &ToolDirs<'_>) -> PathBuf {
    place.directory.join(PROGRAM.name)
}

/// The figures in what it printed; any text is none at worst.
#[must_use]
pub fn parse(text: &str) -> Option<Vec<ToolFigure>> {
    let line = text.lines().find(|line| line.starts_with("Throughput "))?;
    let rate: f64 = line.split_whitespace().nth(1)?.parse().ok()?;
    // Ended before its first whole second: it prints 0, which is no measurement.
    if !(rate.is_finite() && rate > 0.0) {
        return None;
    }
    let mut figures = vec![ToolFigure::rate("throughput", rate * 1e6)];
    let slowest = line.split_once("max_latency=");
    let slowest = slowest.and_then(|(_, rest)| rest.split_whitespace().next()?.parse().ok());
    figures.extend(
        slowest.map(|ms: f64| ToolFigure::lower("slowest operation", ms * 1e6, Unit::Nanoseconds)),
    );
    for (name, operation) in [
        ("flush", "Flush"),
        ("write", "WriteX"),
        ("create", "NTCreateX"),
    ] {
        figures.extend(
            mean_latency(text, operation)
                .map(|ms| ToolFigure::lower(format!("mean {name}"), ms * 1e6, Unit::Nanoseconds)),
        );
    }
    Some(figures)
}

/// `Operation Count AvgLat MaxLat`, in milliseconds.
fn mean_latency(text: &str, operation: &str) -> Option<f64> {
    let mut rows = text.lines().map(str::split_whitespace);
    let mut row = rows.find(|row| row.clone().next() == Some(operation))?;
    row.nth(2)?.parse().ok()
}

impl ToolKind for DbenchOptions {
    fn program(&self) -> Program {
        PROGRAM
    }

    fn check(&self) -> Result<(), String> {
        bounds::within("clients", self.clients, 1..=CLIENTS_MAX)?;
        if self.runtime_ms < RUNTIME_MIN_MS || !self.runtime_ms.is_multiple_of(1000) {
            return Err(format!(
                "runtime_ms is {}, dbench needs whole seconds and at least {RUNTIME_MIN_MS}",
                self.runtime_ms
            ));
        }
        Ok(())
    }

    fn usual(&self) -> Nanos {
        Nanos::from_ms(self.runtime_ms)
    }

    fn is_timed(&self) -> bool {
        true
    }

    fn at_once(&self) -> Option<u32> {
        Some(self.clients)
    }

    fn writes(&self) -> Writes {
        Writes::AsMuchAsItCan
    }

    fn shown(&self, installed: &Installed, place: &ToolDirs<'_>) -> Vec<String> {
        vec![command(self, installed, place).shown()]
    }

    fn run(&self, mut start: Start<'_>) -> Result<Ran, ToolError> {
        let command = command(self, start.installed, start.place);
        let directory = directory(start.place);
        let failed = |error| ToolError::system(format!("use {}", directory.display()), error);
        fs::create_dir_all(&directory).map_err(failed)?;
        let ran = start.run(&command);
        let removed = fs::remove_dir_all(&directory);
        let printed = ran?;
        removed.map_err(failed)?;
        let figures = parse(&printed.output).ok_or(PROGRAM.unreadable("throughput"))?;
        let bytes = figures[0].value * Nanos::from_ms(self.runtime_ms).seconds();
        Ok(Ran {
            result: ToolResult {
                bytes: Some(Bytes(crate::units::round(bytes))),
                ..start.result(figures, printed.elapsed)
            },
            output: printed.output,
            commands: vec![command.shown()],
            findings: Vec::new(),
        })
    }
}
