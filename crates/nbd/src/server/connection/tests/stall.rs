//! Which connections a stall ends, and which not. The clock is stopped and goes on while all wait: on a busy machine a tick of a
//! real one took longer than a timeout.

use std::task::Poll;
use std::time::Duration;

use super::super::stall::{PROGRESS_MIN, Stall, TICKS as PARTS};

const TIMEOUT: Duration = Duration::from_millis(100);
const TICK: Duration = Duration::from_millis(5);
/// Seven timeouts.
const TICKS: u64 = 140;

/// Checks a connection each tick; returns when it was ended.
fn ended_at(look: impl Fn(u64) -> (bool, u64)) -> Option<Duration> {
    ended_under(false, look)
}

/// The same, where others wait for memory or not.
fn ended_under(pressure: bool, look: impl Fn(u64) -> (bool, u64)) -> Option<Duration> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build();
    let runtime = runtime.expect("a runtime needs only memory");
    runtime.block_on(async move {
        let mut stall = Stall::new(TIMEOUT);
        let start = engine::clock::now();
        for tick in 0..TICKS {
            let (at_turn, progress) = look(tick);
            let looked = std::future::poll_fn(|cx| {
                Poll::Ready(stall.poll(cx, at_turn, progress, || pressure))
            });
            if looked.await.is_ready() {
                return Some(engine::clock::now() - start);
            }
            engine::clock::sleep(TICK).await;
        }
        None
    })
}

#[test]
fn a_client_that_does_nothing_at_its_turn_is_ended_after_the_timeout() {
    let ended = ended_at(|_| (true, 7)).expect("ended");
    assert!(ended >= TIMEOUT, "{ended:?}");
}

#[test]
fn a_client_that_is_not_at_turn_is_left_alone() {
    assert_eq!(ended_at(|_| (false, 7)), None);
}

#[test]
fn a_client_that_is_even_now_and_then_is_left_alone() {
    assert_eq!(ended_at(|tick| (tick % 10 != 9, tick)), None);
}

#[test]
fn enough_progress_is_enough() {
    assert_eq!(ended_at(|tick| (true, tick * PROGRESS_MIN / 4)), None);
}

#[test]
fn a_trickle_is_not() {
    assert!(ended_at(|tick| (true, tick)).is_some());
}

#[test]
fn the_time_before_its_turn_does_not_count() {
    // At turn from the middle on.
    let ended = ended_at(|tick| (tick >= 50, 7)).expect("ended");
    assert!(ended >= TIMEOUT + 50 * TICK, "{ended:?}");
}

#[test]
fn while_others_wait_for_memory_a_part_of_the_timeout_is_enough() {
    let pressed = ended_under(true, |_| (true, 7)).expect("ended");
    assert!(pressed >= TIMEOUT / PARTS, "{pressed:?}");
    let not = ended_under(true, |tick| (tick % 2 == 0, 7));
    assert_eq!(
        not, None,
        "a client that is even now and then is left alone"
    );
    assert_eq!(ended_under(true, |tick| (true, tick * PROGRESS_MIN)), None);
}

/// However many parts a timeout has: a client that is even before its end, and then stalls, has a
/// whole one.
#[test]
fn a_stall_is_found_within_two_timeouts_of_its_beginning() {
    let ended = ended_at(|tick| (tick != 15, 7)).expect("ended");
    assert!(ended >= TIMEOUT + 15 * TICK, "{ended:?}");
}
