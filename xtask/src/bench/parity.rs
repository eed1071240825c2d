//! The rows of parity: what one core computes of it and of missing members, with each kernel that the CPU can run, also against
//! copying memory.
//!
//! No server runs: an example of `engine` measures itself, in the processor time that it took.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::figures::Sample;
use super::{Args, Measured, rounds};
use crate::shell;

/// What is computed of two missing members, for the first contender and each other one.
const TWO_LOST: &str = "two-lost";
/// Copying as much memory.
const COPY: &str = "copy";

/// The kernel that is used first, then all that there are, the slowest last.
pub(super) fn measure(args: &Args) -> Result<Vec<Measured>> {
    let program = build()?;
    let kernels = kernels(&program)?;
    let names = contenders(&kernels);
    rounds(args, names, |which| {
        figures(&program, args, (TWO_LOST, &kernels[which]))
    })
}

/// The kernel that is used, then copying memory, then the other kernels.
pub(super) fn kernel(args: &Args, what: &'static str) -> Result<Vec<Measured>> {
    let program = build()?;
    let kernels = kernels(&program)?;
    let mut names = contenders(&kernels);
    names.insert(1, "memory copy".to_owned());
    rounds(args, names, |which| {
        let what = match which {
            0 => (what, &*kernels[0]),
            1 => (COPY, &*kernels[0]),
            other => (what, &*kernels[other - 1]),
        };
        figures(&program, args, what)
    })
}

fn build() -> Result<PathBuf> {
    shell::run(&mut shell::cargo([
        "build",
        "--quiet",
        "--release",
        "--package",
        "engine",
        "--example",
        "parity",
    ]))?;
    Ok(shell::target().join("release/examples/parity"))
}

/// Names of all that the CPU can run, the one that is used first.
fn kernels(program: &Path) -> Result<Vec<String>> {
    let names = shell::output(&mut Command::new(program))?;
    let names: Vec<String> = names.lines().rev().map(str::to_owned).collect();
    ensure!(!names.is_empty(), "no kernel of parity");
    Ok(names)
}

fn contenders(kernels: &[String]) -> Vec<String> {
    let mut names = kernels.to_vec();
    names[0] = format!("outboard: {}", names[0]);
    names
}

fn figures(program: &Path, args: &Args, (what, kernel): (&str, &str)) -> Result<Sample> {
    let mut command = Command::new(program);
    let printed = shell::output(command.args([what, kernel, &args.seconds.to_string()]))?;
    read(&printed).with_context(|| format!("the figures of parity cannot be read: {printed}"))
}

/// Reads `name, tab, MB/s`, and behind another tab `rebuilt MB/s` where something was.
fn read(printed: &str) -> Option<Sample> {
    let mut figures = printed.trim().split('\t').skip(1).map(str::parse);
    Some(Sample {
        mb_per_s: Some(figures.next()?.ok()?),
        rebuilt_mb_per_s: figures.next().transpose().ok()?,
        ..Sample::default()
    })
}

#[test]
fn figures_are_read_as_they_are_printed() {
    let sample = read("AVX2\t9000\t3000\n");
    let figures = sample.map(|sample| (sample.mb_per_s, sample.rebuilt_mb_per_s));
    assert_eq!(figures, Some((Some(9000.0), Some(3000.0))));
    let sample = read("AVX2\t9000\n").map(|sample| (sample.mb_per_s, sample.rebuilt_mb_per_s));
    assert_eq!(sample, Some((Some(9000.0), None)));
    assert!(read("AVX2\t9000\tx").is_none() && read("AVX2").is_none());
}
