//! `cargo xtask soak doctor`: the doctor on a table of rigged systems, each with its verdict next to the truth. `test` has
//! some of them.

use anyhow::Result;

use crate::packages;
use crate::suite::{self, SuiteOptions};

/// Has the test run, which is skipped otherwise.
const SWEEP: (&str, &str) = ("OUTBOARD_DOCTOR_SWEEP", "1");

/// The test with the table.
const TEST: &str = "every_rigged_system_gets_the_right_verdict";

/// Runs all of them; none may be skipped.
pub(super) fn run() -> Result<()> {
    packages::ensure(&[packages::TESTS])?;
    suite::run(SuiteOptions {
        filter: Some(TEST),
        strict: true,
        variable: Some(SWEEP),
    })
}
