//! What rows of a resync and of a rebuild share: the array that a server runs is waited for, the same work is done without an array,
//! and users read meanwhile.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::figures::Sample;
use super::fio::{self, Target, Until};
use super::work::Load;
use super::{Args, Measured, one, ready, rounds};
use crate::servers::Serving;
use crate::{clock, shell};

/// What arrays are called.
pub(super) const NAME: &str = "bench";

/// Besides its data a member has superblock, bitmap or log, and room for more.
pub(super) const HEAD: u64 = 64 << 20;

/// How long a resync may take.
const LOOK_LIMIT: Duration = Duration::from_secs(600);

/// Time between two looks, which take time of a processor.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// `array` of our command line.
pub(super) fn command(binary: &Path, what: &str) -> Command {
    let mut command = Command::new(binary);
    command.args(["array", what]);
    command
}

/// A command about the array that `serving` runs.
pub(super) fn ask(binary: &Path, serving: &Serving, what: &str, more: &[&str]) -> Result<Value> {
    let mut command = command(binary, what);
    command.arg(NAME).args(more);
    command.args(["--json", "--server", &serving.id().to_string()]);
    let printed = shell::output(&mut command)?;
    serde_json::from_str(&printed).with_context(|| format!("`array {what}` printed {printed}"))
}

/// Whether a resync or a rebuild is in progress.
fn is_busy(binary: &Path, serving: &Serving) -> Result<bool> {
    let status = ask(binary, serving, "status", &[])?;
    let members = status["members"].as_array().context("no members")?;
    let behind = |member: &Value| member["state"] != "in_sync";
    Ok(!status["sync"].is_null() || members.iter().any(behind))
}

/// How long it takes until no resync and no rebuild is in progress.
pub(super) fn seconds_until_idle(
    binary: &Path,
    serving: &Serving,
    never: &'static str,
) -> Result<f64> {
    let start = clock::now();
    until(never, || Ok(!is_busy(binary, serving)?))?;
    Ok(start.elapsed().as_secs_f64())
}

/// A copy of so many bytes.
pub(super) fn copied(bytes: u64, seconds: f64) -> Sample {
    Sample {
        mb_per_s: Some(bytes as f64 / 1e6 / seconds),
        seconds: Some(seconds),
        ..Sample::default()
    }
}

/// Polls until it is so.
pub(super) fn until(never: &'static str, mut is_so: impl FnMut() -> Result<bool>) -> Result<()> {
    let mut failure = None;
    let done = clock::poll(LOOK_LIMIT, || match is_so() {
        Ok(false) => {
            std::thread::sleep(LOOK_EVERY);
            None
        }
        Ok(true) => Some(()),
        Err(error) => {
            failure = Some(error);
            Some(())
        }
    });
    failure.map_or(Ok(()), Err)?;
    done.context(never)
}

/// Reads or writes `size` bytes of `file` in order, past the page cache.
pub(super) fn in_order(pattern: &'static str, file: &Path, size: u64) -> Result<Sample> {
    let load = Load {
        pattern,
        block_size: 1 << 20,
        jobs: 1,
        depth: 8,
        rate: None,
        flushes: false,
    };
    let until = Until::Once { size, bytes: size };
    let outcome = fio::run(&load, Target::Scratch(file), until)?;
    Ok(Sample {
        mb_per_s: outcome.sample.mb_per_s,
        ..Sample::default()
    })
}

/// Reads or writes `size` bytes of each of these files in order, all at once: the rate of the slowest.
pub(super) fn slowest_at_once(work: &[(&'static str, &PathBuf)], size: u64) -> Result<Sample> {
    let samples: Vec<Result<Sample>> = std::thread::scope(|scope| {
        let threads: Vec<_> = work
            .iter()
            .map(|(pattern, file)| scope.spawn(move || in_order(pattern, file, size)))
            .collect();
        let ended = threads.into_iter();
        ended
            .map(|thread| thread.join().expect("fio does not panic"))
            .collect()
    });
    let mut slowest = f64::MAX;
    for sample in samples {
        let rate = sample?.mb_per_s.context("fio has no rate")?;
        slowest = slowest.min(rate);
    }
    Ok(Sample {
        mb_per_s: Some(slowest),
        ..Sample::default()
    })
}

/// Reads of users while members are copied, against the same without.
pub(super) struct ReadsMeanwhile<'a> {
    pub(super) binary: &'a Path,
    /// The members.
    pub(super) files: &'a [PathBuf],
    /// What the reads are during.
    pub(super) during: &'static str,
    /// The complaint where that was over before they were.
    pub(super) was_over: &'static str,
}

impl ReadsMeanwhile<'_> {
    /// `serve` makes the array again, in sync or not, and serves it.
    pub(super) fn measure(
        &self,
        args: &Args,
        load: &Load,
        mut serve: impl FnMut(bool) -> Result<Serving>,
    ) -> Result<Vec<Measured>> {
        let names = [self.during, "without"].map(str::to_owned);
        rounds(args, names.to_vec(), |which| {
            let is_clean = which == 1;
            for file in self.files {
                ready(file)?;
            }
            let serving = serve(is_clean)?;
            let sample = one(&serving, load, Until::Seconds(args.seconds))?;
            match (is_clean, is_busy(self.binary, &serving)?) {
                (false, false) => bail!("{}", self.was_over),
                (true, true) => {
                    bail!("the array in sync is busy: its reads are not those of an idle one")
                }
                _ => {}
            }
            Ok(sample)
        })
    }
}
