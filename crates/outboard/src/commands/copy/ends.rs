//! [`Ends`]: the source and the target of a copy, understood; and that they are two.

use std::os::unix::fs::{FileTypeExt, MetadataExt};

use crate::commands::inspect::unnamed;
use crate::failure::Failure;
use crate::graph::{Disk, NamedDisk};

/// Both ends of a copy.
#[derive(Debug)]
pub(super) struct Ends {
    pub(super) source: NamedDisk,
    pub(super) target: NamedDisk,
}

impl Ends {
    /// Reads both expressions.
    pub(super) fn find(source: &str, target: &str) -> Result<Self, Failure> {
        let ends = Self {
            source: unnamed(source)?,
            target: unnamed(target)?,
        };
        let (read, written) = (ends.source.disk.leaves(), ends.target.disk.leaves());
        let pairs = read
            .iter()
            .flat_map(|a| written.iter().map(move |b| (*a, *b)));
        if pairs.into_iter().any(|(a, b)| are_one(a, b)) {
            let both = if (read.len(), written.len()) == (1, 1) {
                "are the same disk"
            } else {
                "have a disk in common"
            };
            let what = format!("{source} and {target} {both}");
            return Err(Failure::new(what).next("name another target"));
        }
        Ok(ends)
    }
}

/// Whether two disks are the same bytes, as far as their names show.
fn are_one(one: &Disk, other: &Disk) -> bool {
    match (one, other) {
        (Disk::File { path: a, .. }, Disk::File { path: b, .. }) => {
            let (Ok(a), Ok(b)) = (std::fs::metadata(a), std::fs::metadata(b)) else {
                // What is not there is not the same; whether it must be is seen later.
                return false;
            };
            let device = |m: &std::fs::Metadata| m.file_type().is_block_device();
            if device(&a) && device(&b) {
                a.rdev() == b.rdev()
            } else {
                (a.dev(), a.ino()) == (b.dev(), b.ino())
            }
        }
        (Disk::Remote { target: a, .. }, Disk::Remote { target: b, .. }) => {
            (&a.address, &a.export) == (&b.address, &b.export)
        }
        (Disk::Bucket(a), Disk::Bucket(b)) => a.uri == b.uri,
        (Disk::Rbd(a), Disk::Rbd(b)) => {
            (&a.spec.name, &a.spec.conf, &a.spec.cluster)
                == (&b.spec.name, &b.spec.conf, &b.spec.cluster)
        }
        _ => false,
    }
}
