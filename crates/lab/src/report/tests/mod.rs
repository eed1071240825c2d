//! What reports say of a made-up run: structure and rules, never fixed figures.

mod curves;
mod error_rates;
mod page;
mod remarks;
mod runs;
mod text;
mod trust;
mod wording;

use crate::checks::{Check, Finding};
use crate::store::RunRecord;

/// Makes every measurement of a test on a target invalid.
fn invalidate(run: &mut RunRecord, workload: usize, target: usize, reason: &str) {
    for cell in run
        .cells
        .iter_mut()
        .filter(|cell| cell.workload == workload && cell.target == target)
    {
        cell.findings.push(Finding::invalid(Check::Ceiling, reason));
    }
}
