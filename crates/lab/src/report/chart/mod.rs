//! Charts as SVG written by hand, so that the page's style sheet gives light, dark and print their
//! colours, hatching marks what is invalid, and every mark carries its figure as a tooltip.
//!
//! Invariants: bars start at zero; targets differ in colour, shape and dash; nothing that is drawn is
//! missing from the table below the chart. Why no library: `docs/adr/0004-charts.md`.

mod blocks;
mod cores;
mod heat;
mod latency;
mod palette;
mod plane;
mod ratio;
mod scale;
mod throughput;
mod waterfall;

pub(super) use blocks::blocks;
pub(super) use cores::{CoreSeries, KINDS, cores};
pub(super) use heat::{Column, heat};
pub(super) use latency::{latency, latency_points, percent};
pub(super) use palette::{patterns, swatch};
pub(super) use plane::{Along, Flag, Floor, Line, Panel, Plane, Point};
pub(super) use ratio::ratio;
pub(super) use throughput::throughput;
pub(super) use waterfall::{Layer, said, waterfall};

use maud::{Markup, html};

use scale::Scale;

/// Charts are drawn for this width and grow or shrink with their place on the page.
const WIDTH: f64 = 460.0;
/// The longest target name in a chart.
const NAME_MAX: usize = 34;

/// Title and description of a drawing, for screen readers.
#[derive(Debug, Clone, Copy)]
pub(super) struct Label<'a> {
    /// Its name.
    pub(super) title: &'a str,
    /// What it shows; the caption has the same text.
    pub(super) desc: &'a str,
}

/// The drawing and what a screen reader says of it.
fn frame(height: f64, label: &Label<'_>, body: &Markup) -> Markup {
    html! {
        svg class="chart" viewBox={ "0 0 " (WIDTH) " " (px(height)) } role="img" {
            title { (label.title) }
            @if !label.desc.is_empty() { desc { (label.desc) } }
            (body)
        }
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
