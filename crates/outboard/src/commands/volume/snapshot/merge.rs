//! `outboard volume snapshot merge`: an origin becomes what its snapshot is. Without disks the server does it that has the
//! group open.
//!
//! ```text
//! text: the snapshot is being merged ─► its chunks into the origin, table by table ─► text: without the snapshot
//! ```
//!
//! # Invariants
//!
//! * From the first text on the origin reads as the snapshot, also after a crash, here and with the kernel.

use indicatif::{ProgressBar, ProgressFinish, ProgressStyle};
use nodes::volume::edit::GroupEdit;
use nodes::volume::open::SnapshotChange;

use super::super::change::{self, ChangeOptions, ChangeReport, failed_disks, parsed, stamp};
use super::super::open_group::{OpenGroup, refused, unopened};
use super::super::volume_path::VolumePath;
use super::target::{self, ServerArgs};
use crate::arrays;
use crate::failure::Failure;
use crate::graph::builder::Builder;
use crate::interrupt::Interrupt;
use crate::output::Format;
use crate::snapshots::report::SnapshotHealth;

/// Arguments of `volume snapshot merge`.
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

/// Merges a snapshot.
pub(crate) fn run(args: &Args, format: Format) -> Result<(), Failure> {
    if args.disks.is_empty() {
        return merge_served(args, format);
    }
    let interrupt = Interrupt::watch()?;
    change::run(&args.options, format, async |builder: &mut Builder| {
        merge(builder, args, &interrupt).await
    })
}

async fn merge(
    builder: &mut Builder,
    args: &Args,
    interrupt: &Interrupt,
) -> Result<ChangeReport, Failure> {
    let VolumePath { group, volume } = &args.snapshot;
    let mut open = Box::pin(OpenGroup::open_whole(builder, group, &args.disks)).await?;
    let names = open.names();
    let mut edit = open.edit()?;
    let begins = edit.begin_merge(volume);
    let begins = begins.map_err(|error| refused(error, &names))?;
    refuse_invalid(&open, args).await?;
    let relation = open.group().snapshot_with_store(volume);
    let origin = relation.map_or_else(String::new, |relation| relation.origin.to_owned());
    let mut last = edit.clone();
    let finished = last.finish_merge(volume);
    finished.map_err(|error| refused(error, &names))?;
    let summary = format!("{group}/{origin} is what {volume} was; {volume} is removed");
    if args.options.dry_run {
        return Box::pin(open.commit(last, summary, &args.options)).await;
    }
    let mut report = match begins {
        true => {
            let begun = Box::pin(open.commit(edit, summary, &args.options)).await?;
            open.reread().await?;
            begun
        }
        false => open.report(&last, summary, &args.options),
    };
    report.refuse_failed()?;
    Box::pin(merge_chunks(&open, args, &origin, interrupt)).await?;
    let mut last = GroupEdit::open(open.group().clone()).map_err(|error| refused(error, &names))?;
    let finished = last
        .finish_merge(volume)
        .and_then(|()| last.finish(&stamp()));
    let text = finished.map_err(|error| refused(error, &names))?;
    let after = parsed(&text)?;
    report.after = super::super::report::GroupReport::of(&after, &names);
    let written = nodes::volume::update::commit(&open.areas(&after), &text).await;
    let written = written.map_err(|error| Failure::from_error(&error))?;
    report.failed = failed_disks(written);
    Ok(report)
}

/// Has the server begin, which goes on by itself.
fn merge_served(args: &Args, format: Format) -> Result<(), Failure> {
    let VolumePath { group, volume } = &args.snapshot;
    let target = target::find(group, &args.server)?;
    let mut edit = target.edit()?;
    let begins = edit.begin_merge(volume);
    if !begins.map_err(|error| refused(error, target.names()))? {
        let what = format!("{} is being merged already", args.snapshot);
        let next = "outboard volume snapshot list shows how much of it is left";
        return Err(Failure::new(what).next(next));
    }
    let relation = target.group().snapshot_with_store(volume);
    let origin = relation.map_or("", |relation| relation.origin);
    let summary = format!(
        "{group}/{origin} is what {volume} was; the server merges its chunks, and removes {volume} then"
    );
    let name = volume.clone();
    let change = SnapshotChange::Merge { name };
    target.change(&change, &edit, summary, &args.options, format)
}

/// A snapshot that was lost has nothing to merge.
async fn refuse_invalid(open: &OpenGroup, args: &Args) -> Result<(), Failure> {
    let reports = open.snapshots().await?;
    let mut reports = reports.into_iter();
    let report = reports.find(|report| report.name == args.snapshot.volume);
    let Some(report) = report else {
        return Ok(());
    };
    let health = report.health();
    match report.state {
        SnapshotHealth::Valid | SnapshotHealth::Merging => Ok(()),
        SnapshotHealth::Invalid => {
            let what = format!("{} cannot be merged, it is {health}", args.snapshot);
            let next = "its origin is not affected; outboard volume snapshot remove takes it away";
            Err(Failure::new(what).next(next))
        }
        SnapshotHealth::Unknown => {
            let what = format!("{} cannot be merged, its state is {health}", args.snapshot);
            Err(Failure::new(what))
        }
    }
}

/// Brings all chunks into the origin.
async fn merge_chunks(
    open: &OpenGroup,
    args: &Args,
    origin: &str,
    interrupt: &Interrupt,
) -> Result<(), Failure> {
    let set = open.volumes_of(open.group().clone(), false)?;
    let opened = Box::pin(set.open(origin)).await;
    let opened = opened.map_err(|error| unopened(&error))?;
    let bar = bar();
    let goes_on = |left: u64| {
        let all = bar.length().unwrap_or(0).max(left);
        bar.set_length(all);
        bar.set_position(all - left);
        !interrupt.came()
    };
    let left = set.merge(origin, goes_on).await;
    let flushed = opened.disk.flush().await;
    let resumed = format!(
        "outboard volume snapshot merge {} goes on, as the kernel does when {origin} is activated",
        args.snapshot
    );
    let merged = match (left, flushed) {
        (Err(error), _) => Err(unopened(&error).next(resumed)),
        (_, Err(error)) => Err(Failure::from_error(&error).next(resumed)),
        (Ok(0), Ok(())) => Ok(()),
        (Ok(_), Ok(())) => Err(Failure::new("interrupted").next(resumed)),
    };
    arrays::finish(merged, &opened.arrays).await
}

fn bar() -> ProgressBar {
    let template = "merging {wide_bar} {pos} of {len} chunks, {eta} left";
    let bar = ProgressBar::new(0).with_finish(ProgressFinish::AndClear);
    match ProgressStyle::with_template(template) {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}
