//! A scenario: several clients of one server read the same bytes at the same time, as diskless machines do.
//!
//! Every client is a fio of its own with a connection of its own; the server is ours, on loopback. The
//! headline is what all get together until the last is done.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::installed::FIO;
use super::layout::{RigLayout, quoted, shown as line};
use super::result::{ToolFigure, ToolResult, Unit};
use super::rig::{Rig, random_mib};
use super::{Installed, Invocation, Program, Ran, Start, Tick, ToolDirs, ToolError};
use crate::fio::{JobResult, parse};
use crate::plan::size;
use crate::units::{Bytes, MIB, Nanos};

/// What has to be installed.
pub const PROGRAM: Program = FIO;
/// The most clients at once.
pub const CLIENTS_MAX: u32 = 64;

/// Its options, as a plan has them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClientsOptions {
    /// Clients at once.
    pub clients: u32,
    /// What each reads, from the start.
    #[serde(with = "size")]
    pub bytes: Bytes,
    /// Bytes of one request.
    #[serde(with = "size")]
    pub block_size: Bytes,
    /// Requests each keeps in flight.
    pub depth: u32,
    /// What is served: an expression in which `{image}` is a file of `bytes`.
    #[serde(default = "plain")]
    pub disk: String,
}

fn plain() -> String {
    "{image}".into()
}

impl ClientsOptions {
    pub(super) fn check(&self) -> Result<(), String> {
        if self.clients == 0 || self.clients > CLIENTS_MAX {
            let clients = self.clients;
            return Err(format!(
                "clients is {clients}, it must be 1 to {CLIENTS_MAX}"
            ));
        }
        if self.bytes.0 < MIB || !self.bytes.0.is_multiple_of(MIB) {
            return Err(format!("bytes is {}, it must be whole MiB", self.bytes));
        }
        let block = self.block_size;
        if block.0 == 0 || !block.0.is_multiple_of(512) || block > self.bytes {
            return Err(format!(
                "block_size is {block}, it must be a multiple of 512 B that fits in bytes"
            ));
        }
        if self.depth == 0 || self.depth > crate::plan::DEPTH_MAX {
            return Err(format!("depth is {}", self.depth));
        }
        if !self.disk.contains("{image}") {
            return Err("disk has no {image} in it".into());
        }
        Ok(())
    }

    /// The expression over an image.
    fn disk(&self, image: &Path) -> String {
        self.disk.replace("{image}", &quoted(image))
    }

    /// All of it at 100 MB/s.
    pub(super) const fn usual(&self) -> Nanos {
        let all = self.bytes.0.saturating_mul(self.clients as u64);
        Nanos::from_ms(all / 100_000 + 1000)
    }
}

/// One client's command.
#[must_use]
pub fn command(options: &ClientsOptions, installed: &Installed, uri: &str) -> Invocation {
    let args = [
        "--name=client".to_owned(),
        "--ioengine=nbd".to_owned(),
        format!("--uri={uri}"),
        "--rw=read".to_owned(),
        format!("--bs={}", options.block_size.0),
        format!("--iodepth={}", options.depth),
        format!("--size={}", options.bytes.0),
        "--thread".to_owned(),
        "--eta=never".to_owned(),
        "--lat_percentiles=1".to_owned(),
        "--clat_percentiles=0".to_owned(),
        "--output-format=json+".to_owned(),
    ];
    Invocation::new(&installed.program, args)
}

/// The figures of all clients; pure. None when there is no client.
#[must_use]
pub fn figures(results: &[JobResult]) -> Option<Vec<ToolFigure>> {
    let times = || results.iter().map(|one| one.runtime.0);
    let (first, last) = (times().min()?, times().max()?);
    let bytes: u64 = results.iter().map(|one| one.bytes.0).sum();
    let rates: Vec<f64> = results.iter().map(|one| one.rate().0).collect();
    let slowest = rates.iter().copied().fold(f64::INFINITY, f64::min);
    let together = bytes as f64 / Nanos(last).seconds().max(f64::MIN_POSITIVE);
    Some(vec![
        ToolFigure::higher("together", together, Unit::BytesPerSecond),
        ToolFigure::higher("slowest client", slowest, Unit::BytesPerSecond),
        ToolFigure::higher("fairness", fairness(&rates), Unit::Part),
        ToolFigure::lower("first done", first as f64, Unit::Nanoseconds),
        ToolFigure::lower("last done", last as f64, Unit::Nanoseconds),
    ])
}

