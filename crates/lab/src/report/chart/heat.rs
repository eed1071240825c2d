//! Latency over time: a column for each measurement, darker where more of its operations were.
//!
//! Invariants: rows are even factors of time; a shade is a part of the column's own operations, so a
//! longer measurement is no darker; neighbours are added, never averaged, where columns are many; what
//! is not counted is crossed out.

use std::fmt::Write as _;

use maud::{Markup, html};

use super::scale::{Scale, log_ticks};
use super::{Label, WIDTH, frame, latency, px, y_grid};
use crate::fio::Histogram;

const HEIGHT: f64 = 224.0;
const LEFT: f64 = 60.0;
const RIGHT: f64 = WIDTH - 12.0;
const TOP: f64 = 10.0;
const BOTTOM: f64 = HEIGHT - 58.0;
/// Of the y axis.
const TICKS_MAX: usize = 9;
/// Rows of a drawing.
const ROWS: usize = 26;
/// The most columns.
const COLUMNS_MAX: usize = 60;
/// The least part of a column's operations that has each shade.
const SHADES: [f64; 6] = [0.0, 0.001, 0.01, 0.05, 0.15, 0.35];

/// One measurement.
#[derive(Debug, Clone)]
pub(in crate::report) struct Column {
    /// The label below.
    pub(in crate::report) name: String,
    pub(in crate::report) latencies: Histogram,
    /// Whether it is in the median.
    pub(in crate::report) counted: bool,
}

/// The fastest and the slowest operation of all columns, with a margin: the scale of maps that are compared; none
/// when no operation was timed.
pub(in crate::report) fn heat_range<'a>(
    columns: impl IntoIterator<Item = &'a Column>,
) -> Option<(f64, f64)> {
    let (low, high) = columns
        .into_iter()
        .flat_map(|column| column.latencies.buckets())
        .map(|(at, _)| at.0 as f64)
        .fold((f64::INFINITY, 0.0), |(low, high), at| {
            (at.min(low), at.max(high))
        });
    (low.is_finite() && high > 0.0).then(|| (low.max(1.0) * 0.9, high.max(low * 2.0) * 1.1))
}

/// The measurements in the order in which they were made, over times from `low` to `high`; none when no
/// operation was timed.
pub(in crate::report) fn heat(
    columns: &[Column],
    (low, high): (f64, f64),
    label: &Label<'_>,
) -> Option<Markup> {
    heat_range(columns)?;
    let columns = merged(columns);
    let y = Scale::log((low, high), (BOTTOM, TOP));
    let width = (RIGHT - LEFT) / columns.len() as f64;
    let times: Vec<(f64, String)> = log_ticks(low, high, TICKS_MAX)
        .into_iter()
        .map(|ns| (ns, latency::tick(ns)))
        .collect();
    let every = columns.len().div_ceil(10).max(1);
    let body = html! {
        (y_grid(&y, &times, LEFT, RIGHT))
        @for (shade, drawn) in shades(&columns, (low, high), width).iter().enumerate() {
            @if !drawn.is_empty() { path class={ "h" (shade) } d=(drawn) {} }
        }
        @for (index, column) in columns.iter().enumerate() {
            @let left = LEFT + width * index as f64;
            @if !column.counted {
                path class="crossed" d={ "M" (px(left)) " " (px(TOP)) "L" (px(left + width)) " " (px(BOTTOM)) "M" (px(left + width)) " " (px(TOP)) "L" (px(left)) " " (px(BOTTOM)) } {
                    title { "invalid" }
                }
            }
            @if index % every == 0 {
                text class="tick" x=(px(left + width / 2.0)) y=(px(BOTTOM + 16.0)) text-anchor="middle" { (column.name) }
            }
        }
        text class="unit" x=(px(RIGHT)) y=(px(BOTTOM + 31.0)) text-anchor="end" { "block" }
        (legend())
    };
    Some(frame(HEIGHT, label, &body))
}

/// Neighbours added until there are few enough; a column is counted when all of it is.
fn merged(columns: &[Column]) -> Vec<Column> {
    let together = columns.len().div_ceil(COLUMNS_MAX).max(1);
    let merged = columns.chunks(together).map(|chunk| {
        let mut first = chunk[0].clone();
        for other in &chunk[1..] {
            first.latencies.merge(&other.latencies);
            first.counted &= other.counted;
        }
        first
    });
    merged.collect()
}

