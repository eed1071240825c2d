//! Golden comparisons and properties of medians, intervals, verdicts and shuffles.

use proptest::prelude::*;

use super::{Rng, *};

#[test]
fn the_median_of_an_even_number_is_the_middle_of_the_middle_two() {
    assert_eq!(median(&[4.0, 1.0, 3.0, 2.0]), Some(2.5));
    assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
    assert_eq!(median(&[]), None);
}

/// By hand: logarithms of 8, 4, 2, 1 and 4 have the mean 1.6 ln 2 and the standard deviation 1.140 ln 2, their
/// neighbours' correlation is 0.123, and t is 2.776: the factor is 2^(2.776 * 1.140 / √5 * √(1.123 / 0.877)).
#[test]
fn five_ratios_have_the_interval_of_student_and_of_their_correlation() {
    let found = compare(&[8.0, 4.0, 2.0, 1.0, 4.0]).unwrap().ratio;
    let (mean, factor) = (2f64.powf(1.6), 2f64.powf(1.6022));
    assert_eq!((found.median, found.n), (4.0, 5));
    assert!(
        (found.low / (mean / factor) - 1.0).abs() < 2e-3,
        "{found:?}"
    );
    assert!(
        (found.high / (mean * factor) - 1.0).abs() < 2e-3,
        "{found:?}"
    );
}

#[test]
fn fewer_than_five_values_have_their_whole_range_and_no_interval() {
    let found = repeat_interval(&[4.0, 1.0, 3.0, 2.0]).unwrap();
    assert_eq!((found.low, found.median, found.high), (1.0, 2.5, 4.0));
    assert!(!found.is_known());
}

#[test]
fn values_that_move_slowly_have_a_wider_interval_than_the_same_in_another_order() {
    let width = |values: &[f64]| {
        let found = repeat_interval(values).unwrap();
        found.high / found.low
    };
    let slow = [1.0, 1.1, 1.2, 1.3, 1.4, 1.5, 1.6, 1.7];
    let mixed = [1.0, 1.7, 1.1, 1.6, 1.2, 1.5, 1.3, 1.4];
    assert!(width(&slow) > 1.5 * width(&mixed));
}

/// A ratio that is faster by itself is undecided among twenty: one in twenty is by chance.
#[test]
fn what_is_decided_alone_may_be_undecided_in_a_family() {
    let alone: &[f64] = &[1.01, 1.12, 1.05, 1.09, 1.02];
    let even: &[f64] = &[1.1, 0.9, 1.0, 0.93, 1.08];
    assert_eq!(compare(alone).unwrap().verdict, Verdict::Faster);
    let mut family = vec![even; 20];
    family[0] = alone;
    let found = compare_family(&family);
    assert!(matches!(
        found[0].unwrap().verdict,
        Verdict::CannotTell { .. }
    ));
    // Those that are decided leave their error to the others; those with too few blocks take none.
    let sure: &[f64] = &[2.0, 2.01, 1.99, 2.0, 2.02];
    family = vec![sure; 20];
    family[0] = alone;
    assert_eq!(compare_family(&family)[0].unwrap().verdict, Verdict::Faster);
    family = vec![&even[..4]; 20];
    family[0] = alone;
    assert_eq!(compare_family(&family)[0], compare(alone));
}

#[test]
fn ratios_well_above_below_and_around_one_get_their_verdicts() {
    let verdict = |ratios: &[f64]| compare(ratios).unwrap().verdict;
    assert_eq!(verdict(&[1.5, 1.6, 1.4, 1.55, 1.5]), Verdict::Faster);
    assert_eq!(verdict(&[0.5, 0.6, 0.4, 0.55, 0.5]), Verdict::Slower);
    assert_eq!(verdict(&[1.0, 1.01, 0.99, 1.02, 0.98]), Verdict::Same);
    assert!(
        matches!(verdict(&[0.7, 1.4, 1.0, 0.8, 1.3]), Verdict::CannotTell { blocks_more } if blocks_more >= 1)
    );
}

#[test]
fn fewer_than_five_pairs_decide_nothing_however_clear_they_look() {
    let found = compare(&[9.0, 9.0, 9.0]).unwrap();
    assert_eq!(found.verdict, Verdict::CannotTell { blocks_more: 2 });
    assert_eq!(compare(&[]), None);
    assert_eq!(compare(&[f64::NAN, 0.0, -1.0]), None);
}

