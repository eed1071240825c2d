//! A scenario: several clients of one server read the same bytes at the same time, as diskless machines do.
//!
//! Every client is a fio of its own with a connection of its own; the server is ours, on loopback. The
//! headline is what all get together until the last is done.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::files::make_folder;
use super::layout::{RigLayout, quoted, shown as line};
use super::programs::{FIO, fio_job};
use super::result::{ToolFigure, ToolResult, Unit};
use super::rig::{Rig, write_random};
use super::{Installed, Invocation, Program, Ran, Start, ToolDirs, ToolError, ToolKind, Writes};
use crate::fio::{JobResult, parse};
use crate::plan::{DEPTH_MAX, bounds, size};
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
    /// The expression over an image.
    fn disk(&self, image: &Path) -> String {
        self.disk
            .replace("{image}", &quoted(&image.to_string_lossy()))
    }
}

/// One client's command.
#[must_use]
pub fn command(options: &ClientsOptions, installed: &Installed, uri: &str) -> Invocation {
    let options = format!(
        "--ioengine=nbd --uri={uri} --rw=read --bs={} --iodepth={} --size={} --thread --eta=never \
         --lat_percentiles=1 --clat_percentiles=0 --output-format=json+",
        options.block_size.0, options.depth, options.bytes.0
    );
    fio_job(installed, "client", None, &options)
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
        ToolFigure::rate("together", together),
        ToolFigure::rate("slowest client", slowest),
        ToolFigure::higher("fairness", fairness(&rates), Unit::Part),
        ToolFigure::time("first done", Nanos(first)),
        ToolFigure::time("last done", Nanos(last)),
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

impl ToolKind for ClientsOptions {
    fn program(&self) -> Program {
        PROGRAM
    }

    fn name(&self) -> &'static str {
        "clients"
    }

    fn check(&self) -> Result<(), String> {
        bounds::within("clients", self.clients, 1..=CLIENTS_MAX)?;
        bounds::whole_mib(self.bytes)?;
        bounds::block_size(self.block_size, self.bytes)?;
        bounds::within("depth", self.depth, 1..=DEPTH_MAX)?;
        if !self.disk.contains("{image}") {
            return Err("disk has no {image} in it".into());
        }
        Ok(())
    }

    /// All of it at 100 MB/s.
    fn usual(&self) -> Nanos {
        let all = self.bytes.0.saturating_mul(u64::from(self.clients));
        Nanos::from_ms(all / 100_000 + 1000)
    }

    fn writes(&self) -> Writes {
        Writes::AtMost(self.bytes)
    }

    /// The image, the server and a client, of which so many are started.
    fn shown(&self, installed: &Installed, place: &ToolDirs<'_>) -> Vec<String> {
        let layout = RigLayout::of(place);
        let image = layout.path("image");
        let count = format!("count={}", self.bytes.0 / MIB);
        let fill = [
            "if=/dev/urandom".into(),
            format!("of={}", image.display()),
            "bs=1M".into(),
            count,
        ];
        let client = command(self, installed, "nbd://127.0.0.1:PORT/data").shown();
        vec![
            line("dd", fill.map(Into::into)),
            line("outboard", layout.serve(&self.disk(&image))),
            format!("{client} # {} at once", self.clients),
        ]
    }

    fn run(&self, start: Start<'_>) -> Result<Ran, ToolError> {
        let mut rig = Rig::new(*start.place)?;
        let image = rig.path("image");
        write_random(&image, self.bytes, start.place.seed, start.tick)?;
        let disk = self.disk(&image);
        let uri = rig.serve(&disk, start.tick)?;
        let command = command(self, start.installed, &uri);
        let began = engine::clock::now();
        let mut clients = Vec::new();
        for number in 0..self.clients {
            let work = start.place.work.join(format!("client-{number}"));
            make_folder(&work)?;
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
                ..start.result(figures, elapsed)
            },
            output: printed.join("\n"),
            commands,
            findings: Vec::new(),
        })
    }
}
