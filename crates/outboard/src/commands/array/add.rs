//! `outboard array add`: disks become members.

use super::outcome::{Change, Waits, Whose, apply};
use super::target::ArrayArgs;
use crate::arrays::report::ArrayReport;
use crate::control::ArrayStep;
use crate::failure::Failure;
use crate::output::Format;

/// Arguments of `array add`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    array: ArrayArgs,

    /// The disk that becomes a member; what is on it is lost
    #[arg(long, value_name = "DISK", required = true)]
    disk: String,

    /// Read from it only if no other member can be read
    #[arg(long)]
    write_mostly: bool,

    /// Fail it at its first error
    #[arg(long)]
    failfast: bool,

    /// Overwrite any content of the disk
    #[arg(long)]
    force: bool,

    #[command(flatten)]
    waits: Waits,
}

/// Adds.
pub(crate) fn run(args: Args, format: Format) -> Result<(), Failure> {
    apply(&args.array, &args, args.waits, format)
}

impl Change for Args {
    fn step(&self, _: &ArrayReport, whose: Whose) -> Result<Option<ArrayStep>, Failure> {
        Ok(Some(ArrayStep::Add {
            disk: whose.disk(&self.disk)?,
            write_mostly: self.write_mostly,
            fail_fast: self.failfast,
            force: self.force,
        }))
    }
}
