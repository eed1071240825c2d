//! A volume on an object store: when the store is the limit, and what is advised.

use super::*;
use crate::units::{Nanos, SECOND};

const HERE: [Stage; 4] = [Stage::Generator, Stage::Queue, Stage::Client, Stage::Disk];

/// A volume with so many GETs, and their time.
fn reading(gets: u64, ms: u64, cache: Option<(u64, u64)>) -> StoreReading {
    StoreReading {
        volume: "s3://disks/root".to_owned(),
        get: AnsweredRequests {
            requests: gets,
            time: Nanos::from_ms(ms),
        },
        put: AnsweredRequests::default(),
        cache: cache.map(|(hits, misses)| CacheReads { hits, misses }),
    }
}

/// Reads, 32 at once, of a volume with so many GETs of 20 ms in a second.
fn examined(gets: u64, cache: Option<(u64, u64)>) -> Examination {
    let mut e = way(&HERE, 50.0);
    e.bounds = HERE[..3].iter().map(|part| alone(*part, 900.0)).collect();
    // More at once help, as always where a store answers after a time.
    e.bounds.push(alone(Stage::Queue, 50.0));
    e.substitutions.push(Substitution::deeper(
        128,
        "128 requests at once",
        rate(200.0),
    ));
    let before = reading(100, 9000, cache.map(|_| (1000, 1000)));
    let after = reading(
        100 + gets,
        9000 + gets * 20,
        cache.map(|(hits, misses)| (1000 + hits, 1000 + misses)),
    );
    e.served = Some(ServedUse {
        stores: StoreUse::between(&[before], &[after], Nanos(SECOND)),
        ..ServedUse::default()
    });
    e
}

#[test]
fn a_store_that_the_reads_wait_for_is_named_with_the_time_of_a_get() {
    let e = examined(1500, None);
    let verdict = diagnose(&e);
    assert_eq!(verdict.limiter, [Stage::Disk], "{verdict:#?}");
    assert!(
        matches!(&verdict.cause, Some(Cause::Store { store, .. }) if store.get.requests == 1500)
    );
    let named = "is the store of s3://disks/root, where a GET takes 20.0 ms.";
    assert!(verdict.sentence.ends_with(named), "{}", verdict.sentence);
    assert!(
        verdict.evidence[0].contains("1500 GETs in 20.0 ms each, of which 30"),
        "{:?}",
        verdict.evidence
    );
    assert!(
        verdict.advice.contains("Put a cache in front"),
        "{}",
        verdict.advice
    );
    assert!(
        verdict.advice.contains("region of its bucket"),
        "{}",
        verdict.advice
    );
    let text = text(&e, &verdict);
    assert!(
        text.contains(
            "> store          20.0 ms a GET  s3://disks/root: 1500 GETs of 20.0 ms each\n"
        ),
        "{text}"
    );
}

#[test]
fn a_cache_that_misses_is_to_be_larger() {
    let verdict = diagnose(&examined(1000, Some((250, 750))));
    assert!(
        verdict
            .advice
            .starts_with("Give the cache file a larger size"),
        "{}",
        verdict.advice
    );
    let said = &verdict.evidence[0];
    assert!(
        said.contains("A cache file in front of it answered 25 % of the reads."),
        "{said}"
    );
}

#[test]
fn a_store_that_few_reads_wait_for_is_a_part_and_not_the_limit() {
    let e = examined(40, Some((9960, 40)));
    let verdict = diagnose(&e);
    assert_eq!(
        (verdict.limiter.as_slice(), &verdict.cause),
        ([Stage::Queue].as_slice(), &None)
    );
    let text = text(&e, &verdict);
    assert!(text.contains("  store          20.0 ms a GET  s3://disks/root: 40 GETs of 20.0 ms each, a cache file answered 99 % of the reads\n"), "{text}");
}

#[test]
fn a_volume_that_was_opened_meanwhile_or_did_nothing_is_no_limit() {
    assert!(StoreUse::between(&[], &[reading(7, 7, None)], Nanos(SECOND)).is_empty());
    let verdict = diagnose(&examined(0, None));
    assert_eq!(verdict.cause, None);
}

#[test]
fn writes_that_wait_for_flushes_in_the_store_name_it() {
    let mut e = examined(0, None);
    e.job.direction = Direction::Write;
    e.is_flushed = true;
    e.way.push(Stage::Flush);
    e.signs.push(Sign {
        part: Stage::Flush,
        text: "Flushes take long.".to_owned(),
    });
    let put = |requests, ms| StoreReading {
        put: reading(requests, ms, None).get,
        ..reading(0, 0, None)
    };
    e.served = Some(ServedUse {
        stores: StoreUse::between(&[put(0, 0)], &[put(30, 900)], Nanos(SECOND)),
        ..ServedUse::default()
    });
    let verdict = diagnose(&e);
    assert_eq!(verdict.limiter, [Stage::Flush], "{verdict:#?}");
    let named = "is the store of s3://disks/root, where a PUT takes 30.0 ms.";
    assert!(verdict.sentence.ends_with(named), "{}", verdict.sentence);
    assert!(
        verdict.advice.starts_with("Flush less often"),
        "{}",
        verdict.advice
    );
    assert!(
        verdict
            .evidence
            .iter()
            .any(|line| line.contains("30 PUTs in 30.0 ms each"))
    );
}
