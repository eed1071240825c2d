//! `outboard array status`: how arrays and their members are.

use super::offline::Offline;
use super::target::{ArrayArgs, ArrayTarget, How, servers};
use crate::arrays::report::ArrayReport;
use crate::arrays::show;
use crate::commands::inspect::on_the_engine;
use crate::failure::Failure;
use crate::output::Format;

/// Arguments of `array status`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The array: its name, its export's or its UUID, if a server here runs it; else its members.
    /// Without: all that servers here run
    #[arg(value_name = "ARRAY|MEMBER")]
    array: Vec<String>,

    #[command(flatten)]
    how: How,
}

/// Reports.
pub(crate) fn run(args: &Args, format: Format) -> Result<(), Failure> {
    if args.array.is_empty() {
        return all(&args.how, format);
    }
    let array = ArrayArgs {
        array: args.array.clone(),
        how: args.how.clone(),
    };
    let report = match array.find()? {
        ArrayTarget::Served(served) => served.report,
        ArrayTarget::Members(members) => on_the_engine(async || {
            let offline = Box::pin(Offline::open(&members, &array.how, false)).await?;
            let mut report = offline.report();
            offline.close(Ok(())).await?;
            // It is how it was opened to be looked at, and says nothing of the array.
            report.read_only = false;
            Ok(report)
        })?,
    };
    format.print(&report, || show::tree(&report))
}

fn all(how: &How, format: Format) -> Result<(), Failure> {
    let servers = servers(how)?;
    let reports: Vec<ArrayReport> = servers.into_iter().flat_map(|(_, all)| all).collect();
    format.print(&reports, || match reports.as_slice() {
        [] => "no server here runs an array".to_owned(),
        reports => {
            let trees: Vec<String> = reports.iter().map(show::tree).collect();
            trees.join("\n\n")
        }
    })
}
