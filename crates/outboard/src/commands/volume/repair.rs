//! `outboard volume repair`: the newest metadata over outdated and damaged ones, or those of a backup over all.
//!
//! # Invariants
//!
//! * A backup is of the same group (by its id), and lists exactly the disks that are here. It gets a sequence number above
//!   all that are on the disks.
//! * Metadata with thin pools are not restored: the pools' own metadata would not match.

use std::path::{Path, PathBuf};

use nodes::volume::edit::{EditError, GroupEdit};
use nodes::volume::format::{SegmentLayout, VolumeGroup};
use nodes::volume::group::select;
use nodes::volume::update::mark_disk_used;

use super::change::{self, ChangeOptions, ChangeReport};
use super::open_group::{OpenGroup, assemble_disks, open_disks, refused, unopened};
use crate::failure::Failure;
use crate::graph::builder::Builder;
use crate::output::Format;

/// Longest backup that is read, bytes.
const BACKUP_MAX: u64 = 16 << 20;

/// Arguments of `volume repair`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// All disks of the group: files, devices or any other disks
    #[arg(value_name = "DISK", required = true)]
    disks: Vec<String>,

    /// The group, if the disks are of several
    #[arg(long, value_name = "GROUP")]
    group: Option<String>,

    /// Make the metadata those of this backup, of outboard or of LVM's vgcfgbackup
    #[arg(long, value_name = "FILE")]
    restore: Option<PathBuf>,

    #[command(flatten)]
    options: ChangeOptions,
}

/// Repairs.
pub(crate) fn run(args: &Args, format: Format) -> Result<(), Failure> {
    change::run(&args.options, format, async |builder: &mut Builder| {
        repair(builder, args).await
    })
}

async fn repair(builder: &mut Builder, args: &Args) -> Result<ChangeReport, Failure> {
    let disks = open_disks(builder, &args.disks).await?;
    let groups = assemble_disks(&disks);
    let assembled = select(&groups, args.group.as_deref()).map_err(|error| unopened(&error))?;
    let open = OpenGroup {
        assembled: assembled.clone(),
        disks,
    };
    let group = open.group();
    let (edit, summary) = match &args.restore {
        None => {
            open.refuse_incomplete()?;
            let summary = format!("{}: its metadata are on all of its disks", group.name);
            (open.edit()?, summary)
        }
        Some(path) => {
            let edit = restored(path, &open)?;
            let summary = format!("{}: restored from {}", group.name, path.display());
            (edit, summary)
        }
    };
    let report = Box::pin(open.commit(edit, summary, &args.options)).await?;
    if !report.dry_run {
        for disk in &open.disks {
            let marked = mark_disk_used(&disk.name, &disk.node, true).await;
            marked.map_err(|error| Failure::from_error(&error))?;
        }
    }
    Ok(report)
}

/// The group that a backup describes, as a change of the one that is on the disks.
fn restored(path: &Path, open: &OpenGroup) -> Result<GroupEdit, Failure> {
    let file = path.display();
    let text = read_backup(path)?;
    let backup = VolumeGroup::of(&text);
    let backup = backup
        .map_err(|error| Failure::because(format!("{file} is no backup of a group"), &error))?;
    let now = open.group();
    if backup.id != now.id {
        let what = format!(
            "{file} is of another group: {} ({})",
            backup.name, backup.id
        );
        return Err(
            Failure::new(what).next(format!("these disks are of {} ({})", now.name, now.id))
        );
    }
    let has_pool = |group: &VolumeGroup| {
        let mut segments = group.volumes.iter().flat_map(|volume| &volume.segments);
        segments.any(|segment| matches!(segment.layout, SegmentLayout::ThinPool { .. }))
    };
    if has_pool(&backup) || has_pool(now) {
        let what = format!(
            "{file} cannot be restored: there are thin pools, whose own metadata would not match"
        );
        return Err(Failure::new(what).next("vgcfgrestore --force does it, where you are sure"));
    }
    refuse_other_disks(path, &backup, open)?;
    let refused = |error: EditError| refused(error, &open.names());
    let edit = GroupEdit::open(backup).map_err(refused)?;
    edit.continue_from(now.sequence).map_err(refused)
}

fn read_backup(path: &Path) -> Result<String, Failure> {
    let unread = |error: std::io::Error| {
        Failure::because(format!("{} cannot be read", path.display()), &error)
    };
    let len = std::fs::metadata(path).map_err(unread)?.len();
    if len > BACKUP_MAX {
        let what = format!("{} is too long for a backup: {len} bytes", path.display());
        return Err(Failure::new(what));
    }
    std::fs::read_to_string(path).map_err(unread)
}

/// Refuses a backup that does not list exactly the disks that are here.
fn refuse_other_disks(path: &Path, backup: &VolumeGroup, open: &OpenGroup) -> Result<(), Failure> {
    let file = path.display();
    let here = |id: &str| {
        open.disks
            .iter()
            .filter(|disk| disk.scan.header.id == id)
            .count()
    };
    for member in &backup.members {
        let what = match here(&member.id) {
            1 => continue,
            0 => "is not here",
            _ => "is here twice",
        };
        let (name, id, device) = (&member.name, &member.id, &member.device);
        let what = format!("the disk {name} of {file} {what}: {id}, last seen as {device}");
        return Err(Failure::new(what).next("name all disks that it lists, each once"));
    }
    let is_listed = |id: &str| backup.members.iter().any(|member| member.id == id);
    let mut disks = open.disks.iter();
    match disks.find(|disk| !is_listed(&disk.scan.header.id)) {
        None => Ok(()),
        Some(other) => {
            let what = format!("{file} does not list the disk {}", other.name);
            Err(Failure::new(what).next("leave it away; it is outdated after that"))
        }
    }
}
