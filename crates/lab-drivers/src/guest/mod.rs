//! `lab run --in-guest`: the whole measurement inside a guest whose kernel has what this one lacks.
//!
//! # How a run is made
//!
//! [`folder`] is the guest as `cargo xtask guest --lab` builds it. [`job`] packs this very program, its
//! arguments and the plan into a tar that the guest reads from a disk; [`machine`] starts QEMU with it and
//! with a scratch disk below the user's directory, and follows what the guest says; what came of it is a
//! tar again, and its runs are copied into the user's store.
//!
//! # Invariants
//!
//! * QEMU uses no hardware help, so that every machine makes the same guest; each run that comes out of it
//!   says so: the lab by the name of the processor, and we by where it was made.
//! * Nothing of it stays in the user's directory: its files lose their names as soon as the guest has them
//!   open, and their space with QEMU, which never outlives us. Only a store that the user's own could not take
//!   in, because it is full or was damaged meanwhile, is left there, by a name that is reported.
//!
//! # What it deliberately does not do
//!
//! The guest has no network: another machine cannot be measured from there.

mod folder;
mod job;
mod machine;

use std::path::{Path, PathBuf};

use lab::checks::{Check, Finding};
use lab::plan::Plan;
use lab::{Cancel, Progress, RunId, Store};

use crate::DriverError;

/// What is asked for.
#[derive(Debug, Clone, Copy)]
pub struct GuestRequest<'a> {
    /// The guest.
    pub guest: &'a Path,
    /// The plan, as small as it is wanted.
    pub plan: &'a Plan,
    /// Where the scratch disk is.
    pub directory: &'a Path,
    /// Where the runs are kept.
    pub store: &'a Path,
    /// As for any run.
    pub seed: Option<u64>,
    /// As for any run.
    pub dry_run: bool,
    /// Whether a dry run is printed as JSON.
    pub json: bool,
}

/// What a guest brought back.
#[derive(Debug)]
pub enum GuestResult {
    /// The text of a dry run.
    DryRun(String),
    /// The run, which is in the user's store.
    Run(RunId),
}

/// Makes the run.
///
/// # Errors
/// There is no guest, or the run in it failed; what it measured is kept.
pub fn run(
    request: &GuestRequest<'_>,
    cancel: &Cancel,
    progress: &mut dyn Progress,
) -> Result<GuestResult, DriverError> {
    let guest = folder::Guest::find(request.guest)?;
    let job = job::pack(request)?;
    let mut machine = machine::Machine::start(&guest, job)?;
    machine.follow(cancel, progress)?;
    let outcome = job::GuestOutput::unpack(machine.result()?)?;
    drop(machine);
    if request.dry_run && outcome.failure.is_none() {
        return Ok(GuestResult::DryRun(outcome.said));
    }
    let runs = adopt(request, &outcome)?;
    match (&outcome.failure, runs.last()) {
        (Some(why), Some(run)) => Err(DriverError::new(format!("in the guest, {why}")).next(
            format!("what was measured is shown by `outboard lab report {run}`"),
        )),
        (Some(why), None) => Err(DriverError::new(format!("in the guest, {why}"))),
        (None, Some(run)) => Ok(GuestResult::Run(*run)),
        (None, None) => Err(DriverError::new("the guest brought no run back")),
    }
}

/// Takes the guest's runs into the user's store.
fn adopt(
    request: &GuestRequest<'_>,
    outcome: &job::GuestOutput,
) -> Result<Vec<RunId>, DriverError> {
    let Some(theirs) = outcome.store() else {
        return Ok(Vec::new());
    };
    let host = lab::host::machine();
    let made = format!(
        "it was made in a guest, by QEMU without hardware help, on {} ({}), on a disk that is a file below {}",
        host.hostname,
        host.processor,
        request.directory.display()
    );
    let made = Finding::remark(Check::Run, made);
    let into = |path: &Path| Store::open(path)?.adopt(&theirs, &made);
    into(request.store).map_err(|error| {
        let kept = free_name(request.directory);
        match into(&kept) {
            Ok(_) => DriverError::new(error).next(format!(
                "what the guest measured is in {kept}: `outboard lab report --store {kept}`",
                kept = kept.display()
            )),
            Err(_) => {
                // Where even that was not possible, nothing of it stays; it may not be there at all.
                drop(std::fs::remove_file(&kept));
                DriverError::new(error)
            }
        }
    })
}

/// Where a store goes that the user's own could not take in: nothing has that name yet.
fn free_name(directory: &Path) -> PathBuf {
    let named = |number: u32| directory.join(format!("lab-of-guest-{number}.sqlite"));
    let free = (1..u32::MAX).map(named).find(|path| !path.exists());
    free.unwrap_or_else(|| named(u32::MAX))
}
