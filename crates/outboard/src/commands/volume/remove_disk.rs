//! `outboard volume remove-disk`: a disk without volumes leaves its group, and is an empty physical volume then.

use block::Range;
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
    #[arg(long = "disk", value_name = "DISK", required = true)]
    leaving: Vec<String>,

    #[command(flatten)]
    options: ChangeOptions,
}

/// Removes disks.
pub(crate) fn run(args: &Args, format: Format) -> Result<(), Failure> {
    change::run(&args.options, format, async |builder: &mut Builder| {
        remove_disks(builder, args).await
    })
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
