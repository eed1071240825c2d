//! Targets of the kernel that are not supported, and what to do instead.

/// Name of the target, why it is not supported and what to do.
const UNSUPPORTED: [(&str, &str); 22] = [
    ("cache", CACHED),
    (
        "clone",
        "wait until the clone is complete, and take its destination",
    ),
    (
        "crypt",
        "open it with cryptsetup, and take the device that makes",
    ),
    ("delay", "write delay(DISK, read=2ms)"),
    ("dust", "write fault(DISK, …)"),
    ("ebs", "write blocks(DISK, size=512)"),
    (
        "era",
        "its own metadata would fall behind; take the origin device of its line",
    ),
    ("flakey", "write fault(DISK, …)"),
    (
        "integrity",
        "its tags would fall behind; take the device that the kernel makes of it",
    ),
    ("log-writes", "take the first device of its line"),
    (
        "mirror",
        "this version has no mirrors; one leg that is in sync can be taken read-only",
    ),
    ("multipath", "take one path to the device"),
    ("raid", "this version has no arrays"),
    (
        "snapshot-merge",
        "let the kernel finish the merge, and take the origin",
    ),
    ("switch", "take the device that the kernel makes of it"),
    ("thin", THIN),
    ("thin-pool", THIN),
    ("unstriped", "write the other members too, as striped"),
    (
        "vdo",
        "it holds compressed data; take the device that the kernel makes of it",
    ),
    (
        "verity",
        "it is checked as it is read; take the device that the kernel makes of it",
    ),
    ("writecache", CACHED),
    (
        "zoned",
        "it holds its own mapping; take the device that the kernel makes of it",
    ),
];

const CACHED: &str = "what was written may be in the cache alone; let the kernel flush and take it \
                      apart, or take the device that the kernel makes of it";
const THIN: &str = "its mapping is in the pool's metadata; take the device that the kernel makes of \
                    it, under an overlay if it shall not change";

/// Why the target `name` is not supported.
pub(super) fn find(name: &str) -> Option<(&'static str, &'static str)> {
    UNSUPPORTED.into_iter().find(|(known, _)| *known == name)
}
