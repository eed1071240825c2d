//! `outboard lab report`.

use std::path::PathBuf;

use lab::{RunId, report};
use serde::Serialize;

use super::{StoreArgs, chosen, write};
use crate::failure::Failure;
use crate::output::Format;

/// Arguments of `lab report`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The run [default: the latest]
    run: Option<RunId>,

    /// Print only the path of the report
    #[arg(long)]
    open_path: bool,

    /// Where to write the report [default: reports/N/report.html beside the store]
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,

    #[command(flatten)]
    store: StoreArgs,
}

/// What programs are told.
#[derive(Debug, Serialize)]
struct Written {
    run: RunId,
    report: PathBuf,
}

/// Writes the page; prints the table and where the page is.
pub(crate) fn run(args: &Args, format: Format) -> Result<(), Failure> {
    let store = args.store.open()?;
    let run = chosen(&store, args.run).map_err(Failure::new)?;
    let record = store.load(run).map_err(Failure::new)?;
    let path = match &args.output {
        Some(path) => path.clone(),
        None => store
            .path()
            .with_file_name("reports")
            .join(run.to_string())
            .join("report.html"),
    };
    let path = std::path::absolute(&path)
        .map_err(|error| Failure::because(format!("cannot write {}", path.display()), &error))?;
    write(&path, &report::html(&record))?;
    let written = Written { run, report: path };
    format.print(&written, || {
        let path = written.report.display();
        match args.open_path {
            true => path.to_string(),
            false => format!("{}Report: {path}", report::table(&record)),
        }
    })
}
