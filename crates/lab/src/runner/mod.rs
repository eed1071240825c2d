//! The runner: makes a plan's measurements in interleaved blocks and keeps each as it is made.
//!
//! Invariants: what is decided is pure ([`schedule`]) and tested with an executor that is no fio
//! ([`blocks`]); what is done is in [`measure`]. Test files live in one directory of our own below
//! each target ([`scratch`]) and are removed on every way out. Both targets get equal jobs: same
//! size, engine and directness, whichever of them asks for less.
//!
//! What it deliberately does not do: it touches no raw device and judges nothing; see
//! [`crate::checks`].

mod blocks;
mod dry_run;
mod measure;
mod prepare;
mod progress;
mod request;
mod schedule;
mod scratch;

pub use dry_run::{DryRun, dry_run};
pub use progress::{CellProgress, Progress, Silent};
pub use request::{Cancel, RunRequest, TargetSpec};

use crate::LabError;
use crate::checks::{Check, Finding};
use crate::fio::process::Fio;
use crate::store::{NewRun, RunId, Status, Store};
use crate::units::Nanos;

use blocks::{Ended, run_blocks};
use measure::Bench;
use prepare::Prepared;

/// Makes a run and keeps it in the request's store.
///
/// # Errors
/// Whatever makes a run impossible; [`LabError::Cancelled`] and [`LabError::Stopped`] when something
/// was measured before, which is kept under the run they name.
pub fn run(
    request: &RunRequest,
    progress: &mut dyn Progress,
    cancel: &Cancel,
) -> Result<RunId, LabError> {
    request.check()?;
    let fio = Fio::find()?;
    let mut store = Store::open(&request.store)?;
    let start = engine::clock::now();
    let prepared = prepare::prepare(request, &fio, progress, cancel, start)?;
    let run = begin(&store, request, &fio, &prepared)?;
    let mut bench = Bench::new(request, &fio, &prepared, cancel, start);
    let mut keep = |kept: measure::Kept<'_>| store_kept(&mut store, run, kept);
    let ended = run_blocks(
        &request.plan,
        prepared.targets.len(),
        prepared.seed,
        &mut bench,
        progress,
        &mut keep,
    );
    let elapsed = Nanos::from_duration(engine::clock::now().duration_since(start));
    let samples = bench.samples();
    drop(bench);
    // The test files go before the last word, so that a report is only ever made of a tidy machine.
    let left_behind = prepared.remove();
    let ended = ended?;
    store.add_samples(run, &samples)?;
    for finding in left_behind {
        store.add_finding(run, &finding)?;
    }
    store.finish(run, &ended.status, elapsed)?;
    outcome(run, ended)
}

fn begin(
    store: &Store,
    request: &RunRequest,
    fio: &Fio,
    prepared: &Prepared,
) -> Result<RunId, LabError> {
    let run = store.begin(&NewRun {
        plan: request.plan.clone(),
        seed: prepared.seed,
        started_unix_ms: unix_ms(),
        manifest: prepared.manifest(request, fio),
    })?;
    for command in &prepared.commands {
        store.add_command(run, command)?;
    }
    for finding in &prepared.findings {
        store.add_finding(run, finding)?;
    }
    Ok(run)
}

fn store_kept(store: &mut Store, run: RunId, kept: measure::Kept<'_>) -> Result<(), LabError> {
    store.add_command(run, &kept.command)?;
    store.add_cell(run, kept.cell, &kept.fio_json, &kept.samples)?;
    if kept.samples_full {
        store.add_finding(
            run,
            &Finding::remark(
                Check::Run,
                "there were more samples than are kept; the last ones are missing",
            ),
        )?;
    }
    Ok(())
}

fn outcome(run: RunId, ended: Ended) -> Result<RunId, LabError> {
    match ended.status {
        Status::Cancelled => Err(LabError::Cancelled {
            run,
            blocks: ended.blocks,
        }),
        Status::Failed { reason } => Err(LabError::Stopped {
            run,
            blocks: ended.blocks,
            reason,
        }),
        _ => Ok(run),
    }
}

fn unix_ms() -> u64 {
    engine::clock::wall()
        .duration_since(std::time::UNIX_EPOCH)
        .ok()
        .and_then(|since| u64::try_from(since.as_millis()).ok())
        .unwrap_or(0)
}

#[cfg(test)]
mod tests;
