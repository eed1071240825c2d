//! `outboard volume …`: LVM2 groups and volumes on disks that no process has open.
//!
//! ```text
//! outboard volume create vg0/media --size 10G --disks a.img b.img      a new group of two disks, and a volume
//! outboard volume extend vg0/media a.img b.img --size +5G              a group is named with all of its disks
//! ```
//!
//! # Invariants
//!
//! * The disks of the group are locked for writing while it is changed; all of them are named.
//! * Before a change the metadata as they are go to a file, durably. A change of which only a part is possible is not begun.
//! * With `--dry-run` the disks are opened for reading only.
//! * What users see is called as they wrote it: disks by their expressions, not `pv0`.
//!
//! # What it does not do
//!
//! It changes no group that a server or the kernel has open: its disks are locked. Snapshots a server changes itself
//! (`snapshot/target.rs`).

mod add_disk;
mod amount;
mod backup;
mod change;
mod check;
mod content;
mod create;
mod create_raid;
mod extend;
mod filesystem;
mod live_move;
mod move_extents;
mod open_group;
mod raid_size;
mod reduce;
mod remove;
mod remove_disk;
mod rename;
mod repair;
mod report;
mod snapshot;
mod status;
#[cfg(test)]
mod tests;
mod volume_args;
mod volume_path;

use clap::Subcommand;

use crate::failure::Failure;
use crate::output::Format;

/// What can be done with groups and volumes.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Create a volume, and its group if its disks are new
    Create(create::Args),
    /// Make a volume larger
    Extend(extend::Args),
    /// Make a volume smaller, not below the size of its filesystem
    Reduce(reduce::Args),
    /// Remove a volume
    Remove(remove::Args),
    /// Rename a volume or a group
    Rename(rename::Args),
    /// Move extents to other disks of the group, or resume that
    Move(move_extents::Args),
    /// Make a disk a physical volume of a group
    AddDisk(add_disk::Args),
    /// Take a disk without volumes out of its group
    RemoveDisk(remove_disk::Args),
    /// Create, list, merge, remove and extend snapshots
    #[command(subcommand)]
    Snapshot(snapshot::Command),
    /// Show groups: their disks, volumes, segments and free extents
    Status(status::Args),
    /// Check the metadata on all disks of a group
    Check(check::Args),
    /// Write the newest metadata over outdated ones, or restore a backup
    Repair(repair::Args),
}

/// Runs a command.
pub(crate) fn run(command: Command, format: Format) -> Result<(), Failure> {
    match command {
        Command::Create(args) => create::run(&args, format),
        Command::Extend(args) => extend::run(&args, format),
        Command::Reduce(args) => reduce::run(&args, format),
        Command::Remove(args) => remove::run(&args, format),
        Command::Rename(args) => rename::run(&args, format),
        Command::Move(args) => move_extents::run(&args, format),
        Command::AddDisk(args) => add_disk::run(&args, format),
        Command::RemoveDisk(args) => remove_disk::run(&args, format),
        Command::Snapshot(command) => snapshot::run(command, format),
        Command::Status(args) => status::run(&args, format),
        Command::Check(args) => check::run(&args, format),
        Command::Repair(args) => repair::run(&args, format),
    }
}
