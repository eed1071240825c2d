//! `outboard lab export`.

use std::path::PathBuf;

use clap::ValueEnum;
use lab::{RunId, report};

use super::{StoreArgs, chosen, write};
use crate::failure::Failure;
use crate::output;

/// Arguments of `lab export`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The run [default: the latest]
    run: Option<RunId>,

    /// In which form; fio is the raw output of each measurement
    #[arg(long, value_name = "FORM", value_enum, default_value_t = Form::Json)]
    format: Form,

    /// Write to this file [default: standard output]
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,

    #[command(flatten)]
    store: StoreArgs,
}

/// `--format`
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Form {
    Json,
    Csv,
    Markdown,
    Fio,
}

/// Prints or writes the figures.
pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let store = args.store.open()?;
    let run = chosen(&store, args.run).map_err(Failure::new)?;
    let record = || store.load(run).map_err(Failure::new);
    let text = match args.format {
        Form::Json => report::json(&record()?).map_err(Failure::new)?,
        Form::Csv => report::csv(&record()?),
        Form::Markdown => report::markdown(&record()?),
        Form::Fio => store.fio_json(run).map_err(Failure::new)?.join("\n"),
    };
    match &args.output {
        Some(path) => write(path, &text),
        None => output::print(text.trim_end()),
    }
}
