//! `outboard volume remove-disk`: a disk without volumes leaves its group, and is an empty physical volume then.

use block::Range;
use nodes::volume::edit::PartialGroupEdit;
use nodes::volume::update::{clear_areas, mark_disk_used};

use super::change::{self, ChangeOptions, ChangeReport};
use super::open_group::{OpenGroup, refused};
use crate::failure::Failure;
use crate::graph::builder::Builder;
use crate::output::Format;

/// Arguments of `volume remove-disk`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The group
    #[arg(value_name = "GROUP")]
    group: String,

    /// All disks of the group, those that leave it, too: files, devices or any other disks
    #[arg(value_name = "DISK", required = true)]
    disks: Vec<String>,

    /// The disk to take out, as it stands above; again for several
    #[arg(
        long = "disk",
        value_name = "DISK",
        required_unless_present = "missing"
    )]
    leaving: Vec<String>,

    /// Take out all disks that are missing; no volume may be on them
    #[arg(long, conflicts_with = "leaving")]
    missing: bool,

    #[command(flatten)]
    options: ChangeOptions,
}

/// Removes disks.
pub(crate) fn run(args: &Args, format: Format) -> Result<(), Failure> {
    change::run(
        &args.options,
        format,
        async |builder: &mut Builder| match args.missing {
            true => remove_missing(builder, args).await,
            false => remove_disks(builder, args).await,
        },
    )
}

async fn remove_disks(builder: &mut Builder, args: &Args) -> Result<ChangeReport, Failure> {
    let open = Box::pin(OpenGroup::open_whole(builder, &args.group, &args.disks)).await?;
    let mut edit = open.edit()?;
    let leaving = open.member_names(&args.leaving)?;
    for member in &leaving {
        edit.remove_member(member)
            .map_err(|error| refused(error, &open.names()))?;
    }
    let summary = format!("{}: {} removed", args.group, args.leaving.join(", "));
    let report = Box::pin(open.commit(edit, summary, &args.options)).await?;
    if report.dry_run {
        return Ok(report);
    }
    // The group goes on without them: what their own metadata say does not count any more.
    for disk in leaving.iter().filter_map(|member| open.disk(member)) {
        let areas: Vec<Range> = disk.scan.areas.iter().map(|area| area.area).collect();
        let cleared = clear_areas(&disk.name, &disk.node, &areas).await;
        let cleared = match cleared {
            Ok(()) => mark_disk_used(&disk.name, &disk.node, false).await,
            failed => failed,
        };
        cleared.map_err(|error| {
            let what = format!(
                "{} is out of the group, but is not marked as empty",
                disk.name
            );
            Failure::because(what, &error).next("its metadata are outdated, and are ignored")
        })?;
    }
    Ok(report)
}

/// Takes out the disks that are not there.
async fn remove_missing(builder: &mut Builder, args: &Args) -> Result<ChangeReport, Failure> {
    let opened = OpenGroup::open_partial(builder, &args.group, &args.disks);
    let (open, missing) = Box::pin(opened).await?;
    let refused = |error| refused(error, &open.names());
    let mut edit = PartialGroupEdit::open(open.group().clone(), missing).map_err(refused)?;
    let members = edit.remove_missing().map_err(refused)?;
    let devices = members
        .iter()
        .filter_map(|member| open.group().member(member));
    let devices: Vec<String> = devices
        .map(|member| format!("{} ({})", member.name, member.device))
        .collect();
    let summary = format!(
        "{}: the missing disks {} removed",
        args.group,
        devices.join(", ")
    );
    Box::pin(open.commit(edit.into_edit(), summary, &args.options)).await
}
