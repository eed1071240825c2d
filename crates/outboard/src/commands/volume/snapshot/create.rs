//! `outboard volume snapshot create`: a snapshot of a volume as it is now.

use nodes::volume::edit::{GroupEdit, NewSnapshot, free_runs};
use nodes::volume::open::SnapshotChange;
use nodes::volume::random_id;
use nodes::volume::snapshot::wipe_store;

use super::super::amount::in_words;
use super::super::change::{self, ChangeOptions, ChangeReport, host, stamp};
use super::super::open_group::{OpenGroup, refused, unopened};
use super::super::report::DiskNames;
use super::super::volume_path::VolumePath;
use super::store_amount::{StoreAmountArgs, StoreBase};
use super::target::{self, ServerArgs};
use crate::failure::Failure;
use crate::graph::ByteSize;
use crate::graph::builder::Builder;
use crate::output::Format;

/// Arguments of `volume snapshot create`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The volume
    #[arg(value_name = "GROUP/VOLUME")]
    origin: VolumePath,

    /// Name of the snapshot, without the group's
    #[arg(value_name = "NAME")]
    name: String,

    /// All disks of the group: files, devices or any other disks; none if a server here has it open
    #[arg(value_name = "DISK")]
    disks: Vec<String>,

    #[command(flatten)]
    server: ServerArgs,

    #[command(flatten)]
    amount: StoreAmountArgs,

    /// Bytes that are copied together before a write to the origin
    #[arg(long, short = 'c', value_name = "SIZE", default_value = "4K")]
    chunk: ByteSize,

    /// Use only this disk, as it stands above; again for several
    #[arg(long, value_name = "DISK")]
    on: Vec<String>,

    #[command(flatten)]
    options: ChangeOptions,
}

/// Creates a snapshot.
pub(crate) fn run(args: &Args, format: Format) -> Result<(), Failure> {
    if args.disks.is_empty() {
        let target = target::find(&args.origin.group, &args.server)?;
        let mut edit = target.edit()?;
        let on = target.member_names(&args.on)?;
        let (new, summary) = add_snapshot(&mut edit, args, on, target.names())?;
        let change = SnapshotChange::Create(new);
        return target.change(&change, &edit, summary, &args.options, format);
    }
    change::run(&args.options, format, async |builder: &mut Builder| {
        create(builder, args).await
    })
}

async fn create(builder: &mut Builder, args: &Args) -> Result<ChangeReport, Failure> {
    let group = &args.origin.group;
    let open = Box::pin(OpenGroup::open_whole(builder, group, &args.disks)).await?;
    let mut edit = open.edit()?;
    let on = open.member_names(&args.on)?;
    let (_, summary) = add_snapshot(&mut edit, args, on, &open.names())?;
    let after = edit.group().clone();
    let wipe = async || {
        let set = open.volumes_of(after, false)?;
        let store = set.open_store(&args.name).await;
        let store = store.map_err(|error| unopened(&error))?;
        wipe_store(&store).await.map_err(|error| {
            let what = format!(
                "the store of {} cannot be wiped; nothing was changed",
                args.name
            );
            Failure::because(what, &error)
        })
    };
    Box::pin(open.commit_after(edit, summary, &args.options, wipe)).await
}

/// Adds the snapshot to the group; returns it, and the line about it.
fn add_snapshot(
    edit: &mut GroupEdit,
    args: &Args,
    on: Vec<String>,
    names: &DiskNames,
) -> Result<(NewSnapshot, String), Failure> {
    let VolumePath { group, volume } = &args.origin;
    let chunk = args.chunk.0;
    let extent = edit.group().extent;
    let max = edit.store_extents_max(volume, chunk);
    let max = max.map_err(|error| refused(error, names))?;
    let free = free_runs(edit.group()).map_err(|error| refused(error, names))?;
    let free = free
        .iter()
        .filter(|run| on.is_empty() || on.contains(&run.member));
    let extents = args.amount.extents(StoreBase {
        extent,
        free: free.map(|run| run.count).sum(),
        max,
        has: 0,
    })?;
    let new = NewSnapshot {
        name: args.name.clone(),
        origin: volume.clone(),
        id: random_id(),
        description_id: random_id(),
        extents,
        chunk,
        on,
        seconds: stamp().seconds,
        host: host(),
    };
    let created = edit.create_snapshot(&new);
    created.map_err(|error| refused(error, names))?;
    let has = edit.group().volume(&args.name);
    let has = in_words(has.map_or(0, |store| store.extents()), extent);
    let never_full = if extents >= max { ", never full" } else { "" };
    let summary = format!(
        "{group}/{}: snapshot of {volume}, with a store of {has}{never_full}",
        args.name
    );
    Ok((new, summary))
}
