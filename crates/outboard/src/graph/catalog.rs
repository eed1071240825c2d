//! The names of disks.

/// A name that can be called.
#[derive(Debug)]
pub(super) struct CatalogEntry {
    /// The name.
    pub(super) name: &'static str,
    /// What it makes.
    pub(super) kind: CallKind,
}

/// A kind of disk that is made from a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CallKind {
    /// `file(PATH, …)`
    File,
    /// `memory(SIZE)`
    Memory,
    /// `null(SIZE)`
    Null,
    /// `remote(URI, …)`
    Remote,
    /// `bucket(URI, …)`
    Bucket,
    /// `rbd(IMAGE, …)`
    Rbd,
    /// `blocks(DISK, size=…)`
    Blocks,
    /// `partition(DISK, NUMBER)`
    Partition,
    /// `linear(DISK, …)`
    Linear,
    /// `stripe(DISK, …)`
    Stripe,
    /// `array(MEMBER, …)`
    Array,
    /// `volume(PV, …, name=GROUP/VOLUME)`
    Volume,
    /// `overlay(BASE, TOP, …)`
    Overlay,
    /// `cache(DISK, FILE, …)`
    Cache,
    /// `dm(TABLE-FILE)`
    Dm,
    /// `zero(SIZE)`
    Zero,
    /// `error(SIZE)`
    Error,
    /// `delay(DISK, …)`
    Delay,
    /// `throttle(DISK, …)`
    Throttle,
    /// `fault(DISK, …)`
    Fault,
}

impl CallKind {
    /// How it is written.
    pub(super) const fn usage(self) -> &'static str {
        match self {
            Self::File => "file(PATH, direct=true, read-only=true)",
            Self::Memory => "memory(SIZE, read-only=true)",
            Self::Null => "null(SIZE)",
            Self::Remote => {
                "remote(URI, connections=4, timeout=30s, read-ahead=1M, read-only=true)"
            }
            Self::Bucket => {
                "bucket(URI, ca=FILE, key=FILE, read-only=true, journal=FILE, journal-size=128M, durability=store|local)"
            }
            Self::Rbd => "rbd(POOL/IMAGE, conf=PATH, id=NAME, cluster=NAME, read-only=true)",
            Self::Blocks => "blocks(DISK, size=512)",
            Self::Partition => "partition(DISK, NUMBER)",
            Self::Linear => "linear(DISK, …)",
            Self::Stripe => "stripe(DISK, …, chunk=64K, trim=true)",
            Self::Array => {
                "array(MEMBER, …, run=true, prefer=MEMBER, member-timeout=5s, raid0-layout=original|alternate, force-dirty-degraded=true), `missing` for a MEMBER that is not there"
            }
            Self::Volume => {
                "volume(PV, …, name=GROUP/VOLUME, system-id=ID, owner=ignore, force=true)"
            }
            Self::Overlay => "overlay(BASE, TOP, chunk=4K, quota=10G)",
            Self::Cache => "cache(DISK, FILE, size=10G, profile=FILE)",
            Self::Dm => "dm(TABLE-FILE)",
            Self::Zero => "zero(SIZE)",
            Self::Error => "error(SIZE)",
            Self::Delay => {
                "delay(DISK, read=2ms, write=5ms, flush=, trim=, write-zeroes=, extents=, jitter=1ms, seed=1)"
            }
            Self::Throttle => {
                "throttle(DISK, bytes=10M/s, ops=500, read-bytes=, read-ops=, write-bytes=, write-ops=, burst=1M, burst-ops=10)"
            }
            Self::Fault => {
                "fault(DISK, does=fail|tear|tear-silently|lose, error=io, on=write+flush, rate=10%, at=1M+64K, after=100, times=3, lasts=5s, seed=1, cache=1M, pulled-while=FILE)"
            }
        }
    }
}

/// Every name of the language.
pub(super) const ENTRIES: [CatalogEntry; 20] = [
    built("file", CallKind::File),
    built("memory", CallKind::Memory),
    built("null", CallKind::Null),
    built("remote", CallKind::Remote),
    built("bucket", CallKind::Bucket),
    built("rbd", CallKind::Rbd),
    built("blocks", CallKind::Blocks),
    built("partition", CallKind::Partition),
    built("linear", CallKind::Linear),
    built("stripe", CallKind::Stripe),
    built("array", CallKind::Array),
    built("volume", CallKind::Volume),
    built("dm", CallKind::Dm),
    built("overlay", CallKind::Overlay),
    built("cache", CallKind::Cache),
    built("delay", CallKind::Delay),
    built("fault", CallKind::Fault),
    built("throttle", CallKind::Throttle),
    built("zero", CallKind::Zero),
    built("error", CallKind::Error),
];

const fn built(name: &'static str, kind: CallKind) -> CatalogEntry {
    CatalogEntry { name, kind }
}

/// Schemes of remote disks.
pub(super) const SCHEMES: [&str; 6] = [
    "nbd",
    "nbd+unix",
    "nbds",
    "nbds+unix",
    "nbd+vsock",
    "nbds+vsock",
];

/// How the name of an image of Ceph begins.
pub(super) const RBD: &str = "rbd:";

/// The entry of `name`.
pub(super) fn find(name: &str) -> Option<&'static CatalogEntry> {
    ENTRIES.iter().find(|entry| entry.name == name)
}

/// All disks, for messages.
pub(super) fn built_names() -> String {
    let names: Vec<&str> = ENTRIES.iter().map(|entry| entry.name).collect();
    format!("PATH, {} and URIs ({})", names.join(", "), all_schemes())
}

/// How each disk is written, for help.
pub(crate) fn usages() -> impl Iterator<Item = &'static str> {
    ENTRIES.iter().map(|entry| entry.kind.usage())
}

/// How remote disks are written, for messages.
pub(super) fn schemes() -> String {
    written(&SCHEMES)
}

/// How remote disks, volumes on object stores and images of Ceph are written, for messages.
pub(super) fn all_schemes() -> String {
    format!("{}, {}, {RBD}", schemes(), written(&bucket::SCHEMES))
}

fn written(schemes: &[&str]) -> String {
    let schemes: Vec<String> = schemes.iter().map(|name| format!("{name}://")).collect();
    schemes.join(", ")
}

/// The candidate that `name` was probably meant to be.
pub(super) fn similar<'a>(
    name: &str,
    candidates: impl Iterator<Item = &'a str>,
) -> Option<&'a str> {
    const LIKENESS_MIN: f64 = 0.75;
    // The measure is quadratic in the length, and no candidate is longer than a word.
    const NAME_MAX: usize = 64;
    if name.len() > NAME_MAX {
        return None;
    }
    let lower = name.to_lowercase();
    let likeness = |candidate: &str| {
        // One word of several is meant as all of them.
        let mut words = candidate.split('-');
        let is_word = candidate.contains('-') && words.any(|word| word == lower);
        if is_word {
            1.0
        } else {
            strsim::jaro_winkler(&lower, candidate)
        }
    };
    candidates
        .map(|candidate| (likeness(candidate), candidate))
        .filter(|(likeness, _)| *likeness >= LIKENESS_MIN)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, candidate)| candidate)
}
