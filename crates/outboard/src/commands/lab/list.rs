//! `outboard lab list`.

use lab::plan;
use lab::report::run_list;
use lab::store::RunLine;
use serde::Serialize;

use super::StoreArgs;
use crate::failure::Failure;
use crate::output::{Format, columns};

/// What programs are told.
#[derive(Debug, Serialize)]
struct Listed<'a> {
    plans: Vec<Listing<'a>>,
    runs: &'a [RunLine],
}

#[derive(Debug, Serialize)]
struct Listing<'a> {
    name: &'a str,
    summary: &'a str,
}

/// Prints the plans and the runs.
pub(crate) fn run(args: &StoreArgs, format: Format) -> Result<(), Failure> {
    let plans = plan::list().map_err(Failure::new)?;
    let path = args.path()?;
    let runs = match path.exists() {
        true => args.open()?.runs().map_err(Failure::new)?,
        false => Vec::new(),
    };
    let plans = plans.iter();
    let plans = plans.map(|plan| Listing {
        name: &plan.name,
        summary: &plan.summary,
    });
    let listed = Listed {
        plans: plans.collect(),
        runs: &runs,
    };
    format.print(&listed, || {
        let head = ["PLAN", "MEASURES"].map(str::to_owned);
        let rows = listed.plans.iter();
        let rows = rows.map(|plan| [plan.name, plan.summary].map(str::to_owned));
        let rows: Vec<_> = std::iter::once(head).chain(rows).collect();
        format!("{}\n\n{}", columns(&rows), run_list(&runs).trim_end())
    })
}
