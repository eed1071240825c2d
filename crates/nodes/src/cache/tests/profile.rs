//! Boot profiles: their text, what is recorded, and what is read ahead.

use std::sync::Arc;

use block::{Errno, Operation};
use testkit::{Effect, FaultDisk, HeldDisk, block_on};

use super::super::profile::{BootProfile, BootProfileError, GRANULES_MAX};
use super::*;

const WHOLE: Range = Range::new(0, SIZE);

#[test]
fn a_text_is_the_same_profile_again_and_what_is_none_is_refused_with_its_line() {
    let text = "outboard boot profile 1\n0 131072\n1048576 262144\n";
    let profile = BootProfile::parse(text).unwrap();
    assert_eq!(profile.to_text(), text);
    let long = "0 1\n".repeat(GRANULES_MAX + 1);
    for (text, expected) in [
        (String::new(), BootProfileError::NoProfile),
        (
            "outboard boot profile 2\n".to_owned(),
            BootProfileError::NoProfile,
        ),
        (
            text.replace("1048576 ", "1048576"),
            BootProfileError::Line { line: 3 },
        ),
        (
            text.replace("131072", "0"),
            BootProfileError::Line { line: 2 },
        ),
        (
            text.replace("0 131072", "18446744073709551615 1"),
            BootProfileError::Line { line: 2 },
        ),
        (
            format!("outboard boot profile 1\n{long}"),
            BootProfileError::TooLong,
        ),
        (
            format!(
                "outboard boot profile 1\n1 {}\n",
                GRANULES_MAX as u64 * GRANULE
            ),
            BootProfileError::TooLong,
        ),
    ] {
        assert_eq!(BootProfile::parse(&text), Err(expected), "{text:.40}");
    }
}

#[test]
fn granules_are_read_ahead_once_in_order_those_side_by_side_together_and_none_beyond_the_end() {
    let reads = |lines: &[(u64, u64)], granules| {
        let lines: String = lines
            .iter()
            .map(|(at, len)| format!("{at} {len}\n"))
            .collect();
        let profile = BootProfile::parse(&format!("outboard boot profile 1\n{lines}"));
        let reads = profile.unwrap().reads(10 * GRANULE + 512, granules);
        let reads = reads
            .iter()
            .map(|range| (range.offset / GRANULE, range.len));
        reads.collect::<Vec<_>>()
    };
    let lines = [
        (7 * GRANULE + 1, 1),
        (0, 6 * GRANULE),
        (GRANULE, 2 * GRANULE),
        (10 * GRANULE, 512),
        (10 * GRANULE, 513),
        (u64::MAX - 1, 1),
    ];
    let expected = [(7, GRANULE), (0, 4 * GRANULE), (4, 2 * GRANULE), (10, 512)];
    assert_eq!(reads(&lines, 100), expected);
    assert_eq!(reads(&lines, 3), [(7, GRANULE), (0, 2 * GRANULE)]);
}

/// Reads in an order of its own, as a machine that starts.
const START: [(u64, u64); 4] = [
    (5 * GRANULE, 4096),
    (GRANULE - 4096, 8192),
    (5 * GRANULE + 8192, 4096),
    (9 * GRANULE, 512),
];

async fn start(cache: &Cache) {
    for (at, len) in START {
        expect(cache, Range::new(at, len), DISK).await;
    }
}

#[test]
fn what_a_start_reads_is_there_before_the_next_one_with_an_empty_cache() {
    block_on(async {
        let cache = over(disk_of(SIZE), small_file()).await.unwrap();
        assert_eq!(cache.recorded(), None);
        cache.record_reads();
        start(&cache).await;
        let profile = cache.recorded().unwrap();
        let granule = |number: u64, count: u64| format!("{} {}", number * GRANULE, count * GRANULE);
        let ranges = [granule(5, 1), granule(0, 2), granule(9, 1)];
        let text = profile.to_text();
        assert_eq!(text.lines().skip(1).collect::<Vec<_>>(), ranges);
        start(&cache).await;
        assert_eq!(cache.recorded(), None, "the recording has ended");

        let (disk, requests) = counted(disk_of(SIZE));
        let cache = over(disk, small_file()).await.unwrap();
        let before = requests.requests();
        cache.prefetch(&profile).await;
        sync(&cache).await;
        assert_eq!(requests.requests() - before, 3);
        assert_eq!(cache.status().bytes_prefetched, 4 * GRANULE);
        start(&cache).await;
        assert_eq!((cache.status().misses, cache.status().hits), (0, 4));
        cache.prefetch(&profile).await;
        assert_eq!(requests.requests() - before, 3, "all of it is there");
    });
}

#[test]
fn what_is_cached_between_parts_that_are_not_is_not_read_again() {
    block_on(async {
        let cache = over(disk_of(SIZE), small_file()).await.unwrap();
        expect(&cache, Range::new(GRANULE, 512), DISK).await;
        sync(&cache).await;
        let text = format!("outboard boot profile 1\n0 {}\n", 3 * GRANULE);
        cache.prefetch(&BootProfile::parse(&text).unwrap()).await;
        assert_eq!(cache.status().bytes_prefetched, 2 * GRANULE);
        assert_eq!(cache.status().bytes_filled, 3 * GRANULE);
    });
}

#[test]
fn a_cache_that_is_closed_or_dropped_is_read_ahead_no_more() {
    block_on(async {
        let lines: String = (0..SIZE / GRANULE)
            .map(|number| format!("{} 1\n", 2 * number % (SIZE / GRANULE) * GRANULE))
            .collect();
        let profile = BootProfile::parse(&format!("outboard boot profile 1\n{lines}")).unwrap();
        for is_closed in [true, false] {
            let disk = HeldDisk::new(disk_of(SIZE));
            disk.hold(false);
            let cache = over(disk.clone(), small_file()).await.unwrap();
            disk.hold(true);
            let ahead = engine::spawn(cache.prefetch(&profile));
            disk.arrival().await;
            disk.hold(false);
            if is_closed {
                let close = async {
                    others().await;
                    disk.release_all().await;
                };
                tokio::join!(cache.close(), close);
            }
            let shared = Arc::downgrade(&cache.shared);
            let prefetched = cache.status().bytes_prefetched;
            drop(cache);
            disk.release_all().await;
            ahead.await.unwrap();
            others().await;
            assert!(prefetched < WHOLE.len / 4, "{prefetched}");
            assert!(shared.upgrade().is_none(), "nothing keeps it open");
        }
    });
}

#[test]
fn a_disk_that_fails_ends_it_and_no_request() {
    block_on(async {
        let disk = FaultDisk::new(disk_of(SIZE), 1, Vec::new());
        let cache = over(disk.clone(), small_file()).await.unwrap();
        let fault = testkit::Fault::new(Effect::Fail(Errno::Io)).on(Operation::Read);
        disk.inject(fault);
        let text = format!("outboard boot profile 1\n0 1\n{} 1\n", 4 * GRANULE);
        cache.prefetch(&BootProfile::parse(&text).unwrap()).await;
        disk.heal();
        assert_eq!(cache.status().bytes_prefetched, 0);
        assert_eq!(cache.status().failure, None);
        expect(&cache, Range::new(0, 4096), DISK).await;
    });
}
