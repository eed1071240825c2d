//! `cargo xtask soak worlds`: many more of the seeded worlds than `cargo xtask test` plays.

use anyhow::Result;

use crate::packages;
use crate::suite::{self, SuiteOptions};

/// Worlds of each test or kind, instead of some hundreds.
const COUNT: (&str, &str) = ("OUTBOARD_WORLDS", "2000");

/// The tests that play worlds, by a part of their names.
const TESTS: &str = "worlds";

/// Runs all of them; none may be skipped.
pub(super) fn run() -> Result<()> {
    packages::ensure(&[packages::TESTS])?;
    suite::run(SuiteOptions {
        filter: Some(TESTS),
        strict: true,
        variable: Some(COUNT),
    })
}
