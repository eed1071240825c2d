//! `outboard lab export`.

use std::path::PathBuf;

use lab::{RunId, Store, report};

use super::{StoreArgs, chosen, write};
use crate::failure::Failure;
use crate::output;

/// Arguments of `lab export`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The run [default: the latest]
    run: Option<RunId>,

    /// Every run: a JSON document a line, or one CSV
    #[arg(long, conflicts_with_all = ["run", "markdown", "fio"])]
    all: bool,

    /// One line for each measurement, instead of JSON
    #[arg(long, conflicts_with_all = ["markdown", "fio", "json"])]
    csv: bool,

    /// The table and what it says as Markdown, instead of JSON
    #[arg(long, conflicts_with_all = ["fio", "json"])]
    markdown: bool,

    /// What fio, or another tool, wrote of each measurement, one after the other
    #[arg(long, visible_alias = "raw")]
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
    if args.all {
        let text = everything(&store, args.csv)?;
        return match &args.output {
            Some(path) => write(path, &text),
            None => output::print(text.trim_end()),
        };
    }
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

/// Every run, oldest first.
fn everything(store: &Store, csv: bool) -> Result<String, Failure> {
    let mut lines = store.runs().map_err(Failure::new)?;
    lines.reverse();
    let runs = lines.iter().map(|line| store.load(line.id));
    let runs = runs.collect::<Result<Vec<_>, _>>().map_err(Failure::new)?;
    if csv {
        return Ok(report::csv_of(&runs));
    }
    let documents = runs.iter().map(|run| {
        let document = report::json(run).map_err(Failure::new)?;
        let document: serde_json::Value = serde_json::from_slice(document.as_bytes())
            .map_err(|error| Failure::because("cannot write JSON", &error))?;
        Ok(document.to_string())
    });
    Ok(documents.collect::<Result<Vec<_>, Failure>>()?.join("\n"))
}
