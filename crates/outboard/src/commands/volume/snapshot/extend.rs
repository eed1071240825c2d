//! `outboard volume snapshot extend`: more room in the store of a snapshot.

use nodes::volume::edit::{GroupEdit, free_runs};
use nodes::volume::open::SnapshotChange;

use super::super::amount::in_words;
use super::super::change::{self, ChangeOptions, ChangeReport};
use super::super::open_group::{OpenGroup, refused};
use super::super::report::DiskNames;
use super::super::volume_path::VolumePath;
use super::store_amount::{StoreAmountArgs, StoreBase};
use super::target::{self, ServerArgs};
use crate::failure::Failure;
use crate::graph::builder::Builder;
use crate::output::Format;

/// Arguments of `volume snapshot extend`.
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
    amount: StoreAmountArgs,

    /// Use only this disk, as it stands above; again for several
    #[arg(long, value_name = "DISK")]
    on: Vec<String>,

    #[command(flatten)]
    options: ChangeOptions,
}

/// Extends a snapshot.
pub(crate) fn run(args: &Args, format: Format) -> Result<(), Failure> {
    if args.disks.is_empty() {
        let target = target::find(&args.snapshot.group, &args.server)?;
        let mut edit = target.edit()?;
        let on = target.member_names(&args.on)?;
        let (change, summary) = extend_store(&mut edit, args, on, target.names())?;
        return target.change(&change, &edit, summary, &args.options, format);
    }
    change::run(&args.options, format, async |builder: &mut Builder| {
        extend(builder, args).await
    })
}

async fn extend(builder: &mut Builder, args: &Args) -> Result<ChangeReport, Failure> {
    let group = &args.snapshot.group;
    let open = Box::pin(OpenGroup::open_whole(builder, group, &args.disks)).await?;
    let on = open.member_names(&args.on)?;
    let mut edit = open.edit()?;
    let (_, summary) = extend_store(&mut edit, args, on, &open.names())?;
    Box::pin(open.commit(edit, summary, &args.options)).await
}

/// Extends the store in the group; returns the change, and the line about it.
fn extend_store(
    edit: &mut GroupEdit,
    args: &Args,
    on: Vec<String>,
    names: &DiskNames,
) -> Result<(SnapshotChange, String), Failure> {
    let name = &args.snapshot.volume;
    let extent = edit.group().extent;
    let store_extents = |edit: &GroupEdit| {
        let store = edit.group().volume(name);
        store.map_or(0, |store| store.extents())
    };
    let has = store_extents(edit);
    let free = free_runs(edit.group()).map_err(|error| refused(error, names))?;
    let free = free
        .iter()
        .filter(|run| on.is_empty() || on.contains(&run.member));
    let relation = edit.group().snapshot_with_store(name);
    let max = match relation {
        None => 0,
        Some(relation) => edit
            .store_extents_max(relation.origin, relation.chunk_size)
            .map_err(|error| refused(error, names))?,
    };
    let wanted = args.amount.extents(StoreBase {
        extent,
        free: free.map(|run| run.count).sum(),
        max,
        has,
    })?;
    if relation.is_some() && wanted <= has {
        let what = format!("{} has {} already", args.snapshot, in_words(has, extent));
        return Err(Failure::new(what).next("--size +2G adds 2 GiB"));
    }
    let extents = wanted.saturating_sub(has);
    let extended = edit.extend_snapshot(name, extents, &on);
    extended.map_err(|error| refused(error, names))?;
    let summary = format!(
        "{}: its store has {}, was {}",
        args.snapshot,
        in_words(store_extents(edit), extent),
        in_words(has, extent)
    );
    let name = name.clone();
    Ok((SnapshotChange::Extend { name, extents, on }, summary))
}
