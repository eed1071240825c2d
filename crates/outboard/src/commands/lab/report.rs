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

    /// Where to write the report, with .md and .json next to it [default: reports/N/report.html next to
    /// the store]
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,

    /// Show hashes of disks' serial numbers in their place
    #[arg(long)]
    hash_serials: bool,

    #[command(flatten)]
    store: StoreArgs,
}

/// The JSON output.
#[derive(Debug, Serialize)]
struct Written {
    run: RunId,
    report: PathBuf,
    markdown: PathBuf,
    figures: PathBuf,
}

/// Writes the page, Markdown and JSON; prints the table and where the page is.
pub(crate) fn run(args: &Args, format: Format) -> Result<(), Failure> {
    let store = args.store.open()?;
    let run = chosen(&store, args.run).map_err(Failure::new)?;
    let mut record = store.load(run).map_err(Failure::new)?;
    if args.hash_serials {
        record = report::hash_serials(&record).map_err(Failure::new)?;
    }
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
    let written = Written {
        run,
        markdown: path.with_extension("md"),
        figures: path.with_extension("json"),
        report: path,
    };
    if [&written.markdown, &written.figures].contains(&&written.report) {
        let path = written.report.display();
        return Err(Failure::usage(format!(
            "{path} cannot be the page: Markdown and JSON of these names are written beside it"
        )));
    }
    write(&written.report, &report::html(&record))?;
    write(&written.markdown, &report::markdown(&record))?;
    write(
        &written.figures,
        &report::json(&record).map_err(Failure::new)?,
    )?;
    format.print(&written, || {
        let path = written.report.display();
        match args.open_path {
            true => path.to_string(),
            false => format!("{}Report: {path}", report::table(&record)),
        }
    })
}
