//! `cargo xtask soak doctor`: the doctor's tests, also those that `test` leaves out because they take minutes, and a table
//! of rigged systems, each with its verdict next to the truth, and a share of SMB in the guest, which has the client of a kernel.

use anyhow::Result;

use crate::suite::{self, BINARY, REQUIRE_ALL, SuiteOptions};
use crate::{guest, packages, shell};

/// Has the long tests run.
const LONG: (&str, &str) = ("OUTBOARD_DOCTOR_LONG", "1");

/// The program of tests.
const TESTS: &str = "doctor";

/// Has the table made, which only this command does.
const TABLE: (&str, &str) = ("OUTBOARD_DOCTOR_TABLE", "1");

/// Runs all of them; none may be skipped. The table is a test by itself, and its lines appear as its systems are examined: it
/// takes longer than a test of the suite may be silent for.
pub(super) fn run() -> Result<()> {
    packages::ensure(&[packages::TESTS])?;
    let tests = suite::run(SuiteOptions {
        filter: Some(TESTS),
        strict: true,
        variables: &[(LONG.0, LONG.1.to_owned())],
        ..SuiteOptions::default()
    });
    let arguments = ["test", "--package", "outboard-tests", "--test", TESTS];
    let only = ["sweep::", "--", "--nocapture", "--test-threads=1"];
    let mut table = shell::cargo(arguments);
    table.args(only).env(TABLE.0, TABLE.1).env(REQUIRE_ALL, "1");
    // Where it cannot be built there is an older one, perhaps.
    let table = shell::build().and_then(|outboard| shell::run(table.env(BINARY, outboard)));
    let share = guest::run(&guest::Args::only(guest::lab::DOCTOR));
    tests.and(table).and(share)
}
