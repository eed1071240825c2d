//! Latency by percentile: the x axis stretches towards the slowest operations.
//!
//! A line ends where fewer than ten operations were slower.

use maud::{Markup, html};

use super::palette::{class, mark};
use super::scale::{Scale, log_ticks};
use super::{Label, WIDTH, frame, path, px, x_grid, y_grid};
use crate::checks::{self, tail};
use crate::fio::Histogram;
use crate::report::summary::Row;
use crate::units::Nanos;

const HEIGHT: f64 = 230.0;
const LEFT: f64 = 60.0;
const BOTTOM: f64 = HEIGHT - 40.0;
/// Of the y axis.
const TICKS_MAX: usize = 10;
/// Percentiles with a name.
const NAMED: [(f64, &str); 7] = [
    (0.0, "0"),
    (0.5, "50"),
    (0.9, "90"),
    (0.99, "99"),
    (0.999, "99.9"),
    (0.9999, "99.99"),
    (0.99999, "99.999"),
];
/// The most buckets of one line.
const STEPS_MAX: usize = 160;

/// The named percentiles that `histogram` has enough operations for, and their latencies.
pub(in crate::report) fn latency_points(histogram: &Histogram) -> Vec<(f64, Nanos)> {
    NAMED
        .iter()
        .skip(1)
        .filter_map(|(part, _)| Some((*part, checks::percentile(histogram, *part)?.value)))
        .collect()
}

/// The lines of one test; none when no target has operations enough.
pub(in crate::report) fn latency(rows: &[&Row], desc: &str) -> Option<Markup> {
    let lines: Vec<(&Row, Vec<(f64, f64)>)> = rows
        .iter()
        .map(|row| (*row, curve(&row.latencies)))
        .filter(|(_, points)| points.len() > 1)
        .collect();
    let all = || lines.iter().flat_map(|(_, points)| points);
    let last = all().map(|(part, _)| stretched(*part)).fold(1.0, f64::max);
    let low = all().map(|(_, ns)| *ns).fold(f64::INFINITY, f64::min);
    let high = all().map(|(_, ns)| *ns).fold(0.0, f64::max);
    if lines.is_empty() || low >= high {
        return None;
    }
    let x = Scale::linear((0.0, last), (LEFT, WIDTH - 14.0));
    let y = Scale::log((low * 0.85, high * 1.15), (BOTTOM, 12.0));
    let percents: Vec<(f64, String)> = NAMED
        .iter()
        .filter(|(part, _)| stretched(*part) <= last + 0.001)
        .map(|(part, name)| (stretched(*part), (*name).to_owned()))
        .collect();
    let times: Vec<(f64, String)> = log_ticks(low * 0.85, high * 1.15, TICKS_MAX)
        .into_iter()
        .map(|ns| (ns, tick(ns)))
        .collect();
    let body = html! {
        (y_grid(&y, &times, LEFT, WIDTH - 14.0))
        (x_grid(&x, &percents, 12.0, BOTTOM))
        text class="unit" x=(px(WIDTH - 14.0)) y=(px(HEIGHT - 6.0)) text-anchor="end" { "percentile" }
        text class="unit" x="4" y=(px(HEIGHT - 6.0)) { "latency" }
        @for (row, points) in &lines {
            polyline class={ (class(row.target)) " line" }
                points=(path(&points.iter().map(|(part, ns)| (x.at(stretched(*part)), y.at(*ns))).collect::<Vec<_>>())) {}
            @for (part, value) in latency_points(&row.latencies) {
                (mark(row.target, x.at(stretched(part)), y.at(value.0 as f64), 4.0, true,
                    &format!("{}: p{} {value}", row.label, percent(part))))
            }
        }
    };
    let title = rows.first().map_or_else(String::new, |row| {
        format!("{}: latency by percentile", row.title)
    });
    let title = &title;
    Some(frame(HEIGHT, &Label { title, desc }, &body))
}

/// Each nine takes the same room.
fn stretched(part: f64) -> f64 {
    -(1.0 - part).max(1e-9).log10()
}

/// 99.9 from 0.999, without what a float adds.
pub(in crate::report) fn percent(part: f64) -> String {
    let text = format!("{:.3}", part * 100.0);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Parts and latencies up to where ten operations are slower: a step for each bucket, thinned, and the named
/// percentiles, so that their marks are on the line.
fn curve(histogram: &Histogram) -> Vec<(f64, f64)> {
    let count = histogram.count();
    if count < tail::SLOWER_MIN * 2 {
        return Vec::new();
    }
    let end = 1.0 - tail::SLOWER_MIN as f64 / count as f64;
    let mut seen = 0u64;
    let mut steps: Vec<[(f64, f64); 2]> = Vec::new();
    for (mid, here) in histogram.buckets() {
        let from = seen as f64 / count as f64;
        if from > end {
            break;
        }
        seen += here;
        let to = (seen as f64 / count as f64).min(end);
        steps.push([(from, mid.0 as f64), (to, mid.0 as f64)]);
    }
    let keep = steps.len().div_ceil(STEPS_MAX).max(1);
    let last = steps.len().saturating_sub(1);
    let steps = steps.into_iter().enumerate();
    let kept = steps.filter(|(index, _)| index % keep == 0 || *index == last);
    let mut points: Vec<(f64, f64)> = kept.flat_map(|(_, step)| step).collect();
    let named = latency_points(histogram).into_iter();
    points.extend(named.map(|(part, value)| (part, value.0 as f64)));
    points.sort_by(|(a, x), (b, y)| a.total_cmp(b).then(x.total_cmp(y)));
    points
}

pub(super) fn tick(ns: f64) -> String {
    let (value, unit) = match ns {
        ns if ns >= 1e9 => (ns / 1e9, "s"),
        ns if ns >= 1e6 => (ns / 1e6, "ms"),
        ns if ns >= 1e3 => (ns / 1e3, "us"),
        ns => (ns, "ns"),
    };
    format!("{value:.0} {unit}")
}
