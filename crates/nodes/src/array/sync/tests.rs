//! Tests of the pure parts.

use std::time::Duration;

use block::Range;
use proptest::prelude::*;

use super::super::options::SyncRates;
use super::plan::Walk;
use super::progress::Progress;
use super::rate::{Rate, UserShare};

const MIB: u64 = 1 << 20;

const RATES: SyncRates = SyncRates {
    min: MIB,
    max: 2 << 30,
};

const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// Bytes that are worked through from 0 to `end`, where users ask for something every `gap` (0: never).
fn worked(rates: SyncRates, end: Duration, gap: Duration) -> u64 {
    let mut rate = Rate::new(rates, Duration::ZERO, 0);
    let (mut now, mut bytes) = (Duration::ZERO, 0);
    while now < end {
        let asked = now.as_nanos().checked_div(gap.as_nanos()).unwrap_or(0);
        rate.look(now, u64::try_from(asked).unwrap());
        if rate.wait(now).is_zero() {
            let len = rate.window();
            rate.take(now, len);
            bytes += len;
        }
        now += ms(1).min(rate.wait(now).max(Duration::from_micros(100)));
    }
    bytes
}

#[test]
fn alone_it_goes_at_the_largest_rate() {
    let rates = SyncRates {
        min: MIB,
        max: 100 * MIB,
    };
    let bytes = worked(rates, Duration::from_secs(10), Duration::ZERO);
    assert!((990 * MIB..=1001 * MIB).contains(&bytes), "{bytes}");
}

#[test]
fn with_users_who_never_rest_it_goes_down_to_the_smallest_rate_and_not_below() {
    let bytes = worked(RATES, Duration::from_secs(100), ms(1));
    assert!((100 * MIB..=130 * MIB).contains(&bytes), "{bytes}");
}

/// The same with users without pauses, on a disk that moves `speed` bytes a second, for a hundred seconds: bytes a second,
/// and the part of the time in which a window was under way.
fn beside_users(speed: u64) -> (u64, f64) {
    let mut rate = Rate::new(RATES, Duration::ZERO, 0);
    let end = Duration::from_secs(100);
    let (mut now, mut bytes, mut busy) = (Duration::ZERO, 0, Duration::ZERO);
    let mut requests = 0;
    while now < end {
        requests += 1;
        rate.look(now, requests);
        if !rate.wait(now).is_zero() {
            now += ms(1);
            continue;
        }
        let len = rate.window();
        let time = Duration::from_nanos(len * 1_000_000_000 / speed);
        rate.take(now, len);
        rate.took(len, time);
        (now, bytes, busy) = (now + time, bytes + len, busy + time);
    }
    (bytes / 100, busy.as_secs_f64() / 100.0)
}

/// A resync of a fast disk went at 1 MiB/s as long as a user read it without pause, for weeks, where md's
/// own waits for its last request and goes on.
#[test]
fn on_a_fast_disk_the_smallest_rate_is_what_users_do_not_notice() {
    for gigabytes in [1, 2, 4] {
        let speed = gigabytes * 1_000_000_000;
        let (rate, busy) = beside_users(speed);
        assert!(rate > speed / 200, "{rate} of {speed}");
        assert!(busy < 0.01, "{busy}");
    }
    // A slow one goes at the smallest rate of the options.
    let (rate, _) = beside_users(50_000_000);
    assert!((MIB..=MIB + MIB / 3).contains(&rate), "{rate}");
}

/// The same with users that have `queued` bytes before a member of 20 MB/s at every moment, which takes all requests as
/// they came: bytes a second, and how many windows were under way at most.
fn behind_users(queued: u64) -> (u64, usize) {
    const SPEED: u64 = 20_000_000;
    let mut rate = Rate::new(RATES, Duration::ZERO, 0);
    let end = Duration::from_secs(100);
    let (mut now, mut bytes, mut requests, mut most) = (Duration::ZERO, 0, 0, 0);
    let mut open: Vec<(Duration, Duration, u64)> = Vec::new();
    while now < end {
        open.retain(|(begun, done, len)| {
            if *done <= now {
                rate.took(*len, *done - *begun);
                bytes += len;
            }
            *done > now
        });
        requests += 1;
        rate.users_have(queued);
        rate.look(now, requests);
        if rate.wait(now).is_zero() && open.len() < rate.windows() {
            let len = rate.window();
            let ahead: u64 = queued + open.iter().map(|(_, _, len)| len).sum::<u64>();
            let time = Duration::from_nanos((ahead + len) * 1_000_000_000 / SPEED);
            rate.take(now, len);
            open.push((now, now + time, len));
            if now > Duration::from_secs(1) {
                most = most.max(open.len());
            }
        }
        now += ms(1);
    }
    (bytes / 100, most)
}

