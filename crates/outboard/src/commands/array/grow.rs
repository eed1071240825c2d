//! `outboard array grow`: another number of copies.

use super::outcome::{Change, Waits, Whose, apply};
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
    apply(&args.array, args, args.waits, format)
}

impl Change for Args {
    fn step(&self, _: &ArrayReport, _: Whose) -> Result<Option<ArrayStep>, Failure> {
        Ok(Some(ArrayStep::Grow { parts: self.copies }))
    }
}
