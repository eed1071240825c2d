//! `outboard bucket …`: volumes on object stores.

mod create;
mod gc;
mod journal;
mod key;

use bucket::{
    BucketError, BucketSnapshot, BucketUri, CheckOptions, CheckReport, Decimal, SnapshotName,
    SnapshotOptions, SnapshotUri, StoreOptions, StorePrices, VolumeStatus, check, create_clone,
    create_snapshot, delete, delete_snapshot, grow, list_snapshots, status,
};
use clap::Subcommand;
use indicatif::HumanBytes;
use serde::Serialize;
use std::path::PathBuf;

use crate::commands::inspect::on_the_engine;
use crate::config;
use crate::failure::Failure;
use crate::graph::ByteSize;
use crate::output::{Format, columns};

/// What can be done with a volume on an object store.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Create a volume
    Create(create::CreateArgs),
    /// Show what a volume holds, and what it takes in its store
    Status(StatusArgs),
    /// Make a volume larger, also while it is served
    Grow(SizeArgs),
    /// Delete a volume and all its objects
    Delete(DeleteArgs),
    /// Check that everything a volume refers to is in its store
    Check(CheckArgs),
    /// Delete the data of a volume that was overwritten, also while it is served
    ///
    /// Deletes the objects that neither the volume nor a snapshot needs any more, in two steps: the first command finds them, and one that
    /// is given 15 minutes later or more deletes them. Run it each day, for example.
    Gc(gc::GcArgs),
    /// Create, list and delete snapshots, which are read as URI@NAME
    #[command(subcommand)]
    Snapshot(SnapshotCommand),
    /// Create a volume with the blocks of a snapshot, without a copy of its data
    Clone(CloneArgs),
    /// Make and change keys of encrypted volumes
    #[command(subcommand)]
    Key(key::KeyCommand),
    /// Manage the local journal of a volume
    #[command(subcommand)]
    Journal(journal::JournalCommand),
}

/// What can be done with the snapshots of a volume.
#[derive(Debug, Subcommand)]
pub(crate) enum SnapshotCommand {
    /// Create a snapshot, also while the volume is served
    Create(CreateSnapshotArgs),
    /// List the snapshots of a volume
    List(BucketTarget),
    /// Delete a snapshot
    Delete(SnapshotArgs),
}

/// A snapshot.
#[derive(Debug, clap::Args)]
pub(crate) struct SnapshotArgs {
    #[command(flatten)]
    target: BucketTarget,

    /// The name of the snapshot
    name: SnapshotName,
}

/// A snapshot to be created.
#[derive(Debug, clap::Args)]
pub(crate) struct CreateSnapshotArgs {
    #[command(flatten)]
    snapshot: SnapshotArgs,

    /// Open the volume for writing if it was not closed and no server answers; a server that has it open loses it
    #[arg(long)]
    take_over: bool,
}

/// Which volume, and how its store is reached.
#[derive(Debug, clap::Args)]
pub(crate) struct BucketTarget {
    /// The volume: s3://BUCKET/PATH/VOLUME or file:///PATH/VOLUME
    uri: BucketUri,

    #[command(flatten)]
    store: StoreArgs,
}

/// How a store is reached.
#[derive(Debug, clap::Args)]
pub(crate) struct StoreArgs {
    /// Certificates in PEM that the store's are signed by; AWS_CA_BUNDLE else
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,

    /// The key of an encrypted volume; `outboard bucket key create` makes one
    ///
    /// What lies in the store is encrypted. A local journal and a cache file have clear text, on the machine that they are on.
    #[arg(long, value_name = "FILE")]
    key: Option<PathBuf>,
}

/// A snapshot and a new volume.
#[derive(Debug, clap::Args)]
pub(crate) struct CloneArgs {
    /// The snapshot: s3://BUCKET/PATH/VOLUME@NAME or file:///PATH/VOLUME@NAME
    snapshot: SnapshotUri,

    /// The new volume, in the same bucket or on the same filesystem
    uri: BucketUri,

    #[command(flatten)]
    store: StoreArgs,
}

/// A volume, and the prices of its store.
#[derive(Debug, clap::Args)]
pub(crate) struct StatusArgs {
    #[command(flatten)]
    target: BucketTarget,

    /// Estimate what its storage costs by the section store_prices of this file
    #[arg(long, value_name = "FILE")]
    store_prices: Option<PathBuf>,
}

/// A volume and a size.
#[derive(Debug, clap::Args)]
pub(crate) struct SizeArgs {
    #[command(flatten)]
    target: BucketTarget,

