//! `outboard detach`: flush, unmount, disconnect, leave nothing behind.

use std::path::PathBuf;
use std::time::Duration;

use attach::{DetachOptions, DetachReport, DetachTarget};
use serde::Serialize;

use crate::completion;
use crate::failure::Failure;
use crate::output::{self, Format};

/// Arguments of `detach`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The device, or where it is mounted
    #[arg(value_name = "DEVICE|DIR", required_unless_present_any = ["all", "name"], add = completion::attachments())]
    what: Option<PathBuf>,

    /// The attachment with this name of its own
    #[arg(long, value_name = "NAME", conflicts_with = "what")]
    name: Option<String>,

    /// Every attachment
    #[arg(long, conflicts_with_all = ["what", "name"])]
    all: bool,

    /// Detach what is in use: data that was not written by then is lost
    #[arg(long)]
    force: bool,

    /// Seconds that a flush or an unmount may take before the disk is cut off
    #[arg(long, value_name = "SECONDS", default_value_t = attach::DETACH_TIMEOUT.as_secs())]
    timeout: u64,
}

/// One attachment, for programs.
#[derive(Debug, Serialize)]
struct DetachJson<'a> {
    device: &'a str,
    mount: Option<&'a PathBuf>,
    lost: &'a [String],
    left: &'a [String],
    error: Option<String>,
}

/// Detaches, and reports what could not be done.
pub(crate) fn run(args: Args, format: Format) -> Result<(), Failure> {
    let target = match (args.what, args.name) {
        (Some(path), _) => DetachTarget::Path(path),
        (None, Some(name)) => DetachTarget::Name(name),
        (None, None) => DetachTarget::All,
    };
    let options = DetachOptions {
        timeout: Duration::from_secs(args.timeout),
        force: args.force,
    };
    let all = attach::detach(&target, &options).map_err(Failure::new)?;
    let failures: Vec<Failure> = all.iter().flat_map(failures_of).collect();
    if format == Format::Json {
        // One object in any case: the failures are in it.
        format.print(&report(&target, &all), String::new)?;
        return match failures.is_empty() {
            true => Ok(()),
            false => Err(Failure::reported()),
        };
    }
    let mut failures = failures.into_iter().rev();
    let Some(last) = failures.next() else {
        return Ok(());
    };
    for failure in failures.rev() {
        output::print_failure(&failure, format);
    }
    Err(last)
}

/// The object for programs: an attachment, or for `--all` a list of them.
fn report(target: &DetachTarget, all: &[DetachReport]) -> serde_json::Value {
    let mut each = all
        .iter()
        .map(|detached| serde_json::json!(report_of(detached)));
    match (target, each.next()) {
        (DetachTarget::Path(_) | DetachTarget::Name(_), Some(only)) => only,
        (_, first) => {
            serde_json::json!({ "detached": first.into_iter().chain(each).collect::<Vec<_>>() })
        }
    }
}

fn report_of(detached: &DetachReport) -> DetachJson<'_> {
    let (lost, left, error): (&[String], &[String], _) = match &detached.result {
        Ok(leftovers) => (&leftovers.lost, &leftovers.left, None),
        Err(error) => (&[], &[], Some(error.to_string())),
    };
    DetachJson {
        device: &detached.device,
        mount: detached.mount.as_ref(),
        lost,
        left,
        error,
    }
}

/// What went wrong with one attachment.
pub(super) fn failures_of(detached: &DetachReport) -> Vec<Failure> {
    let device = &detached.device;
    match &detached.result {
        Err(error) => vec![Failure::new(error)],
        Ok(leftovers) => {
            let lost = leftovers.lost.iter();
            let lost = lost.map(|what| Failure::new(format!("{device} is detached, but {what}")));
            let left = leftovers.left.iter();
            let left = left.map(|what| Failure::new(format!("{device}: left behind: {what}")));
            lost.chain(left).collect()
        }
    }
}
