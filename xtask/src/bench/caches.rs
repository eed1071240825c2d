//! Rows of the local cache of a remote disk: reads that it answers, and the start of a machine with an empty cache.
//!
//! The remote disk is a file behind `delay`: a read of it takes [`REMOTE_MS`], however long it is, and reads do not wait for
//! one another.

use std::path::{Path, PathBuf};

use anyhow::Result;

use super::figures::{Figure, Sample};
use super::fio::Until;
use super::graph::AgainstPlain;
use super::rows::{MOVED, READ_4K, Row, at_least, load};
use super::work::{Load, Work};
use super::{Args, DISK_SIZE, Measured, disk, one, ready, rounds};
use crate::servers::{Launcher, Server, Serving};

/// Milliseconds of a read of the remote disk: a store of objects, or a server some countries away.
const REMOTE_MS: u32 = 15;
/// What a machine reads while it starts, in pieces that lie anywhere in it, each once.
const START: u64 = 64 << 20;

/// The rows of this file.
pub(super) const CACHE_ROWS: &[Row] = &[
    Row {
        name: "cache-warm",
        title: "cache of a remote disk, 4 KiB random read of what it has, 2 jobs x QD 32",
        work: Work::CacheWarm(READ_4K),
        marks: MOVED,
    },
    Row {
        name: "cache-start",
        title: "a start with an empty cache and a boot profile, 16 KiB random read, QD 1",
        work: Work::CacheStart(load("randread", 16 << 10, 1, 1)),
        marks: &[&[at_least(Figure::Rate, 2.0)]],
    },
];

/// A cache that has all of its disk, and a plain file, both served by us.
pub(super) fn warm(launcher: &Launcher, args: &Args, load: &Load) -> Result<Vec<Measured>> {
    let plain = disk(&launcher.folder)?;
    let files = CacheFiles::new(&launcher.folder);
    // Two servers open one file for reading only.
    let pair = AgainstPlain {
        ours: &files.cached(&plain, false),
        plain: &read_only(&plain),
        files: vec![&plain, &files.cache],
        first: Some(super::rows::load("read", 1 << 20, 1, 16)),
    };
    let measured = pair.measure(launcher, args, load);
    files.remove();
    measured
}

/// The reads of a start: with a boot profile, with an empty cache alone, and without a cache.
pub(super) fn start(launcher: &Launcher, args: &Args, load: &Load) -> Result<Vec<Measured>> {
    let plain = disk(&launcher.folder)?;
    let files = CacheFiles::new(&launcher.folder);
    let reads = Until::Once {
        size: START,
        bytes: START,
    };
    let start = |disk: &str| -> Result<Sample> {
        files.empty();
        let serving: Serving = launcher.start(Server::Ours, disk)?;
        one(&serving, load, reads)
    };
    // Recorded once, written when that server ends.
    start(&files.cached(&plain, true))?;
    let names = ["outboard", "empty cache", "no cache"];
    let measured = rounds(args, names.map(str::to_owned).to_vec(), |which| {
        ready(&plain)?;
        start(&match which {
            0 => files.cached(&plain, true),
            1 => files.cached(&plain, false),
            _ => remote(&plain),
        })
    });
    files.remove();
    measured
}

fn read_only(disk: &Path) -> String {
    format!("file({},read-only=true)", disk.display())
}

fn remote(disk: &Path) -> String {
    format!("delay({},read={REMOTE_MS}ms)", read_only(disk))
}

/// A cache file, and the profile of its disk.
struct CacheFiles {
    cache: PathBuf,
    profile: PathBuf,
}

impl CacheFiles {
    fn new(folder: &Path) -> Self {
        let [cache, profile] = ["disk.cache", "boot.profile"].map(|name| folder.join(name));
        let files = Self { cache, profile };
        files.remove();
        files
    }

    fn cached(&self, disk: &Path, has_profile: bool) -> String {
        let size = DISK_SIZE * 5 / 4;
        let cache = format!(
            "cache({},{},size={size}",
            remote(disk),
            self.cache.display()
        );
        match has_profile {
            true => format!("{cache},profile={})", self.profile.display()),
            false => format!("{cache})"),
        }
    }

    /// The next cache begins with nothing.
    fn empty(&self) {
        std::fs::remove_file(&self.cache).ok();
    }

    fn remove(&self) {
        self.empty();
        std::fs::remove_file(&self.profile).ok();
    }
}
