//! The process's memory, shared by connections on all cores.

use std::time::Duration;

use proptest::prelude::*;

use super::super::budget::Budget;
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
        }
        drop(held);
        prop_assert!(budget.try_take(ALL).is_some());
    }
}

/// Tasks on both cores that take, hold and give back: none waits for ever.
#[test]
fn everybody_who_waits_has_a_turn() {
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
                    let charge = loop {
                        match budget.try_take(bytes) {
                            Some(charge) => break charge,
                            None => budget.wait_for(bytes).await,
                        }
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
            assert!(done.is_ok(), "somebody waits for ever");
        }
    })
    .expect("the engine starts");
    assert!(budget.try_take(ALL).is_some());
}
