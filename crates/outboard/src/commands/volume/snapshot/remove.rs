//! `outboard volume snapshot remove`: removing a snapshot. Its origin stays as it is, and the extents of its store become
//! free.

use nodes::volume::edit::GroupEdit;
use nodes::volume::open::SnapshotChange;

use super::super::amount::in_words;
use super::super::change::{self, ChangeOptions, ChangeReport};
use super::super::open_group::{OpenGroup, refused};
use super::super::report::DiskNames;
use super::super::volume_path::VolumePath;
use super::target::{self, ServerArgs};
use crate::failure::Failure;
use crate::graph::builder::Builder;
use crate::output::Format;

/// Arguments of `volume snapshot remove`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The snapshot
    #[arg(value_name = "GROUP/SNAPSHOT")]
    snapshot: VolumePath,

    /// All disks of the group: files, devices or any other disks; none if a server here has it open
    #[arg(value_name = "DISK")]
    disks: Vec<String>,

    #[command(flatten)]
    server: ServerArgs,

    #[command(flatten)]
    options: ChangeOptions,
}

/// Removes a snapshot.
pub(crate) fn run(args: &Args, format: Format) -> Result<(), Failure> {
    if args.disks.is_empty() {
        let target = target::find(&args.snapshot.group, &args.server)?;
        let mut edit = target.edit()?;
        let (change, summary) = remove_snapshot(&mut edit, args, target.names())?;
        return target.change(&change, &edit, summary, &args.options, format);
    }
    change::run(&args.options, format, async |builder: &mut Builder| {
        remove(builder, args).await
    })
}

async fn remove(builder: &mut Builder, args: &Args) -> Result<ChangeReport, Failure> {
    let group = &args.snapshot.group;
    let open = Box::pin(OpenGroup::open_whole(builder, group, &args.disks)).await?;
    let mut edit = open.edit()?;
    let (_, summary) = remove_snapshot(&mut edit, args, &open.names())?;
    Box::pin(open.commit(edit, summary, &args.options)).await
}

/// Removes the snapshot from the group; returns the change, and the line about it.
fn remove_snapshot(
    edit: &mut GroupEdit,
    args: &Args,
    names: &DiskNames,
) -> Result<(SnapshotChange, String), Failure> {
    let name = args.snapshot.volume.clone();
    let store = edit.group().volume(&name);
    let extents = store.map_or(0, |store| store.extents());
    let removed = edit.remove_snapshot(&name);
    removed.map_err(|error| refused(error, names))?;
    let freed = in_words(extents, edit.group().extent);
    let summary = format!("{} is removed, {freed} are free", args.snapshot);
    Ok((SnapshotChange::Remove { name }, summary))
}
