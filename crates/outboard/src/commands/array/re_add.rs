//! `outboard array re-add`: a member comes back that was away.

use super::offline::Offline;
use super::outcome::{Change, Waits, carry_out};
use super::target::{ArrayArgs, lasting};
use crate::arrays::report::ArrayReport;
use crate::arrays::taking;
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
    carry_out(&args.array, &args, args.waits, format)
}

impl Change for Args {
    fn step(&self, _: &ArrayReport) -> Result<ArrayStep, Failure> {
        let disk = lasting(&self.disk)?;
        Ok(ArrayStep::ReAdd { disk })
    }

    async fn apply(&self, offline: &Offline) -> Result<(), Failure> {
        taking::forget(offline.array(), &self.disk).await?;
        let candidate = offline.disk(&self.disk).await?;
        Ok(offline.array().re_add(candidate).await?)
    }
}
