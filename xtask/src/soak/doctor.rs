//! `cargo xtask soak doctor`: the doctor's tests, also those that `test` leaves out because they take minutes, and a table
//! of rigged systems, each with its verdict next to the truth.

use anyhow::Result;

use crate::packages;
use crate::suite::{self, SuiteOptions};

/// Has the long tests run.
const LONG: (&str, &str) = ("OUTBOARD_DOCTOR_LONG", "1");

/// The program of tests.
const TESTS: &str = "doctor";

/// Runs all of them; none may be skipped.
pub(super) fn run() -> Result<()> {
    packages::ensure(&[packages::TESTS])?;
    suite::run(SuiteOptions {
        filter: Some(TESTS),
        strict: true,
        variables: &[(LONG.0, LONG.1.to_owned())],
    })
}
