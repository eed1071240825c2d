//! `cargo xtask ci` and `cargo xtask test`: what has to pass, in the order that reports soonest what is wrong.
//!
//! One profile builds everything, so that clippy, the tests, the guest's binary and the documentation share
//! what is compiled. A step that fails does not hide what the later ones would report.
//!
//! Many tests wait, and the guest waits for its own timers: what measures nothing runs in a process of its own next to them
//! ([`background`]). The times of all steps, and the processor time of what each step waited for, are printed last: the rest of
//! a step's time was idle.

mod background;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

use self::background::Background;

use crate::suite::SuiteOptions;
use crate::{browser, clock, fuzz, guest, packages, process, s3_servers, shell, soak, suite, tidy};

/// Seconds that all fuzz targets share: enough to see that they run and to repeat what was once found. They have
/// about one processor, next to the report in a browser.
const FUZZ_SECONDS: u32 = 90;

/// Where a step runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Lane {
    /// After the step before it.
    Foreground,
    /// In a process of its own while the tests run that run side by side. Those that run alone wait for its end.
    NextToTests,
    /// In a process of its own from the beginning of the report in a browser, which leaves most of two processors, to the end of
    /// the guest.
    NextToGuest,
}

/// A part of what has to pass.
struct Step {
    name: &'static str,
    lane: Lane,
    run: fn() -> Result<()>,
}

const fn step(name: &'static str, lane: Lane, run: fn() -> Result<()>) -> Step {
    Step { name, lane, run }
}

/// The steps that others run next to.
const TESTS: &str = "tests";
const BROWSER: &str = "browser";
const GUEST: &str = "guest";

const STEPS: &[Step] = &[
    step("format", Lane::Foreground, format),
    step("tidy", Lane::Foreground, || {
        tidy::run(&tidy::Args::default())
    }),
    step("clippy", Lane::NextToTests, clippy),
    step("documentation", Lane::NextToTests, documentation),
    step(TESTS, Lane::Foreground, || all_tests(None)),
    step(BROWSER, Lane::Foreground, in_browser),
    // The fuzz targets take what processors are given, the volumes wait for their stores.
    step("fuzz", Lane::NextToGuest, fuzz_briefly),
    step("bucket", Lane::NextToGuest, volumes_on_object_stores),
    step(GUEST, Lane::Foreground, in_guest),
    step("soak", Lane::Foreground, soak_briefly),
];

/// Which steps.
#[derive(Debug, Default, clap::Args)]
pub(crate) struct Args {
    /// Steps by name (format, tidy, clippy, documentation, tests, browser, bucket, fuzz, guest, soak); all when none is
    /// given.
    steps: Vec<String>,
}

/// Everything that has to pass, or the steps that are named, with the time each took.
pub(crate) fn run(args: &Args) -> Result<()> {
    let meter = Meter::start();
    if let Some(unknown) = args.steps.iter().find(|name| find(name).is_none()) {
        bail!("there is no step {unknown}");
    }
    let mut outcomes = Outcomes::default();
    if args.steps.is_empty() {
        packages::ensure(&[
            packages::TESTS,
            packages::CEPH,
            packages::BROWSER,
            packages::GUEST,
            packages::GUEST_LAB,
            packages::FUZZ,
        ])?;
        outcomes.add("packages", meter.cost(), Ok(()));
    }
    let has_lanes = args.steps.is_empty();
    let chosen = |step: &&Step| match has_lanes {
        true => step.lane == Lane::Foreground,
        false => args.steps.iter().any(|name| name == step.name),
    };
    let mut background = None;
    for step in STEPS.iter().filter(chosen) {
        if has_lanes && step.name == TESTS {
            outcomes.run_tests(step);
            continue;
        }
        if has_lanes && step.name == BROWSER {
            background = Some(Background::start(Lane::NextToGuest)?);
        }
        outcomes.run(step.name, step.run);
        if step.name == GUEST {
            outcomes.finish_background(background.take());
        }
    }
    outcomes.finish(meter.cost())
}

fn find(name: &str) -> Option<&'static Step> {
    STEPS.iter().find(|step| step.name == name)
}

/// When a step began, and the processor time that this process and its children had taken by then.
#[derive(Debug, Clone, Copy)]
struct Meter {
    begin: Instant,
    cpu_seconds: f64,
}

/// What a step took.
#[derive(Debug, Clone, Copy, Default)]
struct Cost {
    elapsed: Duration,
    /// Of this process, and of children that have ended.
    cpu_seconds: f64,
}

