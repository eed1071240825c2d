//! The doctor on systems with a known limiter, because it was built in: each by a clear factor.
//!
//! They measure, so one runs at a time; and where something else on the machine got in the way of a
//! measurement, so that the doctor is undecided, it is run again. A verdict that is wrong fails a test at once where the long
//! tests are run, which need a machine of their own: users run the doctor once. Next to other tests it is run again, too. A
//! machine under load takes its time for everything, so that the doctor says that steps did not fit into what it was given;
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

/// How often the doctor is run while it is undecided.
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

/// What it is given in the last run.
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

/// What the answers of one run are worth.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum AnswerGrade {
    Right,
    /// The truth is among several parts that are named, or something else is missing that more time may show.
    Undecided,
    /// What is named is not the truth.
    Wrong,
}

impl AnswerGrade {
    /// Of a condition that more time may fulfil.
    const fn of(is_right: bool) -> Self {
        match is_right {
            true => Self::Right,
            false => Self::Undecided,
        }
    }

    /// Of a verdict, where the truth is one of `parts`.
    fn of_parts(diagnosis: &Value, parts: &[&str]) -> Self {
        let named = limiter(diagnosis);
        let is_true = |part: &String| parts.contains(&part.as_str());
        match named.iter().filter(|part| is_true(part)).count() {
            0 => Self::Wrong,
            count if count == named.len() => Self::Right,
            _ => Self::Undecided,
        }
    }
}

/// Runs it with `first` seconds, and with twice as many each time up to `most`, while the answers are undecided, and returns
/// those that are right.
///
/// # Errors
/// The answers of each run, where the last ones were wrong or still undecided.
#[track_caller]
fn diagnoses_until(
    (first, most): (u32, u32),
    grade: impl Fn(&Value) -> AnswerGrade,
    mut command: impl FnMut(u32) -> Command,
) -> Result<Value, Vec<Value>> {
    let (mut seconds, mut tried) = (first, Vec::new());
    while seconds <= most {
        let all = diagnoses(&mut command(seconds));
        let grade = grade(&all);
        if grade == AnswerGrade::Right {
            return Ok(all);
        }
        tried.push(all);
        if grade == AnswerGrade::Wrong && runs_long_tests() {
            break;
        }
        seconds *= 2;
    }
    Err(tried)
}

#[test]
fn a_verdict_without_the_truth_is_wrong_and_one_of_several_is_undecided() {
    let grade = |limiter: &[&str]| {
        let diagnosis = serde_json::json!({ "verdict": { "limiter": limiter } });
        AnswerGrade::of_parts(&diagnosis, &["client", "cipher"])
    };
    assert_eq!(grade(&["cipher"]), AnswerGrade::Right);
    assert_eq!(grade(&["client", "cipher"]), AnswerGrade::Right);
    assert_eq!(grade(&["client", "disk"]), AnswerGrade::Undecided);
    assert_eq!(grade(&["disk"]), AnswerGrade::Wrong);
    assert_eq!(grade(&["disk", "wire"]), AnswerGrade::Wrong);
    assert_eq!(grade(&[]), AnswerGrade::Wrong);
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
    let grade = |diagnosis: &Value| {
        let lines = diagnosis["verdict"]["evidence"].to_string();
        AnswerGrade::of_parts(diagnosis, parts).max(AnswerGrade::of(lines.contains(evidence)))
    };
    let of_whole = |all: &Value| grade(&all[0]).max(AnswerGrade::of(is_whole(&all[0])));
    let tried = match diagnoses_until((SECONDS, SECONDS_MAX), of_whole, command) {
        Ok(all) => return all[0].clone(),
        Err(tried) => tried,
    };
    let last = tried.last().map(|all| grade(&all[0]));
    let mut partial = tried.iter().rev().map(|all| &all[0]);
    let partial = partial
        .find(|one| grade(one) == AnswerGrade::Right)
        .cloned();
    let is_wrong = runs_long_tests() && last == Some(AnswerGrade::Wrong);
    let partial = partial.filter(|_| !is_wrong);
    partial.unwrap_or_else(|| panic!("{parts:?} was not named but: {tried:#?}"))
}
