//! `outboard lab list`.

use lab::plan;
use lab::report::run_list;
use lab::store::RunLine;
use serde::Serialize;

use super::StoreArgs;
use crate::failure::Failure;
use crate::output::{Format, columns};

/// The JSON output.
#[derive(Debug, Serialize)]
struct Listed<'a> {
    plans: Vec<Listing<'a>>,
    runs: &'a [RunLine],
}

#[derive(Debug, Serialize)]
struct Listing<'a> {
    name: &'a str,
    summary: &'a str,
    /// The study with the experiment that it repeats.
    #[serde(skip_serializing_if = "Option::is_none")]
    repeats: Option<&'a str>,
    /// The targets that it builds; none when one is to be given.
    targets: Vec<&'a str>,
    /// What has to be there.
    needs: Vec<String>,
}

/// Prints the plans and the runs.
pub(crate) fn run(args: &StoreArgs, format: Format) -> Result<(), Failure> {
    let plans = plan::list().map_err(Failure::new)?;
    let runs = match args.look()? {
        Some(store) => store.runs().map_err(Failure::new)?,
        None => Vec::new(),
    };
    let plans = plans.iter();
    let plans = plans.map(|plan| Listing {
        name: &plan.name,
        summary: &plan.summary,
        repeats: plan.repeats.as_deref(),
        targets: plan
            .targets
            .iter()
            .map(|target| target.name.as_str())
            .collect(),
        needs: plan.needs(),
    });
    let listed = Listed {
        plans: plans.collect(),
        runs: &runs,
    };
    format.print(&listed, || {
        let head = ["PLAN", "REPEATS", "NEEDS", "MEASURES"].map(str::to_owned);
        let rows = listed.plans.iter().map(|plan| {
            [
                plan.name.to_owned(),
                plan.repeats.unwrap_or("-").to_owned(),
                plan.needs.join(", "),
                plan.summary.to_owned(),
            ]
        });
        let rows: Vec<_> = std::iter::once(head).chain(rows).collect();
        format!("{}\n\n{}", columns(&rows), run_list(&runs).trim_end())
    })
}
