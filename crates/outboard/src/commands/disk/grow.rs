//! `outboard disk grow`: a larger image, with its partition table.
//!
//! # Invariants
//!
//! * A disk never gets smaller, and one that is in use is refused.
//! * What is wrong is found before anything is changed.
//! * A cut at any moment leaves a valid GPT; the same command brings the rest about.

use std::fs::OpenOptions;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use block::{IoError, Node};
use nodes::partition::{self, GrowError, Growth, PartitionTable};
use nodes::{File, FileOptions};
use serde::Serialize;

use crate::commands::inspect::on_the_engine;
use crate::failure::Failure;
use crate::graph::{ByteSize, SECTOR};
use crate::output::Format;

/// Arguments of `disk grow`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The image; must not be in use
    path: PathBuf,

    /// Its new size: 20G, 1.5T, 500MB… (never smaller than it is)
    size: ByteSize,

    /// Grow this partition into the new space; it must be the last one on the disk
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..))]
    part: Option<u32>,
}

/// What was done, for programs.
#[derive(Debug, Serialize)]
struct Grown<'a> {
    path: &'a Path,
    size_before: u64,
    size: u64,
    moved_backup: bool,
    restored_primary: bool,
    partition: Option<GrownPartition>,
}

/// The partition that took the room.
#[derive(Debug, Serialize)]
struct GrownPartition {
    number: u32,
    offset: u64,
    size_before: u64,
    size: u64,
}

/// Grows the image.
pub(crate) fn run(args: &Args, format: Format) -> Result<(), Failure> {
    if !args.size.is_of_a_disk() {
        let what = format!(
            "a disk's size is a multiple of {SECTOR} bytes, {} is none",
            args.size.0
        );
        return Err(Failure::usage(what));
    }
    on_the_engine(async || Box::pin(grow(args, format)).await)
}

async fn grow(args: &Args, format: Format) -> Result<(), Failure> {
    let path = &args.path;
    let (disk, before) = open(path).await?;
    let size = args.size;
    if size.0 < before {
        let what = format!(
            "cannot grow {} to {size}: it has {} already",
            path.display(),
            ByteSize(before)
        );
        return Err(Failure::new(what).next("a disk is never made smaller here"));
    }
    let table = PartitionTable::read(&disk)
        .await
        .map_err(|error| cannot(path, &error))?;
    let growth = match (&table, args.part) {
        (Some(table), part) => {
            Some(partition::grow(table, size.0, part).map_err(|error| refused(path, &error))?)
        }
        (None, Some(_)) => {
            let what = format!("cannot grow {}: it has no partition table", path.display());
            return Err(Failure::new(what).next("leave --part out"));
        }
        (None, None) => None,
    };
    if let Some(growth) = &growth {
        let restored = partition::carry_out(&disk, &growth.before).await;
        restored.map_err(|error| cannot(path, &error))?;
    }
    let disk = extend(disk, path, before, size.0).await?;
    if let Some(growth) = &growth {
        let written = partition::carry_out(&disk, &growth.steps).await;
        written.map_err(|error| half_way(path, &error))?;
    }
    print_result(args, before, table.as_ref(), growth.as_ref(), format)
}

/// The image and its size, locked.
async fn open(path: &Path) -> Result<(Node, u64), Failure> {
    let disk = File::open(path, FileOptions::default()).await;
    let disk = disk.map_err(|error| Failure::from_error(&error))?;
    let metadata = std::fs::metadata(path).map_err(|error| cannot(path, &error))?;
    if !metadata.is_file() {
        let what = format!("cannot grow {}: it is a device", path.display());
        return Err(Failure::new(what).next("grow it where it was made"));
    }
    Ok((Arc::new(disk), metadata.len()))
}

/// Gives the file its new size; the disk as it is then.
async fn extend(disk: Node, path: &Path, before: u64, size: u64) -> Result<Node, Failure> {
    if size > before {
        let file = OpenOptions::new().write(true).open(path);
        let grown = file.and_then(|file| file.set_len(size).and_then(|()| file.sync_all()));
        grown.map_err(|error| cannot(path, &error))?;
    }
    let measured = disk
        .revalidate()
        .await
        .map_err(|error| cannot(path, &error))?;
    Ok(measured.unwrap_or(disk))
}

fn cannot(path: &Path, error: &(dyn std::error::Error + 'static)) -> Failure {
    Failure::because(format!("cannot grow {}", path.display()), error)
}

fn half_way(path: &Path, error: &IoError) -> Failure {
    let what = format!(
        "{} has grown, its partition table was not finished",
        path.display()
    );
    Failure::because(what, error).next("it is valid as it is; the same command goes on")
}

fn refused(path: &Path, error: &GrowError) -> Failure {
    let failure = cannot(path, error);
    match error {
        GrowError::Unsound(_) => failure.next("nothing was changed: put that right first"),
        GrowError::NoRoom(_) => failure.next("choose a larger size"),
        GrowError::NoSuch(_) => failure.next("`outboard inspect` lists them"),
        _ => failure.next("nothing was changed"),
    }
}

fn print_result(
    args: &Args,
    before: u64,
    table: Option<&PartitionTable>,
    growth: Option<&Growth>,
    format: Format,
) -> Result<(), Failure> {
    let partition = args.part.and_then(|number| {
        let old = table?.partition(number)?;
        let new = growth?.partition?;
        Some(GrownPartition {
            number,
            offset: new.offset,
            size_before: old.range.len,
            size: new.len,
        })
    });
    let grown = Grown {
        path: &args.path,
        size_before: before,
        size: args.size.0,
        moved_backup: growth.is_some_and(|growth| growth.moves_backup),
        restored_primary: growth.is_some_and(|growth| !growth.before.is_empty()),
        partition,
    };
    format.print(&grown, || text(&grown))
}

fn text(grown: &Grown<'_>) -> String {
    let path = grown.path.display();
    let (before, size) = (ByteSize(grown.size_before), ByteSize(grown.size));
    let mut lines = vec![format!("{path}: {before} -> {size}")];
    if grown.restored_primary {
        lines.push("  the primary GPT was damaged: restored from its backup".to_owned());
    }
    if grown.moved_backup {
        lines.push("  the backup GPT is at the end of the disk".to_owned());
    }
    if let Some(partition) = &grown.partition {
        let number = partition.number;
        let (before, size) = (ByteSize(partition.size_before), ByteSize(partition.size));
        lines.push(format!("  partition {number}: {before} -> {size}"));
        lines.push(format!(
            "  a filesystem in it has its old size until it is grown, for example with\n    \
             outboard attach 'partition({path}, {number})' --mount /mnt, then resize2fs DEVICE or xfs_growfs /mnt"
        ));
    }
    lines.join("\n")
}
