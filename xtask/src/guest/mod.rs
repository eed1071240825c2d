//! `cargo xtask guest`: scripts inside a Linux guest, against servers on this machine.
//!
//! This machine's kernel may lack nbd, md and device mapper; the guest's has them. It runs in QEMU
//! without hardware help, from Debian's own packages, and reaches this machine's loopback as 10.0.2.2.
//! Every script in `tests/guest/` is a test; its exit status is the verdict. `--lab` makes a run of the lab in it, and
//! the test `lab` makes a short one; the test `doctor` is the doctor on a share of SMB. Tests run side by side ([`pool`]), each in a folder of its own.

mod cpio;
mod host;
mod image;
mod kernel;
pub(crate) mod lab;
mod machine;
mod modules;
mod pool;
mod rootfs;
mod script;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail, ensure};

use crate::servers::Launcher;
use crate::{packages, shell};
use lab::{LAB_TESTS, LabTest};
use machine::Job;
pub(crate) use machine::{KERNEL_OPTIONS, PROCESSOR};
use script::BinaryUse;

/// Which scripts, against which server.
#[derive(Debug, Default, clap::Args)]
pub(crate) struct Args {
    /// Scripts by name or path, `lab` or `doctor`; all of tests/guest and both of these when none is given.
    scripts: Vec<String>,
    /// Make a run of the lab in the guest, with the options of `outboard lab run`; DIR holds its scratch disk while it
    /// runs, and its store afterwards. A line `stop` ends it with what was measured.
    #[arg(
        long,
        num_args = 2..,
        value_names = ["PLAN", "DIR"],
        allow_hyphen_values = true,
        conflicts_with_all = ["scripts", "server"]
    )]
    lab: Vec<String>,
    /// The server's command with {disk} and {port}; ours when not given.
    #[arg(long)]
    server: Option<String>,
    /// Leave out every second of the combinations that a script goes through: the even (0) or the odd (1) ones are run.
    #[arg(long, value_parser = clap::value_parser!(u8).range(0..=1))]
    half: Option<u8>,
    /// Leave out those that are long.
    #[arg(skip)]
    is_brief: bool,
}

impl Args {
    /// All tests but those that are long, with this half of their combinations, for the checks of every change.
    pub(crate) fn brief(half: u8) -> Self {
        Self {
            half: Some(half),
            is_brief: true,
            ..Self::default()
        }
    }

    /// One test.
    pub(crate) fn only(name: &str) -> Self {
        Self {
            scripts: vec![name.to_owned()],
            ..Self::default()
        }
    }
}

/// A test of the guest.
#[derive(Debug)]
struct GuestTest {
    name: String,
    kind: TestKind,
    /// When it is aborted, in seconds.
    timeout_s: u64,
}