impl Meter {
    fn start() -> Self {
        Self {
            begin: clock::now(),
            cpu_seconds: Self::cpu_seconds(),
        }
    }

    fn cost(self) -> Cost {
        Cost {
            elapsed: self.begin.elapsed(),
            cpu_seconds: Self::cpu_seconds() - self.cpu_seconds,
        }
    }

    fn cpu_seconds() -> f64 {
        process::cpu_seconds(std::process::id()).unwrap_or_default()
    }
}

/// What each step took, and whether it passed.
#[derive(Debug, Default)]
struct Outcomes {
    lines: Vec<String>,
    failed: Vec<&'static str>,
}

impl Outcomes {
    fn run(&mut self, name: &'static str, run: impl FnOnce() -> Result<()>) {
        println!("\n== {name}");
        let meter = Meter::start();
        let outcome = run();
        self.add(name, meter.cost(), outcome);
    }

    /// The tests, with what runs next to them once they are built.
    fn run_tests(&mut self, step: &Step) {
        let lines = Mutex::default();
        let next_to_them = || {
            let (outcome, found) = Background::start(Lane::NextToTests)?.finish();
            *lines.lock().expect("no panic while it is locked") = found;
            outcome
        };
        self.run(step.name, || all_tests(Some(&next_to_them)));
        let lines = lines.into_inner().expect("no panic while it is locked");
        self.lines.extend(lines);
    }

    /// Waits for what ran next to the steps before.
    fn finish_background(&mut self, background: Option<Background>) {
        let Some(background) = background else {
            return;
        };
        let meter = Meter::start();
        let (outcome, lines) = background.finish();
        self.lines.extend(lines);
        self.add("background", meter.cost(), outcome);
    }

    fn add(&mut self, name: &'static str, cost: Cost, outcome: Result<()>) {
        let verdict = match outcome {
            Ok(()) => "ok".to_owned(),
            Err(error) => {
                self.failed.push(name);
                format!("FAILED: {error:#}")
            }
        };
        println!("== {name} {verdict}");
        self.lines.push(line(name, cost, &verdict));
    }

    fn finish(self, cost: Cost) -> Result<()> {
        println!("\n{}", self.lines.join("\n"));
        println!(
            "in all {:.0} s, {:.0} s of processor time",
            cost.elapsed.as_secs_f64(),
            cost.cpu_seconds
        );
        if !self.failed.is_empty() {
            bail!("did not pass: {}", self.failed.join(", "));
        }
        Ok(())
    }
}

/// A step in the list at the end.
fn line(name: &str, cost: Cost, verdict: &str) -> String {
    format!(
        "{name:<14}{:>7.1} s {:>7.1} s of processor time  {verdict}",
        cost.elapsed.as_secs_f64(),
        cost.cpu_seconds
    )
}

/// The workspace's tests, or those that the filter selects, and the report in a browser. `browser` alone
/// runs that alone.
pub(crate) fn test(filter: Option<&str>) -> Result<()> {
    let mut failed = Vec::new();
    if filter != Some("browser") {
        packages::ensure(&[packages::TESTS, packages::CEPH])?;
        let tests = suite::run(SuiteOptions {
            filter,
            ..SuiteOptions::default()
        });
        failed.extend(tests.err().map(|error| format!("{error:#}")));
    }
    if matches!(filter, None | Some("browser")) {
        let report = browser::run_if_possible(&shell::build()?);
        failed.extend(report.err().map(|error| format!("{error:#}")));
    }
    match failed.is_empty() {
        true => Ok(()),
        false => bail!("{}", failed.join("; ")),
    }
}

/// Here nothing is skipped: what lacks is installed.
fn in_browser() -> Result<()> {
    browser::run(&shell::build()?)
}

/// All tests, and something next to those that run side by side.
fn all_tests(next_to_them: Option<suite::NextTo<'_>>) -> Result<()> {
    suite::run(SuiteOptions {
        strict: true,
        next_to_shared: next_to_them,
        ..SuiteOptions::default()
    })
}

fn format() -> Result<()> {
    shell::run(&mut shell::cargo(["fmt", "--all", "--check"]))?;
    if fuzz::is_there() {
        shell::run(&mut shell::cargo([
            "fmt",
            "--manifest-path",
            fuzz::MANIFEST,
            "--check",
        ]))?;
    }
    Ok(())
}

/// All code without volumes on object stores, as it is packaged, and with them.
fn clippy() -> Result<()> {
    for selection in [&["--workspace"][..], &s3_servers::WITH_BUCKET] {
        let mut command = shell::cargo(["clippy", "--quiet", "--all-targets"]);
        command.args(selection).args(["--", "-D", "warnings"]);
        shell::run(&mut command)?;
    }
    Ok(())
}

