//! `outboard lab history`.

use lab::report;

use super::StoreArgs;
use crate::failure::Failure;
use crate::output::Format;

/// Arguments of `lab history`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Only runs of the plan of this name
    plan: Option<String>,

    #[command(flatten)]
    store: StoreArgs,
}

/// Prints each test's medians, oldest run first.
pub(crate) fn run(args: &Args, format: Format) -> Result<(), Failure> {
    let store = args.store.open()?;
    let lines = store.runs().map_err(Failure::new)?;
    let is_asked = |plan: &str| args.plan.as_deref().is_none_or(|name| name == plan);
    let asked: Vec<_> = lines.iter().filter(|line| is_asked(&line.plan)).collect();
    if let (Some(plan), true) = (&args.plan, asked.is_empty()) {
        let next = "`outboard lab list` shows the runs and their plans";
        return Err(Failure::new(format!("no run of {plan} was made")).next(next));
    }
    let runs = asked.iter().map(|line| store.load(line.id));
    let runs = runs.collect::<Result<Vec<_>, _>>().map_err(Failure::new)?;
    let histories = report::history(&runs);
    format.print(&histories, || {
        report::history_text(&histories).trim_end().to_owned()
    })
}
