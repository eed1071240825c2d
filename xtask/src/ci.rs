//! `cargo xtask ci` and `cargo xtask test`: what has to pass, in the order that reports soonest what is wrong.
//!
//! One profile builds everything, so that clippy, the tests, the guest's binary and the documentation share
//! what is compiled. A step that fails does not hide what the later ones would report.
//!
//! The guest waits for its own timers, and no step of [`Lane::Background`] measures anything: those run in a process of
//! their own while the guest runs, with their output in a log that is printed at the end. The times of all steps, and the
//! processor time of what each step waited for, are printed last: the rest of a step's time was idle.

use std::fs::File;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};

use crate::suite::SuiteOptions;
use crate::{browser, clock, fuzz, guest, packages, process, s3_servers, shell, soak, suite, tidy};

/// Seconds that all fuzz targets share: enough to see that they run and to repeat what was once found. They have
/// about two thirds of a processor, next to the guest.
const FUZZ_SECONDS: u32 = 90;

/// Where a step runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Lane {
    /// After the step before it.
    Foreground,
    /// In a process of its own while the guest runs.
    Background,
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

/// The step that starts the background.
const WITH_BACKGROUND: &str = "guest";

const STEPS: &[Step] = &[
    step("format", Lane::Foreground, format),
    step("tidy", Lane::Foreground, || {
        tidy::run(&tidy::Args::default())
    }),
    step("tests", Lane::Foreground, all_tests),
    step("browser", Lane::Foreground, in_browser),
    step("clippy", Lane::Background, clippy),
    step("documentation", Lane::Background, documentation),
    step("bucket", Lane::Background, volumes_on_object_stores),
    step("fuzz", Lane::Background, fuzz_briefly),
    step(WITH_BACKGROUND, Lane::Foreground, in_guest),
    step("soak", Lane::Foreground, soak_briefly),
];

/// Which steps.
#[derive(Debug, Default, clap::Args)]
pub(crate) struct Args {
    /// Steps by name (format, tidy, tests, browser, clippy, documentation, bucket, fuzz, guest, soak); all when none is
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
    for step in STEPS.iter().filter(chosen) {
        let background = match has_lanes && step.name == WITH_BACKGROUND {
            true => Some(Background::start()?),
            false => None,
        };
        outcomes.run(step);
        if let Some(background) = background {
            let meter = Meter::start();
            let (outcome, lines) = background.finish();
            outcomes.lines.extend(lines);
            outcomes.add("background", meter.cost(), outcome);
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
    fn run(&mut self, step: &Step) {
        println!("\n== {}", step.name);
        let meter = Meter::start();
        let outcome = (step.run)();
        self.add(step.name, meter.cost(), outcome);
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

/// The lines of a list at the end of `printed` that are those of background steps.
fn background_lines(printed: &str) -> Vec<String> {
    let names = STEPS.iter().filter(|step| step.lane == Lane::Background);
    let lines = names.filter_map(|step| {
        let name = format!("{:<14}", step.name);
        printed.lines().rfind(|line| line.starts_with(&name))
    });
    lines
        .map(|line| format!("{line} (in the background)"))
        .collect()
}

/// The steps of the background, in one process of this program.
#[derive(Debug)]
struct Background {
    child: Child,
    log: PathBuf,
}

impl Background {
    fn start() -> Result<Self> {
        let log = shell::target().join("ci-background.log");
        let file = File::create(&log).with_context(|| format!("cannot write {}", log.display()))?;
        let steps = STEPS.iter().filter(|step| step.lane == Lane::Background);
        let mut command = Command::new(std::env::current_exe()?);
        command
            .arg("ci")
            .args(steps.map(|step| step.name))
            .stdin(Stdio::null())
            .stdout(file.try_clone()?)
            .stderr(file);
        let child = command
            .spawn()
            .with_context(|| format!("cannot start {}", shell::words(&command)))?;
        Ok(Self { child, log })
    }

    /// Waits for the end and prints what the steps printed; whether all passed, and their lines for the list.
    fn finish(mut self) -> (Result<()>, Vec<String>) {
        let status = self.child.wait();
        let printed = std::fs::read(&self.log).unwrap_or_default();
        let printed = String::from_utf8_lossy(&printed);
        println!("\n{}", printed.trim_end());
        let outcome = match status {
            Ok(status) if status.success() => Ok(()),
            Ok(status) => Err(anyhow!("ended with {status}")),
            Err(error) => Err(error.into()),
        };
        (outcome, background_lines(&printed))
    }
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

fn all_tests() -> Result<()> {
    suite::run(SuiteOptions {
        strict: true,
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
    shell::run(shell::cargo(args).env("RUSTDOCFLAGS", flags))
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

    /// A step that is in no lane, or in a lane that never starts, would pass without having run.
    #[test]
    fn the_background_starts_with_a_step_and_ends_before_the_next() {
        let starts = find(WITH_BACKGROUND).map(|step| step.lane);
        assert_eq!(starts, Some(Lane::Foreground));
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
    fn the_list_has_the_steps_of_the_background() {
        let fuzz = line("fuzz", Cost::default(), "ok");
        let clippy = line("clippy", Cost::default(), "FAILED: no");
        let printed = format!("fuzz request: 3 inputs\n\n{fuzz}\n{clippy}\nin all 5 s\n");
        let listed = [clippy, fuzz].map(|line| format!("{line} (in the background)"));
        assert_eq!(background_lines(&printed), listed);
    }

    #[test]
    fn a_failed_step_is_in_the_error_and_does_not_hide_the_next() {
        let mut outcomes = Outcomes::default();
        outcomes.run(&step("one", Lane::Foreground, || bail!("broken")));
        outcomes.run(&step("two", Lane::Foreground, || Ok(())));
        outcomes.run(&step("three", Lane::Foreground, || bail!("broken, too")));
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