/// Jain's index: 1 when all are equal, 1/n when one gets everything.
#[must_use]
pub fn fairness(rates: &[f64]) -> f64 {
    let sum: f64 = rates.iter().sum();
    let squares: f64 = rates.iter().map(|rate| rate * rate).sum();
    match squares > 0.0 {
        true => sum * sum / (rates.len() as f64 * squares),
        false => 1.0,
    }
}

/// The image, the server and a client, of which so many are started.
pub(super) fn shown(
    options: &ClientsOptions,
    installed: &Installed,
    place: &ToolDirs<'_>,
) -> Vec<String> {
    let layout = RigLayout::of(place);
    let image = layout.path("image");
    let count = format!("count={}", options.bytes.0 / MIB);
    let fill = [
        "if=/dev/urandom".into(),
        format!("of={}", image.display()),
        "bs=1M".into(),
        count,
    ];
    let client = command(options, installed, "nbd://127.0.0.1:PORT/data").shown();
    vec![
        line("dd", fill.map(Into::into)),
        line("outboard", layout.serve(&options.disk(&image))),
        format!("{client} # {} at once", options.clients),
    ]
}

pub(super) fn run(options: &ClientsOptions, start: Start<'_>) -> Result<Ran, ToolError> {
    let mut rig = Rig::new(*start.place)?;
    let image = rig.path("image");
    fill(&image, options.bytes, start.place.seed, start.tick)?;
    let disk = options.disk(&image);
    let uri = rig.serve(&disk, start.tick)?;
    let command = command(options, start.installed, &uri);
    let began = engine::clock::now();
    let mut clients = Vec::new();
    for number in 0..options.clients {
        let work = start.place.work.join(format!("client-{number}"));
        std::fs::create_dir_all(&work)
            .map_err(|error| ToolError::system(format!("make {}", work.display()), error))?;
        clients.push(command.start(&ToolDirs {
            work: &work,
            ..*start.place
        })?);
    }
    let mut printed = Vec::new();
    for client in clients {
        printed.push(client.wait(start.limit, start.tick)?.output);
    }
    let elapsed = Nanos::from_duration(engine::clock::now().duration_since(began));
    let results: Result<Vec<_>, _> = printed.iter().map(|text| parse(text)).collect();
    let results = results.map_err(|_| PROGRAM.unreadable("result of a client"))?;
    let figures = figures(&results).ok_or(PROGRAM.unreadable("client"))?;
    let commands = [rig.commands.clone(), vec![command.shown()]].concat();
    rig.take_down()?;
    Ok(Ran {
        result: ToolResult {
            bytes: Some(Bytes(results.iter().map(|one| one.bytes.0).sum())),
            ..start.result("clients", figures, elapsed)
        },
        output: printed.join("\n"),
        commands,
        findings: Vec::new(),
    })
}

fn fill(path: &Path, bytes: Bytes, seed: u64, tick: Tick<'_>) -> Result<(), ToolError> {
    let failed = |error| ToolError::system(format!("write {}", path.display()), error);
    let mut options = OpenOptions::new();
    let options = options.create(true).write(true).truncate(true);
    let mut file = options.open(path).map_err(failed)?;
    for number in 0..bytes.0 / MIB {
        if !tick(engine::clock::now()) {
            return Err(ToolError::Cancelled);
        }
        file.write_all(&random_mib(seed ^ number)).map_err(failed)?;
    }
    file.sync_all().map_err(failed)
}
