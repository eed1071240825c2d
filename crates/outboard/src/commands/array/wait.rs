//! `outboard array wait`: until copies are in sync, and nothing is left to do.

use super::outcome::{Change, Waits, Whose, apply, wait_for_server};
use super::target::{ArrayArgs, ArrayTarget};
use crate::arrays::report::ArrayReport;
use crate::arrays::show;
use crate::control::ArrayStep;
use crate::failure::Failure;
use crate::output::Format;

/// Arguments of `array wait`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    array: ArrayArgs,
}

/// Waits. An array that no process runs is opened, so that what is left to do is done.
pub(crate) fn run(args: &Args, format: Format) -> Result<(), Failure> {
    match args.array.find()? {
        ArrayTarget::Served(mut served) => {
            wait_for_server(&mut served)?;
            format.print(&served.report, || show::tree(&served.report))
        }
        ArrayTarget::Members(_) => apply(&args.array, args, Waits::default(), format),
    }
}

impl Change for Args {
    fn step(&self, _: &ArrayReport, _: Whose) -> Result<Option<ArrayStep>, Failure> {
        Ok(None)
    }
}
