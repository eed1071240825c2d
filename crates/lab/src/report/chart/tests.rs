//! Scales, ticks and what is drawn of a made-up run.

use proptest::prelude::*;

use super::scale::{Scale, linear_ticks, log_ticks, ratio_ticks};
use super::*;
use crate::report::Summary;
use crate::synthetic;
use crate::units::Nanos;

#[test]
fn ticks_are_round_and_start_at_zero() {
    let texts = |max, count| {
        linear_ticks(max, count)
            .into_iter()
            .map(|(_, text)| text)
            .collect::<Vec<_>>()
    };
    assert_eq!(texts(400.0, 4.0), ["0", "100", "200", "300", "400"]);
    assert_eq!(
        texts(4500.0, 5.0),
        ["0", "1,000", "2,000", "3,000", "4,000"]
    );
    assert_eq!(texts(1.0, 5.0), ["0.0", "0.2", "0.4", "0.6", "0.8", "1.0"]);
    assert_eq!(
        log_ticks(150.0, 6000.0),
        [200.0, 500.0, 1000.0, 2000.0, 5000.0]
    );
    let ratios: Vec<String> = ratio_ticks(0.25, 2.0)
        .into_iter()
        .map(|(_, text)| text)
        .collect();
    assert_eq!(ratios, ["1/4×", "1/2×", "1×", "2×"]);
}

#[test]
fn bars_begin_at_zero_and_invalid_ones_are_hatched() {
    let mut run = synthetic::run(5);
    for cell in run
        .cells
        .iter_mut()
        .filter(|cell| cell.workload == 0 && cell.target == 0)
    {
        cell.findings.push(crate::checks::Finding::invalid(
            crate::checks::Check::Ceiling,
            "too fast",
        ));
    }
    let summary = Summary::of(&run);
    let rows: Vec<_> = summary
        .rows
        .iter()
        .filter(|row| row.workload == 0)
        .collect();
    let drawn = throughput(&rows, None, "").into_string();
    assert_eq!(drawn.matches("hatched-0").count(), 1);
    assert_eq!(drawn.matches("x=\"8\" y=\"28\"").count(), 1, "{drawn}");
    assert!(drawn.contains(">invalid<"));
}

#[test]
fn every_block_is_a_mark_of_its_targets_shape() {
    let summary = Summary::of(&synthetic::run(6));
    let rows: Vec<_> = summary
        .rows
        .iter()
        .filter(|row| row.workload == 2)
        .collect();
    let drawn = blocks(&rows, "").into_string();
    assert_eq!(drawn.matches("class=\"t0 mark\"").count(), 6);
    assert_eq!(drawn.matches("<rect class=\"t1 mark\"").count(), 6);
}

#[test]
fn percentiles_that_are_not_known_are_not_drawn() {
    let mut histogram = crate::fio::Histogram::default();
    histogram.add(Nanos(100), 500);
    histogram.add(Nanos(200), 520);
    let named: Vec<f64> = latency_points(&histogram)
        .into_iter()
        .map(|(part, _)| part)
        .collect();
    assert_eq!(named, [0.5, 0.9, 0.99]);
    assert_eq!(percent(0.999), "99.9");
}

proptest! {
    #[test]
    fn a_scale_keeps_order_and_stays_on_its_paper(a in 0.1f64..1e9, b in 0.1f64..1e9, high in 1.0f64..1e9) {
        for scale in [Scale::linear((0.0, high), (10.0, 90.0)), Scale::log((0.1, high), (10.0, 90.0))] {
            let (x, y) = (scale.at(a), scale.at(b));
            prop_assert!((10.0..=90.0).contains(&x));
            prop_assert!(a > b || x <= y);
        }
    }

    #[test]
    fn there_are_always_a_few_ticks(max in 1e-3f64..1e12, count in 3.0f64..10.0) {
        let ticks = linear_ticks(max, count);
        prop_assert!((2..=11).contains(&ticks.len()), "{}", ticks.len());
        prop_assert!(ticks.iter().all(|(value, _)| *value <= max * 1.001));
    }
}
