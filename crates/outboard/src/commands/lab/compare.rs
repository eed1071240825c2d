//! `outboard lab compare`.

use lab::{RunId, report};

use super::StoreArgs;
use crate::failure::Failure;
use crate::output::Format;

/// Arguments of `lab compare`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The run
    a: RunId,

    /// What it is compared with
    b: RunId,

    #[command(flatten)]
    store: StoreArgs,
}

/// Prints the comparison; fails when no test of the two could be compared.
pub(crate) fn run(args: &Args, format: Format) -> Result<(), Failure> {
    let store = args.store.open()?;
    let load = |run| store.load(run).map_err(Failure::new);
    let compared = report::compare_runs(&load(args.a)?, &load(args.b)?);
    if compared.tests.is_empty() {
        let what = format!("runs {} and {} have no test in common", args.a, args.b);
        return Err(Failure::new(what).next("`outboard lab list` shows the runs and their plans"));
    }
    format.print(&compared, || compared.text().trim_end().to_owned())?;
    if compared.tests.iter().any(|test| test.comparison.is_some()) {
        return Ok(());
    }
    let first = compared
        .tests
        .iter()
        .find_map(|test| test.refused.as_deref());
    Err(Failure::new(format!(
        "runs {} and {} cannot be compared: {}",
        args.a,
        args.b,
        first.unwrap_or("there are no figures")
    )))
}
