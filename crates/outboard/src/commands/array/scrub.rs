//! `outboard array scrub`: all copies are read and compared.

use super::outcome::{Change, Waits, Whose, apply};
use super::target::{ArrayArgs, ArrayTarget};
use crate::arrays::report::ArrayReport;
use crate::control::ArrayStep;
use crate::failure::Failure;
use crate::output::Format;

/// Arguments of `array scrub`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    array: ArrayArgs,

    /// Make copies identical where they differ: the first member's are used
    #[arg(long, conflicts_with = "stop")]
    repair: bool,

    /// End the scrub that a server is at
    #[arg(long, conflicts_with = "wait")]
    stop: bool,

    /// An array that a server runs: wait until it is done, and print what was found
    #[arg(long)]
    wait: bool,
}

/// Scrubs.
pub(crate) fn run(args: &Args, format: Format) -> Result<(), Failure> {
    if let (true, ArrayTarget::Members(_)) = (args.stop, args.array.find()?) {
        let what = "--stop is for an array that a server runs";
        return Err(Failure::usage(what).next("a scrub of members ends with Ctrl-C"));
    }
    let waits = Waits {
        wait: args.wait,
        no_wait: false,
    };
    apply(&args.array, args, waits, format)
}

impl Change for Args {
    fn step(&self, _: &ArrayReport, _: Whose) -> Result<Option<ArrayStep>, Failure> {
        let repair = self.repair;
        Ok(Some(match self.stop {
            true => ArrayStep::StopScrub,
            false => ArrayStep::Scrub { repair },
        }))
    }
}
