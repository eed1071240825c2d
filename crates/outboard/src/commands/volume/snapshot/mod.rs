//! `outboard volume snapshot …`: classic snapshots, which LVM and the kernel use as they are.
//!
//! Given disks, they are opened for the change; without any, the server on this machine that has the group open makes it
//! (`target.rs`).
//!
//! # Invariants
//!
//! * The store of a new snapshot is wiped, durably, before the metadata name it: until then its extents are free.
//! * A snapshot that is merged is removed only after all of it is durable in its origin. A merge that was cut off goes on
//!   with the same command, or when the kernel activates the origin.

mod create;
mod extend;
mod list;
mod merge;
mod remove;
mod store_amount;
pub(super) mod target;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use clap::Subcommand;
use nodes::volume::format::VolumeGroup;
use nodes::volume::group::{AssembledGroup, VolumeAccess};
use nodes::volume::open::VolumeSet;

use super::open_group::{OpenGroup, unopened};
use crate::failure::Failure;
use crate::output::Format;
use crate::snapshots::report::SnapshotReport;

/// What can be done with snapshots.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Create a snapshot of a volume
    Create(create::Args),
    /// List snapshots and how full their stores are
    List(list::Args),
    /// Merge a snapshot into its origin, which becomes what it was, and remove the snapshot
    Merge(merge::Args),
    /// Remove a snapshot; its origin stays as it is
    Remove(remove::Args),
    /// Make the store of a snapshot larger
    Extend(extend::Args),
}

/// Runs a command.
pub(crate) fn run(command: Command, format: Format) -> Result<(), Failure> {
    match command {
        Command::Create(args) => create::run(&args, format),
        Command::List(args) => list::run(&args, format),
        Command::Merge(args) => merge::run(&args, format),
        Command::Remove(args) => remove::run(&args, format),
        Command::Extend(args) => extend::run(&args, format),
    }
}

impl OpenGroup {
    /// The volumes of `group`, which is this one, perhaps changed, on its disks.
    fn volumes_of(&self, group: VolumeGroup, read_only: bool) -> Result<Arc<VolumeSet>, Failure> {
        let assembled = AssembledGroup {
            group,
            ..self.assembled.clone()
        };
        let disks = assembled.disks(|index| self.disks[index].node.clone());
        let access = VolumeAccess {
            read_only,
            ignore_owner: read_only,
            ..VolumeAccess::default()
        };
        VolumeSet::new(assembled, disks, access).map_err(|error| unopened(&error))
    }

    /// How full the stores of its snapshots are.
    pub(super) async fn snapshots(&self) -> Result<Vec<SnapshotReport>, Failure> {
        let group = self.group();
        if group.snapshots().next().is_none() {
            return Ok(Vec::new());
        }
        let set = self.volumes_of(group.clone(), true)?;
        let found = set.snapshot_status().await;
        let report = |(owner, status): &_| SnapshotReport::of(group, owner, status);
        Ok(found.iter().map(report).collect())
    }
}
