//! Describing one disk: what an export's server says of it, or what was found when it was opened.

use std::path::Path;
use std::sync::Arc;

use block::Node;
use nbd::client::{ClientConfig, ClientError, Target, describe};
use nodes::File;

use super::qemu_contexts::QemuContexts;
use super::report::{BlockSizes, DiskKind, Export, Replies, Report};
use crate::failure::Failure;
use crate::graph::builder::Builder;
use crate::graph::{Disk, NamedDisk};

/// An open disk that is only looked at.
#[derive(Debug)]
pub(super) struct InspectedDisk {
    pub(super) disk: Node,
    /// A remark about another process that is writing it.
    pub(super) remark: Option<String>,
}

/// Opens a disk for looking at it: a plain file or device also while another program writes it.
async fn open(named: &NamedDisk) -> Result<InspectedDisk, Failure> {
    let Disk::File {
        path,
        direct: false,
        ..
    } = &named.disk
    else {
        let disk = Builder::new(true).with_every_byte().build(named).await?;
        return Ok(InspectedDisk { disk, remark: None });
    };
    let (disk, holder) = File::look_at(path)
        .await
        .map_err(|error| Failure::from_error(&error))?;
    Ok(InspectedDisk {
        disk: Arc::new(disk),
        remark: holder.map(|holder| format!("it is {holder}: this report may be outdated")),
    })
}

/// What is read of an export before it is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ExportDetail {
    /// Its properties.
    Properties,
    /// Its properties, and what is in the metadata contexts of QEMU's server.
    QemuContexts,
}

/// Describes a disk and opens it.
pub(super) async fn seen(
    named: &NamedDisk,
    detail: ExportDetail,
) -> Result<(Report, InspectedDisk), Failure> {
    // The properties of a server are reported without opening its export, as some servers take one client at a time.
    let told = match &named.disk {
        Disk::Remote { target, .. } => Some(of_export(target, detail).await?),
        _ => None,
    };
    let seen = open(named).await?;
    let report = told.unwrap_or_else(|| of_disk(named, &seen.disk));
    Ok((report, seen))
}

async fn of_export(target: &Target, detail: ExportDetail) -> Result<Report, Failure> {
    let timeout = ClientConfig::default().request_timeout;
    let described = Box::pin(describe(target, timeout)).await;
    let told = described.map_err(|error| {
        let failure = Failure::from_error(&error);
        if !matches!(error, ClientError::Handshake { .. }) {
            return failure;
        }
        let server = Target {
            export: String::new(),
            ..target.clone()
        };
        failure.next(format!("outboard ls {server} lists what the server has"))
    })?;
    let qemu = match detail {
        ExportDetail::Properties => QemuContexts::default(),
        ExportDetail::QemuContexts => QemuContexts::read(&told.target, &told.contexts).await,
    };
    let flags: Vec<&'static str> = told
        .export
        .flags
        .iter_names()
        .map(|(name, _)| name)
        .collect();
    let has = |flag: &str| flags.contains(&flag);
    Ok(Report {
        disk: target.to_string(),
        kind: DiskKind::Export,
        size: told.export.size,
        block_size: BlockSizes {
            minimum: told.export.block_size_min,
            preferred: told.export.block_size_preferred,
            maximum: Some(told.export.block_size_max),
        },
        rotational: has("ROTATIONAL"),
        allocated: None,
        export: Some(Export {
            server: target.has_several().then(|| told.target.to_string()),
            read_only: has("READ_ONLY"),
            name: told.export.name.clone(),
            description: told.export.description.clone(),
            protocol: told.style.name(),
            tls: told.tls,
            replies: match (told.extended, told.structured) {
                (true, _) => Replies::Extended,
                (false, true) => Replies::Structured,
                (false, false) => Replies::Simple,
            },
            contexts: told.contexts,
            qemu,
            flags,
        }),
        map: None,
        content: None,
    })
}

fn of_disk(named: &NamedDisk, disk: &Node) -> Report {
    let (kind, allocated) = match &named.disk {
        Disk::File { path, .. } => of_path(path),
        Disk::Memory { .. } => (DiskKind::Memory, None),
        Disk::Null(_) => (DiskKind::Null, None),
        Disk::Remote { .. } => (DiskKind::Export, None),
        _ => (DiskKind::Composed, None),
    };
    let geometry = disk.geometry();
    Report {
        disk: named.text.clone(),
        kind,
        size: geometry.size,
        block_size: BlockSizes {
            minimum: geometry.block_size,
            preferred: geometry.preferred_block_size,
            maximum: None,
        },
        rotational: geometry.rotational,
        allocated,
        export: None,
        map: None,
        content: None,
    }
}

/// What is at a path, and the space that a file takes.
fn of_path(path: &Path) -> (DiskKind, Option<u64>) {
    use std::os::unix::fs::MetadataExt;
    /// Unit of `st_blocks` (stat(2)), bytes.
    const UNIT: u64 = 512;
    match std::fs::metadata(path) {
        Ok(found) if found.is_file() => (DiskKind::File, Some(found.blocks().saturating_mul(UNIT))),
        _ => (DiskKind::Device, None),
    }
}
