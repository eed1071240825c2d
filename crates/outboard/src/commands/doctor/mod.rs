//! `outboard doctor`: what holds a disk, an export or a directory back.
//!
//! The options, and the disks that the doctor examines; the measuring is in [`lab_drivers::doctor`].

mod disks;
#[cfg(test)]
mod tests;

use lab::Cancel;
use lab::doctor::{DoctorJob, Examination, Verdict, diagnose, text};
use lab::plan::{Direction, Pattern};
use lab::units::Bytes;
use lab_drivers::doctor::{DoctorRequest, DoctorTarget, examine};
use serde::Serialize;

use self::disks::OwnResolver;
use crate::abandonable;
use crate::commands::lab::agents::AgentArgs;
use crate::failure::Failure;
use crate::graph::{ByteSize, Disk, resolve};
use crate::output::Format;

/// Default of the requests at once: enough that a disk is busy, few enough for a fair latency.
const DEPTH: u32 = 16;
/// Default bytes of one request.
const BLOCK_SIZE: &str = "128K";

/// Arguments of `doctor`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// A directory, nbd://HOST/EXPORT, a file, a device or any other disk
    target: String,

    /// Bytes of one request
    #[arg(long, value_name = "SIZE", default_value = BLOCK_SIZE)]
    block_size: ByteSize,

    /// Requests at once
    #[arg(long, value_name = "N", default_value_t = DEPTH, value_parser = clap::value_parser!(u32).range(1..=256))]
    depth: u32,

    /// Ask for blocks at random instead of in order
    #[arg(long)]
    random: bool,

    /// In a directory: go through the page cache, as most programs do
    #[arg(long)]
    buffered: bool,

    /// In a directory: make a file, measure reads, writes and flushes, and remove it
    #[arg(long)]
    write: bool,

    /// Take about this long for each verdict at most
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u64).range(3..=3600))]
    seconds: u64,

    /// Connections to an export
    #[arg(long, value_name = "N", default_value_t = attach::CONNECTIONS_DEFAULT)]
    connections: usize,

    /// The server's process, for its CPU time [default: found out, if it runs here]
    #[arg(long, value_name = "PID")]
    server_pid: Option<u32>,

    #[command(flatten)]
    agents: AgentArgs,
}

impl Args {
    fn job(&self) -> DoctorJob {
        DoctorJob {
            direction: Direction::Read,
            pattern: if self.random {
                Pattern::Random
            } else {
                Pattern::Sequential
            },
            block_size: Bytes(self.block_size.0),
            depth: self.depth,
        }
    }

    fn check(&self) -> Result<(), Failure> {
        let block = self.block_size.0;
        if block == 0 || !block.is_multiple_of(512) || block > lab::plan::BLOCK_SIZE_MAX.0 {
            let what = format!("--block-size {block} is no size of a request");
            return Err(Failure::usage(what).next("give a multiple of 512 up to 64M"));
        }
        if !(1..=attach::CONNECTIONS_MAX).contains(&self.connections) {
            let most = attach::CONNECTIONS_MAX;
            return Err(Failure::usage(format!(
                "--connections is between 1 and {most}"
            )));
        }
        Ok(())
    }
}

/// An examination with what follows from it.
#[derive(Debug, Serialize)]
struct Diagnosis {
    examination: Examination,
    verdict: Verdict,
}

/// Examines the target and prints what limits it.
pub(crate) fn run(args: &Args, format: Format) -> Result<(), Failure> {
    args.check()?;
    let Some(interrupt) = abandonable::watch()? else {
        return Ok(());
    };
    let (target, left_out) = target(args)?;
    let request = DoctorRequest {
        target: args.target.clone(),
        job: args.job(),
        connections: args.connections,
        seconds: args.seconds,
        write: args.write,
        buffered: args.buffered,
        server_pid: args.server_pid,
        agents: args.agents.specs(None)?,
        cancel: Cancel::from_flag(interrupt.flag()),
        remarks: left_out.into_iter().collect(),
        disks: &OwnResolver,
    };
    let examinations = examine(&request, &target)?;
    let all: Vec<Diagnosis> = examinations
        .into_iter()
        .map(|examination| Diagnosis {
            verdict: diagnose(&examination),
            examination,
        })
        .collect();
    format.print(&all, || {
        let texts = all
            .iter()
            .map(|found| text(&found.examination, &found.verdict));
        texts.collect::<Vec<_>>().join("\n").trim_end().to_owned()
    })
}

/// What is examined, and a remark on the cache files that are left out.
fn target(args: &Args) -> Result<(DoctorTarget, Option<String>), Failure> {
    if std::path::Path::new(&args.target).is_dir() {
        return Ok((DoctorTarget::Directory, None));
    }
    let mut named = resolve(&args.target)?;
    for_blocks_only(args)?;
    let left_out = without_caches(&named.disk);
    while let Disk::Cache(cached) = named.disk {
        named.disk = *cached.disk;
    }
    let target = match &named.disk {
        Disk::Remote { target, .. } => DoctorTarget::Export(target.clone()),
        _ => DoctorTarget::Disk(disks::examined(&named)),
    };
    Ok((target, left_out))
}

/// Cache files are not opened: another process may have them, and reads would fill them.
fn without_caches(disk: &Disk) -> Option<String> {
    let files = disk.cache_files();
    let verb = match files.len() {
        0 => return None,
        1 => "was",
        _ => "were",
    };
    let behind = match disk {
        Disk::Cache(cached) => match &*cached.disk {
            Disk::Remote { target, .. } => target.to_string(),
            _ => "the disk behind it".to_owned(),
        },
        _ => "the disks behind".to_owned(),
    };
    Some(format!(
        "{} {verb} not opened: what was measured is {behind}, without a cache. To measure the cache, run the doctor on a mount \
         of `outboard attach --cache`.",
        files.join(", ")
    ))
}

fn for_blocks_only(args: &Args) -> Result<(), Failure> {
    let option = match (args.write, args.buffered) {
        (true, _) => "--write",
        (_, true) => "--buffered",
        _ => return Ok(()),
    };
    let what = format!("{option} is for directories, and {} is none", args.target);
    Err(Failure::usage(what)
        .next("disks and exports are only read, so that nothing on them is harmed"))
}
