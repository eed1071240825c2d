//! Machines that boot by libnbd: `tests/nbdsh/boot.py`, which compares what each of them reads and gives each a block of its own.

use std::process::Command;

use anyhow::{Context, Result};
use serde::Deserialize;

use super::boot::{self, Pace};
use crate::bench::figures::Sample;
use crate::servers::Serving;
use crate::shell;

/// Debian's own Python, which has libnbd's binding.
const PYTHON: &str = "/usr/bin/python3";
const SCRIPT: &str = "tests/nbdsh/boot.py";
/// The trace of `boot.rs`.
const TRACE: &str = "xtask/src/bench/buckets/boot.trace";

/// What it prints.
#[derive(Debug, Deserialize)]
struct Report {
    reads: u64,
    seconds: f64,
    p50_us: f64,
    p99_us: f64,
    p999_us: f64,
}

/// Boots so many machines, after one before them.
///
/// # Errors
/// A read that failed, or was answered with other data than the first machine's; a machine that did not find what it wrote.
pub(super) fn replay(serving: &Serving, machines: u32, pace: Pace) -> Result<Sample> {
    let within = match pace {
        Pace::AtOnce => 0.0,
        Pace::Recorded { within } => within.as_secs_f64(),
    };
    let mut python = Command::new(PYTHON);
    python.arg(shell::root().join(SCRIPT));
    python.args([&serving.port().to_string(), serving.export()]);
    python.arg(shell::root().join(TRACE));
    python.args([machines.to_string(), within.to_string()]);
    let printed = shell::output(&mut python)?;
    let report: Report =
        serde_json::from_str(&printed).with_context(|| format!("{SCRIPT} printed {printed}"))?;
    Ok(Sample {
        p50_us: Some(report.p50_us),
        p99_us: Some(report.p99_us),
        p999_us: Some(report.p999_us),
        ..boot::sample_of(report.reads, f64::from(machines), report.seconds)?
    })
}
