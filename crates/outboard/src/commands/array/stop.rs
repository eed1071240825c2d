//! `outboard array stop`: the export of an array ends, and the array is clean and closed.

use super::target::{ArrayArgs, ArrayTarget};
use crate::arrays::show;
use crate::control::ArrayStep;
use crate::failure::Failure;
use crate::output::Format;

/// Arguments of `array stop`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    array: ArrayArgs,

    /// Also if clients are connected: they are disconnected
    #[arg(long)]
    force: bool,
}

/// Stops.
pub(crate) fn run(args: &Args, format: Format) -> Result<(), Failure> {
    let ArrayTarget::Served(mut served) = args.array.find()? else {
        let what = "these are members, and no server runs their array: nothing is to be stopped";
        return Err(Failure::new(what)
            .next("`outboard array wait` does what is left to do, and marks the array clean"));
    };
    served.ask(ArrayStep::Stop { force: args.force })?;
    let report = &served.report;
    format.print(report, || {
        let name = report.short_name();
        let export = report.export.as_deref().unwrap_or_default();
        let health = show::health(report);
        format!("{name}: {health}; it is closed, and export {export:?} with it")
    })
}
