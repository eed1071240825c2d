//! `outboard array replace`: a spare takes the place of a member that still works.

use super::outcome::{Change, Waits, Whose, apply};
use super::target::{ArrayArgs, member};
use crate::arrays::report::ArrayReport;
use crate::control::ArrayStep;
use crate::failure::Failure;
use crate::output::Format;

/// Arguments of `array replace`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    array: ArrayArgs,

    /// The member that is to go, as `status` calls it: it works until the spare holds all that it does
    #[arg(long, value_name = "MEMBER", required = true)]
    member: String,

    /// The spare that takes its place, as `status` calls it; any spare if there is none named
    #[arg(long, value_name = "SPARE")]
    with: Option<String>,

    #[command(flatten)]
    waits: Waits,
}

/// Does it.
pub(crate) fn run(args: Args, format: Format) -> Result<(), Failure> {
    apply(&args.array, &args, args.waits, format)
}

impl Change for Args {
    fn step(&self, report: &ArrayReport, _: Whose) -> Result<Option<ArrayStep>, Failure> {
        let with = self.with.as_deref();
        Ok(Some(ArrayStep::Replace {
            member: member(report, &self.member)?,
            with: with.map(|spare| member(report, spare)).transpose()?,
        }))
    }
}
