//! `outboard lab show`.

use super::run::plan_text;
use crate::completion;
use crate::failure::Failure;
use crate::output::{self, Format};

/// Arguments of `lab show`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// A plan of `lab list`, or a TOML file, which is checked
    #[arg(add = completion::plans())]
    plan: String,
}

/// Prints the plan: its own text, or what it comes to with every sweep written out.
pub(crate) fn run(args: &Args, format: Format) -> Result<(), Failure> {
    let (text, plan) = plan_text(&args.plan)?;
    match format {
        Format::Text => output::print(text.trim_end()),
        Format::Json => format.print(&plan, String::new),
    }
}
