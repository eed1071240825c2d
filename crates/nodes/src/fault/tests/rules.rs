//! Which requests a rule hits: the pure state, with a clock of its own.

use std::time::Duration;

use block::{Errno, Operation, Range};
use proptest::prelude::*;

use super::super::plan::{FaultEffect, FaultPlan, FaultRule};
use super::super::state::{FaultState, FaultVerdict};
use super::on;

const FAIL: FaultEffect = FaultEffect::Fail(Errno::Io);
const HIT: FaultVerdict = FaultVerdict::Fail(Errno::Io);

fn state(seed: u64, rules: &[FaultRule]) -> FaultState {
    FaultState::new(&FaultPlan {
        seed,
        rules: rules.to_vec(),
        ..FaultPlan::default()
    })
}

fn read(state: &mut FaultState, now: Duration) -> FaultVerdict {
    let range = Range::new(0, 512);
    state.decide(Operation::Read, Some(range), 1, now)
}

/// Which of `count` reads at time zero go wrong.
fn reads(state: &mut FaultState, count: usize) -> Vec<bool> {
    let mut hit = || read(state, Duration::ZERO) == HIT;
    (0..count).map(|_| hit()).collect()
}

#[test]
fn the_first_requests_pass_and_then_so_many_go_wrong() {
    let rule = FaultRule {
        after: 2,
        times: Some(3),
        ..FaultRule::new(FAIL)
    };
    let expected = [false, false, true, true, true, false, false];
    assert_eq!(reads(&mut state(1, &[rule]), 7), expected);
}

#[test]
fn requests_of_other_kinds_and_places_do_not_count() {
    let at = Range::new(4096, 512);
    let rule = FaultRule {
        at: Some(at),
        after: 1,
        ..on(Operation::Write, FAIL)
    };
    let mut state = state(1, &[rule]);
    let mut send = |operation, range| state.decide(operation, range, 1, Duration::ZERO);
    for _ in 0..3 {
        assert_eq!(send(Operation::Read, Some(at)), FaultVerdict::Pass);
        assert_eq!(send(Operation::Flush, None), FaultVerdict::Pass);
        let before = Range::new(0, 4096);
        let behind = Range::new(4608, 512);
        assert_eq!(send(Operation::Write, Some(before)), FaultVerdict::Pass);
        assert_eq!(send(Operation::Write, Some(behind)), FaultVerdict::Pass);
    }
    let touches = Some(Range::new(0, 4097));
    assert_eq!(send(Operation::Write, touches), FaultVerdict::Pass);
    assert_eq!(send(Operation::Write, touches), HIT);
}

#[test]
fn a_rule_lasts_from_its_first_request_on() {
    let rule = FaultRule {
        after: 1,
        lasts: Some(Duration::from_secs(5)),
        ..FaultRule::new(FAIL)
    };
    let mut state = state(1, &[rule]);
    let mut at = |seconds| read(&mut state, Duration::from_secs(seconds));
    assert_eq!(at(100), FaultVerdict::Pass);
    assert_eq!(at(1000), HIT);
    assert_eq!(at(1004), HIT);
    assert_eq!(at(1005), FaultVerdict::Pass);
}

#[test]
fn a_rate_hits_its_part_and_the_seed_chooses_which() {
    let rule = FaultRule {
        per_million: 100_000,
        ..FaultRule::new(FAIL)
    };
    let hit = |seed| reads(&mut state(seed, std::slice::from_ref(&rule)), 10_000);
    let count = hit(7).iter().filter(|&&hit| hit).count();
    assert!((900..1100).contains(&count), "{count} of 10000");
    assert_eq!(hit(7), hit(7));
    assert_ne!(hit(7), hit(8));
}

#[test]
fn the_first_rule_that_hits_decides() {
    let lose = FaultRule {
        times: Some(1),
        ..on(Operation::Write, FaultEffect::Lose)
    };
    let mut state = state(1, &[lose, FaultRule::new(FAIL)]);
    let range = Some(Range::new(0, 512));
    let mut write = || state.decide(Operation::Write, range, 1, Duration::ZERO);
    assert_eq!([write(), write()], [FaultVerdict::Lose, HIT]);
}

#[test]
fn what_cannot_be_lost_or_torn_passes_or_fails() {
    let range = Some(Range::new(0, 4096));
    let decide = |effect, operation| {
        let mut state = state(1, &[FaultRule::new(effect)]);
        state.decide(operation, range, 1, Duration::ZERO)
    };
    for operation in [Operation::Read, Operation::Extents, Operation::Measure] {
        assert_eq!(decide(FaultEffect::Lose, operation), FaultVerdict::Pass);
        assert_eq!(
            decide(FaultEffect::TearSilently, operation),
            FaultVerdict::Pass
        );
        assert_eq!(decide(FaultEffect::Tear(Errno::Io), operation), HIT);
    }
}

#[test]
fn rules_beyond_the_most_are_not_taken() {
    let pass = FaultRule {
        per_million: 0,
        ..FaultRule::new(FAIL)
    };
    let mut state = state(1, &vec![pass; super::super::state::RULES_MAX]);
    state.add(FaultRule::new(FAIL));
    assert_eq!(read(&mut state, Duration::ZERO), FaultVerdict::Pass);
}

proptest! {
    #[test]
    fn a_torn_write_keeps_less_than_all_of_it(len in 1..100_000_u64, power in 0..17_u32, seed: u64) {
        let unit = 1_u32 << power;
        let range = Range::new(0, len);
        let mut state = state(seed, &[FaultRule::new(FaultEffect::TearSilently)]);
        let verdict = state.decide(Operation::Write, Some(range), unit, Duration::ZERO);
        let FaultVerdict::Tear { kept, then: None } = verdict else {
            panic!("{verdict:?}");
        };
        prop_assert!(kept < len && kept.is_multiple_of(u64::from(unit).max(512)));
    }
}
