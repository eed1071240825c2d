//! `outboard array size`: an array uses all of its members after these were enlarged.
//!
//! The members must have been larger when the array was opened: one that a server runs is served again first.

use super::outcome::{Change, Waits, Whose, apply};
use super::target::ArrayArgs;
use crate::arrays::report::ArrayReport;
use crate::control::ArrayStep;
use crate::failure::Failure;
use crate::output::Format;

/// Arguments of `array size`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    array: ArrayArgs,

    /// What is new is not resynced: it is known to be the same on all members, such as zeroes
    #[arg(long)]
    assume_clean: bool,

    #[command(flatten)]
    waits: Waits,
}

/// Makes it larger.
pub(crate) fn run(args: &Args, format: Format) -> Result<(), Failure> {
    apply(&args.array, args, args.waits, format)
}

impl Change for Args {
    fn step(&self, _: &ArrayReport, _: Whose) -> Result<Option<ArrayStep>, Failure> {
        Ok(Some(ArrayStep::Resize {
            assume_clean: self.assume_clean,
        }))
    }
}
