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
pub(super) use heat::{Column, heat, heat_range};
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
/// Width of a digit on a phone, where letters are larger: 14 units by `style.css`.
const PHONE_LETTER: f64 = 8.0;
/// Between the figures of two ticks.
const GAP: f64 = 5.0;
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

/// Vertical lines with their figures below, for the x axis: as many as have room.
fn x_grid(scale: &Scale, ticks: &[(f64, String)], top: f64, bottom: f64) -> Markup {
    html! {
        @for (value, text) in with_room(scale, ticks, 0) {
            @let (x, half) = (scale.at(*value), text_width(text) / 2.0);
            line class="grid" x1=(px(x)) x2=(px(x)) y1=(px(top)) y2=(px(bottom)) {}
            @if x + half > WIDTH {
                text class="tick" x=(px(WIDTH)) y=(px(bottom + 16.0)) text-anchor="end" { (text) }
            } @else {
                text class="tick" x=(px(x)) y=(px(bottom + 16.0)) text-anchor="middle" { (text) }
            }
        }
    }
}

/// Every tick, every second, every third, …, that one among them which `anchor` is the index of: the first
/// of these that have room for their figures.
fn with_room<'a>(
    scale: &Scale,
    ticks: &'a [(f64, String)],
    anchor: usize,
) -> Vec<&'a (f64, String)> {
    let every = |step: usize| -> Vec<&(f64, String)> {
        ticks.iter().skip(anchor % step).step_by(step).collect()
    };
    let has_room = |ticks: &[&(f64, String)]| {
        ticks.windows(2).all(|pair| {
            let widths = (text_width(&pair[0].1) + text_width(&pair[1].1)) / 2.0;
            (scale.at(pair[1].0) - scale.at(pair[0].0)).abs() >= widths + GAP
        })
    };
    let mut steps = 1..ticks.len().max(2);
    let step = steps.find(|step| has_room(&every(*step)));
    step.map_or_else(Vec::new, every)
}

/// How wide a tick's figure is at most, in the larger letters of a phone.
fn text_width(text: &str) -> f64 {
    text.chars().map(|_| PHONE_LETTER).sum()
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
