//! `cargo xtask fuzz`: the fuzz targets of `fuzz/` on the pinned, stable toolchain.
//!
//! The layout is cargo-fuzz's, so its users find what they know; the coverage that libFuzzer reads is
//! switched on by compiler flags here, so nothing has to be installed. What a run learns is kept under the
//! target folder; `fuzz/seeds/NAME`, where there is one, is where it begins.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use toml::Table;

use crate::{packages, shell};

/// The manifest of the fuzz targets, from the root.
pub(crate) const MANIFEST: &str = "fuzz/Cargo.toml";

/// Coverage as libFuzzer wants it; assertions on.
const FLAGS: &str = "--cfg fuzzing -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares -Ccodegen-units=1 -Cdebug-assertions";

/// How long, and which.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Targets by name; all when none is given.
    targets: Vec<String>,
    /// Length of each target's run.
    #[arg(long, default_value_t = 60)]
    seconds: u32,
}

/// Whether the tree has fuzz targets.
pub(crate) fn is_there() -> bool {
    shell::root().join(MANIFEST).exists()
}

/// Runs all targets, each for its share of `seconds`.
pub(crate) fn run_shared(seconds: u32) -> Result<()> {
    let count = u32::try_from(targets()?.len())?;
    run(&Args {
        targets: Vec::new(),
        seconds: (seconds / count).max(1),
    })
}

/// Builds the targets and runs each.
pub(crate) fn run(args: &Args) -> Result<()> {
    packages::ensure(&[packages::FUZZ])?;
    let all = targets()?;
    if let Some(unknown) = args.targets.iter().find(|name| !all.contains(name)) {
        bail!(
            "there is no fuzz target {unknown}; there are {}",
            all.join(", ")
        );
    }
    let folder = build()?;
    let chosen: Vec<&String> = all
        .iter()
        .filter(|name| args.targets.is_empty() || args.targets.contains(name))
        .collect();
    let mut failed = Vec::new();
    for name in chosen {
        if let Err(error) = one(name, args.seconds, &folder) {
            println!("fuzz {name}: FAILED, {error:#}");
            failed.push(name.as_str());
        }
    }
    if !failed.is_empty() {
        bail!(
            "these fuzz targets failed: {}; what broke them is above and in target/fuzz/artifacts",
            failed.join(", ")
        );
    }
    Ok(())
}

/// The names of the manifest's programs.
fn targets() -> Result<Vec<String>> {
    let path = shell::root().join(MANIFEST);
    let text = std::fs::read_to_string(&path)
        .with_context(|| format!("cannot read {}", path.display()))?;
    let manifest: Table = text.parse()?;
    let names: Vec<String> = manifest
        .get("bin")
        .and_then(|bins| bins.as_array())
        .into_iter()
        .flatten()
        .filter_map(|bin| Some(bin.get("name")?.as_str()?.to_owned()))
        .collect();
    if names.is_empty() {
        bail!("{MANIFEST} names no fuzz targets");
    }
    Ok(names)
}

/// Builds all targets and returns the folder they are in.
fn build() -> Result<PathBuf> {
    let host = host()?;
    let folder = shell::target().join("fuzz");
    let mut command = shell::cargo(["build", "--quiet", "--release", "--bins"]);
    command
        .args([
            "--manifest-path",
            MANIFEST,
            "--target",
            &host,
            "--target-dir",
        ])
        .arg(&folder)
        .env("RUSTFLAGS", FLAGS);
    shell::run(&mut command)?;
    Ok(folder.join(host).join("release"))
}

/// This machine as the compiler calls it: with a target named, build scripts are built without the flags.
fn host() -> Result<String> {
    let printed = shell::output(Command::new("rustc").arg("-vV").current_dir(shell::root()))?;
    printed
        .lines()
        .find_map(|line| line.strip_prefix("host: "))
        .map(str::to_owned)
        .context("rustc does not say what it runs on")
}

fn one(name: &str, seconds: u32, folder: &Path) -> Result<()> {
    let kept = shell::target().join("fuzz/corpus").join(name);
    let artifacts = shell::target().join("fuzz/artifacts").join(name);
    std::fs::create_dir_all(&kept)?;
    std::fs::create_dir_all(&artifacts)?;
    let log = shell::target().join("fuzz").join(format!("{name}.log"));
    let output =
        std::fs::File::create(&log).with_context(|| format!("cannot write {}", log.display()))?;
    let mut command = Command::new(folder.join(name));
    command
        .arg(format!("-max_total_time={seconds}"))
        .arg(format!("-artifact_prefix={}/", artifacts.display()))
        .args([
            "-timeout=10",
            "-rss_limit_mb=2048",
            "-verbosity=0",
            "-print_final_stats=1",
        ])
        .arg(kept)
        .stderr(output);
    let given = shell::root().join("fuzz/seeds").join(name);
    if given.is_dir() {
        command.arg(given);
    }
    let outcome = shell::run(&mut command);
    let output = std::fs::read_to_string(&log).unwrap_or_default();
    if outcome.is_err() {
        eprintln!("{output}");
    }
    outcome?;
    let count = output
        .lines()
        .find_map(|line| line.strip_prefix("stat::number_of_executed_units: "))
        .context("it does not say how many inputs it tried")?;
    println!("fuzz {name}: {} inputs in {seconds} s", count.trim());
    Ok(())
}
