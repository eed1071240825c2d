//! The doctor on systems with a known limiter, because it was built in: each by a clear factor.
//!
//! They measure, so one runs at a time; and where something else on the machine got in the way of a
//! measurement, the doctor is run again: what it must not do is to be wrong each time. A machine under load
//! takes its time for everything, so that the doctor says that steps did not fit into what it was given;
//! each time that it is run again it is given twice as much.
//!
//! `cargo xtask test` runs one of each kind; `cargo xtask soak doctor` runs all of them, and the table of `sweep`.

mod advice;
mod behaviour;
mod blocks;
mod competition;
mod files;
mod flush;
mod indirect;
mod network;
mod processors;
mod readahead;
mod servers;
mod sweep;
mod wire;

use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use outboard_tests::attachment::World;
use outboard_tests::image::Folder;
use outboard_tests::said;
use serde_json::Value;

/// How often the doctor is run before it counts as wrong.
const TRIES: usize = 4;

/// Of one answer, on a machine that has a lot else to do.
const LIMIT: Duration = Duration::from_secs(240);

/// Set by `cargo xtask soak doctor`: tests that take long run, too.
const LONG: &str = "OUTBOARD_DOCTOR_LONG";

/// Whether the tests that `cargo xtask test` leaves out are run. The table of `sweep`, which takes longest, has a variable of
/// its own.
fn runs_long_tests() -> bool {
    std::env::var_os(LONG).is_some()
}

/// Only one test measures at a time.
static ALONE: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    // A test that failed has harmed nothing but itself.
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What it is given for a verdict, in seconds; on an idle machine that is enough for every step.
const SECONDS: u32 = 10;

/// What it is given in the last run before it counts as wrong.
const SECONDS_MAX: u32 = SECONDS << (TRIES - 1);

/// `outer` with `inner` as the program that it runs, in the environment of `inner`.
fn around(mut outer: Command, inner: &Command) -> Command {
    outer.arg(inner.get_program()).args(inner.get_args());
    for (name, value) in inner.get_envs() {
        match value {
            Some(value) => outer.env(name, value),
            None => outer.env_remove(name),
        };
    }
    outer
}

/// The doctor with so many seconds for a verdict, with its temporary files in `folder`.
fn doctor(folder: &Folder, seconds: u32, args: &[&str]) -> Command {
    let seconds = seconds.to_string();
    let mut command = said::outboard(&["doctor", "--json", "--seconds", &seconds]);
    command.args(args).env("TMPDIR", folder.path());
    command
}

/// Its first answer.
#[track_caller]
fn diagnosis(command: &mut Command) -> Value {
    diagnoses(command)[0].clone()
}

/// [`doctor`] where it finds the attachments of `world`.
fn doctor_in(world: &World, folder: &Folder, seconds: u32, args: &[&str]) -> Command {
    let mut command = doctor(folder, seconds, args);
    command.env("OUTBOARD_RUNTIME_DIR", world.runtime());
    command
}

/// All of its answers: one for each direction.
#[track_caller]
fn diagnoses(command: &mut Command) -> Value {
    let printed = said::run_within(command, LIMIT).ok();
    serde_json::from_str(&printed).unwrap_or_else(|e| panic!("{e}: {printed}"))
}

/// Runs it with `first` seconds, and with twice as many each time up to `most`, until its answers are `right`, and returns
/// these.
///
/// # Errors
/// The answers of each run, where those of none were right.
#[track_caller]
fn diagnoses_until(
    (first, most): (u32, u32),
    right: impl Fn(&Value) -> bool,
    mut command: impl FnMut(u32) -> Command,
) -> Result<Value, Vec<Value>> {
    let (mut seconds, mut wrong) = (first, Vec::new());
    while seconds <= most {
        let all = diagnoses(&mut command(seconds));
        if right(&all) {
            return Ok(all);
        }
        wrong.push(all);
        seconds *= 2;
    }
    Err(wrong)
}

fn limiter(diagnosis: &Value) -> Vec<String> {
    let parts = diagnosis["verdict"]["limiter"]
        .as_array()
        .into_iter()
        .flatten();
    parts
        .filter_map(|part| part.as_str().map(str::to_owned))
        .collect()
}

/// Whether it had the time for everything but the wire of this machine, which is no wire, and its own load, which comes last.
fn is_whole(diagnosis: &Value) -> bool {
    const LAST: [&str; 2] = ["wire: by itself", "generator:"];
    let unknown = diagnosis["verdict"]["unknown"].as_array();
    let mut lines = unknown.into_iter().flatten().filter_map(Value::as_str);
    let is_last = |line: &str| LAST.iter().any(|part| line.starts_with(part));
    !lines.any(|line| line.contains("no time was left") && !is_last(line))
}

/// Runs it until all that is named is among `parts`, and gives that answer.
#[track_caller]
fn names(parts: &[&str], command: impl FnMut(u32) -> Command) -> Value {
    names_for(parts, "", command)
}

/// Runs it until all that is named is among `parts` and `evidence` is among what speaks for it; `command` takes
/// the seconds that the doctor is given. An answer that left steps out counts only if there is no other.
#[track_caller]
fn names_for(parts: &[&str], evidence: &str, command: impl FnMut(u32) -> Command) -> Value {
    let is_right = |diagnosis: &Value| {
        let named = limiter(diagnosis);
        !named.is_empty()
            && named.iter().all(|part| parts.contains(&part.as_str()))
            && diagnosis["verdict"]["evidence"]
                .to_string()
                .contains(evidence)
    };
    let right = |all: &Value| is_right(&all[0]) && is_whole(&all[0]);
    let tried = match diagnoses_until((SECONDS, SECONDS_MAX), right, command) {
        Ok(all) => return all[0].clone(),
        Err(tried) => tried,
    };
    let mut partial = tried.iter().rev().map(|all| &all[0]);
    let partial = partial.find(|one| is_right(one)).cloned();
    partial.unwrap_or_else(|| panic!("{parts:?} was not named but: {tried:#?}"))
}
