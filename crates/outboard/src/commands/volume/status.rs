//! `outboard volume status`: groups, their disks, volumes, segments and free extents.

use std::collections::HashMap;

use nodes::volume::group::{AssembledGroup, MemberPlace};
use serde::Serialize;

use super::open_group::{OpenDisk, OpenGroup, assemble_disks, open_disks};
use super::report::{DiskNames, GroupReport};
use crate::commands::inspect::on_the_engine;
use crate::failure::Failure;
use crate::graph::builder::Builder;
use crate::output::Format;

/// Arguments of `volume status`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Disks of groups: files, devices or any other disks; they may be in use
    #[arg(value_name = "DISK", required = true)]
    disks: Vec<String>,

    /// Show only this group
    #[arg(long, value_name = "GROUP")]
    group: Option<String>,
}

/// What was found.
#[derive(Debug, Serialize)]
struct VolumeStatus {
    groups: Vec<StatusOfGroup>,
    /// Physical volumes without a group.
    empty: Vec<String>,
}

/// A group, and what is not as it should be.
#[derive(Debug, Serialize)]
struct StatusOfGroup {
    #[serde(flatten)]
    group: GroupReport,
    remarks: Vec<String>,
}

/// What disks of an assembled group are called.
pub(super) fn assembled_names(assembled: &AssembledGroup) -> DiskNames {
    let members = assembled.group.members.iter().zip(&assembled.places);
    let names = members.filter_map(|(member, place)| match place {
        MemberPlace::Found(disk) => Some((member.name.clone(), assembled.names[*disk].clone())),
        _ => None,
    });
    names.collect::<HashMap<_, _>>()
}

/// Shows groups.
pub(crate) fn run(args: &Args, format: Format) -> Result<(), Failure> {
    let status = on_the_engine(async || Box::pin(find(args)).await)?;
    format.print(&status, || status.text())
}

async fn find(args: &Args) -> Result<VolumeStatus, Failure> {
    let mut builder = Builder::looking();
    let disks = open_disks(&mut builder, &args.disks).await?;
    let groups = assemble_disks(&disks);
    let is_listed = |id: &str| {
        let mut members = groups.iter().flat_map(|group| &group.group.members);
        members.any(|member| member.id == id)
    };
    let empty = disks.iter().filter(|disk| !is_listed(&disk.scan.header.id));
    let empty = empty.map(|disk| disk.name.clone()).collect();
    let wanted = |group: &&AssembledGroup| {
        let name = args.group.as_ref();
        name.is_none_or(|name| *name == group.group.name)
    };
    let mut found = Vec::new();
    for assembled in groups.iter().filter(wanted) {
        found.push(StatusOfGroup::of(assembled, &disks).await);
    }
    let groups = found;
    match (&args.group, groups.as_slice()) {
        (Some(name), []) => Err(Failure::new(format!("no group {name} is on these disks"))),
        _ => Ok(VolumeStatus { groups, empty }),
    }
}

impl StatusOfGroup {
    async fn of(assembled: &AssembledGroup, disks: &[OpenDisk]) -> Self {
        let group = GroupReport::of(&assembled.group, &assembled_names(assembled));
        let mut remarks: Vec<String> = assembled.remarks.iter().map(ToString::to_string).collect();
        let open = OpenGroup {
            assembled: assembled.clone(),
            disks: disks.to_vec(),
        };
        let snapshots = open.snapshots().await;
        let snapshots = snapshots.unwrap_or_else(|failure| {
            remarks.push(format!("its snapshots cannot be read: {}", failure.line()));
            Vec::new()
        });
        Self {
            group: group.with_snapshots(snapshots),
            remarks,
        }
    }
}

impl VolumeStatus {
    fn text(&self) -> String {
        let mut parts: Vec<String> = Vec::new();
        for StatusOfGroup { group, remarks } in &self.groups {
            let remarks = remarks.iter().map(|remark| format!("\n  note: {remark}"));
            parts.push(format!("{}{}", group.tree(), remarks.collect::<String>()));
        }
        for empty in &self.empty {
            parts.push(format!("{empty}: a physical volume without a group"));
        }
        parts.join("\n")
    }
}