fn in_guest() -> Result<()> {
    // Without a repository: always the same half.
    let commit = shell::output(Command::new("git").args(["rev-parse", "HEAD"])).unwrap_or_default();
    guest::run(&guest::Args::brief(half(&commit)))
}

/// Which half of the guest's combinations a commit is checked with, by its hash: the one is as likely as the other, and a
/// commit always gets the same.
fn half(commit: &str) -> u8 {
    let last = commit
        .trim()
        .chars()
        .last()
        .and_then(|digit| digit.to_digit(16));
    u8::from(last.is_some_and(|digit| digit % 2 == 1))
}

fn soak_briefly() -> Result<()> {
    soak::brief(&shell::build()?)
}

/// The documentation is for developers too, so it has the private items and links to them.
fn documentation() -> Result<()> {
    let args = [
        "doc",
        "--quiet",
        "--workspace",
        "--no-deps",
        "--document-private-items",
    ];
    let flags = "-D warnings -A rustdoc::private_intra_doc_links";
    let mut command = shell::cargo(args);
    command.env("RUSTDOCFLAGS", flags);
    // What documentation needs of the crates below is there since `clippy`, if the compiler is called as clippy calls it.
    command.env(
        "CLIPPY_ARGS",
        "-D__CLIPPY_HACKERY__warnings__CLIPPY_HACKERY__",
    );
    command.envs(clippy_driver()?.map(|driver| ("RUSTC_WORKSPACE_WRAPPER", driver)));
    shell::run(&mut command)
}

/// The compiler with clippy's lints, by the path that `cargo clippy` gives it.
fn clippy_driver() -> Result<Option<PathBuf>> {
    let mut rustc = Command::new("rustc");
    let sysroot = shell::output(
        rustc
            .args(["--print", "sysroot"])
            .current_dir(shell::root()),
    )?;
    Ok(Path::new(sysroot.trim())
        .join("bin/clippy-driver")
        .canonicalize()
        .ok())
}

/// What the feature `bucket` adds: the tests of the crate, and those of the binary with volumes, and with images of Ceph that are
/// copied to volumes.
fn volumes_on_object_stores() -> Result<()> {
    packages::ensure(&[packages::CEPH])?;
    // A test that does not find a server fails where all of them are there.
    let options = SuiteOptions {
        strict: s3_servers::install()?,
        ..SuiteOptions::default()
    };
    let selection = [&s3_servers::WITH_BUCKET[..], &["--lib", "--test=cli"]].concat();
    let chosen = [
        ("bucket", &[][..]),
        ("outboard cli", &["bucket::", "rbd::"]),
    ];
    suite::run_chosen(&selection, &chosen, &options)
}

fn fuzz_briefly() -> Result<()> {
    fuzz::run_shared(FUZZ_SECONDS)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A step that is in a lane that never starts would pass without having run.
    #[test]
    fn others_run_next_to_steps_of_the_foreground_and_the_last_one_is_alone() {
        for name in [TESTS, BROWSER, GUEST] {
            assert_eq!(find(name).map(|step| step.lane), Some(Lane::Foreground));
        }
        let begin = |name| STEPS.iter().position(|step| step.name == name);
        assert!(
            begin(BROWSER) < begin(GUEST),
            "what begins with the one ends with the other"
        );
        let last = STEPS.last().map(|step| (step.name, step.lane));
        assert_eq!(
            last,
            Some(("soak", Lane::Foreground)),
            "it has time limits of its own"
        );
    }

    #[test]
    fn a_commit_has_the_half_of_its_last_digit() {
        let halves = ["c5b24a30", "c5b24a3f\n", "c5b24a39", ""].map(half);
        assert_eq!(halves, [0, 1, 1, 0]);
    }

    #[test]
    fn a_failed_step_is_in_the_error_and_does_not_hide_the_next() {
        let mut outcomes = Outcomes::default();
        outcomes.run("one", || bail!("broken"));
        outcomes.run("two", || Ok(()));
        outcomes.run("three", || bail!("broken, too"));
        assert_eq!(outcomes.lines.len(), 3);
        let error = outcomes.finish(Cost::default()).unwrap_err();
        assert_eq!(error.to_string(), "did not pass: one, three");
    }

    #[test]
    fn an_unknown_step_is_refused() {
        let steps = vec!["nothing".to_owned()];
        let error = run(&Args { steps }).unwrap_err();
        assert_eq!(error.to_string(), "there is no step nothing");
    }
}
