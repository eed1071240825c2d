//! CPU of one core over time, stacked by kind, with what was being measured below.

use maud::{Markup, html};

use super::palette::class;
use super::scale::{Scale, linear_ticks};
use super::{Label, WIDTH, frame, path, px, x_grid, y_grid};
use crate::units::Nanos;

const HEIGHT: f64 = 176.0;
const LEFT: f64 = 44.0;
const BOTTOM: f64 = HEIGHT - 46.0;
/// Kinds from the bottom up, with their names.
pub(in crate::report) const KINDS: [(&str, &str); 5] = [
    ("user", "programs"),
    ("system", "kernel"),
    ("softirq", "soft interrupts"),
    ("irq", "interrupts"),
    ("steal", "stolen by the host"),
];

/// One core's samples, thinned to what can be drawn.
#[derive(Debug, Clone, Default)]
pub(in crate::report) struct CoreSeries {
    /// The core's number.
    pub(in crate::report) core: u32,
    /// What it is called: `core 0`, `core 0 of nas`.
    pub(in crate::report) name: String,
    /// When, and the part of the core for each of [`KINDS`].
    pub(in crate::report) points: Vec<(Nanos, [f64; 5])>,
}

/// One core. `spans` are the measurements: target, beginning and end.
pub(in crate::report) fn cores(
    series: &CoreSeries,
    spans: &[(usize, Nanos, Nanos)],
    end: Nanos,
    desc: &str,
) -> Markup {
    let x = Scale::linear((0.0, end.seconds().max(1.0)), (LEFT, WIDTH - 10.0));
    let y = Scale::linear((0.0, 1.0), (BOTTOM, 10.0));
    let halves = [
        (0.0, "0".to_owned()),
        (0.5, "50".to_owned()),
        (1.0, "100 %".to_owned()),
    ];
    let body = html! {
        (y_grid(&y, &halves, LEFT, WIDTH - 10.0))
        @for kind in 0..KINDS.len() { (area(series, kind, &x, &y)) }
        @for (target, from, to) in spans {
            rect class={ (class(*target)) " span" } x=(px(x.at(from.seconds()))) y=(px(BOTTOM + 3.0)) height="6"
                width=(px((x.at(to.seconds()) - x.at(from.seconds())).max(0.4))) {}
        }
        (x_grid(&x, &linear_ticks(end.seconds().max(1.0), 6.0), BOTTOM + 8.0, BOTTOM + 8.0))
        text class="unit" x=(px(WIDTH - 10.0)) y=(px(HEIGHT - 6.0)) text-anchor="end" { "s" }
        text class="name" x=(px(LEFT)) y=(px(HEIGHT - 6.0)) { (series.name) }
    };
    let title = &format!("CPU of {} over time", series.name);
    frame(HEIGHT, &Label { title, desc }, &body)
}

/// The area of one kind on top of those below it.
fn area(series: &CoreSeries, kind: usize, x: &Scale, y: &Scale) -> Markup {
    let height = |values: &[f64; 5], kinds: usize| values.iter().take(kinds).sum::<f64>();
    let mut outline: Vec<(f64, f64)> = series
        .points
        .iter()
        .map(|(at, values)| (x.at(at.seconds()), y.at(height(values, kind + 1))))
        .collect();
    outline.extend(
        series
            .points
            .iter()
            .rev()
            .map(|(at, values)| (x.at(at.seconds()), y.at(height(values, kind)))),
    );
    html! {
        polygon class={ "k" (kind) } points=(path(&outline)) { title { (KINDS[kind].1) } }
    }
}
