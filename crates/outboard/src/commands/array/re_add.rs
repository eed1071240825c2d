//! `outboard array re-add`: a member comes back that was away.

use super::outcome::{Change, Waits, Whose, apply};
use super::target::ArrayArgs;
use crate::arrays::report::ArrayReport;
use crate::control::ArrayStep;
use crate::failure::Failure;
use crate::output::Format;

/// Arguments of `array re-add`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    array: ArrayArgs,

    /// The disk that was a member
    #[arg(long, value_name = "DISK", required = true)]
    disk: String,

    #[command(flatten)]
    waits: Waits,
}

/// Takes it back.
pub(crate) fn run(args: Args, format: Format) -> Result<(), Failure> {
    apply(&args.array, &args, args.waits, format)
}

impl Change for Args {
    fn step(&self, _: &ArrayReport, whose: Whose) -> Result<Option<ArrayStep>, Failure> {
        let disk = whose.disk(&self.disk)?;
        Ok(Some(ArrayStep::ReAdd { disk }))
    }
}
