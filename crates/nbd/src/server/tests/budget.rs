//! The process's memory, shared by connections on all cores.

use std::time::Duration;

use futures_util::FutureExt;
use proptest::prelude::*;

use super::super::budget::{Budget, default_max};
use super::Dice;

/// So much is granted only when nothing is charged.
const ALL: usize = usize::MAX;

proptest! {
    #[test]
    fn grants_stay_within_the_maximum_unless_one_stands_alone(
        max in 1usize..1000, asks in prop::collection::vec((0usize..1500, any::<bool>()), 1..60),
    ) {
        let budget = Budget::new(max);
        let mut held = Vec::new();
        let mut used = 0;
        for (bytes, frees) in asks {
            if frees && !held.is_empty() {
                let (freed, charge) = held.swap_remove(bytes % held.len());
                drop(charge);
                used -= freed;
            }
            let granted = budget.try_take(bytes);
            prop_assert_eq!(granted.is_some(), used + bytes <= max || used == 0);
            if let Some(charge) = granted {
                used += bytes;
                held.push((bytes, charge));
            }
            prop_assert_eq!(budget.is_exhausted(), used >= max);
            prop_assert_eq!(budget.used(), used);
        }
        drop(held);
        prop_assert!(budget.try_take(ALL).is_some());
    }

    /// In every order of takes, waits, returns and cancellations: the queue is served from its front, no
    /// task passes it, and no memory is lost in the end.
    #[test]
    fn waiters_are_served_in_turn(
        max in 1usize..1000, acts in prop::collection::vec((0u8..4, 0usize..1200), 1..80),
    ) {
        let budget = Budget::new(max);
        let mut held = Vec::new();
        let mut queue = std::collections::VecDeque::new();
        for (act, number) in acts {
            match act {
                0 => held.extend(budget.try_take(number)),
                1 => queue.push_back(budget.wait_for(number)),
                2 if !held.is_empty() => drop(held.swap_remove(number % held.len())),
                3 if !queue.is_empty() => drop(queue.remove(number % queue.len())),
                _ => {}
            }
            let mut is_blocked = false;
            queue.retain_mut(|wait| match wait.now_or_never() {
                Some(charge) => {
                    assert!(!is_blocked, "a waiter passed the front");
                    held.push(charge);
                    false
                }
                None => {
                    is_blocked = true;
                    true
                }
            });
            prop_assert_eq!(budget.is_contended(), is_blocked);
            prop_assert!(!is_blocked || budget.try_take(0).is_none(), "a waiter passed the queue");
            prop_assert!(!is_blocked || !held.is_empty(), "all is free, and a waiter remains");
            let sum: usize = held.iter().map(|charge| charge.bytes()).sum();
            prop_assert_eq!(sum, budget.used());
        }
        drop(queue);
        drop(held);
        prop_assert!(budget.try_take(ALL).is_some());
    }
}

/// A charge that was granted to a waiter that was dropped before it was polled is free again.
#[test]
fn a_grant_that_is_not_taken_goes_to_the_next() {
    let budget = Budget::new(100);
    let held = budget.try_take(100).expect("free");
    let (first, mut second) = (budget.wait_for(80), budget.wait_for(80));
    drop(held);
    assert!((&mut second).now_or_never().is_none());
    drop(first);
    assert_eq!(second.now_or_never().expect("granted").bytes(), 80);
    assert_eq!(budget.used(), 0);
}

#[test]
fn the_default_is_a_quarter_of_the_memory_and_at_most_a_gibibyte() {
    let text = std::fs::read_to_string("/proc/meminfo").expect("a Linux system");
    let total = text.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    let kib: u64 = total
        .and_then(|line| line.trim().split(' ').next()?.parse().ok())
        .expect("a number");
    let expected = (kib * 1024 / 4).min(1 << 30);
    // The kernel counts in units of its own.
    assert!(expected.abs_diff(default_max() as u64) < 1 << 20);
}

/// Tasks on both cores that take, hold and give back: none waits for ever.
#[test]
fn every_waiter_has_a_turn() {
    let config = engine::Config {
        cores: 2,
        ..engine::Config::default()
    };
    let budget = Budget::new(100);
    let shared = &budget;
    engine::run(&config, |handle| async move {
        let (tell, mut told) = tokio::sync::mpsc::unbounded_channel();
        for nth in 0..8u64 {
            let (budget, tell) = (shared.clone(), tell.clone());
            handle.spawn_on(usize::try_from(nth).expect("small"), move || async move {
                let mut dice = Dice(nth);
                for _ in 0..500 {
                    // Some of them more than there is.
                    let bytes = usize::try_from(dice.below(130)).expect("small");
                    let charge = match budget.try_take(bytes) {
                        Some(charge) => charge,
                        None => budget.wait_for(bytes).await,
                    };
                    for _ in 0..dice.below(3) {
                        tokio::task::yield_now().await;
                    }
                    drop(charge);
                }
                tell.send(()).expect("listening");
            });
        }
        for _ in 0..8 {
            let done = engine::clock::timeout(Duration::from_secs(30), told.recv()).await;
            assert!(done.is_ok(), "a waiter waits for ever");
        }
    })
    .expect("the engine starts");
    assert!(budget.try_take(ALL).is_some());
}
