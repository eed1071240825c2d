//! Which part of a path with a cache file was measured.

use crate::doctor::{CacheUse, ReadOrigin};

fn with(hits: u64, misses: u64) -> CacheUse {
    CacheUse {
        file: "/var/cache/root".into(),
        disk: "nbd://nas/root".into(),
        hits,
        misses,
    }
}

#[test]
fn what_answered_most_reads_is_what_was_measured() {
    for (hits, misses, origin, words) in [
        (0, 0, ReadOrigin::Memory, "No read reached"),
        (
            100,
            0,
            ReadOrigin::File,
            "100 % of 100 reads. What was measured is that file",
        ),
        (90, 10, ReadOrigin::File, "90 % of 100 reads"),
        (89, 11, ReadOrigin::Both, "what was measured is both"),
        (
            11,
            89,
            ReadOrigin::Both,
            "11 % of 100 reads, and nbd://nas/root behind it the others",
        ),
        (
            10,
            90,
            ReadOrigin::Disk,
            "What was measured is nbd://nas/root behind it.",
        ),
        (0, 7, ReadOrigin::Disk, "0 % of 7 reads"),
        (u64::MAX, u64::MAX, ReadOrigin::File, "/var/cache/root"),
    ] {
        let used = with(hits, misses);
        assert_eq!(used.origin(), origin, "{hits} and {misses}");
        assert!(used.remark().contains(words), "{}", used.remark());
    }
}
