//! Tests of the figures: what is counted when, and that nothing is counted twice or lost.

use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;

use super::histogram::bucket_of;
use super::*;

fn meter() -> (Meter, Arc<Counters>) {
    let counters = Arc::new(Counters::default());
    (Meter::new(counters.clone(), engine::clock::now()), counters)
}

const MS: Duration = Duration::from_millis(1);

#[test]
fn what_is_answered_in_line_shows_at_the_end_of_the_step() {
    let (mut meter, counters) = meter();
    let start = engine::clock::now();
    meter.begin_step(start);
    for _ in 0..3 {
        meter.answered(Op::Read, 4096);
    }
    meter.refused(Op::Read);
    meter.refused(Op::Other);
    assert_eq!(counters.figures(), Figures::default());
    assert!(meter.is_due());
    meter.end_step(start + MS);
    assert!(!meter.is_due());
    let read = counters.figures().of(Op::Read);
    assert_eq!((read.requests, read.errors, read.bytes), (4, 1, 3 * 4096));
    assert_eq!(read.latency[bucket_of(MS)], 4);
    assert_eq!(read.latency_nanos, 4_000_000);
    assert_eq!(counters.figures().of(Op::Other).errors, 1);
}

#[test]
fn what_waits_is_in_flight_until_it_ends() {
    let (mut meter, counters) = meter();
    let start = engine::clock::now();
    meter.begin_step(start);
    let (a, b) = (meter.begin(Op::Write), meter.begin(Op::Write));
    meter.end_step(start);
    let write = counters.figures().of(Op::Write);
    assert_eq!((write.requests, write.in_flight), (2, 2));
    meter.begin_step(start + 10 * MS);
    meter.end(a, 512);
    meter.begin_step(start + 40 * MS);
    meter.fail(b);
    let write = counters.figures().of(Op::Write);
    assert_eq!((write.in_flight, write.errors, write.bytes), (0, 1, 512));
    assert_eq!(write.latency[bucket_of(10 * MS)], 1);
    assert_eq!(write.latency[bucket_of(40 * MS)], 1);
}

#[test]
fn a_connection_that_ends_takes_what_it_owed_out_of_flight() {
    let (mut meter, counters) = meter();
    let _owed = meter.begin(Op::Flush);
    meter.answered(Op::Read, 1);
    drop(meter);
    let figures = counters.figures();
    assert_eq!(figures.of(Op::Flush).in_flight, 0);
    assert_eq!(figures.of(Op::Read).requests, 1);
}

#[test]
fn buckets_double_and_the_last_takes_all() {
    assert_eq!(bucket_of(Duration::ZERO), 0);
    for index in 0..BUCKETS - 1 {
        let limit = bucket_limit(index).expect("a limit");
        assert_eq!(bucket_of(limit), index);
        assert_eq!(bucket_of(limit + Duration::from_nanos(1)), index + 1);
    }
    assert_eq!(bucket_limit(BUCKETS - 1), None);
    assert_eq!(bucket_of(Duration::MAX), BUCKETS - 1);
}

#[test]
fn a_percentile_is_the_limit_of_its_bucket() {
    let (mut meter, counters) = meter();
    let start = engine::clock::now();
    for latency in [MS; 99].into_iter().chain([1000 * MS]) {
        meter.begin_step(start);
        meter.answered(Op::Read, 1);
        meter.end_step(start + latency);
    }
    let read = counters.figures().of(Op::Read);
    let limit = |latency| bucket_limit(bucket_of(latency));
    assert_eq!(read.percentile(50), limit(MS));
    assert_eq!(read.percentile(99), limit(MS));
    assert_eq!(read.percentile(100), limit(1000 * MS));
    assert_eq!(CommandFigures::none(Op::Read).percentile(50), None);
}

#[test]
fn an_idle_connection_holds_less_than_a_kibibyte() {
    assert!(size_of::<Meter>() + size_of::<Counters>() < 1024);
}

fn figures() -> impl Strategy<Value = Figures> {
    let one = (0..Op::ALL.len(), 0..1000u64, 0..BUCKETS);
    prop::collection::vec(one, 0..20).prop_map(|all| {
        let mut figures = Figures::default();
        for (op, requests, bucket) in all {
            let mut command = CommandFigures::none(Op::ALL[op]);
            command.requests = requests;
            command.latency[bucket] = requests;
            let commands = vec![command];
            figures.add(&Figures { commands });
        }
        figures
    })
}

proptest! {
    #[test]
    fn adding_is_the_same_in_either_order_and_loses_nothing(a in figures(), b in figures()) {
        let mut ab = a.clone();
        ab.add(&b);
        let mut ba = b.clone();
        ba.add(&a);
        prop_assert_eq!(&ab, &ba);
        let sum = a.total().requests + b.total().requests;
        prop_assert_eq!(ab.total().requests, sum);
    }
}
