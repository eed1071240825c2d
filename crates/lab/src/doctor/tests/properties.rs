//! What holds of every verdict, for any measurement.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{select, subsequence};

use super::*;

const ANY: [Stage; 11] = Stage::ALL;

fn bounds() -> impl Strategy<Value = Vec<Bound>> {
    vec((select(&ANY[..]), 1.0..5000.0), 0..12).prop_map(|found| {
        let bounds = found.into_iter().map(|(part, mib)| alone(part, mib));
        bounds.collect()
    })
}

fn substitutions() -> impl Strategy<Value = Vec<Substitution>> {
    let one = (subsequence(ANY.to_vec(), 1..11), 1.0..5000.0, any::<bool>());
    vec(one, 0..6).prop_map(|found| {
        let made = found.into_iter().map(|(parts, mib, sure)| Substitution {
            sure,
            ..without(&parts, mib)
        });
        made.collect()
    })
}

fn examinations() -> impl Strategy<Value = Examination> {
    let parts = subsequence(ANY.to_vec(), 1..=11);
    (parts, 1.0..4000.0, bounds(), substitutions()).prop_map(|(parts, mib, bounds, subs)| {
        Examination {
            bounds,
            substitutions: subs,
            ..way(&parts, mib)
        }
    })
}

proptest! {
    #[test]
    fn the_part_of_the_least_bound_is_named(rates in vec(50.0..5000.0f64, ANY.len()), near in 0.75..1.0f64) {
        let least = rates.iter().copied().fold(f64::INFINITY, f64::min);
        let mut e = way(&ANY, least * near);
        e.bounds = ANY.iter().zip(&rates).map(|(part, mib)| alone(*part, *mib)).collect();
        let verdict = diagnose(&e);
        let at = rates.iter().position(|rate| *rate == least).expect("it is one of them");
        prop_assert!(verdict.limiter.contains(&ANY[at]));
        // Where another one is named, too, it is as good as the same.
        let is_close = |part: &Stage| {
            let at = ANY.iter().position(|any| any == part).expect("it is one of all");
            rates[at] <= least * 1.04
        };
        prop_assert!(verdict.limiter.len() <= 2 && verdict.limiter.iter().all(is_close));
    }

    #[test]
    fn a_machine_that_is_faster_in_everything_gets_the_same_verdict(e in examinations(), times in 0.01..100.0f64) {
        let mut faster = e.clone();
        faster.rate.0 *= times;
        faster.best.0 *= times;
        faster.bounds.iter_mut().for_each(|bound| bound.rate.0 *= times);
        faster.substitutions.iter_mut().for_each(|sub| sub.rate.0 *= times);
        let (slow, fast) = (diagnose(&e), diagnose(&faster));
        prop_assert_eq!(&slow.limiter, &fast.limiter);
        prop_assert_eq!(slow.ground, fast.ground);
        prop_assert_eq!(slow.next.map(|next| next.part), fast.next.map(|next| next.part));
    }

    #[test]
    fn only_parts_of_the_path_are_named_and_none_of_those_ruled_out(e in examinations()) {
        let verdict = diagnose(&e);
        prop_assert!(!verdict.limiter.is_empty());
        prop_assert!(verdict.limiter.iter().all(|part| e.way.contains(part)));
        // What is surely ruled out, and what may be: rates near the edge are left to rounding.
        let replaced_between = |low: f64, high: f64| -> Vec<Stage> {
            let still = e.substitutions.iter().filter(|sub| {
                sub.sure && sub.rate.0 > e.rate.0 * low && sub.rate.0 < e.rate.0 * high
            });
            still.flat_map(|sub| sub.replaced.clone()).collect()
        };
        let (ruled_out, perhaps) = (replaced_between(0.86, 1.02), replaced_between(0.84, 1.04));
        // Where everything is ruled out, all of it is named.
        if e.way.iter().any(|part| !perhaps.contains(part)) {
            prop_assert!(verdict.limiter.iter().all(|part| !ruled_out.contains(part)), "{:?}", verdict);
        }
    }

    #[test]
    fn the_next_wall_is_never_nearer_than_the_target(e in examinations()) {
        let verdict = diagnose(&e);
        if let Some(next) = verdict.next {
            prop_assert!(next.rate.0 > e.rate.0 && next.times > 1.0);
            prop_assert!(next.part.is_none_or(|part| !verdict.limiter.contains(&part)));
        }
    }

    #[test]
    fn every_verdict_can_be_printed_and_serialized(e in examinations()) {
        let verdict = diagnose(&e);
        prop_assert!(text(&e, &verdict).ends_with('\n'));
        let json = serde_json::to_string(&(&e, &verdict)).unwrap();
        let back: (Examination, Verdict) = serde_json::from_str(&json).unwrap();
        prop_assert_eq!(back, (e, verdict));
    }
}