/// One path for each shade: a rectangle for each run of rows of one column that have it.
fn shades(columns: &[Column], ends: (f64, f64), width: f64) -> [String; SHADES.len()] {
    let mut paths: [String; SHADES.len()] = Default::default();
    let height = (BOTTOM - TOP) / ROWS as f64;
    for (index, column) in columns.iter().enumerate() {
        let rows = rows(&column.latencies, ends);
        let left = px(LEFT + width * index as f64);
        let mut row = 0;
        while row < ROWS {
            let shade = rows[row];
            let run = rows[row..]
                .iter()
                .take_while(|same| **same == shade)
                .count();
            if let Some(shade) = shade {
                let bottom = BOTTOM - height * row as f64;
                let tall = px(height * run as f64);
                let drawn = &mut paths[shade];
                write!(
                    drawn,
                    "M{left} {}h{}v-{tall}h-{}z",
                    px(bottom),
                    px(width),
                    px(width)
                )
                .expect("a string takes what is written to it");
            }
            row += run;
        }
    }
    paths
}

/// The shade of each row, the fastest first; none where no operation was.
fn rows(latencies: &Histogram, (low, high): (f64, f64)) -> [Option<usize>; ROWS] {
    let mut counts = [0u64; ROWS];
    let place = Scale::log((low, high), (0.0, ROWS as f64));
    for (at, count) in latencies.buckets() {
        let row = usize::try_from(crate::units::round(place.at(at.0 as f64).floor()));
        counts[row.unwrap_or(0).min(ROWS - 1)] += count;
    }
    let all = latencies.count().max(1) as f64;
    counts.map(|count| {
        let part = count as f64 / all;
        (count > 0)
            .then(|| SHADES.iter().rposition(|least| part >= *least))
            .flatten()
    })
}

fn legend() -> Markup {
    let names = ["< 0.1 %", "0.1", "1", "5", "15", "> 35 %"];
    let step = 60.0;
    html! {
        @for (shade, name) in (0u8..).zip(names) {
            @let left = LEFT - 30.0 + f64::from(shade) * step + if shade > 0 { 16.0 } else { 0.0 };
            rect class={ "h" (shade) } x=(px(left)) y=(px(HEIGHT - 18.0)) width="12" height="12" {}
            text class="unit" x=(px(left + 16.0)) y=(px(HEIGHT - 8.0)) { (name) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::Nanos;

    const LABEL: Label<'static> = Label {
        title: "latency over time",
        desc: "",
    };

    fn column(fast: u64, slow: u64) -> Column {
        let mut latencies = Histogram::default();
        latencies.add(Nanos(100_000), fast);
        latencies.add(Nanos(9_000_000), slow);
        Column {
            name: "1".into(),
            latencies,
            counted: true,
        }
    }

    #[test]
    fn a_shade_is_the_part_of_its_own_column() {
        let ends = (50_000.0, 10_000_000.0);
        let found = |column: &Column| {
            let shades = rows(&column.latencies, ends).into_iter().flatten();
            shades.collect::<Vec<_>>()
        };
        // 90 % and 10 % of 100, and of 10,000.
        assert_eq!(found(&column(90, 10)), [5, 3]);
        assert_eq!(found(&column(9_000, 1_000)), [5, 3]);
        assert_eq!(found(&column(99_999, 1)), [5, 0]);
    }

    #[test]
    fn many_columns_are_added_and_one_that_is_not_counted_crosses_its_own_out() {
        let mut columns = vec![column(10, 0); 150];
        columns[3].counted = false;
        let few = merged(&columns);
        assert_eq!(few.len(), 50);
        assert_eq!(few[0].latencies.count(), 30);
        assert_eq!(few.iter().filter(|column| !column.counted).count(), 1);
        let ends = heat_range(&columns).unwrap();
        let drawn = heat(&columns, ends, &LABEL).unwrap().into_string();
        assert_eq!(drawn.matches("class=\"crossed\"").count(), 1);
        assert!(drawn.len() < 20_000, "{}", drawn.len());
    }

    #[test]
    fn without_operations_there_is_no_map() {
        let ends = heat_range(&[column(5, 0)]).unwrap();
        assert!(heat(&[], ends, &LABEL).is_none());
        assert!(heat(&[column(0, 0)], ends, &LABEL).is_none());
        assert!(heat(&[column(5, 0)], ends, &LABEL).is_some());
        assert_eq!(heat_range(&[column(0, 0)]), None);
    }
}
