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

use super::installed::FIO;
use super::result::{ToolFigure, ToolResult, Unit};
use super::{Installed, Invocation, Program, Ran, Start, Tick, ToolDirs, ToolError};
use crate::fio::command::file_name;
use crate::plan::{BLOCK_SIZE_MAX, Direction, size};
use crate::units::{Bytes, MIB, Nanos};

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

impl TogetherOptions {
    pub(super) fn check(&self) -> Result<(), String> {
        if self.bytes.0 < MIB || !self.bytes.0.is_multiple_of(MIB) {
            return Err(format!("bytes is {}, it must be whole MiB", self.bytes));
        }
        let block = self.block_size;
        if block.0 == 0 || !block.0.is_multiple_of(512) || block > BLOCK_SIZE_MAX.min(self.bytes) {
            return Err(format!(
                "block_size is {block}, it must be a multiple of 512 B that fits in bytes"
            ));
        }
        match self.runtime_ms {
            0 => Err("runtime_ms is 0".into()),
            _ => Ok(()),
        }
    }
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
    let root: Value = serde_json::from_str(&text[text.find('{')?..]).ok()?;
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
        ToolFigure::higher("this drive", own, Unit::BytesPerSecond),
        ToolFigure::higher("all together", all, Unit::BytesPerSecond),
        ToolFigure::higher("drives", rates.len() as f64, Unit::Count),
    ])
}

/// Writes the file onto every drive that has none yet; see [`super::prepare`].
pub(super) fn prepare(
    options: &TogetherOptions,
    place: &ToolDirs<'_>,
    tick: Tick<'_>,
) -> Result<String, ToolError> {
    let fio = super::find(PROGRAM)?;
    let mut made = Vec::new();
    for directory in directories(place) {
        let file = directory.join(FILE);
        if fs::metadata(&file).is_ok_and(|found| found.len() == options.bytes.0) {
            continue;
        }
        fs::create_dir_all(directory)
            .map_err(|error| ToolError::system(format!("make {}", directory.display()), error))?;
        let args = [
            "--name=lay-out".into(),
            file_name(&file),
            "--rw=write".into(),
            "--bs=1m".into(),
            format!("--size={}", options.bytes.0).into(),
            "--fallocate=none".into(),
            "--end_fsync=1".into(),
            "--eta=never".into(),
        ];
        let command = Invocation::new(&fio.program, args);
        command.run(place, LAY_OUT, tick)?;
        made.push(command.shown());
    }
    Ok(made.join("; "))
}

/// Where it works on each drive, the target's own first.
pub(super) fn directories<'a>(place: &ToolDirs<'a>) -> impl Iterator<Item = &'a Path> + use<'a> {
    let beside = place.beside.iter().map(PathBuf::as_path);
    std::iter::once(place.directory).chain(beside)
}

pub(super) fn run(options: &TogetherOptions, mut start: Start<'_>) -> Result<Ran, ToolError> {
    let command = command(options, start.installed, directories(start.place));
    let printed = start.run(&command)?;
    let drives = start.place.beside.len() + 1;
    let rates = rates(&printed.output, options.direction).filter(|rates| rates.len() == drives);
    let figures = rates.as_deref().and_then(figures);
    let figures = figures.ok_or(PROGRAM.unreadable("result of a drive"))?;
    Ok(Ran {
        result: ToolResult {
            subject: Some(match drives {
                1 => "one drive".into(),
                _ => format!("{drives} drives at once"),
            }),
            ..start.result("together", figures, printed.elapsed)
        },
        output: printed.output,
        commands: vec![command.shown()],
        findings: Vec::new(),
    })
}
