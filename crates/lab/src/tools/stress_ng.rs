//! stress-ng: load on the processor while sensors watch temperature and clock.
//!
//! Its headline is operations per second of real time: what falls when a machine throttles. They are
//! its own operations, comparable only between starts with the same method on the same version.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::result::{ToolFigure, Unit};
use super::{Installed, Invocation, Program, Ran, Start, ToolDirs, ToolError, ToolKind, Writes};
use crate::plan::bounds;
use crate::units::Nanos;

/// What has to be installed.
pub const PROGRAM: Program = Program {
    name: "stress-ng",
    package: "stress-ng",
    version_args: &["--version"],
};
/// The most processes of one start.
pub(crate) const WORKERS_MAX: u32 = 1024;

/// Its options, as a plan has them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StressNgOptions {
    /// Processes that compute; one for each core when 0.
    #[serde(default)]
    pub workers: u32,
    /// What they compute, as stress-ng names it.
    #[serde(default = "method")]
    pub method: String,
    /// How long; whole seconds.
    pub runtime_ms: u64,
}

fn method() -> String {
    "matrixprod".into()
}

/// The command; its figures go to `figures`.
#[must_use]
pub fn command(options: &StressNgOptions, installed: &Installed, figures: &Path) -> Invocation {
    let seconds = format!("{}s", options.runtime_ms / 1000);
    let words = [
        "--cpu",
        &options.workers.to_string(),
        "--cpu-method",
        &options.method,
        "--timeout",
        &seconds,
        "--metrics",
        "--yaml",
    ]
    .map(Into::into);
    let args = words.into_iter().chain([figures.as_os_str().to_owned()]);
    Invocation::new(&installed.program, args)
}

/// The figures of its first stressor; any text is none at worst.
///
/// Its YAML is flat: `metrics:`, then `key: value` for each stressor.
#[must_use]
pub fn parse(text: &str) -> Option<Vec<ToolFigure>> {
    let (_, metrics) = text.split_once("\nmetrics:")?;
    let number = |key: &str| {
        let lines = metrics
            .lines()
            .map(|line| line.trim().trim_start_matches("- "));
        let mut found = lines.filter_map(|line| line.strip_prefix(key)?.strip_prefix(": "));
        let value: f64 = found.next()?.trim().parse().ok()?;
        (value.is_finite() && value >= 0.0).then_some(value)
    };
    let rate = number("bogo-ops-per-second-real-time").filter(|rate| *rate > 0.0)?;
    let mut figures = vec![ToolFigure::per_second("operations", rate)];
    figures.extend(
        number("bogo-ops-per-second-usr-sys-time")
            .map(|rate| ToolFigure::per_second("operations by CPU time", rate)),
    );
    figures.extend(
        number("cpu-usage-per-instance")
            .map(|percent| ToolFigure::higher("CPU of each worker", percent / 100.0, Unit::Part)),
    );
    Some(figures)
}

/// Where it writes its figures.
pub(super) fn figures_file(place: &ToolDirs<'_>) -> PathBuf {
    place.work.join("stress-ng.yaml")
}

impl ToolKind for StressNgOptions {
    fn program(&self) -> Program {
        PROGRAM
    }

    fn check(&self) -> Result<(), String> {
        bounds::at_most("workers", self.workers, WORKERS_MAX)?;
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '-';
        if self.method.is_empty() || !self.method.chars().all(plain) {
            return Err(format!("{:?} is no method of stress-ng", self.method));
        }
        PROGRAM.whole_seconds(self.runtime_ms)
    }

    fn usual(&self) -> Nanos {
        Nanos::from_ms(self.runtime_ms)
    }

    fn is_timed(&self) -> bool {
        true
    }

    fn at_once(&self) -> Option<u32> {
        (self.workers > 0).then_some(self.workers)
    }

    fn writes(&self) -> Writes {
        Writes::Nothing
    }

    fn shown(&self, installed: &Installed, place: &ToolDirs<'_>) -> Vec<String> {
        vec![command(self, installed, &figures_file(place)).shown()]
    }

    fn run(&self, start: Start<'_>) -> Result<Ran, ToolError> {
        let yaml = figures_file(start.place);
        let command = command(self, start.installed, &yaml);
        // It writes temporary files where it is started.
        let beside = ToolDirs {
            directory: start.place.work,
            ..*start.place
        };
        let printed = command.run(&beside, start.limit, start.tick)?;
        let output = std::fs::read_to_string(&yaml).unwrap_or_default();
        let figures = parse(&output).ok_or(PROGRAM.unreadable("metrics"))?;
        Ok(Ran {
            result: start.result(figures, printed.elapsed),
            output,
            commands: vec![command.shown()],
            findings: Vec::new(),
        })
    }
}
