//! Golden comparisons and properties of medians, intervals, verdicts and shuffles.

use proptest::prelude::*;

use super::{Rng, *};

#[test]
fn the_median_of_an_even_number_is_the_middle_of_the_middle_two() {
    assert_eq!(median(&[4.0, 1.0, 3.0, 2.0]), Some(2.5));
    assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
    assert_eq!(median(&[]), None);
}

#[test]
fn five_values_have_their_whole_range_as_interval() {
    let found = interval(&[5.0, 1.0, 4.0, 2.0, 3.0], 7).unwrap();
    assert_eq!(
        (found.low, found.median, found.high, found.n),
        (1.0, 3.0, 5.0, 5)
    );
}

#[test]
fn ratios_well_above_below_and_around_one_get_their_verdicts() {
    let verdict = |ratios: &[f64]| compare(ratios, 1).unwrap().verdict;
    assert_eq!(verdict(&[1.5, 1.6, 1.4, 1.55, 1.5]), Verdict::Faster);
    assert_eq!(verdict(&[0.5, 0.6, 0.4, 0.55, 0.5]), Verdict::Slower);
    assert_eq!(verdict(&[1.0, 1.01, 0.99, 1.02, 0.98]), Verdict::Same);
    assert!(
        matches!(verdict(&[0.7, 1.4, 1.0, 0.8, 1.3]), Verdict::CannotTell { blocks_more } if blocks_more >= 1)
    );
}

#[test]
fn fewer_than_five_pairs_decide_nothing_however_clear_they_look() {
    let found = compare(&[9.0, 9.0, 9.0], 1).unwrap();
    assert_eq!(found.verdict, Verdict::CannotTell { blocks_more: 2 });
    assert_eq!(compare(&[], 1), None);
    assert_eq!(compare(&[f64::NAN, 0.0, -1.0], 1), None);
}

/// The interval of repeated samples of one noisy source must hold the true median most of the time.
#[test]
fn the_interval_covers_the_true_median_in_at_least_nine_of_ten_samples() {
    let mut rng = Rng::new(42);
    let covered = (0..200)
        .filter(|round| {
            let values: Vec<f64> = (0..9).map(|_| rng.below(2001) as f64).collect();
            let found = interval(&values, *round).unwrap();
            found.low <= 1000.0 && 1000.0 <= found.high
        })
        .count();
    assert!(covered >= 180, "{covered} of 200");
}

/// What a second run of the same shows. The interval of the median itself fails this: about 165.
#[test]
fn the_interval_of_a_repetition_covers_the_next_median_in_at_least_nine_of_ten_runs() {
    let mut rng = Rng::new(43);
    let mut run = |n: u32| -> Vec<f64> {
        (0..n)
            .map(|_| 500.0 + (0..4).map(|_| rng.below(251) as f64).sum::<f64>())
            .collect()
    };
    for n in [9, 17] {
        let (mut repeated, mut own) = (0, 0);
        for round in 0..200 {
            let (values, next) = (run(n), median(&run(n)).unwrap());
            let holds = |found: Interval| u32::from(found.low <= next && next <= found.high);
            repeated += holds(repeat_interval(&values, round).unwrap());
            own += holds(interval(&values, round).unwrap());
        }
        assert!(repeated >= 180, "{repeated} of 200 with {n} values");
        assert!(own < 180, "{own} of 200: then why have two?");
    }
}

#[test]
fn two_runs_without_pairs_are_compared_by_their_medians_and_few_figures_decide_nothing() {
    let verdict = |a: &[f64], b: &[f64]| compare_unpaired(a, b, 1).unwrap().verdict;
    let fast = [200.0, 202.0, 199.0, 201.0, 200.0];
    let slow = [100.0, 101.0, 99.0, 100.0, 100.5, 99.5];
    assert_eq!(verdict(&fast, &slow), Verdict::Faster);
    assert_eq!(verdict(&slow, &fast), Verdict::Slower);
    assert_eq!(verdict(&fast, &fast), Verdict::Same);
    assert!(matches!(
        verdict(&fast[..2], &slow),
        Verdict::CannotTell { .. }
    ));
    assert!(matches!(
        verdict(&[50.0, 150.0, 100.0, 140.0, 60.0], &slow),
        Verdict::CannotTell { .. }
    ));
    let found = compare_unpaired(&fast, &slow, 1).unwrap().ratio;
    assert!(found.low <= 2.0 && 2.0 <= found.high && found.n == 5);
    assert_eq!(compare_unpaired(&[], &slow, 1), None);
    assert_eq!(compare_unpaired(&fast, &[0.0, f64::NAN], 1), None);
}

proptest! {
    #[test]
    fn the_median_lies_in_its_interval_and_the_interval_in_the_values(
        values in prop::collection::vec(0.1f64..1e9, 1..40), seed in any::<u64>()
    ) {
        let found = interval(&values, seed).unwrap();
        let least = values.iter().copied().fold(f64::INFINITY, f64::min);
        let most = values.iter().copied().fold(0.0, f64::max);
        prop_assert!(least <= found.low && found.low <= found.high && found.high <= most);
        prop_assert!(found.low <= found.median && found.median <= found.high);
        prop_assert_eq!(Some(found), interval(&values, seed));
    }

    #[test]
    fn the_interval_of_a_repetition_holds_the_median_and_keeps_its_sign(
        values in prop::collection::vec(0.1f64..1e9, 1..40), shift in 0.0f64..2e9, seed in any::<u64>()
    ) {
        let found = repeat_interval(&values, seed).unwrap();
        prop_assert!(0.0 < found.low && found.low <= found.median && found.median <= found.high);
        prop_assert!(found.high.is_finite());
        let below: Vec<f64> = values.iter().map(|value| value - shift).collect();
        let found = repeat_interval(&below, seed).unwrap();
        prop_assert!(found.low <= found.median && found.median <= found.high);
    }

    #[test]
    fn turning_a_comparison_round_turns_its_verdict_round(
        ratios in prop::collection::vec(0.2f64..5.0, 5..30), seed in any::<u64>()
    ) {
        let there = compare(&ratios, seed).unwrap();
        let back: Vec<f64> = ratios.iter().map(|ratio| 1.0 / ratio).collect();
        let back = compare(&back, seed).unwrap();
        match there.verdict {
            Verdict::Faster => prop_assert!(!matches!(back.verdict, Verdict::Faster)),
            Verdict::Slower => prop_assert!(!matches!(back.verdict, Verdict::Slower)),
            Verdict::Same | Verdict::CannotTell { .. } => {}
        }
    }

    #[test]
    fn a_shuffle_keeps_everything_and_repeats_with_its_seed(seed in any::<u64>(), n in 0usize..50) {
        let order = |seed| {
            let mut items: Vec<usize> = (0..n).collect();
            Rng::new(seed).shuffle(&mut items);
            items
        };
        let mut sorted = order(seed);
        prop_assert_eq!(&sorted, &order(seed));
        sorted.sort_unstable();
        prop_assert_eq!(sorted, (0..n).collect::<Vec<_>>());
    }
}
