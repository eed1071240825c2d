//! The doctor on systems whose limiter is known, because it was built in: each by a clear factor.
//!
//! They measure, so one runs at a time; and where something else on the machine got in the way of a
//! measurement, the doctor is asked again: what it must not do is to be wrong each time.

mod behaviour;
mod blocks;
mod files;
mod processors;
mod wire;

use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};

use outboard_tests::image::Folder;
use outboard_tests::said;
use serde_json::Value;

/// How often the doctor is asked before it counts as wrong.
const TRIES: usize = 4;

/// Only one test measures at a time.
static ALONE: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    // A test that failed has harmed nothing but itself.
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The doctor, with its temporary files in `folder`.
fn doctor(folder: &Folder, args: &[&str]) -> Command {
    let mut command = said::outboard(&["doctor", "--json", "--seconds", "8"]);
    command.args(args).env("TMPDIR", folder.path());
    command
}

/// Its first answer.
#[track_caller]
fn diagnosis(command: &mut Command) -> Value {
    let printed = said::run(command).ok();
    let all: Value = serde_json::from_str(&printed).unwrap_or_else(|e| panic!("{e}: {printed}"));
    all[0].clone()
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

/// Asks until all that is named is among `parts`, and gives that answer.
#[track_caller]
fn names(parts: &[&str], mut command: impl FnMut() -> Command) -> Value {
    let mut wrong = Vec::new();
    for _ in 0..TRIES {
        let told = diagnosis(&mut command());
        let named = limiter(&told);
        if !named.is_empty() && named.iter().all(|part| parts.contains(&part.as_str())) {
            return told;
        }
        wrong.push(told);
    }
    panic!("{parts:?} was not named but: {wrong:#?}");
}
