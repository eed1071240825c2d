//! `outboard volume snapshot list`: the snapshots of groups, and how full their stores are.

use indicatif::HumanBytes;
use serde::Serialize;

use super::super::open_group::{OpenGroup, assemble_disks, open_disks};
use crate::commands::inspect::on_the_engine;
use crate::control::client;
use crate::failure::Failure;
use crate::graph::builder::Builder;
use crate::output::{Format, columns};
use crate::snapshots::report::SnapshotReport;

/// Arguments of `volume snapshot list`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Disks of groups: files, devices or any other disks; none: the snapshots of volumes that servers here have open
    #[arg(value_name = "DISK")]
    disks: Vec<String>,
}

/// What was found.
#[derive(Debug, Serialize)]
struct SnapshotList {
    snapshots: Vec<SnapshotReport>,
}

/// Lists snapshots.
pub(crate) fn run(args: &Args, format: Format) -> Result<(), Failure> {
    let list = match args.disks.is_empty() {
        true => served(),
        false => on_the_engine(async || Box::pin(find(args)).await)?,
    };
    format.print(&list, || list.text())
}

/// Those that servers on this machine have open.
fn served() -> SnapshotList {
    let servers = client::statuses().into_iter();
    SnapshotList {
        snapshots: servers.flat_map(|server| server.snapshots).collect(),
    }
}

async fn find(args: &Args) -> Result<SnapshotList, Failure> {
    let mut builder = Builder::looking();
    let disks = open_disks(&mut builder, &args.disks).await?;
    let mut snapshots = Vec::new();
    for assembled in assemble_disks(&disks) {
        let disks = disks.clone();
        let open = OpenGroup { assembled, disks };
        snapshots.extend(open.snapshots().await?);
    }
    Ok(SnapshotList { snapshots })
}

impl SnapshotList {
    fn text(&self) -> String {
        if self.snapshots.is_empty() {
            return "no snapshots".to_owned();
        }
        let head = ["SNAPSHOT", "ORIGIN", "SIZE", "STORE", "FULL", "STATE"].map(str::to_owned);
        let rows = self.snapshots.iter().map(|one| {
            [
                format!("{}/{}", one.group, one.name),
                one.origin.clone(),
                HumanBytes(one.size).to_string(),
                HumanBytes(one.store_size).to_string(),
                one.full(),
                one.health(),
            ]
        });
        columns(&std::iter::once(head).chain(rows).collect::<Vec<_>>())
    }
}
