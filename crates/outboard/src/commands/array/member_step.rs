//! `outboard array fail`: a member has failed, although it answers. `outboard array remove`: a member that failed, or a spare, is
//! forgotten.

use super::outcome::{Change, Waits, Whose, apply};
use super::target::{ArrayArgs, member};
use crate::arrays::report::ArrayReport;
use crate::control::ArrayStep;
use crate::failure::Failure;
use crate::output::Format;

/// Arguments of `array fail` and `array remove`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    array: ArrayArgs,

    /// The member, as `status` calls it
    #[arg(long, value_name = "MEMBER", required = true)]
    member: String,
}

/// What is done with the member of this name.
type Step = fn(String) -> ArrayStep;

/// Does it.
pub(crate) fn run(args: &Args, step: Step, format: Format) -> Result<(), Failure> {
    // What a spare begins to do now is not waited for.
    apply(&args.array, &(args, step), Waits::NOT, format)
}

impl Change for (&Args, Step) {
    fn step(&self, report: &ArrayReport, _: Whose) -> Result<Option<ArrayStep>, Failure> {
        let (args, step) = self;
        member(report, &args.member).map(|member| Some(step(member)))
    }
}
