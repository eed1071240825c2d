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
use std::time::Duration;

use anyhow::{Context as _, Result, bail};

use self::binary::Binary;
pub(crate) use self::pool::{BINARY, REQUIRE_ALL};
use self::pool::{Limits, Task};
use self::report::Report;
use self::selection::Selection;
use crate::{clock, process, shell};

/// Tests of one binary that run at once, for each processor.
const AT_ONCE_PER_CORE: usize = 2;

/// Memory that is free when another binary is started.
const FREE_BYTES_MIN: u64 = 2 << 30;

/// What runs next to tests.
pub(crate) type NextTo<'a> = &'a (dyn Fn() -> Result<()> + Sync);

/// What is run, and how.
#[derive(Clone, Copy, Default)]
pub(crate) struct SuiteOptions<'a> {
    /// A package, a program of tests or a part of tests' names; all tests without one.
    pub(crate) filter: Option<&'a str>,
    /// A test that cannot run here fails.
    pub(crate) strict: bool,
    /// Variables that the tests get, and their values.
    pub(crate) variables: &'a [(&'static str, String)],
    /// The profile they are built with; the one of all other tests without one.
    pub(crate) profile: Option<&'a str>,
    /// How much longer than others a test may take before it counts as one that hangs.
    pub(crate) more_time: Duration,
    /// What is run next to the tests that run side by side, once they are built. It may build, which no test does.
    pub(crate) next_to_shared: Option<NextTo<'a>>,
}

impl SuiteOptions<'_> {
    /// A run of a binary with these options.
    fn task(
        &self,
        binary: Binary,
        arguments: Vec<String>,
        threads: Option<usize>,
        outboard: &Path,
    ) -> Task {
        Task {
            binary,
            arguments,
            threads,
            outboard: outboard.to_owned(),
            strict: self.strict,
            variables: self.variables.to_vec(),
            silence_max: pool::SILENCE_MAX + self.more_time,
        }
    }
}

/// Which tests of the binaries run together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Shared,
    Exclusive,
}

/// Builds the tests that are selected and runs them.
pub(crate) fn run(options: SuiteOptions<'_>) -> Result<()> {
    let begin = clock::now();
    let selection = Selection::of(options.filter)?;
    let built = binary::build(&selection, options.profile)?;
    // Building one by itself compiles most of it a second time, with other features of its dependencies.
    shell::set_built(built.programs);
    let outboard = match shell::built("outboard") {
        Some(outboard) => outboard.to_owned(),
        None if selection.needs_outboard() => shell::build()?,
        None => shell::target().join("debug/outboard"),
    };
    let binaries = built.tests;
    let built = begin.elapsed();
    let cores = cores();
    let before = process::cpu_seconds(std::process::id())?;
    let begin = clock::now();
    let mut report = Report::default();
    let tasks = |phase| tasks(&binaries, &outboard, &options, phase);
    let limits = Limits {
        binaries: cores + 1,
        tests: cores * AT_ONCE_PER_CORE,
        free_bytes_min: FREE_BYTES_MIN,
    };
    // Examples take a processor to be compiled, which the tests leave now and then.
    let (examples, shared) = std::thread::scope(|scope| {
        let examples = std::thread::Builder::new().spawn_scoped(scope, || {
            let failed = [
                doc_tests(&selection),
                options.next_to_shared.and_then(|run| text_of(run())),
            ];
            failed.into_iter().flatten().collect::<Vec<_>>()
        })?;
        let shared = pool::run(tasks(Phase::Shared), limits, &mut report);
        Ok::<_, std::io::Error>((examples.join(), shared))
    })?;
    shared?;
    let examples = examples.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    let mut failed = examples;
    let shared = begin.elapsed();
    let tests_shared = report.ended();
    pool::run(tasks(Phase::Exclusive), Limits::ONE, &mut report)?;
    println!(
        "\nside by side {:.0} s, with nothing else {:.0} s:",
        shared.as_secs_f64(),
        (begin.elapsed() - shared).as_secs_f64()
    );
    report.print_slowest(tests_shared);
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

/// Runs tests of programs that are built with `arguments`, one program after the other: of each that is named, those with a part
/// of their names in its list, or all where it is empty.
pub(crate) fn run_chosen(
    arguments: &[&str],
    chosen: &[(&str, &[&str])],
    options: &SuiteOptions<'_>,
) -> Result<()> {
    let begin = clock::now();
    let owned = |words: &[&str]| {
        words
            .iter()
            .map(|&word| word.to_owned())
            .collect::<Vec<_>>()
    };
    let binaries = binary::build_with(&owned(arguments))?;
    let tasks = chosen.iter().map(|(name, parts)| {
        let binary = binaries.iter().find(|binary| binary.name == *name);
        let binary = binary.with_context(|| format!("{name} was not built"))?;
        let outboard = shell::target().join("debug/outboard");
        Ok(options.task(binary.clone(), owned(parts), None, &outboard))
    });
    let tasks = tasks.collect::<Result<Vec<_>>>()?;
    let built = begin.elapsed();
    let limits = Limits {
        tests: cores() * AT_ONCE_PER_CORE,
        ..Limits::ONE
    };
    let before = process::cpu_seconds(std::process::id())?;
    let begin = clock::now();
    let mut report = Report::default();
    pool::run(tasks, limits, &mut report)?;
    let cpu_seconds = process::cpu_seconds(std::process::id())? - before;
    report.print(built, begin.elapsed(), cpu_seconds);
    match report.failure() {
        Some(failure) => bail!("{failure}"),
        None => Ok(()),
    }
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

/// What is run of each binary in a phase; the limited tests first, which take longest.
fn tasks(
    binaries: &[Binary],
    outboard: &Path,
    options: &SuiteOptions<'_>,
    phase: Phase,
) -> Vec<Task> {
    let task = |binary, arguments, threads| options.task(binary, arguments, threads, outboard);
    let (mut first, mut then) = (Vec::new(), Vec::new());
    for binary in binaries {
        let exclusive = exclusive::names(&binary.name);
        let selected = binary.selected.as_deref();
        if phase == Phase::Exclusive {
            let arguments = exclusive::only(exclusive, selected);
            then.extend(arguments.map(|arguments| task(binary.clone(), arguments, None)));
            continue;
        }
        let mut others = exclusive.to_vec();
        for tests in exclusive::limited(&binary.name) {
            others.push(tests.beginning);
            let named = Binary {
                name: format!("{} {}", binary.name, tests.beginning.trim_end_matches(':')),
                ..binary.clone()
            };
            let arguments = exclusive::only(&[tests.beginning], selected);
            first.extend(arguments.map(|list| task(named, list, Some(tests.at_once))));
        }
        let arguments = exclusive::without(&others, selected);
        then.extend(arguments.map(|arguments| task(binary.clone(), arguments, None)));
    }
    first.append(&mut then);
    first
}

/// The examples in the documentation.
fn doc_tests(selection: &Selection) -> Option<String> {
    if !selection.has_doc_tests() {
        return None;
    }
    let mut command = shell::cargo(["test", "--quiet", "--doc"]);
    text_of(shell::output(command.args(selection.arguments())))
}

/// The text of an error.
fn text_of<T>(outcome: Result<T>) -> Option<String> {
    outcome.err().map(|error| format!("{error:#}"))
}
