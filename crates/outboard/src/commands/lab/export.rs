//! `outboard lab export`.

use std::path::PathBuf;

use lab::{RunId, report};

use super::{StoreArgs, chosen, write};
use crate::failure::Failure;
use crate::output;

/// Arguments of `lab export`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The run [default: the latest]
    run: Option<RunId>,

    /// One line for each measurement, instead of JSON
    #[arg(long, conflicts_with_all = ["markdown", "fio", "json"])]
    csv: bool,

    /// The table and what it says as Markdown, instead of JSON
    #[arg(long, conflicts_with_all = ["fio", "json"])]
    markdown: bool,

    /// fio's own output of each measurement, one after the other
    #[arg(long)]
    fio: bool,

    /// Write to this file [default: standard output]
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,

    #[command(flatten)]
    store: StoreArgs,
}

/// Prints or writes the figures.
pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let store = args.store.open()?;
    let run = chosen(&store, args.run).map_err(Failure::new)?;
    let record = || store.load(run).map_err(Failure::new);
    let text = if args.csv {
        report::csv(&record()?)
    } else if args.markdown {
        report::markdown(&record()?)
    } else if args.fio {
        store.raw(run).map_err(Failure::new)?.join("\n")
    } else {
        report::json(&record()?).map_err(Failure::new)?
    };
    match &args.output {
        Some(path) => write(path, &text),
        None => output::print(text.trim_end()),
    }
}
