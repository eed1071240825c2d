//! Bars from zero: one for each target, with the interval, every block and the ceiling.

use maud::{Markup, html};

use super::scale::{Scale, linear_ticks};
use super::{Label, NAME_MAX, WIDTH, frame, palette, px, x_grid};
use crate::checks::Validity;
use crate::checks::ceiling::Ceiling;
use crate::report::summary::Row;
use crate::report::{range, short};
use crate::stats::Interval;
use crate::units::{Rate, significant};

/// Height of one target.
const ROW: f64 = 50.0;
/// From the top of a target to its bar, below its name and its figure.
const BAR: f64 = 20.0;
/// A ceiling farther away than this many times the longest bar is left to the caption.
const CEILING_NEAR: f64 = 1.6;

/// The bars of one test. `ceiling` is the lowest of the first target's.
pub(in crate::report) fn throughput(
    rows: &[&Row],
    ceiling: Option<&Ceiling>,
    desc: &str,
) -> Markup {
    let longest = rows
        .iter()
        .flat_map(|row| {
            row.blocks
                .iter()
                .map(|block| block.rate)
                .chain(row.rate.map(|rate| rate.high))
        })
        .fold(1.0, f64::max)
        / 1e6;
    let near = ceiling
        .map(|found| found.rate.mb())
        .filter(|rate| *rate <= longest * CEILING_NEAR);
    let max = near.unwrap_or(0.0).max(longest) * 1.04;
    let scale = Scale::linear((0.0, max), (8.0, WIDTH - 12.0));
    let bottom = 8.0 + ROW * rows.len() as f64;
    let title = rows.first().map_or_else(String::new, |row| {
        format!("{}: throughput in MB/s", row.title)
    });
    let body = html! {
        (x_grid(&scale, &linear_ticks(max, 5.0), 8.0, bottom))
        text class="unit" x=(px(WIDTH - 12.0)) y=(px(bottom + 31.0)) text-anchor="end" { "MB/s" }
        @for (row, index) in rows.iter().zip(0u8..) { (bar(row, &scale, 8.0 + ROW * f64::from(index))) }
        @if let (Some(rate), Some(found)) = (near, ceiling) {
            line class="ceiling" x1=(px(scale.at(rate))) x2=(px(scale.at(rate))) y1=(px(8.0 + BAR - 1.0)) y2=(px(8.0 + ROW - 1.0)) {
                title { "ceiling: " (found.describe()) ", " (found.rate) }
            }
        }
    };
    let title = &title;
    frame(bottom + 38.0, &Label { title, desc }, &body)
}

fn bar(row: &Row, scale: &Scale, top: f64) -> Markup {
    let (y, height) = (top + BAR, 20.0);
    let valid = row.validity.is_usable();
    let median = row.rate.map(|rate| rate.median / 1e6);
    let figure = match (&row.validity, median) {
        (Validity::Invalid { .. }, _) => "invalid".to_owned(),
        (_, Some(median)) => format!("{} MB/s", significant(median)),
        (_, None) => "not measured".to_owned(),
    };
    // An invalid result is drawn at what was measured, hatched, and in no median.
    let shown = median.or_else(|| invalid_height(row));
    html! {
        text class="name" x="8" y=(px(top + 15.0)) { (short(&row.label, NAME_MAX)) }
        text class="figure" x=(px(WIDTH - 12.0)) y=(px(top + 15.0)) text-anchor="end" { (figure) }
        @if let Some(value) = shown {
            rect class=(palette::bar(row.target, valid))
                x=(px(scale.at(0.0))) y=(px(y)) height=(px(height)) width=(px((scale.at(value) - scale.at(0.0)).max(0.5))) {
                title { (row.label) ": " (Rate(value * 1e6)) ", " (row.validity) }
            }
        }
        @for block in &row.blocks {
            circle class={ "dot" (if block.usable { "" } else { " out" }) } cx=(px(scale.at(block.rate / 1e6))) cy=(px(y + height / 2.0)) r="2.4" {
                title { "block " (block.block + 1) ": " (Rate(block.rate)) }
            }
        }
        @if let Some(rate) = row.rate.filter(Interval::is_known) {
            g class="whisker" {
                title { "95 % interval " (range(rate.low / 1e6, rate.high / 1e6)) " MB/s" }
                line x1=(px(scale.at(rate.low / 1e6))) x2=(px(scale.at(rate.high / 1e6))) y1=(px(y + height / 2.0)) y2=(px(y + height / 2.0)) {}
                @for end in [rate.low, rate.high] {
                    line x1=(px(scale.at(end / 1e6))) x2=(px(scale.at(end / 1e6))) y1=(px(y + 4.0)) y2=(px(y + height - 4.0)) {}
                }
            }
        }
    }
}

fn invalid_height(row: &Row) -> Option<f64> {
    let rates: Vec<f64> = row.blocks.iter().map(|block| block.rate / 1e6).collect();
    crate::stats::median(&rates)
}
