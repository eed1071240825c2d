//! A scenario: every drive of the run works at the same time, as behind one hub. What is left of each?
//!
//! One fio with a job for each drive, all for the same time, one request at a time each; the headline is
//! what this target's own drive had of it. Compared with the same job alone it shows what a shared bus
//! takes; "all together" is what the bus carries. With one drive it is that drive alone.
//!
//! Invariants: it works in the tools' directory of each target of the run and nowhere else. Files are
//! written before they are read, and stay for the next block.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::files::make_folder;
use super::programs::FIO;
use super::result::{ToolFigure, ToolResult, Unit};
use super::{
    Installed, Invocation, Program, Ran, Start, Tick, ToolDirs, ToolError, ToolKind, Writes,
};
use crate::fio::command::file_name;
use crate::plan::{BLOCK_SIZE_MAX, Direction, bounds, size};
use crate::units::{Bytes, Nanos};

/// What has to be installed.
pub const PROGRAM: Program = FIO;
/// The file on each drive.
const FILE: &str = "together.data";
/// How long writing it for the first time may take on one drive.
const LAY_OUT: Duration = Duration::from_secs(300);

/// Its options, as a plan has them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TogetherOptions {
    /// Which way the bytes go.
    pub direction: Direction,
    /// Bytes of one request.
    #[serde(with = "size")]
    pub block_size: Bytes,
    /// The file on each drive; a job at its end begins again.
    #[serde(with = "size")]
    pub bytes: Bytes,
    /// How long.
    pub runtime_ms: u64,
}

/// The command: a job for each directory, the target's own first.
#[must_use]
pub fn command<'a>(
    options: &TogetherOptions,
    installed: &Installed,
    directories: impl Iterator<Item = &'a Path>,
) -> Invocation {
    let mut args: Vec<OsString> = Vec::new();
    for (number, directory) in directories.enumerate() {
        args.push(format!("--name=drive-{number}").into());
        args.push(file_name(&directory.join(FILE)));
        args.extend(
            [
                format!("--rw={}", options.direction.as_str()),
                format!("--bs={}", options.block_size.0),
                format!("--size={}", options.bytes.0),
                format!("--runtime={}ms", options.runtime_ms),
                format!(
                    "--end_fsync={}",
                    u8::from(options.direction == Direction::Write)
                ),
                "--time_based=1".into(),
                "--ioengine=psync".into(),
                "--direct=1".into(),
                "--thread".into(),
                "--allow_file_create=0".into(),
            ]
            .map(OsString::from),
        );
    }
    args.extend(["--eta=never", "--output-format=json"].map(OsString::from));
    Invocation::new(&installed.program, args)
}

/// What each job had, in bytes per second, from fio's JSON; none when it is no result of these jobs.
#[must_use]
pub fn rates(text: &str, direction: Direction) -> Option<Vec<f64>> {
    // fio writes its remarks before the JSON.
    let root: Value = serde_json::from_slice(&text.as_bytes()[text.find('{')?..]).ok()?;
    let rate = |job: &Value| {
        let section = &job[direction.as_str()];
        let (bytes, ms) = (section["io_bytes"].as_u64()?, section["runtime"].as_u64()?);
        let is_usable = job["error"].as_i64()? == 0 && bytes > 0 && ms > 0;
        is_usable.then(|| bytes as f64 / Nanos::from_ms(ms).seconds())
    };
    root["jobs"].as_array()?.iter().map(rate).collect()
}

/// The figures of all drives, this one first; none when there is none.
#[must_use]
pub fn figures(rates: &[f64]) -> Option<Vec<ToolFigure>> {
    let own = *rates.first()?;
    let all: f64 = rates.iter().sum();
    Some(vec![
        ToolFigure::rate("this drive", own),
        ToolFigure::rate("all together", all),
        ToolFigure::higher("drives", rates.len() as f64, Unit::Count),
    ])
}

/// Where it works on each drive, the target's own first.
pub(super) fn directories<'a>(place: &ToolDirs<'a>) -> impl Iterator<Item = &'a Path> + use<'a> {
    let beside = place.beside.iter().map(PathBuf::as_path);
    std::iter::once(place.directory).chain(beside)
}

impl ToolKind for TogetherOptions {
    fn program(&self) -> Program {
        PROGRAM
    }

    fn name(&self) -> &'static str {
        "together"
    }

    fn check(&self) -> Result<(), String> {
        bounds::whole_mib(self.bytes)?;
        bounds::block_size(self.block_size, BLOCK_SIZE_MAX.min(self.bytes))?;
        match self.runtime_ms {
            0 => Err("runtime_ms is 0".into()),
            _ => Ok(()),
        }
    }

    fn usual(&self) -> Nanos {
        Nanos::from_ms(self.runtime_ms)
    }

    fn is_timed(&self) -> bool {
        true
    }

    fn writes(&self) -> Writes {
        match self.direction {
            Direction::Write => Writes::AsMuchAsItCan,
            Direction::Read => Writes::Nothing,
        }
    }

    fn laid_out(&self) -> Bytes {
        self.bytes
    }

    fn shown(&self, installed: &Installed, place: &ToolDirs<'_>) -> Vec<String> {
        vec![command(self, installed, directories(place)).shown()]
    }

    /// Writes the file onto every drive that has none yet; see [`ToolKind::prepare`].
    fn prepare(&self, place: &ToolDirs<'_>, tick: Tick<'_>) -> Result<Option<String>, ToolError> {
        let fio = super::find(PROGRAM)?;
        let mut made = Vec::new();
        for directory in directories(place) {
            let file = directory.join(FILE);
            if fs::metadata(&file).is_ok_and(|found| found.len() == self.bytes.0) {
                continue;
            }
            make_folder(directory)?;
            let args = [
                "--name=lay-out".into(),
                file_name(&file),
                "--rw=write".into(),
                "--bs=1m".into(),
                format!("--size={}", self.bytes.0).into(),
                "--fallocate=none".into(),
                "--end_fsync=1".into(),
                "--eta=never".into(),
            ];
            let command = Invocation::new(&fio.program, args);
            command.run(place, LAY_OUT, tick)?;
            made.push(command.shown());
        }
        Ok(Some(made.join("; ")))
    }

    fn run(&self, mut start: Start<'_>) -> Result<Ran, ToolError> {
        let command = command(self, start.installed, directories(start.place));
        let printed = start.run(&command)?;
        let drives = start.place.beside.len() + 1;
        let rates = rates(&printed.output, self.direction).filter(|rates| rates.len() == drives);
        let figures = rates.as_deref().and_then(figures);
        let figures = figures.ok_or(PROGRAM.unreadable("result of a drive"))?;
        Ok(Ran {
            result: ToolResult {
                subject: Some(match drives {
                    1 => "one drive".into(),
                    _ => format!("{drives} drives at once"),
                }),
                ..start.result(figures, printed.elapsed)
            },
            output: printed.output,
            commands: vec![command.shown()],
            findings: Vec::new(),
        })
    }
}
