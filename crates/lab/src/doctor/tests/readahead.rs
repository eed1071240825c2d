//! What follows from other readaheads.

use super::*;

const MOUNTED: [Stage; 5] = [
    Stage::Generator,
    Stage::Queue,
    Stage::Cache,
    Stage::Client,
    Stage::Disk,
];

/// A job with so many requests at once, and trials with 128 KiB (10 MiB/s) and the larger ones.
fn job(depth: u32, without: f64, larger: [f64; 3]) -> Examination {
    let mut e = way(&MOUNTED, 10.0);
    e.job.depth = depth;
    let trial = |(index, mib): (u32, f64)| ReadaheadTrial {
        size: Bytes((512 << 10) << (2 * index)),
        rate: rate(mib),
    };
    let trials = ReadaheadTrials {
        file: "/sys/class/bdi/7:0/read_ahead_kb".into(),
        now: ReadaheadTrial {
            size: Bytes(128 << 10),
            rate: rate(10.0),
        },
        without: Some(rate(without)),
        larger: (0..).zip(larger).map(trial).collect(),
    };
    trials.add_to(&mut e);
    // A client that waits for a core, as the reader of the trials did.
    e.bounds = vec![alone(Stage::Client, 20.0)];
    e
}

#[test]
fn the_smallest_readahead_that_is_as_good_as_the_best_is_suggested() {
    let verdict = diagnose(&job(1, 9.0, [40.0, 97.0, 100.0]));
    assert_eq!(verdict.limiter, [Stage::Readahead]);
    let command = "`echo 2048 > /sys/class/bdi/7:0/read_ahead_kb`";
    assert!(verdict.advice.contains(command), "{}", verdict.advice);
    let next = verdict.next.expect("what it brings");
    assert!((next.times - 9.7).abs() < 0.01, "{next:?}");
}

#[test]
fn a_readahead_that_changes_little_is_not_named() {
    let verdict = diagnose(&job(1, 9.0, [10.1, 11.0, 12.0]));
    assert!(!verdict.limiter.contains(&Stage::Readahead), "{verdict:?}");
}

#[test]
fn a_job_with_several_requests_at_once_is_not_limited_by_it_and_gets_a_remark() {
    let e = job(16, 2.0, [40.0, 97.0, 100.0]);
    assert!(!diagnose(&e).limiter.contains(&Stage::Readahead));
    assert!(
        e.remarks[0].contains("with a readahead of 2 MiB"),
        "{:?}",
        e.remarks
    );
    // Without any, the disk shows itself.
    assert!(e.remarks[1].contains("hides the disk"), "{:?}", e.remarks);
}
