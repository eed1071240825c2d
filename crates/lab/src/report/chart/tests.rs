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
        [
            "0",
            "1\u{202f}000",
            "2\u{202f}000",
            "3\u{202f}000",
            "4\u{202f}000"
        ]
    );
    assert_eq!(texts(1.0, 5.0), ["0.0", "0.2", "0.4", "0.6", "0.8", "1.0"]);
    assert_eq!(
        log_ticks(150.0, 6000.0, 6),
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

/// The attribute `name` of an element's text.
fn attribute(element: &str, name: &str) -> f64 {
    let value = element.split(&format!(" {name}=\"")).nth(1).unwrap();
    value.split('"').next().unwrap().parse().unwrap()
}

/// A mark is the percentile that the table has; the line left out that buckets are steps, and passed it far
/// above where they were wide.
#[test]
fn marks_of_percentiles_are_on_their_line() {
    let mut many = crate::fio::Histogram::default();
    for bucket in 0..900u64 {
        many.add(Nanos(10_000 + bucket * bucket * 7), 1 + (900 - bucket) * 40);
    }
    many.add(Nanos(900_000_000), 20_000);
    let mut few = crate::fio::Histogram::default();
    for (at, count) in [
        (10_000, 94_000),
        (1_000_000, 5_500),
        (50_000_000, 480),
        (90_000_000, 20),
    ] {
        few.add(Nanos(at), count);
    }
    marks_are_on_their_line(many);
    marks_are_on_their_line(few);
}

fn marks_are_on_their_line(histogram: crate::fio::Histogram) {
    let mut summary = Summary::of(&synthetic::run(5));
    summary.rows[0].latencies = histogram;
    let drawn = latency(&[&summary.rows[0]], "").unwrap().into_string();
    let line = drawn.split("<polyline").nth(1).unwrap();
    let line = line
        .split("points=\"")
        .nth(1)
        .unwrap()
        .split('"')
        .next()
        .unwrap();
    let points: Vec<(f64, f64)> = line
        .split(' ')
        .map(|point| point.split_once(',').unwrap())
        .map(|(x, y)| (x.parse().unwrap(), y.parse().unwrap()))
        .collect();
    assert!(points.len() < 500, "{}", points.len());
    let is_on = |x: f64, y: f64| {
        points.windows(2).any(|ends| {
            let ((x1, y1), (x2, y2)) = (ends[0], ends[1]);
            let is_within =
                |value: f64, a: f64, b: f64| a.min(b) - 0.11 <= value && value <= a.max(b) + 0.11;
            let across = (x2 - x1) * (y - y1) - (y2 - y1) * (x - x1);
            let length = (x2 - x1).hypot(y2 - y1);
            is_within(x, x1, x2) && is_within(y, y1, y2) && across.abs() <= 0.2 * length.max(0.1)
        })
    };
    let marks: Vec<&str> = drawn.split("<circle").skip(1).collect();
    assert!(marks.len() >= 4, "{}", marks.len());
    for mark in marks {
        let (x, y) = (attribute(mark, "cx"), attribute(mark, "cy"));
        assert!(is_on(x, y), "{x},{y} is not on {points:?}");
    }
}

/// The line of a ceiling near the bar went through the figure above the bar.
#[test]
fn a_ceiling_ends_below_the_name_and_the_figure_of_its_bar() {
    let summary = Summary::of(&synthetic::run(5));
    let rows: Vec<_> = summary
        .rows
        .iter()
        .filter(|row| row.workload == 0)
        .collect();
    let ceiling = crate::checks::ceiling::Ceiling {
        source: crate::checks::ceiling::CeilingSource::MemoryCopy,
        rate: crate::units::Rate(500e6),
    };
    let drawn = throughput(&rows, Some(&ceiling), "").into_string();
    let line = drawn.split("<line class=\"ceiling\"").nth(1).unwrap();
    let (top, bottom) = (attribute(line, "y1"), attribute(line, "y2"));
    let texts: Vec<f64> = drawn
        .split("<text class=")
        .skip(1)
        .filter(|text| text.starts_with("\"name\"") || text.starts_with("\"figure\""))
        .map(|text| attribute(text, "y"))
        .collect();
    assert_eq!(texts.len(), 4);
    for baseline in texts {
        // Letters of 15 units at most, a quarter of them below the line.
        let is_apart = baseline + 3.75 <= top || baseline - 11.25 >= bottom;
        assert!(is_apart, "{baseline} in {top} to {bottom}");
    }
}

#[test]
fn blocks_are_counted_in_whole_numbers_from_one() {
    let numbers = |count| {
        let summary = Summary::of(&synthetic::run(count));
        let rows: Vec<_> = summary
            .rows
            .iter()
            .filter(|row| row.workload == 0)
            .collect();
        let drawn = blocks(&rows, "").into_string();
        let ticks = drawn.split("text-anchor=\"middle\">").skip(1);
        let ticks = ticks.map(|text| text.split('<').next().unwrap().to_owned());
        ticks.collect::<Vec<_>>()
    };
    assert_eq!(numbers(1), ["1"]);
    assert_eq!(numbers(3), ["1", "2", "3"]);
    assert_eq!(numbers(5), ["1", "2", "3", "4", "5"]);
    assert_eq!(numbers(16), ["1", "3", "5", "7", "9", "11", "13", "15"]);
}

/// Where the figures of ticks are, from the left to the right, and how long they are.
fn figures(drawn: &str) -> Vec<(f64, usize)> {
    let ticks = drawn.split("<text class=\"tick\"").skip(1);
    let ticks = ticks.filter(|tick| tick.contains("\"middle\""));
    let figures = ticks.map(|tick| {
        let text = tick.split('>').nth(1).unwrap().split('<').next().unwrap();
        (attribute(tick, "x"), text.chars().count())
    });
    figures.collect()
}

/// On a phone, letters of ticks are 14 units high and 8 wide.
#[test]
fn ticks_of_ratios_do_not_touch_on_a_phone_and_one_is_among_them() {
    let row = |ratio: f64| {
        let found = crate::stats::compare(&[ratio; 5]).unwrap();
        ("a test".to_owned(), Some(found))
    };
    for (low, high) in [(0.5, 2.0), (0.001, 3.0), (0.9, 900.0), (0.0001, 9000.0)] {
        let label = Label {
            title: "",
            desc: "",
        };
        let drawn = ratio(&[row(low), row(high)], &label).into_string();
        let figures = figures(&drawn);
        assert!(figures.len() >= 3, "{low} {high}: {figures:?}");
        for pair in figures.windows(2) {
            let room = (pair[0].1 + pair[1].1) as f64 / 2.0 * 8.0;
            assert!(pair[1].0 - pair[0].0 > room, "{low} {high}: {figures:?}");
        }
        assert!(drawn.contains(">1×<"), "{low} {high}");
    }
}

#[test]
fn logarithmic_ticks_are_at_most_as_many_as_have_room() {
    for decades in 1..12u8 {
        for most in [6, 9, 10] {
            let ticks = log_ticks(3.0, 3.0 * 10f64.powf(f64::from(decades)), most);
            assert!(ticks.len() <= most && !ticks.is_empty(), "{ticks:?}");
        }
    }
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