/// The interval of repeated samples of one noisy source must hold the true median.
#[test]
fn the_interval_covers_the_true_median_in_at_least_nineteen_of_twenty_samples() {
    let mut rng = Rng::new(42);
    for n in [5, 9, 17] {
        let covered = (0..2000)
            .filter(|_| {
                let values = (0..n).map(|_| 2f64.powf(rng.below(2001) as f64 / 1000.0));
                let found = compare(&values.collect::<Vec<_>>()).unwrap().ratio;
                found.contains(2.0)
            })
            .count();
        assert!(covered >= 1880, "{covered} of 2000");
    }
}

/// What a second run of the same shows. The interval of the ratio, which is that of this run alone, fails this.
#[test]
fn the_interval_of_a_repetition_covers_the_next_median_in_at_least_nineteen_of_twenty_runs() {
    let mut rng = Rng::new(43);
    let mut run = |n: u32| -> Vec<f64> {
        (0..n)
            .map(|_| 500.0 + (0..4).map(|_| rng.below(251) as f64).sum::<f64>())
            .collect()
    };
    for n in [5, 9, 17] {
        let (mut repeated, mut own) = (0, 0);
        for _ in 0..1000 {
            let (values, next) = (run(n), median(&run(n)).unwrap());
            let holds = |found: Interval| u32::from(found.contains(next));
            repeated += holds(repeat_interval(&values).unwrap());
            own += holds(compare(&values).unwrap().ratio);
        }
        assert!(repeated >= 940, "{repeated} of 1000 with {n} values");
        assert!(own < 900, "{own} of 1000: then why have two?");
    }
}

#[test]
fn two_runs_without_pairs_are_compared_by_their_medians_and_few_figures_decide_nothing() {
    let compared = |a: &[f64], b: &[f64]| compare_unpaired(&[(a.to_vec(), b.to_vec())]).remove(0);
    let verdict = |a: &[f64], b: &[f64]| compared(a, b).unwrap().verdict;
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
    let found = compared(&fast, &slow).unwrap().ratio;
    assert!(found.low <= 2.0 && 2.0 <= found.high && found.n == 5);
    assert_eq!(compared(&[], &slow), None);
    assert_eq!(compared(&fast, &[0.0, f64::NAN]), None);
}

proptest! {
    #[test]
    fn the_median_lies_in_its_interval_and_few_values_have_their_range(
        values in prop::collection::vec(0.1f64..1e9, 1..40)
    ) {
        let found = compare(&values).unwrap().ratio;
        let least = values.iter().copied().fold(f64::INFINITY, f64::min);
        let most = values.iter().copied().fold(0.0, f64::max);
        prop_assert!(0.0 < found.low && found.low <= found.median && found.median <= found.high);
        prop_assert!(found.is_known() || (found.low, found.high) == (least, most));
        prop_assert!(found.high.is_finite());
    }

    #[test]
    fn the_interval_of_a_repetition_holds_the_median_and_keeps_its_sign(
        values in prop::collection::vec(0.1f64..1e9, 1..40), shift in 0.0f64..2e9
    ) {
        let found = repeat_interval(&values).unwrap();
        prop_assert!(0.0 < found.low && found.low <= found.median && found.median <= found.high);
        prop_assert!(found.high.is_finite());
        let below: Vec<f64> = values.iter().map(|value| value - shift).collect();
        let found = repeat_interval(&below).unwrap();
        prop_assert!(found.low <= found.median && found.median <= found.high);
    }

    /// Each verdict in a family is at most as bold as it is alone.
    #[test]
    fn an_interval_in_a_family_holds_the_one_that_it_has_alone(
        family in prop::collection::vec(prop::collection::vec(0.2f64..5.0, 1..12), 1..8)
    ) {
        for (ratios, found) in family.iter().zip(compare_family(&family)) {
            let (found, alone) = (found.unwrap().ratio, compare(ratios).unwrap().ratio);
            prop_assert!(found.low <= alone.low && alone.high <= found.high);
        }
    }

    #[test]
    fn turning_a_comparison_round_turns_its_verdict_round(
        ratios in prop::collection::vec(0.2f64..5.0, 5..30)
    ) {
        let there = compare(&ratios).unwrap();
        let back: Vec<f64> = ratios.iter().map(|ratio| 1.0 / ratio).collect();
        let back = compare(&back).unwrap();
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
