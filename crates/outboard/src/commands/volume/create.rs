//! `outboard volume create`: a volume in a group, or a new group of disks with a volume in it.
//!
//! # Invariants
//!
//! * Nothing is written before every new disk was opened, found empty (or forced) and found large enough, and the volume
//!   found to have room.

use std::collections::HashMap;

use block::Node;
use nodes::volume::edit::{EditError, GroupEdit, NewGroup, NewVolume, free_runs};
use nodes::volume::format::{NewLabel, VolumeGroup};
use nodes::volume::random_id;
use nodes::volume::update::{
    MetadataArea, clear_raid_metadata, commit, mark_disk_used, write_labels,
};

use super::add_disk::{NewDisk, open_new_disk};
use super::amount::{AmountArgs, AmountBase, AmountSign, in_words};
use super::change::{
    self, ChangeOptions, ChangeReport, failed_disks, host, names_in_order, parsed, stamp,
};
use super::create_raid::LayoutArgs;
use super::open_group::{OpenGroup, check_disks, refused};
use super::report::{DiskNames, GroupReport};
use super::volume_path::GroupPath;
use crate::failure::Failure;
use crate::graph::ByteSize;
use crate::graph::builder::Builder;
use crate::output::Format;

/// Arguments of `volume create`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The new volume; with --disks the group alone makes a group without volumes
    #[arg(value_name = "GROUP[/VOLUME]")]
    path: GroupPath,

    /// All disks of the group, if there is one: files, devices or any other disks
    #[arg(value_name = "DISK", conflicts_with = "new_disks")]
    disks: Vec<String>,

    /// Make a new group of these disks
    #[arg(long = "disks", value_name = "DISK", num_args = 1..)]
    new_disks: Vec<String>,

    #[command(flatten)]
    amount: AmountArgs,

    #[command(flatten)]
    layout: LayoutArgs,

    /// Use only this disk, as it stands above; again for several
    #[arg(long, value_name = "DISK")]
    on: Vec<String>,

    /// Bytes of an extent of a new group
    #[arg(long, short = 's', value_name = "SIZE", default_value = "4M")]
    extent_size: ByteSize,

    /// Overwrite the content of the new disks
    #[arg(long)]
    force: bool,

    #[command(flatten)]
    options: ChangeOptions,
}

/// Creates a volume.
pub(crate) fn run(args: &Args, format: Format) -> Result<(), Failure> {
    check(args)?;
    change::run(
        &args.options,
        format,
        async |builder: &mut Builder| match args.new_disks.is_empty() {
            true => create_volume(builder, args).await,
            false => create_group(builder, args).await,
        },
    )
}

/// What the command line alone shows to be wrong.
fn check(args: &Args) -> Result<(), Failure> {
    let group = &args.path.group;
    if args.disks.is_empty() && args.new_disks.is_empty() {
        let failure = Failure::usage(format!("which disks {group} is on is not said"));
        return Err(failure.next("name all of them, or make a new group with --disks DISK…"));
    }
    match &args.path.volume {
        None if args.new_disks.is_empty() => {
            let what = format!("{group} is a group, not a volume");
            Err(Failure::usage(what).next(format!("write {group}/VOLUME")))
        }
        None if args.amount.is_given() => {
            let what = format!("{group} is a group, a size is for a volume");
            Err(Failure::usage(what).next(format!("write {group}/VOLUME, or leave the size away")))
        }
        Some(_) if !args.amount.is_given() => {
            Err(Failure::usage("how large the volume is to be is not said").next("add --size 10G"))
        }
        _ => check_disks(&args.new_disks),
    }
}

/// Creates a volume in a group that is there.
async fn create_volume(builder: &mut Builder, args: &Args) -> Result<ChangeReport, Failure> {
    let group = &args.path.group;
    let open = Box::pin(OpenGroup::open_whole(builder, group, &args.disks)).await?;
    let mut edit = open.edit()?;
    let on = open.member_names(&args.on)?;
    let summary = add_volume(&mut edit, args, on, &open.names())?;
    if !args.options.dry_run {
        clear_metadata(edit.group(), args, &open.member_nodes()).await?;
    }
    Box::pin(open.commit(edit, summary, &args.options)).await
}

