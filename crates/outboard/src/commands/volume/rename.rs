//! `outboard volume rename`: another name for a volume or a group.

use super::change::{self, ChangeOptions, ChangeReport};
use super::open_group::{OpenGroup, refused};
use super::volume_path::GroupPath;
use crate::failure::Failure;
use crate::graph::builder::Builder;
use crate::output::Format;

/// Arguments of `volume rename`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The group or the volume
    #[arg(value_name = "GROUP[/VOLUME]")]
    path: GroupPath,

    /// Its new name, without the group's
    #[arg(value_name = "NAME")]
    name: String,

    /// All disks of the group: files, devices or any other disks
    #[arg(value_name = "DISK", required = true)]
    disks: Vec<String>,

    #[command(flatten)]
    options: ChangeOptions,
}

/// Renames a volume or a group.
pub(crate) fn run(args: &Args, format: Format) -> Result<(), Failure> {
    change::run(&args.options, format, async |builder: &mut Builder| {
        rename(builder, args).await
    })
}

async fn rename(builder: &mut Builder, args: &Args) -> Result<ChangeReport, Failure> {
    let GroupPath { group, volume } = &args.path;
    let open = Box::pin(OpenGroup::open_whole(builder, group, &args.disks)).await?;
    let mut edit = open.edit()?;
    let new = &args.name;
    let (renamed, summary) = match volume {
        Some(volume) => (
            edit.rename_volume(volume, new),
            format!("{group}/{volume} is {group}/{new} now"),
        ),
        None => (edit.rename_group(new), format!("{group} is {new} now")),
    };
    renamed.map_err(|error| refused(error, &open.names()))?;
    Box::pin(open.commit(edit, summary, &args.options)).await
}