    /// Its size: 20G, 1.5T… (a multiple of 4096 bytes)
    size: ByteSize,
}

/// A volume to be deleted.
#[derive(Debug, clap::Args)]
pub(crate) struct DeleteArgs {
    #[command(flatten)]
    target: BucketTarget,

    /// Also if it holds data
    #[arg(long)]
    force: bool,
}

/// A volume to be checked.
#[derive(Debug, clap::Args)]
pub(crate) struct CheckArgs {
    #[command(flatten)]
    target: BucketTarget,

    /// Read all data and compare it with its checksums
    #[arg(long)]
    data: bool,
}

impl StoreArgs {
    fn options(&self) -> StoreOptions {
        StoreOptions {
            ca_file: self.ca.clone(),
            key_file: self.key.clone(),
        }
    }
}

impl BucketTarget {
    fn options(&self) -> StoreOptions {
        self.store.options()
    }
}

/// Does it.
pub(crate) fn run(command: &Command, format: Format) -> Result<(), Failure> {
    on_the_engine(async || match command {
        Command::Create(args) => create::run(args, format).await,
        Command::Key(command) => key::run(command, format).await,
        Command::Status(args) => {
            let prices = config::store_prices(args.store_prices.as_deref())?;
            let status = status(&args.target.uri, &args.target.options()).await;
            let status = PricedStatus::new(status.map_err(failed)?, prices.as_ref());
            format.print(&status, || status_text(&status))
        }
        Command::Grow(args) => {
            let grown = grow(&args.target.uri, &args.target.options(), args.size.0).await;
            let grown = grown.map_err(failed)?;
            format.print(&grown, || {
                let (before, size) = (ByteSize(grown.size_before), ByteSize(grown.size));
                format!("{}: {before} -> {size}", grown.uri)
            })
        }
        Command::Delete(args) => delete_volume(args, format).await,
        Command::Gc(args) => gc::run(args, format).await,
        Command::Snapshot(command) => Box::pin(run_snapshot(command, format)).await,
        Command::Journal(command) => Box::pin(journal::run(command, format)).await,
        Command::Clone(args) => {
            let options = args.store.options();
            let cloned = Box::pin(create_clone(&args.snapshot, &args.uri, &options)).await;
            let cloned = cloned.map_err(failed)?;
            format.print(&cloned, || {
                let size = ByteSize(cloned.size);
                format!("{}: a clone of {}, {size}", cloned.uri, cloned.origin)
            })
        }
        Command::Check(args) => {
            let what = CheckOptions { data: args.data };
            let report = check(&args.target.uri, &args.target.options(), what).await;
            let report = report.map_err(failed)?;
            format.print(&report, || check_text(&report))?;
            match report.problem_count {
                0 => Ok(()),
                _ => Err(Failure::reported()),
            }
        }
    })
}

async fn run_snapshot(command: &SnapshotCommand, format: Format) -> Result<(), Failure> {
    match command {
        SnapshotCommand::Create(args) => {
            let how = SnapshotOptions {
                take_over: args.take_over,
            };
            let SnapshotArgs { target, name } = &args.snapshot;
            let options = target.options();
            let made = Box::pin(create_snapshot(&target.uri, &options, name, how)).await;
            let made = made.map_err(failed)?;
            format.print(&made, || {
                let size = ByteSize(made.size);
                format!("{}: a snapshot of {size}", made.uri)
            })
        }
        SnapshotCommand::List(target) => {
            let found = list_snapshots(&target.uri, &target.options()).await;
            let found = found.map_err(failed)?;
            format.print(&found, || snapshots_text(&target.uri, &found))
        }
        SnapshotCommand::Delete(SnapshotArgs { target, name }) => {
            let deleted = delete_snapshot(&target.uri, &target.options(), name).await;
            let deleted = deleted.map_err(failed)?;
            format.print(&deleted, || format!("{}: deleted", deleted.uri))
        }
    }
}

fn snapshots_text(uri: &BucketUri, snapshots: &[BucketSnapshot]) -> String {
    if snapshots.is_empty() {
        return format!("{uri}: no snapshots");
    }
    let rows = snapshots.iter().map(|snapshot| {
        let size = ByteSize(snapshot.size).to_string();
        [snapshot.name.clone(), size, snapshot.created.clone()]
    });
    columns(&rows.collect::<Vec<_>>())
}

