//! [`OwnResolver`]: disk expressions and our own servers' disks, as the doctor examines them.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use lab::doctor::{ServedReading, StoreReading};
use lab_drivers::DriverError;
use lab_drivers::doctor::{DiskResolver, ExaminedDisk, OpenDisk, Opened, StripedDisk};

use crate::buckets;
use crate::control;
use crate::failure::Failure;
use crate::graph::builder::Builder;
use crate::graph::{Disk, NamedDisk, resolve};

/// The expressions of this program.
#[derive(Debug)]
pub(super) struct OwnResolver;

impl DiskResolver for OwnResolver {
    fn resolve(&self, text: &str) -> Result<ExaminedDisk, DriverError> {
        match resolve(text) {
            Ok(named) => Ok(examined(&named)),
            Err(error) => Err(Failure::from(error).into()),
        }
    }

    fn served(&self, process: u32, export: &str) -> Option<Result<ExaminedDisk, String>> {
        let all = control::client::statuses();
        let status = all.into_iter().find(|status| status.process == process)?;
        let text = match (status.disks.get(export), status.figures.exports.first()) {
            (Some(text), _) => Some(text),
            // The first one is also the default export.
            (None, Some(first)) if export.is_empty() => status.disks.get(&first.name),
            _ => None,
        };
        let Some(text) = text else {
            let why = "the server does not report what the disk is made of";
            return Some(Err(why.to_owned()));
        };
        let named = resolve(text).map_err(|error| error.to_string());
        Some(named.map(|mut named| {
            below(&mut named.disk, &status.directory);
            examined(&named)
        }))
    }

    fn report(&self, process: u32) -> Option<ServedReading> {
        control::server_report::read(process)
    }
}

/// Opens a disk, read-only.
#[derive(Debug)]
struct Opener(NamedDisk);

impl OpenDisk for Opener {
    fn open(&self, connections: usize) -> Opened {
        let named = self.0.clone();
        Box::pin(async move {
            let mut builder = Builder::looking().with_connections(connections);
            let built = Box::pin(builder.build(&named)).await;
            built.map_err(|error| Failure::from(error).into())
        })
    }

    fn stores(&self) -> Vec<StoreReading> {
        let volumes = buckets::figures();
        let uris: BTreeSet<&str> = volumes.iter().map(|one| one.uri.as_str()).collect();
        let readings = uris.into_iter();
        let readings = readings.filter_map(|uri| buckets::store_reading(&volumes, uri));
        readings.collect()
    }
}

/// What the doctor has to know of a disk.
pub(super) fn examined(named: &NamedDisk) -> ExaminedDisk {
    let disk = &named.disk;
    let child = |child: &Disk| {
        examined(&NamedDisk {
            disk: child.clone(),
            ..named.clone()
        })
    };
    let below = match disk.children() {
        [only] => Some(Box::new(child(only))),
        _ => None,
    };
    let striped = match disk {
        Disk::Stripe { disks, .. } if disks.iter().all(can_be_read) => {
            let names = disks.iter().enumerate().map(striped_name);
            let disks = disks.iter().map(child).zip(names);
            disks
                .map(|(disk, name)| StripedDisk { name, disk })
                .collect()
        }
        _ => Vec::new(),
    };
    ExaminedDisk {
        text: named.text.clone(),
        expression: described(named).to_owned(),
        node: node(disk),
        files: disk.files().into_iter().map(Path::to_owned).collect(),
        file: match disk {
            Disk::File { path, .. } => Some(path.clone()),
            _ => None,
        },
        is_plain: is_plain(disk),
        can_be_opened_twice: can_be_opened_twice(disk),
        below,
        striped,
        opener: Arc::new(Opener(named.clone())),
    }
}

/// The expression without its name.
fn described(named: &NamedDisk) -> &str {
    match &named.name {
        Some(name) => named.text.get(name.len() + 1..).unwrap_or(&named.text),
        None => &named.text,
    }
}

/// Whether reading it disturbs no process that has it open, and is what that one reads. Arrays and overlays are kept by one process;
/// a cache file is not opened at all, so that a second reader would get what is behind it.
fn can_be_opened_twice(disk: &Disk) -> bool {
    let alone = matches!(
        disk,
        Disk::Array(_)
            | Disk::Volume(_)
            | Disk::Overlay(_)
            | Disk::Cache(_)
            | Disk::Remote { .. }
            | Disk::Bucket(_)
            | Disk::Rbd(_)
            | Disk::Dm { .. }
            | Disk::Error(_)
    );
    !alone && disk.children().iter().all(can_be_opened_twice)
}

/// The same, or another client of a server, which may always read.
fn can_be_read(disk: &Disk) -> bool {
    matches!(disk, Disk::Remote { .. }) || can_be_opened_twice(disk)
}

/// A disk of a stripe by its URI, its file or its place.
fn striped_name((index, disk): (usize, &Disk)) -> String {
    match (disk, disk.files().first()) {
        (Disk::Remote { target, .. }, _) => target.to_string(),
        (_, Some(file)) => file.display().to_string(),
        (_, None) => format!("disk {} of the stripe", index + 1),
    }
}

/// Whether it is parts of files and nothing that takes time of its own.
fn is_plain(disk: &Disk) -> bool {
    match disk {
        Disk::File { direct, .. } => !direct,
        Disk::Partition { disk, .. } | Disk::Blocks { disk, .. } => is_plain(disk),
        _ => false,
    }
}

/// Paths as the server has them, which may work in another directory.
fn below(disk: &mut Disk, directory: &Path) {
    if let Disk::File { path, .. } = disk {
        *path = directory.join(&*path);
    }
    disk.children_mut()
        .iter_mut()
        .for_each(|child| below(child, directory));
}

/// A node's name in expressions.
fn node(disk: &Disk) -> &'static str {
    match disk {
        Disk::Throttle { .. } => "throttle",
        Disk::Delay { .. } => "delay",
        Disk::Fault { .. } => "fault",
        Disk::Partition { .. } => "partition",
        Disk::Blocks { .. } => "blocks",
        Disk::Overlay(_) => "overlay",
        Disk::Cache(_) => "cache",
        Disk::Array(_) => "array",
        Disk::Volume(_) => "volume",
        _ => "the disk",
    }
}
