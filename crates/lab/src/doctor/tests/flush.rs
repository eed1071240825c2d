//! Flushes: their time is separated from that of writes, and named only where it limits something.

use super::*;
use crate::units::Nanos;

const MOUNTED: [Stage; 4] = [Stage::Generator, Stage::Queue, Stage::Client, Stage::Disk];

/// Writes of 64 KiB that are not flushed.
fn writes() -> Examination {
    let mut writes = way(&MOUNTED, 200.0);
    writes.job.direction = Direction::Write;
    writes
}

fn ms(write: u64, flush: u64) -> (Nanos, Nanos) {
    (Nanos::from_ms(write), Nanos::from_ms(flush))
}

/// "The disk" was named, also where its flush took the time.
#[test]
fn a_slow_flush_is_named_for_programs_that_flush_and_not_for_the_writes() {
    let all = [ms(0, 52), ms(1, 49), ms(0, 51)];
    let times = FlushTimes::middle(&all, Nanos::from_ms(1)).expect("some");
    let flushed = times.examination(&writes()).expect("it is slow");
    let verdict = diagnose(&flushed);
    assert_eq!(verdict.limiter, [Stage::Flush], "{verdict:#?}");
    let evidence = "A flush takes 50.0 ms, and the write of 64 KiB before it 1.00 ms.";
    assert_eq!(verdict.evidence[0], evidence);
    assert!(
        verdict.advice.contains("group commit"),
        "{}",
        verdict.advice
    );
    // Without flushes, one write takes 1 ms.
    let next = verdict.next.as_ref().expect("what comes without flushes");
    assert!((next.times - 51.0).abs() < 0.1, "{next:?}");
    let text = text(&flushed, &verdict);
    assert!(
        text.contains("1 at once, each flushed: 1.29 MB/s"),
        "{text}"
    );
    assert!(!diagnose(&writes()).limiter.contains(&Stage::Flush));
}

#[test]
fn a_flush_that_only_waits_for_its_data_is_not_slow() {
    // The data alone, over a long way, take as long.
    for alone in [4, 30] {
        let times = FlushTimes::middle(&[ms(0, 6 + alone)], Nanos::from_ms(alone)).expect("one");
        assert!(!times.is_slow(), "{alone} ms");
        assert_eq!(times.examination(&writes()), None);
    }
    assert_eq!(FlushTimes::middle(&[], Nanos(0)), None);
}

#[test]
fn writes_that_a_mount_flushes_are_limited_by_the_flush() {
    let second = Nanos::from_ms(1000);
    let between = |count: u64, busy_ms: u64| {
        let flushes =
            DeviceFlushes::between("loop0".into(), (7, 90), (7 + count, 90 + busy_ms), second);
        flushes.expect("a second")
    };
    let busy = between(30, 940);
    let sign = busy
        .sign(Nanos::from_ms(32))
        .expect("it flushed all the time");
    let mut writes = writes();
    writes.way.push(Stage::Flush);
    writes.signs.push(sign);
    let verdict = diagnose(&writes);
    assert_eq!(verdict.limiter, [Stage::Flush]);
    assert!(
        verdict.evidence[0].contains("94 % of the time"),
        "{verdict:?}"
    );
    assert!(verdict.advice.contains("mount's options"), "{verdict:?}");
    // Another program flushes, and a write by itself does not wait for it.
    assert_eq!(busy.sign(Nanos::from_ms(2)), None);
    assert_eq!(between(5, 200).sign(Nanos::from_ms(40)), None);
}
