//! `lab run --in-guest`: the whole measurement inside a guest whose kernel has what this one lacks.
//!
//! # The way of a run
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
//!   open, and their space with QEMU, who never outlives us. Only a store that the user's own could not take
//!   in, because it is full or was damaged meanwhile, is left there, by a name that is told.
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
use lab::{RunId, Store, report};

use super::progress::Bar;
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::output::{self, Format};

/// What is asked for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Request<'a> {
    /// The guest.
    pub(super) guest: &'a Path,
    /// The plan, as small as it is wanted.
    pub(super) plan: &'a Plan,
    /// Where the scratch disk is.
    pub(super) directory: &'a Path,
    /// Where the runs are kept.
    pub(super) store: &'a Path,
    /// As for any run.
    pub(super) seed: Option<u64>,
    /// As for any run.
    pub(super) dry_run: bool,
}

/// Makes the run and prints what any run prints.
pub(super) fn run(request: &Request<'_>, format: Format) -> Result<(), Failure> {
    let guest = folder::Guest::find(request.guest)?;
    // Before anything is there that has to go.
    let interrupt = Interrupt::watch()?;
    let job = job::pack(request, format)?;
    let mut bar = Bar::new();
    let mut machine = machine::Machine::start(&guest, job)?;
    let followed = machine.follow(&interrupt, &mut bar);
    drop(bar);
    followed?;
    let outcome = job::Outcome::unpack(machine.result()?)?;
    drop(machine);
    if request.dry_run && outcome.failure.is_none() {
        return output::print(outcome.said.trim_end());
    }
    let runs = adopt(request, &outcome)?;
    match (&outcome.failure, runs.last()) {
        (Some(why), Some(run)) => Err(Failure::new(format!("in the guest, {why}")).next(format!(
            "what was measured is shown by `outboard lab report {run}`"
        ))),
        (Some(why), None) => Err(Failure::new(format!("in the guest, {why}"))),
        (None, Some(run)) => print(request, *run, format),
        (None, None) => Err(Failure::new("the guest brought no run back")),
    }
}

/// Takes the guest's runs into the user's store.
fn adopt(request: &Request<'_>, outcome: &job::Outcome) -> Result<Vec<RunId>, Failure> {
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
            Ok(_) => Failure::new(error).next(format!(
                "what the guest measured is in {kept}: `outboard lab report --store {kept}`",
                kept = kept.display()
            )),
            Err(_) => {
                // Where even that was not possible, nothing of it stays; it may not be there at all.
                drop(std::fs::remove_file(&kept));
                Failure::new(error)
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

fn print(request: &Request<'_>, run: RunId, format: Format) -> Result<(), Failure> {
    let store = Store::open(request.store).map_err(Failure::new)?;
    let record = store.load(run).map_err(Failure::new)?;
    match format {
        Format::Json => output::print(report::json(&record).map_err(Failure::new)?.trim_end()),
        Format::Text => output::print(report::table(&record).trim_end()),
    }
}
