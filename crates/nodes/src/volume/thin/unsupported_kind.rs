//! Segment types that are not opened: why, and what to do.

use std::fmt;

/// A segment type that is not opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnsupportedKind {
    /// As in LVM's text.
    pub kind: &'static str,
    /// Why it is not opened.
    pub why: &'static str,
    /// What to do.
    pub next: &'static str,
}

impl fmt::Display for UnsupportedKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, why, next } = self;
        write!(f, "segment type {kind} is not supported: {why}; {next}")
    }
}

const fn kind(kind: &'static str, why: &'static str, next: &'static str) -> UnsupportedKind {
    UnsupportedKind { kind, why, next }
}

const COPY_ON_LINUX: &str = "activate the volume on Linux and serve or copy its device";

const KINDS: &[UnsupportedKind] = &[
    kind(
        "vdo",
        "its data are compressed and deduplicated in a VDO pool",
        COPY_ON_LINUX,
    ),
    kind(
        "vdo-pool",
        "it holds compressed and deduplicated data, which only the kernel's vdo target reads",
        COPY_ON_LINUX,
    ),
    kind(
        "writecache",
        "the only copy of recent writes may be in its cache",
        "write them back on Linux with lvconvert --splitcache, then open the volume again",
    ),
    kind(
        "integrity",
        "its data are interleaved with checksums and a journal",
        "remove the checksums on Linux with lvconvert --raidintegrity n, or copy the active volume",
    ),
    kind(
        "cache-pool",
        "it holds parts of another volume and is no disk by itself",
        "open the volume that it caches",
    ),
    kind(
        "thin-pool",
        "it holds the data of thin volumes and is no disk by itself",
        "open one of its thin volumes",
    ),
];

/// What is known of a segment type that is not opened. `None`: it is not known at all.
#[must_use]
pub fn unsupported(kind: &str) -> Option<UnsupportedKind> {
    KINDS.iter().find(|known| known.kind == kind).copied()
}
