//! `cargo xtask soak worlds`: many more of the seeded worlds than `cargo xtask test` plays.
//!
//! Every kind of world gets as many as `--count` says, from `--seed` on: of arrays (copies, superblocks 0.90, parity, partial parity logs, journals,
//! reshapes, other levels, other consistency policies), of two hosts, moves, caches, copies and clients. A world that fails is printed with its seed; another run from
//! another seed on plays others. They are built with optimisation, which plays several in the time of one, and with all checks of overflow and
//! assertions.

use std::time::Duration;

use anyhow::{Context, Result};

use crate::packages;
use crate::suite::{self, SuiteOptions};

/// Worlds of each kind, and the first of their seeds.
const COUNT: &str = "OUTBOARD_WORLDS";
const FROM: &str = "OUTBOARD_WORLDS_FROM";

/// Seeds of one kind: those of the next kind begin behind them.
const SEEDS: u64 = 1 << 32;

/// Most worlds of one kind.
pub(super) const COUNT_MAX: u64 = 1 << 31;

/// The tests that play worlds, by a part of their names.
const TESTS: &str = "worlds";

/// The profile that they are built with.
const PROFILE: &str = "worlds";

/// At the most, where the machine does something else as well: one test plays thousands of them without a word.
const OF_A_WORLD: Duration = Duration::from_secs(1);

/// Runs all of them; none may be skipped.
pub(super) fn run(count: u64, seed: u64) -> Result<()> {
    let last = last_seed(count, seed)?;
    packages::ensure(&[packages::TESTS])?;
    println!("seeds {seed} to {last} of each kind (OUTBOARD_WORLD=SEED plays one again)");
    suite::run(SuiteOptions {
        filter: Some(TESTS),
        strict: true,
        variables: &variables(count, seed),
        profile: Some(PROFILE),
        more_time: OF_A_WORLD.saturating_mul(u32::try_from(count).unwrap_or(u32::MAX)),
        ..SuiteOptions::default()
    })
}

/// The seed of the last world of each kind.
pub(super) fn last_seed(count: u64, seed: u64) -> Result<u64> {
    let end = seed.checked_add(count).filter(|end| *end <= SEEDS);
    let end = end.with_context(|| {
        format!("--seed {seed} and --count {count}: the seeds of a kind end before {SEEDS}")
    })?;
    Ok(end.saturating_sub(1))
}

/// What the tests get of it.
pub(super) fn variables(count: u64, seed: u64) -> [(&'static str, String); 2] {
    [(COUNT, count.to_string()), (FROM, seed.to_string())]
}
