//! The sections below the cover, from whether it can be trusted to the commands.

mod figures;
mod machine;
mod measured;
mod processors;

pub(super) use figures::trust;
pub(super) use machine::{commands, machine};
pub(super) use measured::{blocks, latency, throughput};
pub(super) use processors::processors;

use crate::report::summary::{Row, Summary};
use crate::store::RunRecord;

/// Each test with its rows.
fn tests<'a>(
    run: &'a RunRecord,
    summary: &'a Summary,
) -> impl Iterator<Item = (&'a str, Vec<&'a Row>)> {
    run.plan
        .workloads
        .iter()
        .enumerate()
        .map(|(index, workload)| {
            let rows = summary
                .rows
                .iter()
                .filter(|row| row.workload == index)
                .collect();
            (workload.title.as_str(), rows)
        })
}
