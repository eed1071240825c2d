//! One run of fio and what it says, read from its JSON.
//!
//! Sizes, times and queue depths are all given here: nothing depends on a job file or on fio's defaults
//! for them.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::figures::Sample;
use super::work::Load;
use crate::shell;

/// Where the requests go.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Target<'a> {
    /// An export, through fio's nbd engine.
    Export(&'a str),
    /// A file, with direct I/O through io_uring.
    File(&'a Path),
    /// The same, and it may be written.
    Scratch(&'a Path),
    /// An image of Ceph, through fio's rbd engine.
    Image {
        /// The configuration of the cluster.
        conf: &'a Path,
        /// Where it is.
        pool: &'a str,
        /// Its name.
        image: &'a str,
    },
}

/// How long it runs.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Until {
    /// So many seconds, over the whole disk.
    Seconds(u32),
    /// Until so many bytes were requested, none of them twice, on a disk of this size.
    Once { size: u64, bytes: u64 },
    /// The same, at random places, of which some are hit more than once.
    AtRandom { size: u64, bytes: u64 },
}

/// What fio measured.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Outcome {
    /// Requests that completed.
    pub(crate) requests: f64,
    /// All figures but the server's.
    pub(crate) sample: Sample,
}

/// Runs `load` on `target`.
pub(crate) fn run(load: &Load, target: Target<'_>, until: Until) -> Result<Outcome> {
    let mut command = Command::new("fio");
    command.args([
        "--name=bench",
        "--output-format=json",
        "--group_reporting",
        "--randrepeat=0",
        "--percentile_list=50:99:99.9",
        // Of the whole latency: the nbd engine sends within its submission, so completion latency
        // alone leaves out most of a request's time.
        "--lat_percentiles=1",
        "--clat_percentiles=0",
    ]);
    match until {
        Until::Seconds(seconds) => {
            command.args(["--time_based", "--norandommap"]);
            command.arg(format!("--runtime={seconds}"));
        }
        Until::Once { size, bytes } => {
            command.arg(format!("--size={size}"));
            command.arg(format!("--io_size={bytes}"));
        }
        Until::AtRandom { size, bytes } => {
            command.arg("--norandommap");
            command.arg(format!("--size={size}"));
            command.arg(format!("--io_size={bytes}"));
        }
    }
    command
        .arg(format!("--rw={}", load.pattern))
        .arg(format!("--bs={}", load.block_size))
        .arg(format!("--numjobs={}", load.jobs))
        .arg(format!("--iodepth={}", load.depth));
    if let Some(rate) = load.rate {
        command.arg(format!("--rate_iops={rate}"));
    }
    if load.flushes {
        command.arg("--fsync=1");
    }
    match target {
        Target::Export(uri) => command.args(["--ioengine=nbd", &format!("--uri={uri}")]),
        Target::File(path) => command
            .args(["--ioengine=io_uring", "--direct=1", "--readonly"])
            .arg(format!("--filename={}", path.display())),
        Target::Scratch(path) => command
            .args(["--ioengine=io_uring", "--direct=1"])
            .arg(format!("--filename={}", path.display())),
        Target::Image { conf, pool, image } => command
            .args(["--ioengine=rbd", "--clientname=admin"])
            .args([format!("--pool={pool}"), format!("--rbdname={image}")])
            .env("CEPH_CONF", conf),
    };
    let printed = shell::output(&mut command)?;
    parse(&printed).with_context(|| format!("in the report of {}", shell::words(&command)))
}

/// Reads fio's report; lines before the JSON are its remarks.
pub(super) fn parse(printed: &str) -> Result<Outcome> {
    let start = printed.find("\n{").map_or(0, |found| found + 1);
    let report: Value = serde_json::from_str(&printed[start..])?;
    let job = &report["jobs"][0];
    ensure!(job["error"] == 0, "fio saw error {}", job["error"]);
    let side = ["read", "write"]
        .into_iter()
        .find(|side| {
            job[side]["total_ios"]
                .as_u64()
                .is_some_and(|total| total > 0)
        })
        .context("no request completed")?;
    let side = &job[side];
    let requests = number(side, "total_ios")?;
    let seconds = number(side, "runtime")? / 1000.0;
    ensure!(seconds > 0.0, "fio says that it ran for no time");
    let cpu_percent = number(job, "usr_cpu")? + number(job, "sys_cpu")?;
    let jobs_seconds = number(job, "job_runtime")? / 1000.0;
    let is_flushed = job["sync"]["total_ios"]
        .as_u64()
        .is_some_and(|total| total > 0);
    let timed = if is_flushed { &job["sync"] } else { side };
    let percentile = |name: &str| -> Option<f64> {
        timed["lat_ns"]["percentile"][name]
            .as_f64()
            .map(|ns| ns / 1000.0)
    };
    Ok(Outcome {
        requests,
        sample: Sample {
            rate: Some(requests / seconds),
            mb_per_s: Some(number(side, "io_bytes")? / seconds / 1e6),
            client_cpu_us: Some(cpu_percent / 100.0 * jobs_seconds * 1e6 / requests),
            p50_us: percentile("50.000000"),
            p99_us: percentile("99.000000"),
            p999_us: percentile("99.900000"),
            ..Sample::default()
        },
    })
}

fn number(value: &Value, name: &str) -> Result<f64> {
    value[name]
        .as_f64()
        .with_context(|| format!("fio's report has no {name}"))
}
