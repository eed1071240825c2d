//! `cargo xtask test`: the tests of the workspace, several binaries at once.
//!
//! Most tests wait for sockets, processes and timers, so more of them run at once than there are processors:
//! [`AT_ONCE_PER_CORE`]. Tests that compare times run afterwards, each with nothing else ([`exclusive`]). What the
//! binaries print goes to `target/tests`; the terminal has a line for each binary, every failure with its
//! output, the slowest tests, and the processor time of all.

mod binary;
mod events;
mod exclusive;
mod pool;
mod report;
mod selection;
#[cfg(test)]
mod tests;

use std::path::Path;

use anyhow::{Result, bail};

use self::binary::Binary;
use self::pool::{Limits, Task};
use self::report::Report;
use self::selection::Selection;
use crate::{clock, process, shell};

/// Tests of one binary that run at once, for each processor.
const AT_ONCE_PER_CORE: usize = 2;

/// Memory that is free when another binary is started.
const FREE_BYTES_MIN: u64 = 2 << 30;

/// Builds the tests that `filter` selects and runs them; `strict` makes a test fail that cannot run here.
pub(crate) fn run(filter: Option<&str>, strict: bool) -> Result<()> {
    let begin = clock::now();
    let selection = Selection::of(filter)?;
    let outboard = match selection.needs_outboard() {
        true => shell::build()?,
        false => shell::target().join("debug/outboard"),
    };
    let binaries = binary::build(&selection)?;
    let built = begin.elapsed();
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let before = process::cpu_seconds(std::process::id())?;
    let begin = clock::now();
    let mut report = Report::default();
    let shared = tasks(&binaries, &selection, &outboard, strict, false);
    let limits = Limits {
        binaries: cores + 1,
        tests: cores * AT_ONCE_PER_CORE,
        free_bytes_min: FREE_BYTES_MIN,
    };
    pool::run(shared, limits, &mut report)?;
    let single = tasks(&binaries, &selection, &outboard, strict, true);
    pool::run(single, Limits::ONE, &mut report)?;
    let mut failed: Vec<String> = doc_tests(&selection).into_iter().collect();
    report.print(
        built,
        begin.elapsed(),
        process::cpu_seconds(std::process::id())? - before,
    );
    failed.extend(report.failure());
    match failed.is_empty() {
        true => Ok(()),
        false => bail!("{}", failed.join("; ")),
    }
}

/// What is run of each binary: the tests that run with others, or those that run alone.
fn tasks(
    binaries: &[Binary],
    selection: &Selection,
    outboard: &Path,
    strict: bool,
    is_exclusive: bool,
) -> Vec<Task> {
    binaries
        .iter()
        .filter_map(|binary| {
            let names = exclusive::names(&binary.name);
            let arguments = match is_exclusive {
                true => exclusive::only(names, selection.test.as_deref())?,
                false => exclusive::without(names, selection.test.as_deref())?,
            };
            Some(Task {
                binary: binary.clone(),
                arguments,
                outboard: outboard.to_owned(),
                strict,
            })
        })
        .collect()
}

/// The examples in the documentation.
fn doc_tests(selection: &Selection) -> Option<String> {
    if !selection.has_doc_tests() {
        return None;
    }
    let mut command = shell::cargo(["test", "--quiet", "--doc"]);
    let outcome = shell::output(command.args(selection.arguments()));
    outcome.err().map(|error| format!("{error:#}"))
}