/// The story: the smallest rate is paid for by the time between windows, but a window that lies behind 16 MiB of users'
/// writes on a disk of 20 MB/s takes 0.85 s. One at a time made 0.3 MiB/s of the 1 MiB/s that are promised.
#[test]
fn where_users_fill_a_member_more_windows_reach_the_smallest_rate() {
    for mebibytes in [8, 16, 24] {
        let (rate, most) = behind_users(mebibytes * MIB);
        assert!(rate > MIB / 20 * 19, "{rate} behind {mebibytes} MiB");
        assert!((2..=8).contains(&most), "{most} behind {mebibytes} MiB");
    }
    // Where there is little before it one at a time is enough, and never is there more of it than of users' bytes.
    for bytes in [0, 4096, MIB / 4] {
        let (rate, most) = behind_users(bytes);
        assert!(rate > MIB / 20 * 19, "{rate} behind {bytes}");
        assert_eq!(most, 1, "behind {bytes}");
    }
}

#[test]
fn users_who_ask_now_and_then_leave_it_most_of_the_speed() {
    let rates = SyncRates {
        min: MIB,
        max: 100 * MIB,
    };
    let bytes = worked(rates, Duration::from_secs(10), ms(500));
    assert!(bytes > 700 * MIB, "{bytes}");
}

#[test]
fn while_users_are_there_windows_are_short_and_one_at_a_time() {
    let mut rate = Rate::new(RATES, Duration::ZERO, 0);
    assert_eq!((rate.window(), rate.windows()), (MIB, 3));
    for n in 1..20 {
        rate.look(ms(10 * n), n);
    }
    assert_eq!((rate.window(), rate.windows()), (MIB / 4, 1));
    assert_eq!(rate.allowed(), MIB);
    for n in 20..60 {
        rate.look(ms(10 * n), 19);
    }
    assert_eq!((rate.window(), rate.windows()), (MIB, 3));
}

/// A move of extents is waited for: it continues while users are there, as far as that does not fill the disks.
#[test]
fn with_turns_three_short_windows_are_always_under_way_while_users_are_there() {
    let mut rate = Rate::new(RATES, Duration::ZERO, 0).with_share(UserShare::Turns);
    assert_eq!((rate.window(), rate.windows()), (MIB, 3));
    let mut now = Duration::ZERO;
    for requests in 1..100 {
        now += ms(10);
        rate.look(now, requests);
        assert_eq!((rate.window(), rate.windows()), (MIB / 8, 3));
        rate.take(now, MIB / 8);
        rate.took(MIB / 8, ms(1));
        assert!(rate.wait(now + ms(1)).is_zero(), "it has no pauses");
    }
    // Where users fill the disks three at a time would come forward too slowly.
    rate.users_have(MIB / 2);
    assert_eq!(rate.windows(), 4);
    rate.users_have(0);
    rate.look(now + ms(40), 99);
    assert_eq!(rate.windows(), 3, "they may come back");
    rate.look(now + ms(60), 99);
    assert_eq!((rate.window(), rate.windows()), (MIB, 16));
}

#[test]
fn with_turns_the_largest_rate_holds_beside_users_too() {
    let rates = SyncRates {
        min: MIB,
        max: 10 * MIB,
    };
    let mut rate = Rate::new(rates, Duration::ZERO, 0).with_share(UserShare::Turns);
    let (mut now, mut bytes) = (Duration::ZERO, 0);
    while now < Duration::from_secs(10) {
        rate.look(now, u64::try_from(now.as_millis()).unwrap());
        if rate.wait(now).is_zero() {
            let len = rate.window();
            rate.take(now, len);
            bytes += len;
        }
        now += Duration::from_micros(500);
    }
    assert!((99 * MIB..=101 * MIB).contains(&bytes), "{bytes}");
}

/// How many windows are under way at last on a disk that moves so many bytes a second, one behind the other.
fn windows_on(speed: u64) -> usize {
    let mut rate = Rate::new(RATES, Duration::ZERO, 0);
    for _ in 0..100 {
        let before = u64::try_from(rate.windows()).unwrap() * MIB;
        rate.took(MIB, Duration::from_nanos(before * 1_000_000_000 / speed));
    }
    rate.windows()
}