/// Where a test is carried out.
#[derive(Debug)]
enum TestKind {
    /// This script in a guest of its own.
    Script(PathBuf),
    /// In the lab's guest.
    InLab(&'static LabTest),
}

/// Runs the tests, several at once; those that failed are in the error, each with its own.
pub(crate) fn run(args: &Args) -> Result<()> {
    packages::ensure(&[packages::GUEST])?;
    let folder = shell::target().join("guest");
    if !args.lab.is_empty() {
        let binary = stripped(&shell::build_release()?, &folder)?;
        let guest = lab::build(&folder, &binary)?;
        let printed = lab::run(&guest, &args.lab, 0, lab::Console::Shown)?;
        print!("{printed}");
        return Ok(());
    }
    let tests = tests(args)?;
    if let Some(half) = args.half {
        println!("every second combination, --half {half}; without --half, all of them");
    }
    let image = image::build(&folder)?;
    // A foreign server for a script that does without us needs no build of ours.
    let binary = if args.server.is_none() || wants_outboard(&tests)? {
        Some(binary(&folder)?)
    } else {
        None
    };
    let mut failed = Vec::new();
    // Built once for all tests in it, while others run.
    let in_lab = LazyLock::new(|| -> Result<lab::Guest> {
        let binary = binary.as_deref();
        lab::build(&folder, binary.context("there is no binary to measure")?)
    });
    let run = |test: &GuestTest| match test.kind {
        TestKind::Script(ref path) => {
            one(args, &image, binary.as_deref(), path, &test.name).map(Some)
        }
        TestKind::InLab(test) => {
            let guest = in_lab.as_ref().map_err(|error| anyhow!("{error:#}"))?;
            (test.run)(guest, &folder).map(|()| None)
        }
    };
    pool::run(tests, pool::at_once(), run, |test, took, outcome| {
        failed.extend(log_outcome(&test.name, took, &outcome));
    })?;
    if !failed.is_empty() {
        bail!(
            "in the guest failed: {}; the consoles are in {}",
            failed.join(", "),
            folder.join("run").display()
        );
    }
    Ok(())
}

/// Prints how a test ended, and the processor time of its machine where that is known; returns its name and its error when it
/// failed.
fn log_outcome(name: &str, took: Duration, outcome: &Result<Option<f64>>) -> Option<String> {
    match outcome {
        Ok(cpu_seconds) => {
            let cpu = cpu_seconds.map(|seconds| format!(", {seconds:.1} s of processor time"));
            let took = took.as_secs_f64();
            println!("guest {name}: ok, {took:.1} s{}", cpu.unwrap_or_default());
            None
        }
        Err(error) => {
            println!("guest {name}: FAILED, {error:#}");
            Some(format!("{name} ({error:#})"))
        }
    }
}

fn one(
    args: &Args,
    image: &image::Image,
    binary: Option<&Path>,
    path: &Path,
    name: &str,
) -> Result<f64> {
    let script = read(path)?;
    let folder = shell::target().join("guest/run").join(name);
    std::fs::remove_dir_all(&folder).ok();
    std::fs::create_dir_all(&folder)?;
    let command = match (&args.server, binary) {
        (Some(command), _) => command.clone(),
        (None, Some(binary)) => format!(
            "{} serve {{disk}} --listen 127.0.0.1:{{port}}",
            binary.display()
        ),
        (None, None) => bail!("there is no server for the script"),
    };
    let launcher = Launcher {
        ours: command.split_whitespace().map(str::to_owned).collect(),
        before: None,
        folder: folder.clone(),
    };
    let job = Job {
        name,
        script: &script,
        half: args.half,
        binary,
        launcher: &launcher,
        folder: &folder,
    };
    let cpu_seconds = machine::run(image, &job)?;
    // The images are sparse but many; what a failure needs is kept, what a success leaves is not.
    std::fs::remove_dir_all(&folder).ok();
    Ok(cpu_seconds)
}

/// The tests that were chosen; those that may take longest come first, so that none of them is alone at the end.
fn tests(args: &Args) -> Result<Vec<GuestTest>> {
    let mut tests = Vec::new();
    for path in chosen(&args.scripts)? {
        let wants = script::wants(&read(&path)?);
        let wants = wants.with_context(|| format!("in {}", path.display()))?;
        if wants.is_long && args.is_brief {
            continue;
        }
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        tests.push(GuestTest {
            name: name.into_owned(),
            timeout_s: wants.timeout_s,
            kind: TestKind::Script(path),
        });
    }
    let is_chosen = |test: &&LabTest| match args.scripts.is_empty() {
        true => args.server.is_none() && (test.is_brief || !args.is_brief),
        false => args.server.is_none() && args.scripts.iter().any(|name| name == test.name),
    };
    tests.extend(LAB_TESTS.iter().filter(is_chosen).map(|test| GuestTest {
        name: test.name.to_owned(),
        kind: TestKind::InLab(test),
        timeout_s: test.limit_s.into(),
    }));
    ensure!(
        !tests.is_empty(),
        "no test is chosen: those of the lab run without --server"
    );
    let mut names = BTreeSet::new();
    let twice = tests.iter().find(|test| !names.insert(&test.name));
    if let Some(test) = twice {
        bail!("{} is given twice, and has one folder", test.name);
    }
    tests.sort_by_key(|test| std::cmp::Reverse(test.timeout_s));
    Ok(tests)
}

fn wants_outboard(tests: &[GuestTest]) -> Result<bool> {
    let mut any = false;
    for test in tests {
        if let TestKind::Script(path) = &test.kind {
            any |= script::wants(&read(path)?)?.outboard != BinaryUse::Nowhere;
        }
    }
    Ok(any)
}

fn read(path: &Path) -> Result<String> {
    std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
}

/// Our binary as the tests have it.
fn binary(folder: &Path) -> Result<PathBuf> {
    stripped(&shell::build()?, folder)
}

/// A binary without what only a debugger reads.
pub(crate) fn stripped(built: &Path, folder: &Path) -> Result<PathBuf> {
    std::fs::create_dir_all(folder)?;
    let stripped = folder.join("outboard");
    let mut strip = Command::new("strip");
    strip.arg("-o").arg(&stripped).arg(built);
    shell::output(&mut strip)?;
    Ok(stripped)
}

fn chosen(names: &[String]) -> Result<Vec<PathBuf>> {
    let folder = shell::root().join("tests/guest");
    if names.is_empty() {
        let mut all: Vec<PathBuf> = std::fs::read_dir(&folder)
            .with_context(|| format!("cannot read {}", folder.display()))?
            .filter_map(|entry| entry.ok().map(|entry| entry.path()))
            .filter(|path| path.extension().is_some_and(|ending| ending == "sh"))
            .collect();
        all.sort();
        return Ok(all);
    }
    names
        .iter()
        .filter(|name| LAB_TESTS.iter().all(|test| test.name != **name))
        .map(|name| {
            let by_name = folder.join(format!("{name}.sh"));
            let path = if by_name.exists() {
                by_name
            } else {
                PathBuf::from(name)
            };
            ensure!(
                path.exists(),
                "there is no script {name} in {}",
                folder.display()
            );
            Ok(path)
        })
        .collect()
}