async fn delete_volume(args: &DeleteArgs, format: Format) -> Result<(), Failure> {
    let (uri, options) = (&args.target.uri, args.target.options());
    match status(uri, &options).await {
        Ok(status) if status.allocated > 0 && !args.force => {
            let allocated = HumanBytes(status.allocated);
            let what = format!("cannot delete {uri}: it holds {allocated} of data");
            return Err(Failure::new(what).next("write --force to delete it with its data"));
        }
        Ok(_) => {}
        // What is left of a delete that was interrupted has no status.
        Err(BucketError::NoVolume { .. }) => {}
        Err(_) if args.force => {}
        Err(error) => return Err(failed(error)),
    }
    let deleted = delete(uri, &options).await.map_err(failed)?;
    format.print(&deleted, || {
        let mut text = format!(
            "{}: deleted, {} objects of {}",
            deleted.uri,
            deleted.objects,
            HumanBytes(deleted.bytes)
        );
        for object in &deleted.left {
            text.push_str(&format!("\n  {object} is not the volume's, and was left"));
        }
        text
    })
}

fn failed(error: BucketError) -> Failure {
    let failure = Failure::from_error(&error);
    match error.next() {
        Some(next) => failure.next(next),
        None => failure,
    }
}

/// A status and what the store of the volume costs.
#[derive(Debug, Serialize)]
struct PricedStatus {
    #[serde(flatten)]
    status: VolumeStatus,
    /// In a month, with its currency, where prices are known.
    #[serde(skip_serializing_if = "Option::is_none")]
    storage_cost: Option<StorageCost>,
}

#[derive(Debug, Serialize)]
struct StorageCost {
    currency: String,
    per_month: Decimal,
}

impl PricedStatus {
    fn new(status: VolumeStatus, prices: Option<&StorePrices>) -> Self {
        let bytes = status.data_bytes + status.index_bytes;
        let storage_cost = prices.map(|prices| StorageCost {
            currency: prices.currency.clone(),
            per_month: prices.storage_per_month(bytes),
        });
        Self {
            status,
            storage_cost,
        }
    }
}

fn status_text(priced: &PricedStatus) -> String {
    let status = &priced.status;
    let row = |name: &str, value: String| [format!("  {name}"), value];
    let size = ByteSize(status.size);
    let objects = |count: u64, bytes: u64| format!("{count} objects, {}", HumanBytes(bytes));
    let mut rows = vec![
        row("holds", HumanBytes(status.allocated).to_string()),
        row("compression", none_or(status.compression)),
        row("encryption", none_or(status.encryption)),
        row("data", objects(status.data_objects, status.data_bytes)),
        row("index", objects(status.index_objects, status.index_bytes)),
        row("snapshots", status.snapshots.to_string()),
    ];
    let cost = priced.storage_cost.iter();
    rows.extend(cost.map(|cost| {
        let StorageCost {
            currency,
            per_month,
        } = cost;
        row("storage", format!("{per_month} {currency} a month"))
    }));
    rows.extend(
        status
            .origin
            .iter()
            .map(|origin| row("clone of", origin.clone())),
    );
    let clones = status.clones.iter().enumerate().map(|(nth, clone)| {
        let name = if nth == 0 { "clones" } else { "" };
        row(name, format!("{} (of {})", clone.uri, clone.snapshot))
    });
    rows.extend(clones);
    let journal = status.journal.iter();
    rows.extend(journal.map(|journal| row("open journal", journal::text(journal))));
    rows.push(row(
        "opened for writing",
        format!("{} times", status.generation),
    ));
    rows.push(row("id", status.id.clone()));
    format!("{}: a volume of {size}\n{}", status.uri, columns(&rows))
}

fn none_or(value: Option<impl ToString>) -> String {
    value.map_or_else(|| "none".to_owned(), |value| value.to_string())
}

fn check_text(report: &CheckReport) -> String {
    let uri = &match report.snapshots {
        0 => report.uri.clone(),
        1 => format!("{} and its snapshot", report.uri),
        count => format!("{} and its {count} snapshots", report.uri),
    };
    let mut text = match (report.problem_count, report.compared) {
        (0, 0) => format!("{uri}: no problem found in {} blocks", report.blocks),
        (0, compared) => {
            format!(
                "{uri}: no problem found in {} blocks, the data of {compared} compared",
                report.blocks
            )
        }
        (problems, _) => format!("{uri}: {problems} problems"),
    };
    for problem in &report.problems {
        text.push_str(&format!("\n  {problem}"));
    }
    if report.unreferenced > 0 {
        text.push_str(&format!(
            "\n  {} hold nothing that is used: `outboard bucket gc` deletes such",
            objects_text(report.unreferenced, report.unreferenced_bytes)
        ));
    }
    text
}

fn objects_text(count: u64, bytes: u64) -> String {
    format!("{count} objects of {}", HumanBytes(bytes))
}
