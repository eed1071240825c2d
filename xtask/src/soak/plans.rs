//! `cargo xtask soak plans`: every plan that comes with the lab, each of its tests on each of its targets.
//!
//! The tests of the plans cover each target and each test once (`lab_plans::cover`), which takes a minute or two; all
//! combinations take half an hour.

use anyhow::Result;

use crate::packages;
use crate::suite::{self, SuiteOptions};

/// Has the tests of the plans run them in full.
const WHOLE: (&str, &str) = ("OUTBOARD_WHOLE_PLANS", "1");

/// The tests of the lab's plans.
const TESTS: &str = "lab_plans";

/// Runs all of them; none may be skipped.
pub(super) fn run() -> Result<()> {
    packages::ensure(&[packages::TESTS])?;
    suite::run(SuiteOptions {
        filter: Some(TESTS),
        strict: true,
        variables: &[(WHOLE.0, WHOLE.1.to_owned())],
        ..SuiteOptions::default()
    })
}
