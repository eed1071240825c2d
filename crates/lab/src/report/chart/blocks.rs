//! Every measurement in the order of its block, so that drift and outliers are seen.

use maud::{Markup, html};

use super::palette::{class, mark};
use super::scale::{Scale, count_ticks, linear_ticks};
use super::{Label, WIDTH, frame, px, x_grid, y_grid};
use crate::report::summary::Row;
use crate::units::Rate;

const HEIGHT: f64 = 210.0;
const LEFT: f64 = 52.0;
const BOTTOM: f64 = HEIGHT - 40.0;
/// Numbers of blocks below the drawing.
const NUMBERS_MAX: u32 = 10;

/// The blocks of one test.
pub(in crate::report) fn blocks(rows: &[&Row], desc: &str) -> Markup {
    let points = || rows.iter().flat_map(|row| row.blocks.iter());
    let max = points().map(|block| block.rate / 1e6).fold(1.0, f64::max) * 1.06;
    let last = points().map(|block| block.block + 1).max().unwrap_or(1);
    let x = Scale::linear((0.5, f64::from(last) + 0.5), (LEFT, WIDTH - 10.0));
    let y = Scale::linear((0.0, max), (BOTTOM, 12.0));
    let numbers = count_ticks(last, NUMBERS_MAX);
    let title = rows.first().map_or_else(String::new, |row| {
        format!("{}: every block, in MB/s", row.title)
    });
    let body = html! {
        (y_grid(&y, &linear_ticks(max, 4.0), LEFT, WIDTH - 10.0))
        (x_grid(&x, &numbers, BOTTOM, BOTTOM))
        text class="unit" x=(px(WIDTH - 10.0)) y=(px(HEIGHT - 6.0)) text-anchor="end" { "block" }
        text class="unit" x="4" y=(px(HEIGHT - 6.0)) { "MB/s" }
        @for row in rows {
            @if let Some(rate) = row.rate {
                line class={ (class(row.target)) " median" } x1=(px(LEFT)) x2=(px(WIDTH - 10.0))
                    y1=(px(y.at(rate.median / 1e6))) y2=(px(y.at(rate.median / 1e6))) {
                    title { (row.label) ": median " (Rate(rate.median)) }
                }
            }
            @for block in &row.blocks {
                (mark(row.target, x.at(f64::from(block.block) + 1.0), y.at(block.rate / 1e6), 4.5, block.usable,
                    &format!("{}, block {}: {}{}", row.label, block.block + 1, Rate(block.rate),
                        if block.usable { "" } else { ", invalid" })))
            }
        }
    };
    let title = &title;
    frame(HEIGHT, &Label { title, desc }, &body)
}
