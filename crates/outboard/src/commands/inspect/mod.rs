//! `outboard inspect`: what a disk is.
//!
//! An export is asked about without being used, but for `--map`; any other disk is opened read-only.
//!
//! # What it does not do
//!
//! It does not look at what is on the disk.

mod map;
mod report;

use std::future::Future;
use std::path::Path;

use block::Node;
use nbd::client::{ClientConfig, ClientError, Target, describe};

use crate::failure::Failure;
use crate::graph::builder::Builder;
use crate::graph::{Disk, NamedDisk, resolve};
use crate::output::Format;
use report::{BlockSizes, Export, Kind, Replies, Report};

/// Arguments of `inspect`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The disk: nbd://HOST/EXPORT, a file, a device or any other
    #[arg(value_name = "URI|DISK")]
    disk: String,

    /// Tell which parts are data, holes and zeroes
    #[arg(long)]
    map: bool,
}

/// Inspects.
pub(crate) fn run(args: &Args, format: Format) -> Result<(), Failure> {
    let named = unnamed(&args.disk)?;
    let report = on_the_engine(async || Box::pin(inspect(&named, args.map)).await)?;
    format.print(&report, || report.text())
}

/// An expression of which nothing is served.
fn unnamed(text: &str) -> Result<NamedDisk, Failure> {
    let named = resolve(text)?;
    match &named.name {
        None => Ok(named),
        Some(name) => {
            let what = format!("`{name}=` names an export, and nothing is served here");
            Err(Failure::usage(what).next("give the disk alone, in quotes if its path has a `=`"))
        }
    }
}

/// The server that a URI names, for who wants no other disk.
pub(super) fn server(text: &str) -> Result<Target, Failure> {
    match unnamed(text)?.disk {
        Disk::Remote { target, .. } => Ok(target),
        _ => {
            let what = format!("{text} is no server");
            Err(Failure::usage(what).next("write nbd://HOST or nbd+unix:///?socket=PATH"))
        }
    }
}

/// Runs `main` on an engine of one core: it asks questions, and moves nothing.
pub(super) fn on_the_engine<F, T>(main: impl FnOnce() -> F) -> Result<T, Failure>
where
    F: Future<Output = Result<T, Failure>>,
{
    let config = engine::Config {
        backend: engine::BackendChoice::Auto,
        cores: 1,
    };
    engine::run(&config, |_| main()).map_err(|error| Failure::because("cannot start", &error))?
}

async fn inspect(named: &NamedDisk, with_map: bool) -> Result<Report, Failure> {
    let mut report = match &named.disk {
        Disk::Remote { target, .. } => of_export(target).await?,
        _ => of_disk(named).await?,
    };
    if with_map {
        let disk = open(named).await?;
        // It may have grown since it was described.
        report.size = disk.geometry().size;
        report.map = Some(map::of(&disk, report.tells_its_map()).await?);
    }
    Ok(report)
}

async fn open(named: &NamedDisk) -> Result<Node, Failure> {
    Ok(Builder::new(true).build(named).await?)
}

async fn of_export(target: &Target) -> Result<Report, Failure> {
    let timeout = ClientConfig::default().request_timeout;
    let described = Box::pin(describe(target, timeout)).await;
    let told = described.map_err(|error| {
        let failure = Failure::from_error(&error);
        if !matches!(error, ClientError::Handshake { .. }) {
            return failure;
        }
        let server = Target {
            export: String::new(),
            ..target.clone()
        };
        failure.next(format!("outboard ls {server} lists what the server has"))
    })?;
    let flags: Vec<&'static str> = told
        .export
        .flags
        .iter_names()
        .map(|(name, _)| name)
        .collect();
    let has = |flag: &str| flags.contains(&flag);
    Ok(Report {
        disk: target.to_string(),
        kind: Kind::Export,
        size: told.export.size,
        block_size: BlockSizes {
            minimum: told.export.block_size_min,
            preferred: told.export.block_size_preferred,
            maximum: Some(told.export.block_size_max),
        },
        rotational: has("ROTATIONAL"),
        allocated: None,
        export: Some(Export {
            read_only: has("READ_ONLY"),
            name: told.export.name.clone(),
            description: told.export.description.clone(),
            protocol: "newstyle-fixed",
            tls: told.tls,
            replies: match (told.extended, told.structured) {
                (true, _) => Replies::Extended,
                (false, true) => Replies::Structured,
                (false, false) => Replies::Simple,
            },
            contexts: told.contexts,
            flags,
        }),
        map: None,
    })
}

async fn of_disk(named: &NamedDisk) -> Result<Report, Failure> {
    let disk = open(named).await?;
    let (kind, allocated) = match &named.disk {
        Disk::File { path, .. } => of_path(path),
        Disk::Memory(_) => (Kind::Memory, None),
        Disk::Null(_) => (Kind::Null, None),
        Disk::Remote { .. } => (Kind::Export, None),
        Disk::Blocks { .. } => (Kind::Composed, None),
    };
    let geometry = disk.geometry();
    Ok(Report {
        disk: named.text.clone(),
        kind,
        size: geometry.size,
        block_size: BlockSizes {
            minimum: geometry.block_size,
            preferred: geometry.preferred_block_size,
            maximum: None,
        },
        rotational: geometry.rotational,
        allocated,
        export: None,
        map: None,
    })
}

/// What is at a path, and the space that a file takes.
fn of_path(path: &Path) -> (Kind, Option<u64>) {
    use std::os::unix::fs::MetadataExt;
    /// Unit of `st_blocks` (stat(2)), bytes.
    const UNIT: u64 = 512;
    match std::fs::metadata(path) {
        Ok(found) if found.is_file() => (Kind::File, Some(found.blocks().saturating_mul(UNIT))),
        _ => (Kind::Device, None),
    }
}

/// A text from outside, for a terminal.
pub(super) fn visible(text: &str) -> String {
    let shown = text.chars().map(|c| if c.is_control() { '·' } else { c });
    shown.collect()
}
