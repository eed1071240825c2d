//! `outboard array remove`: a member that failed, or a spare, is forgotten.

use super::outcome::{Change, Waits, Whose, apply};
use super::target::{ArrayArgs, member};
use crate::arrays::report::ArrayReport;
use crate::control::ArrayStep;
use crate::failure::Failure;
use crate::output::Format;

/// Arguments of `array remove`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    array: ArrayArgs,

    /// The member, as `status` calls it
    #[arg(long, value_name = "MEMBER", required = true)]
    member: String,
}

/// Does it.
pub(crate) fn run(args: Args, format: Format) -> Result<(), Failure> {
    // What a spare begins to do now is not waited for.
    apply(&args.array, &args, Waits::NOT, format)
}

impl Change for Args {
    fn step(&self, report: &ArrayReport, _: Whose) -> Result<Option<ArrayStep>, Failure> {
        let member = member(report, &self.member)?;
        Ok(Some(ArrayStep::Remove { member }))
    }
}
