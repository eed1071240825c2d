//! `outboard array add`: disks become members.

use nodes::array::AddOptions;

use super::offline::Offline;
use super::outcome::{Change, Waits, carry_out};
use super::target::{ArrayArgs, lasting};
use crate::arrays::report::ArrayReport;
use crate::arrays::taking;
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

    /// Whatever is on the disk
    #[arg(long)]
    force: bool,

    #[command(flatten)]
    waits: Waits,
}

/// Adds.
pub(crate) fn run(args: Args, format: Format) -> Result<(), Failure> {
    carry_out(&args.array, &args, args.waits, format)
}

impl Change for Args {
    fn step(&self, _: &ArrayReport) -> Result<ArrayStep, Failure> {
        Ok(ArrayStep::Add {
            disk: lasting(&self.disk)?,
            write_mostly: self.write_mostly,
            fail_fast: self.failfast,
            force: self.force,
        })
    }

    async fn apply(&self, offline: &Offline) -> Result<(), Failure> {
        taking::forget(offline.array(), &self.disk).await?;
        let candidate = offline.disk(&self.disk).await?;
        if let (false, Some(disk)) = (self.force, &candidate.disk) {
            let own = offline.report().uuid;
            taking::refuse_full(&self.disk, disk, Some(&own)).await?;
        }
        let options = AddOptions {
            write_mostly: self.write_mostly,
            fail_fast: self.failfast,
        };
        Ok(offline.array().add(candidate, options).await?)
    }
}