/// Adds the volume to the group; returns the line about it.
fn add_volume(
    edit: &mut GroupEdit,
    args: &Args,
    on: Vec<String>,
    names: &DiskNames,
) -> Result<String, Failure> {
    let GroupPath { group, volume } = &args.path;
    let Some(name) = volume else {
        return Ok(format!("{group}: a group without volumes"));
    };
    let extent = edit.group().extent;
    let (stripes, layout) = args.layout.layout()?;
    let mut new = NewVolume {
        name: name.clone(),
        id: random_id(),
        extents: 0,
        stripes,
        stripe_size: args.layout.stripe_size(),
        on,
        seconds: stamp().seconds,
        host: host(),
    };
    let free = match layout.raid(&new) {
        Some(raid) => edit.largest_raid(&raid),
        None => free_extents(edit, &new.on),
    };
    let free = free.map_err(|error| refused(error, names))?;
    let extents = args.amount.extents(AmountBase { extent, free })?;
    if extents.sign != AmountSign::Total {
        let what = format!("{group}/{name} is new, its size is relative to nothing");
        return Err(Failure::usage(what).next("leave the sign away"));
    }
    let whole = stripes.max(1) as u64;
    new.extents = match args.amount.is_share() {
        true => extents.count / whole * whole,
        false => extents.count,
    };
    let created = match layout.raid(&new) {
        Some(raid) => edit.create_raid(&raid, random_id),
        None => edit.create_volume(&new),
    };
    created.map_err(|error| refused(error, names))?;
    let volume = edit.group().volume(name);
    let (kind, count) = volume.map_or(("linear", 0), |volume| (volume.kind(), volume.extents()));
    Ok(format!(
        "{group}/{name}: {kind}, {}",
        in_words(count, extent)
    ))
}

/// Free extents of these physical volumes, of all if there are none.
fn free_extents(edit: &GroupEdit, on: &[String]) -> Result<u64, EditError> {
    let free = free_runs(edit.group())?;
    let free = free
        .iter()
        .filter(|run| on.is_empty() || on.contains(&run.member));
    Ok(free.map(|run| run.count).sum())
}

/// Clears what the extents for the metadata of images hold: they are still free.
async fn clear_metadata(
    group: &VolumeGroup,
    args: &Args,
    disks: &HashMap<String, (String, Node)>,
) -> Result<(), Failure> {
    let Some(volume) = &args.path.volume else {
        return Ok(());
    };
    let cleared = clear_raid_metadata(None, group, volume, disks).await;
    cleared.map_err(|error| Failure::from_error(&error))
}

/// Makes a group of new disks, and the volume in it.
async fn create_group(builder: &mut Builder, args: &Args) -> Result<ChangeReport, Failure> {
    let mut disks = Vec::with_capacity(args.new_disks.len());
    for text in &args.new_disks {
        disks.push(Box::pin(open_new_disk(builder, text, args.force)).await?);
    }
    let group = NewGroup {
        name: args.path.group.clone(),
        id: random_id(),
        extent: args.extent_size.0,
    };
    let members: Vec<_> = disks.iter().map(|disk| disk.member.clone()).collect();
    let none = DiskNames::new();
    let mut edit =
        GroupEdit::create_group(&group, &members).map_err(|error| refused(error, &none))?;
    let names = names_in_order(edit.group(), &args.new_disks);
    let on = on_names(&names, &args.on)?;
    let mut summary = add_volume(&mut edit, args, on, &names)?;
    let text = edit
        .finish(&stamp())
        .map_err(|error| refused(error, &names))?;
    let group = parsed(&text)?;
    let mut report = ChangeReport {
        summary: String::new(),
        dry_run: args.options.dry_run,
        before: None,
        after: GroupReport::of(&group, &names),
        backup: None,
        failed: Vec::new(),
    };
    if !args.options.dry_run {
        let nodes = group.members.iter().zip(&disks).map(|(member, disk)| {
            let named = (disk.name.clone(), disk.node.clone());
            (member.name.clone(), named)
        });
        clear_metadata(&group, args, &nodes.collect()).await?;
        report.failed = write_group(&disks, &text).await?;
    }
    let volume = args.path.volume.as_ref();
    if let Some(volume) = volume {
        let (group, disks) = (&args.path.group, args.new_disks.join(", "));
        summary.push_str(&format!(
            "\nserve it:  outboard serve 'volume({disks}, name={group}/{volume})'"
        ));
    }
    report.summary = summary;
    Ok(report)
}

/// The names in the metadata of disks as the user wrote them.
fn on_names(names: &DiskNames, on: &[String]) -> Result<Vec<String>, Failure> {
    let name = |disk: &String| {
        let found = names.iter().find(|(_, name)| *name == disk);
        let found = found.map(|(member, _)| member.clone());
        found.ok_or_else(|| {
            let failure = Failure::usage(format!("--on {disk}: it is none of the new disks"));
            failure.next("write it as it stands among them")
        })
    };
    on.iter().map(name).collect()
}

/// Labels, metadata, and the mark that the disks are in use.
async fn write_group(disks: &[NewDisk], text: &str) -> Result<Vec<change::FailedDisk>, Failure> {
    let labels: Vec<(&str, &Node, &NewLabel)> = disks
        .iter()
        .map(|disk| (disk.name.as_str(), &disk.node, &disk.label))
        .collect();
    let unwritten = |error| Failure::from_error(&error);
    write_labels(&labels).await.map_err(unwritten)?;
    let areas: Vec<MetadataArea> = disks.iter().map(NewDisk::area).collect();
    let written = commit(&areas, text).await.map_err(unwritten)?;
    for disk in disks {
        mark_disk_used(&disk.name, &disk.node, true)
            .await
            .map_err(unwritten)?;
    }
    Ok(failed_disks(written))
}
