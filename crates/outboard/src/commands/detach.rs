//! `outboard detach`: flush, unmount, disconnect, leave nothing behind.

use std::path::PathBuf;
use std::time::Duration;

use attach::{DetachOptions, Detached, Which};
use serde::Serialize;

use crate::failure::Failure;
use crate::output::{self, Format};

/// Arguments of `detach`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The device, or where it is mounted
    #[arg(value_name = "DEVICE|DIR", required_unless_present = "all")]
    what: Option<PathBuf>,

    /// Everything that is attached
    #[arg(long, conflicts_with = "what")]
    all: bool,

    /// Also what is in use: what was not written by then is lost
    #[arg(long)]
    force: bool,

    /// Seconds that a flush or an unmount may take before the disk is cut off
    #[arg(long, value_name = "SECONDS", default_value_t = attach::DETACH_TIMEOUT.as_secs())]
    timeout: u64,
}

/// What programs are told.
#[derive(Debug, Serialize)]
struct Told<'a> {
    device: &'a str,
    mount: Option<&'a PathBuf>,
    lost: &'a [String],
    left: &'a [String],
    error: Option<String>,
}

/// Detaches, and says what could not be done.
pub(crate) fn run(args: Args, format: Format) -> Result<(), Failure> {
    let which = match args.what {
        Some(path) => Which::At(path),
        None => Which::All,
    };
    let options = DetachOptions {
        timeout: Duration::from_secs(args.timeout),
        force: args.force,
    };
    let all = attach::detach(&which, &options).map_err(Failure::new)?;
    let mut failures = Vec::new();
    for detached in &all {
        if format == Format::Json {
            format.print(&told(detached), String::new)?;
        }
        failures.extend(failures_of(detached));
    }
    let Some(last) = failures.pop() else {
        return Ok(());
    };
    for failure in &failures {
        output::tell(failure, format);
    }
    Err(last)
}

fn told(detached: &Detached) -> Told<'_> {
    let (lost, left, error): (&[String], &[String], _) = match &detached.result {
        Ok(remains) => (&remains.lost, &remains.left, None),
        Err(error) => (&[], &[], Some(error.to_string())),
    };
    Told {
        device: &detached.device,
        mount: detached.mount.as_ref(),
        lost,
        left,
        error,
    }
}

/// What went wrong with one attachment.
pub(super) fn failures_of(detached: &Detached) -> Vec<Failure> {
    let device = &detached.device;
    match &detached.result {
        Err(error) => vec![Failure::new(error)],
        Ok(remains) => {
            let lost = remains.lost.iter();
            let lost = lost.map(|what| Failure::new(format!("{device} is detached, but {what}")));
            let left = remains.left.iter();
            let left = left.map(|what| Failure::new(format!("{device}: left behind: {what}")));
            lost.chain(left).collect()
        }
    }
}