/// The story: sixteen windows lay before a card, and the first user after a pause waited most of a second for them.
#[test]
fn a_user_never_finds_many_windows_before_a_slow_disk() {
    assert_eq!(windows_on(20_000_000), 3);
    assert_eq!(windows_on(2_000_000_000), 16);
    let disk = windows_on(500_000_000);
    assert!((8..=11).contains(&disk), "{disk}");
}

#[test]
fn rates_that_make_no_sense_are_made_to() {
    for (min, max) in [(0, 0), (10, 5), (u64::MAX, u64::MAX), (0, u64::MAX)] {
        let mut rate = Rate::new(SyncRates { min, max }, Duration::ZERO, 0);
        rate.look(ms(100), 7);
        rate.look(ms(10_000_000), 7);
        rate.take(ms(200), u64::MAX);
        assert!(rate.allowed() >= 1 && rate.allowed() <= max.max(1));
        assert!(rate.window() > 0);
    }
}

#[test]
fn speed_and_time_left_are_those_of_the_last_seconds() {
    let mut progress = Progress::new(Duration::ZERO, 0, 1000 * MIB);
    assert_eq!(progress.left(Duration::ZERO), None);
    // Slow at first, ten times faster later.
    let mut done = 0;
    for second in 1..=40 {
        let more = if second <= 20 { MIB } else { 10 * MIB };
        done += more;
        progress.advance(Duration::from_secs(second), more, done);
    }
    let now = Duration::from_secs(40);
    let speed = progress.speed(now);
    assert!((9 * MIB..=10 * MIB).contains(&speed), "{speed}");
    let left = progress.left(now).unwrap().as_secs();
    assert!((75..=90).contains(&left), "{left}");
}

#[test]
fn places_that_are_passed_over_are_progress_and_no_speed() {
    let mut progress = Progress::new(Duration::ZERO, 0, 1000);
    progress.advance(Duration::from_secs(1), 10, 900);
    assert_eq!((progress.done(), progress.of()), (900, 1000));
    assert_eq!(progress.speed(Duration::from_secs(1)), 10);
    assert_eq!(
        progress.left(Duration::from_secs(1)),
        Some(Duration::from_secs(10))
    );
}

proptest! {
    /// Windows are finished in any order.
    #[test]
    fn every_wanted_byte_is_in_one_window_and_nothing_in_flight_is_reported_as_reached(
        end in 1_u64..400,
        from in 0_u64..400,
        wanted in proptest::collection::vec(any::<bool>(), 400),
        len_max in 1_u64..40,
        choices in proptest::collection::vec((any::<prop::sample::Index>(), any::<bool>()), 1..2000),
    ) {
        let mut walk = Walk::new(from, end);
        let next = |at: u64| {
            let is = |at: &u64| wanted[usize::try_from(*at).unwrap()];
            let start = (at..400).find(is)?;
            let len = (start..400).take_while(is).count();
            Some(Range::new(start, u64::try_from(len).unwrap()))
        };
        let mut open: Vec<Range> = Vec::new();
        let mut seen = vec![0; 400];
        let mut reached = walk.reached();
        let mut choices = choices.into_iter().cycle();
        while !walk.is_done() {
            let (index, begin) = choices.next().unwrap();
            let window = if begin && open.len() < 4 { walk.next(len_max, next) } else { None };
            if let Some(window) = window {
                prop_assert!(window.len <= len_max && window.offset >= reached);
                open.push(window);
            } else if !open.is_empty() {
                let window = open.swap_remove(index.index(open.len()));
                walk.finish(window);
                (window.offset..window.end()).for_each(|at| seen[usize::try_from(at).unwrap()] += 1);
            } else {
                let window = walk.next(len_max, next);
                open.extend(window);
            }
            prop_assert!(walk.reached() >= reached, "it never goes back");
            reached = walk.reached();
            prop_assert!(open.iter().all(|window| window.offset >= reached));
            prop_assert_eq!(walk.under_way(), open.len());
        }
        for at in 0..400_u64 {
            let index = usize::try_from(at).unwrap();
            let once = (from..end).contains(&at) && wanted[index];
            prop_assert_eq!(seen[index], u32::from(once), "byte {}", at);
        }
        prop_assert_eq!(walk.reached(), end.max(from.min(end)));
    }
}
