//! What may be written through a disk: its files, devices and exports, those that tables name among them.
//!
//! # Invariants
//!
//! * All that [`Builder`](super::Builder) would open for writing is listed. What it only reads is not: the
//!   base of an overlay, an origin of snapshots, a file or an export that is named read-only.
//! * What cannot be determined is an error: an unreadable table is not assumed to write nothing.
//!
//! # What it does not do
//!
//! It opens no disk. A table may be another one when the disk is opened.

use std::path::{Path, PathBuf};

use bucket::BucketUri;
use engine::rbd::ImageName;
use nbd::client::Target;
use nodes::dm::Need;

use super::table::{disk_of, parsed};
use super::{BuildError, BuildPlace, Result};
use crate::graph::disk::{Disk, NamedDisk, RbdDisk};
use crate::graph::syntax::Span;

/// A place that may be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum WriteTarget {
    /// A file or a device.
    File(PathBuf),
    /// An export of another server.
    Export(Target),
    /// A volume on an object store.
    Bucket(BucketUri),
    /// An image of Ceph.
    Rbd(ImageName),
}

/// All that may be written through a disk, in the order in which it is named.
pub(crate) fn write_targets(named: &NamedDisk) -> Result<Vec<WriteTarget>> {
    let place = BuildPlace::of(&named.text, false);
    let mut found = Vec::new();
    add(&named.disk, &place, &mut found)?;
    Ok(found)
}

/// No kind of disk is left to a `_`: a new one has to be thought of here.
fn add(disk: &Disk, place: &BuildPlace<'_>, found: &mut Vec<WriteTarget>) -> Result<()> {
    match disk {
        Disk::File {
            path, read_only, ..
        } => {
            found.extend((!read_only).then(|| WriteTarget::File(path.clone())));
            Ok(())
        }
        Disk::Remote {
            target, read_only, ..
        } => {
            found.extend((!read_only).then(|| WriteTarget::Export(target.clone())));
            Ok(())
        }
        Disk::Bucket(disk) => {
            found.extend((!disk.read_only).then(|| WriteTarget::Bucket(disk.uri.volume.clone())));
            let journal = disk.journal.iter();
            found.extend(journal.map(|journal| WriteTarget::File(journal.file.clone())));
            Ok(())
        }
        Disk::Rbd(RbdDisk { spec, .. }) => {
            found.extend((!spec.is_read_only()).then(|| WriteTarget::Rbd(spec.name.clone())));
            Ok(())
        }
        Disk::Overlay(overlay) => {
            found.push(WriteTarget::File(overlay.top.clone()));
            Ok(())
        }
        Disk::Cache(cached) => {
            found.push(WriteTarget::File(cached.file.clone()));
            add(&cached.disk, place, found)
        }
        Disk::Dm { path, span } => of_table(path, place, *span, found),
        Disk::Memory { .. } | Disk::Null(_) | Disk::Zero(_) | Disk::Error(_) => Ok(()),
        Disk::Blocks { .. }
        | Disk::Partition { .. }
        | Disk::Delay { .. }
        | Disk::Throttle { .. }
        | Disk::Fault { .. }
        | Disk::Linear { .. }
        | Disk::Stripe { .. }
        | Disk::Array(_)
        | Disk::Volume(_) => {
            let mut children = disk.children().iter();
            children.try_for_each(|child| add(child, place, found))
        }
    }
}

fn of_table(
    path: &Path,
    place: &BuildPlace<'_>,
    span: Span,
    found: &mut Vec<WriteTarget>,
) -> Result<()> {
    let (table, inner) = parsed(path, place, span)?;
    for need in table.needs() {
        let device = match need {
            Need::Disk {
                read_only: true, ..
            } => continue,
            Need::Disk { device, .. } => device,
            Need::Overlay { store, .. } => store,
        };
        let text = device.to_string();
        let inner = BuildPlace {
            text: &text,
            ..inner.clone()
        };
        let disk = disk_of(device, path, &inner)?;
        add(&disk, &inner, found).map_err(|source| BuildError::Table {
            path: path.to_owned(),
            line: device.place.line,
            source: Box::new(source),
        })?;
    }
    Ok(())
}
