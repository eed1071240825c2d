//! `outboard array grow`: another number of copies.

use super::offline::Offline;
use super::outcome::{Change, Waits, carry_out};
use super::target::ArrayArgs;
use crate::arrays::report::ArrayReport;
use crate::control::ArrayStep;
use crate::failure::Failure;
use crate::output::Format;

/// Arguments of `array grow`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    array: ArrayArgs,

    /// How many copies the mirror is to have; spares fill new places
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    copies: u32,

    #[command(flatten)]
    waits: Waits,
}

/// Grows.
pub(crate) fn run(args: &Args, format: Format) -> Result<(), Failure> {
    carry_out(&args.array, args, args.waits, format)
}

impl Change for Args {
    fn step(&self, _: &ArrayReport) -> Result<ArrayStep, Failure> {
        Ok(ArrayStep::Grow { parts: self.copies })
    }

    async fn apply(&self, offline: &Offline) -> Result<(), Failure> {
        Ok(offline.array().grow(self.copies).await?)
    }
}
