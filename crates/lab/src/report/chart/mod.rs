//! Charts as SVG written by hand, so that the page's style sheet gives light, dark and print their
//! colours, hatching marks what is invalid, and every mark carries its figure as a tooltip.
//!
//! Invariants: bars start at zero; targets differ in colour, shape and dash; nothing that is drawn is
//! missing from the table below the chart. Why no library: `docs/adr/0004-charts.md`.

mod blocks;
mod cores;
mod latency;
mod ratio;
mod scale;
mod throughput;

pub(super) use blocks::blocks;
pub(super) use cores::{CoreSeries, KINDS, cores};
pub(super) use latency::{latency, latency_points};
pub(super) use ratio::ratio;
pub(super) use throughput::throughput;

use maud::{Markup, html};

use scale::Scale;

/// Charts are drawn for this width and grow or shrink with their place on the page.
const WIDTH: f64 = 460.0;
/// The longest target name in a chart.
const NAME_MAX: usize = 34;

/// Patterns that all charts of a page use.
pub(super) fn patterns() -> Markup {
    html! {
        svg class="patterns" width="0" height="0" aria-hidden="true" {
            defs {
                @for target in 0..2 {
                    pattern id={ "hatch-" (target) } patternUnits="userSpaceOnUse" width="6" height="6"
                        patternTransform=(if target == 0 { "rotate(45)" } else { "rotate(-45)" }) {
                        rect class={ "t" (target) " hatch-ground" } width="6" height="6" {}
                        line class={ "t" (target) " hatch-line" } x1="0" y1="0" x2="0" y2="6" {}
                    }
                }
            }
        }
    }
}

/// The drawing and what it is called by a screen reader.
fn frame(height: f64, label: &str, body: &Markup) -> Markup {
    html! {
        svg class="chart" viewBox={ "0 0 " (WIDTH) " " (height) } role="img" aria-label=(label) { (body) }
    }
}

/// Vertical lines with their figures below, for the x axis.
fn x_grid(scale: &Scale, ticks: &[(f64, String)], top: f64, bottom: f64) -> Markup {
    html! {
        @for (value, text) in ticks {
            line class="grid" x1=(px(scale.at(*value))) x2=(px(scale.at(*value))) y1=(px(top)) y2=(px(bottom)) {}
            text class="tick" x=(px(scale.at(*value))) y=(px(bottom + 16.0)) text-anchor="middle" { (text) }
        }
    }
}

/// Horizontal lines with their figures at the left, for the y axis.
fn y_grid(scale: &Scale, ticks: &[(f64, String)], left: f64, right: f64) -> Markup {
    html! {
        @for (value, text) in ticks {
            line class="grid" x1=(px(left)) x2=(px(right)) y1=(px(scale.at(*value))) y2=(px(scale.at(*value))) {}
            text class="tick" x=(px(left - 6.0)) y=(px(scale.at(*value) + 4.0)) text-anchor="end" { (text) }
        }
    }
}

/// The mark of a target: a disc for the first, a square for the second; hollow where it is not counted.
fn mark(target: usize, x: f64, y: f64, size: f64, counted: bool, tip: &str) -> Markup {
    let class = if counted {
        format!("t{target} mark")
    } else {
        format!("t{target} mark out")
    };
    html! {
        @if target == 0 {
            circle class=(class) cx=(px(x)) cy=(px(y)) r=(px(size)) { title { (tip) } }
        } @else {
            rect class=(class) x=(px(x - size)) y=(px(y - size)) width=(px(size * 2.0)) height=(px(size * 2.0)) {
                title { (tip) }
            }
        }
    }
}

/// A coordinate to a tenth of a unit, which is finer than any screen.
fn px(value: f64) -> String {
    let text = format!("{value:.1}");
    text.strip_suffix(".0").map_or(text.clone(), str::to_owned)
}

/// Points of a line.
fn path(points: &[(f64, f64)]) -> String {
    let words: Vec<String> = points
        .iter()
        .map(|(x, y)| format!("{},{}", px(*x), px(*y)))
        .collect();
    words.join(" ")
}

#[cfg(test)]
mod tests;
