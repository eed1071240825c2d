//! When a connection busy-waits, decided by times alone.

use std::time::{Duration, Instant};

use proptest::prelude::*;

use super::super::busy_wait::{BusyWait, MISSES_MAX, STREAK_MIN};

const MAX: Duration = Duration::from_micros(100);
const NEAR: Duration = Duration::from_micros(20);
const FAR: Duration = Duration::from_micros(101);

/// One that has shown the pattern just now, and the time.
fn shown() -> (BusyWait, Instant) {
    let mut wait = BusyWait::new(MAX);
    let mut now = engine::clock::now();
    for _ in 0..=STREAK_MIN {
        now += NEAR;
        wait.received(true, now);
    }
    (wait, now)
}

#[test]
fn it_begins_when_the_pattern_is_there_and_not_before() {
    let mut wait = BusyWait::new(MAX);
    let mut now = engine::clock::now();
    for _ in 0..STREAK_MIN {
        now += NEAR;
        wait.received(true, now);
        assert!(!wait.is_likely() && !wait.goes_on(now));
    }
    wait.received(true, now + NEAR);
    assert!(wait.is_likely() && wait.goes_on(now + NEAR));
}

#[test]
fn it_lasts_no_longer_than_its_maximum() {
    let (mut wait, now) = shown();
    assert!(wait.goes_on(now + MAX));
    assert!(!wait.goes_on(now + FAR));
}

#[test]
fn a_request_that_does_not_come_alone_ends_the_pattern() {
    let (mut wait, now) = shown();
    wait.received(false, now + NEAR);
    assert!(!wait.is_likely() && !wait.goes_on(now + NEAR));
}

#[test]
fn a_request_from_afar_ends_the_pattern() {
    let (mut wait, now) = shown();
    wait.received(true, now + FAR);
    assert!(!wait.is_likely());
}

#[test]
fn no_time_to_wait_means_never() {
    let mut wait = BusyWait::new(Duration::ZERO);
    let mut now = engine::clock::now();
    for _ in 0..10 * STREAK_MIN {
        now += Duration::from_nanos(1);
        wait.received(true, now);
        assert!(!wait.goes_on(now));
    }
}

/// Waits in vain cost processor time each; a client that keeps causing them loses its pattern.
#[test]
fn waits_in_vain_end_the_pattern_after_so_many() {
    let (mut wait, mut now) = shown();
    for miss in 1..=MISSES_MAX {
        assert!(wait.is_likely(), "miss {miss}");
        assert!(wait.goes_on(now + NEAR));
        now += FAR;
        assert!(!wait.goes_on(now));
        // Asking again without having waited is no miss.
        assert!(!wait.goes_on(now));
        // The pattern would be over by this alone: it comes back within `max` of a new request.
        if miss < MISSES_MAX {
            for _ in 0..=STREAK_MIN {
                wait.received(true, now);
                now += NEAR;
            }
            now -= NEAR;
        }
    }
    assert!(!wait.is_likely());
}

proptest! {
    /// In every sequence: no waiting for a client that sent its last request longer ago than the maximum.
    #[test]
    fn no_client_is_waited_for_too_long(
        events in prop::collection::vec((0u64..300, any::<bool>(), any::<bool>()), 0..400),
    ) {
        let mut wait = BusyWait::new(MAX);
        let mut now = engine::clock::now();
        let mut last = None;
        for (micros, receives, lone) in events {
            now += Duration::from_micros(micros);
            if receives {
                wait.received(lone, now);
                last = Some(now);
            } else if wait.goes_on(now) {
                prop_assert!(last.is_some_and(|last| now - last <= MAX));
            }
        }
    }
}
