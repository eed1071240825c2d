//! The comparison: the ratio of each test with its interval, around the line of "the same".

use maud::{Markup, html};

use super::scale::{Scale, ratio_ticks};
use super::{Label, WIDTH, frame, px, with_room, x_grid};
use crate::report::RatioText;
use crate::stats::{Comparison, SAME_WITHIN, Verdict};

/// Height of one test.
const ROW: f64 = 44.0;
/// Where the drawing begins.
const LEFT: f64 = 22.0;
/// Where the drawing ends and figures begin.
const RIGHT: f64 = WIDTH - 74.0;

/// One line for each named comparison; without one where the two may not be compared.
pub(in crate::report) fn ratio(rows: &[(String, Option<Comparison>)], label: &Label<'_>) -> Markup {
    let (low, high) = bounds(rows);
    let scale = Scale::log((low, high), (LEFT, RIGHT));
    let bottom = 24.0 + ROW * rows.len() as f64;
    let ticks = ratio_ticks(low, high);
    let one = ticks
        .iter()
        .position(|(value, _)| (*value - 1.0).abs() < 1e-9);
    let ticks = with_room(&scale, &ticks, one.unwrap_or(0));
    let ticks: Vec<(f64, String)> = ticks.into_iter().cloned().collect();
    let body = html! {
        text class="unit" x=(px(scale.at(1.0) - 8.0)) y="14" text-anchor="end" { "◀ slower" }
        text class="unit" x=(px(scale.at(1.0) + 8.0)) y="14" { "faster ▶" }
        rect class="same" x=(px(scale.at(1.0 - SAME_WITHIN))) y="22" height=(px(bottom - 22.0))
            width=(px(scale.at(1.0 + SAME_WITHIN) - scale.at(1.0 - SAME_WITHIN))) {
            title { "the same within 3 %" }
        }
        (x_grid(&scale, &ticks, 22.0, bottom))
        line class="one" x1=(px(scale.at(1.0))) x2=(px(scale.at(1.0))) y1="22" y2=(px(bottom)) {}
        @for ((name, found), index) in rows.iter().zip(0u8..) {
            (line(name, found.as_ref(), &scale, 24.0 + ROW * (f64::from(index) + 0.66)))
        }
    };
    frame(bottom + 24.0, label, &body)
}

/// Powers of two that hold every interval, at least a half to twice.
fn bounds(rows: &[(String, Option<Comparison>)]) -> (f64, f64) {
    let ends = || {
        rows.iter()
            .filter_map(|(_, found)| found.map(|found| found.ratio))
    };
    let low = ends().map(|ratio| ratio.low).fold(0.5, f64::min);
    let high = ends().map(|ratio| ratio.high).fold(2.0, f64::max);
    (2f64.powf(low.log2().floor()), 2f64.powf(high.log2().ceil()))
}

fn line(name: &str, found: Option<&Comparison>, scale: &Scale, y: f64) -> Markup {
    html! {
        text class="name" x="4" y=(px(y - 13.0)) { (name) }
        @if let Some(found) = found {
            @let ratio = found.ratio;
            @let text = RatioText::of(&ratio);
            g class={ "verdict " (class(found.verdict)) } {
                @if ratio.is_known() {
                    title { (name) ": " (text.times) " times, 95 % interval " (text.range()) ", " (ratio.n) " blocks" }
                    line x1=(px(scale.at(ratio.low))) x2=(px(scale.at(ratio.high))) y1=(px(y)) y2=(px(y)) {}
                    @for end in [ratio.low, ratio.high] {
                        line x1=(px(scale.at(end))) x2=(px(scale.at(end))) y1=(px(y - 5.0)) y2=(px(y + 5.0)) {}
                    }
                } @else {
                    title { (name) ": " (text.times) " times, too few repeats for an interval" }
                }
                polygon points=(shape(found.verdict, scale.at(ratio.median), y)) {}
            }
            text class="figure" x=(px(WIDTH - 4.0)) y=(px(y + 4.0)) text-anchor="end" { (text.times) "×" }
        } @else {
            text class="figure" x=(px(WIDTH - 4.0)) y=(px(y + 4.0)) text-anchor="end" { "not compared" }
        }
    }
}

const fn class(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Faster => "faster",
        Verdict::Slower => "slower",
        Verdict::Same => "level",
        Verdict::CannotTell { .. } => "unsure",
    }
}

/// An arrow in the direction of the difference, a square for the same, a diamond for no significant one.
fn shape(verdict: Verdict, x: f64, y: f64) -> String {
    let points: Vec<(f64, f64)> = match verdict {
        Verdict::Faster => vec![(-6.0, -7.0), (8.0, 0.0), (-6.0, 7.0)],
        Verdict::Slower => vec![(6.0, -7.0), (-8.0, 0.0), (6.0, 7.0)],
        Verdict::Same => vec![(-6.0, -6.0), (6.0, -6.0), (6.0, 6.0), (-6.0, 6.0)],
        Verdict::CannotTell { .. } => vec![(0.0, -8.0), (8.0, 0.0), (0.0, 8.0), (-8.0, 0.0)],
    };
    super::path(
        &points
            .into_iter()
            .map(|(dx, dy)| (x + dx, y + dy))
            .collect::<Vec<_>>(),
    )
}
