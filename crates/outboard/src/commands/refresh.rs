//! `outboard refresh`: the size that the server of an attached disk gives it now.

use std::path::PathBuf;

use serde::Serialize;

use crate::completion;
use crate::failure::Failure;
use crate::graph::ByteSize;
use crate::output::Format;

/// Arguments of `refresh`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The device, or where it is mounted
    #[arg(value_name = "DEVICE|DIR", add = completion::attachments())]
    what: PathBuf,
}

/// The output as JSON.
#[derive(Debug, Serialize)]
struct RefreshReport<'a> {
    what: &'a PathBuf,
    size: u64,
}

/// Requests the refresh, and prints the size.
pub(crate) fn run(args: &Args, format: Format) -> Result<(), Failure> {
    let size = attach::refresh(&args.what).map_err(Failure::new)?;
    let report = RefreshReport {
        what: &args.what,
        size,
    };
    format.print(&report, || ByteSize(size).to_string())
}
