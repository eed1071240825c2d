//! Writes a store of made-up runs, so that reports can be looked at and tested in a browser without
//! measuring anything: `synthetic_store PATH`. The figures were not measured.

#[path = "../tests/synthetic/mod.rs"]
mod synthetic;

use std::path::Path;

use lab::store::{NewRun, RunRecord};
use lab::{LabError, Store};

fn main() -> Result<(), LabError> {
    let path = std::env::args_os().nth(1).ok_or_else(|| {
        LabError::BadRequest("say where the store shall be: synthetic_store PATH".into())
    })?;
    let mut store = Store::open(Path::new(&path))?;
    for run in [
        synthetic::run(8),
        synthetic::full_run(),
        synthetic::layered(),
        synthetic::long(),
    ] {
        keep(&mut store, &run)?;
    }
    Ok(())
}

/// Stores a run as the runner does.
fn keep(store: &mut Store, run: &RunRecord) -> Result<(), LabError> {
    let id = store.begin(&NewRun {
        plan: run.plan.clone(),
        seed: run.seed,
        started_unix_ms: run.started_unix_ms,
        manifest: run.manifest.clone(),
    })?;
    for command in &run.commands {
        store.add_command(id, command)?;
    }
    for cell in &run.cells {
        store.add_cell(id, cell, "{}", &[])?;
    }
    store.add_samples(id, &run.samples)?;
    for finding in &run.findings {
        store.add_finding(id, finding)?;
    }
    store.finish(id, &run.status, run.elapsed.unwrap_or_default())
}
