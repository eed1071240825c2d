//! `outboard volume add-disk`: a disk becomes a physical volume of a group.

use block::Node;
use nodes::volume::edit::NewGroupMember;
use nodes::volume::format::NewLabel;
use nodes::volume::random_id;
use nodes::volume::scan::scan;
use nodes::volume::update::{MetadataArea, commit, mark_disk_used, write_labels};

use super::backup;
use super::change::{self, ChangeOptions, ChangeReport, failed_disks, parsed, stamp};
use super::open_group::{OpenGroup, check_disks, device_hint, open_disk, refused};
use super::report::GroupReport;
use crate::arrays::member_checks;
use crate::failure::Failure;
use crate::graph::SECTOR;
use crate::graph::builder::Builder;
use crate::output::Format;

/// Arguments of `volume add-disk`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The group
    #[arg(value_name = "GROUP")]
    group: String,

    /// All disks that the group has: files, devices or any other disks
    #[arg(value_name = "DISK", required = true)]
    disks: Vec<String>,

    /// The disk to add; again for several
    #[arg(long = "disk", value_name = "DISK", required = true)]
    new_disks: Vec<String>,

    /// Overwrite the content of the new disks
    #[arg(long)]
    force: bool,

    #[command(flatten)]
    options: ChangeOptions,
}

/// A disk that becomes a physical volume.
#[derive(Debug)]
pub(super) struct NewDisk {
    /// As the user wrote it.
    pub(super) name: String,
    pub(super) node: Node,
    pub(super) label: NewLabel,
    pub(super) member: NewGroupMember,
}

impl NewDisk {
    /// Its metadata area.
    pub(super) fn area(&self) -> MetadataArea {
        MetadataArea {
            name: self.name.clone(),
            disk: self.node.clone(),
            area: NewLabel::METADATA_AREA,
            reset: false,
        }
    }
}

/// Adds disks.
pub(crate) fn run(args: &Args, format: Format) -> Result<(), Failure> {
    let all: Vec<String> = args.disks.iter().chain(&args.new_disks).cloned().collect();
    check_disks(&all)?;
    change::run(&args.options, format, async |builder: &mut Builder| {
        add_disks(builder, args).await
    })
}

/// Opens a disk that is to become a physical volume: it is empty, or forced, and is none of a group.
pub(super) async fn open_new_disk(
    builder: &mut Builder,
    text: &str,
    force: bool,
) -> Result<NewDisk, Failure> {
    let (node, named) = open_disk(builder, text).await?;
    refuse_used(text, &node).await?;
    if !force {
        member_checks::refuse_full(text, &node, None).await?;
    }
    let size = node.geometry().size / SECTOR * SECTOR;
    let id = random_id();
    let label = NewLabel::new(&id, size).map_err(|error| Failure::from_error(&error))?;
    let device = device_hint(&named);
    Ok(NewDisk {
        name: text.to_owned(),
        node,
        label,
        member: NewGroupMember { id, device, size },
    })
}

/// Refuses a disk that is part of a group: no option overwrites that.
async fn refuse_used(name: &str, node: &Node) -> Result<(), Failure> {
    let scanned = scan(node).await;
    let scanned =
        scanned.map_err(|error| Failure::because(format!("{name} cannot be read"), &error))?;
    let Some(Ok(scanned)) = scanned else {
        return Ok(());
    };
    let group = scanned.newest().map(|text| text.group.name.as_str());
    let what = match (group, scanned.header.used) {
        (Some(group), _) => format!("{name} is a physical volume of the group {group}"),
        (None, Some(true)) => format!("{name} is a physical volume of a group"),
        (None, _) => return Ok(()),
    };
    let failure = Failure::new(format!("{what}; nothing was changed"));
    Err(failure.next("outboard volume remove-disk takes it out"))
}

async fn add_disks(builder: &mut Builder, args: &Args) -> Result<ChangeReport, Failure> {
    let open = Box::pin(OpenGroup::open_whole(builder, &args.group, &args.disks)).await?;
    let mut edit = open.edit()?;
    let mut names = open.names();
    let mut new = Vec::with_capacity(args.new_disks.len());
    for text in &args.new_disks {
        let disk = Box::pin(open_new_disk(builder, text, args.force)).await?;
        edit.add_member(&disk.member)
            .map_err(|error| refused(error, &names))?;
        let members = edit.group().members.iter();
        let mut members = members.filter(|member| member.id == disk.member.id);
        if let Some(member) = members.next() {
            names.insert(member.name.clone(), text.clone());
        }
        new.push(disk);
    }
    let before = GroupReport::of(open.group(), &names);
    let text = edit
        .finish(&stamp())
        .map_err(|error| refused(error, &names))?;
    let after = parsed(&text)?;
    let mut report = ChangeReport {
        summary: format!("{}: {} added", args.group, args.new_disks.join(", ")),
        dry_run: args.options.dry_run,
        before: Some(before),
        after: GroupReport::of(&after, &names),
        backup: None,
        failed: Vec::new(),
    };
    if args.options.dry_run {
        return Ok(report);
    }
    let unwritten = |error| Failure::from_error(&error);
    if let Some(before) = open.text() {
        let directory = args.options.backup.as_deref();
        report.backup = Some(backup::write(directory, &before.group, &before.text)?);
    }
    // Until the metadata are committed the new disks are empty physical volumes.
    let labels = new
        .iter()
        .map(|disk| (disk.name.as_str(), &disk.node, &disk.label));
    let labels: Vec<_> = labels.collect();
    write_labels(&labels).await.map_err(unwritten)?;
    let mut areas = open.areas(&after);
    areas.extend(new.iter().map(NewDisk::area));
    let written = commit(&areas, &text).await.map_err(unwritten)?;
    for disk in &new {
        mark_disk_used(&disk.name, &disk.node, true)
            .await
            .map_err(unwritten)?;
    }
    report.failed = failed_disks(written);
    Ok(report)
}
