//! Whom a stall ends, and whom not. The times are real and short.

use std::task::Poll;
use std::time::Duration;

use super::super::stall::{PROGRESS_MIN, Stall};
use super::on_engine;

const TIMEOUT: Duration = Duration::from_millis(100);
const TICK: Duration = Duration::from_millis(5);
/// Seven timeouts.
const TICKS: u64 = 140;

/// Looks at a connection each tick; tells when it was ended.
fn ended_at(look: impl Fn(u64) -> (bool, u64)) -> Option<Duration> {
    on_engine(|| async move {
        let mut stall = Stall::new(TIMEOUT);
        let start = engine::clock::now();
        for tick in 0..TICKS {
            let (at_turn, progress) = look(tick);
            let looked = std::future::poll_fn(|cx| Poll::Ready(stall.poll(cx, at_turn, progress)));
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
