//! The row of parity: what one core computes of two missing members, with each kernel that the CPU can run.
//!
//! No server runs: an example of `engine` measures itself, in the processor time that it took.

use std::process::Command;

use anyhow::{Context, Result};

use super::figures::Sample;
use super::{Args, Measured, rounds};
use crate::shell;

/// The way that is used first, then all that there are, the slowest last.
pub(super) fn measure(args: &Args) -> Result<Vec<Measured>> {
    shell::run(&mut shell::cargo([
        "build",
        "--quiet",
        "--release",
        "--package",
        "engine",
        "--example",
        "parity",
    ]))?;
    let program = shell::target().join("release/examples/parity");
    let names = shell::output(&mut Command::new(&program))?;
    let kernels: Vec<&str> = names.lines().rev().collect();
    let best = format!(
        "outboard: {}",
        kernels.first().context("no kernel of parity")?
    );
    let others = kernels.iter().skip(1).map(|name| (*name).to_owned());
    let names = [best].into_iter().chain(others).collect();
    rounds(args, names, |which| {
        let mut command = Command::new(&program);
        let printed = shell::output(command.args([kernels[which], &args.seconds.to_string()]))?;
        read(&printed).with_context(|| format!("the figures of parity cannot be read: {printed}"))
    })
}

/// Reads `name, tab, MB/s, tab, rebuilt MB/s`.
fn read(printed: &str) -> Option<Sample> {
    let mut figures = printed.trim().split('\t').skip(1).map(str::parse);
    Some(Sample {
        mb_per_s: Some(figures.next()?.ok()?),
        rebuilt_mb_per_s: Some(figures.next()?.ok()?),
        ..Sample::default()
    })
}

#[test]
fn figures_are_read_as_they_are_printed() {
    let sample = read("AVX2\t9000\t3000\n");
    let figures = sample.map(|sample| (sample.mb_per_s, sample.rebuilt_mb_per_s));
    assert_eq!(figures, Some((Some(9000.0), Some(3000.0))));
    assert!(read("AVX2\t9000").is_none());
}
