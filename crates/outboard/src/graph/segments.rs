//! What an expression says before its disk is opened: where the files of a `linear` begin on it, for what must lie on whole
//! blocks. Sizes are read; nothing is opened.
//!
//! # What it does not do
//!
//! It does not look into disks that have no size before they are opened: after a remote disk or an array in a `linear` nothing is known.

use std::path::{Path, PathBuf};

use super::disk::Disk;

/// Bytes of the blocks that drives and filesystems have today.
pub(crate) const BLOCK: u64 = 4096;

/// A file that is part of a `linear`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LinearSegment {
    /// The file.
    pub(crate) path: PathBuf,
    /// Where it begins on the disk that it is part of, bytes.
    pub(crate) start: u64,
    /// Its size, bytes.
    pub(crate) len: u64,
}

/// The files of each `linear` in `disk`, as far as their places are known.
pub(crate) fn segments(disk: &Disk) -> Vec<LinearSegment> {
    match disk {
        Disk::Linear { disks, .. } => in_order(disks),
        Disk::Blocks { disk, .. }
        | Disk::Partition { disk, .. }
        | Disk::Delay { disk, .. }
        | Disk::Throttle { disk, .. }
        | Disk::Fault { disk, .. } => segments(disk),
        Disk::Overlay(overlay) => segments(&overlay.base),
        Disk::Cache(cached) => segments(&cached.disk),
        Disk::Stripe { disks, .. } => disks.iter().flat_map(segments).collect(),
        _ => Vec::new(),
    }
}

fn in_order(disks: &[Disk]) -> Vec<LinearSegment> {
    let mut found = Vec::new();
    let mut start = 0;
    for disk in disks {
        let Some((path, len)) = file(disk) else {
            break;
        };
        let path = path.to_owned();
        found.push(LinearSegment { path, start, len });
        start += len;
    }
    found
}

/// The file that holds all of `disk`, and its size.
pub(super) fn file(disk: &Disk) -> Option<(&Path, u64)> {
    match disk {
        Disk::File { path, .. } => {
            let file = std::fs::metadata(path).ok()?;
            file.is_file().then_some((path.as_path(), file.len()))
        }
        Disk::Blocks { disk, .. }
        | Disk::Delay { disk, .. }
        | Disk::Throttle { disk, .. }
        | Disk::Fault { disk, .. } => file(disk),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::resolve;

    /// The story: four drives as one, the third with a sector more than the others, and all of the fourth off 4 KiB by it.
    #[test]
    fn a_file_behind_one_with_an_odd_sector_begins_off_a_block() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let sizes = [("a", 65_536), ("b", 66_048), ("c", 65_536)];
        for (name, size) in sizes {
            let file = std::fs::File::create(path(name)).unwrap();
            file.set_len(size).unwrap();
        }
        let [a, b, c] = sizes.map(|(name, _)| path(name).display().to_string());
        let found = |text: &str| segments(&resolve(text).unwrap().disk);
        let places = |found: Vec<LinearSegment>| {
            let places = found.iter().map(|one| (one.start, one.len));
            places.collect::<Vec<_>>()
        };
        let all = [(0, 65_536), (65_536, 66_048), (131_584, 65_536)];
        assert_eq!(places(found(&format!("linear({a},{b},{c})"))), all);
        let slow = format!("delay(linear({a},throttle({b},bytes=1M/s),{c}),read=1ms)");
        assert_eq!(places(found(&slow)), all);
        let unknown = format!("linear({a},nbd://localhost/b,{c})");
        assert_eq!(places(found(&unknown)), all[..1]);
        assert_eq!(found(&a), []);
    }
}
