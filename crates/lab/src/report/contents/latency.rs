//! Latency: by percentile, and over the blocks of a run as a heat map.

use super::{Figure, Section, Table, singles};
use crate::checks;
use crate::fio::Histogram;
use crate::report::cells::latency as shown;
use crate::report::chart::{self, Column, Label};
use crate::report::short;
use crate::report::summary::{Row, Summary};
use crate::store::{Cell, RunRecord};
use crate::units::grouped;

/// Heat maps of one report: those of the first tests and targets; the percentiles are of all.
const HEATS_MAX: usize = 16;
/// Percentiles in the table below a heat map.
const PARTS: [f64; 3] = [0.5, 0.99, 0.999];

pub(super) fn latency(run: &RunRecord, summary: &Summary) -> Option<Section> {
    let lead = "How long an operation took from being submitted, all blocks together (histograms added, percentiles never averaged). \
                A line ends where fewer than ten operations were slower. \
                Below, the same block by block: a column for each measurement, darker where more of its operations were.";
    let singles: Vec<usize> = singles(run).collect();
    let mut tests = singles
        .iter()
        .filter_map(|workload| percentiles(&rows_of(summary, *workload)))
        .peekable();
    tests.peek()?;
    let rows = summary.rows.iter();
    let rows = rows.filter(|row| singles.contains(&row.workload));
    let maps: Vec<HeatMap<'_>> = rows.map(|row| HeatMap::of(run, row)).collect();
    let heats = maps.iter().filter_map(|map| {
        let of_test = maps
            .iter()
            .filter(|other| other.row.workload == map.row.workload);
        heat(
            map,
            chart::heat_range(of_test.flat_map(|other| &other.columns))?,
        )
    });
    let heats = heats.take(HEATS_MAX);
    Section::of_figures("latency", "Latency", lead, tests.chain(heats))
}

/// The rows of one test.
pub(super) fn rows_of(summary: &Summary, workload: usize) -> Vec<&Row> {
    let rows = summary.rows.iter();
    rows.filter(|row| row.workload == workload).collect()
}

fn percentiles(rows: &[&Row]) -> Option<Figure> {
    let said: Vec<String> = rows
        .iter()
        .filter(|row| row.latencies.count() > 0)
        .map(|row| {
            format!(
                "{}: p50 {}, p99 {}, n = {} operations in {} blocks.",
                short(&row.label, 30),
                shown(row.p50),
                shown(row.p99),
                grouped(row.latencies.count() as f64),
                row.usable
            )
        })
        .collect();
    let caption = said.join(" ")
        + " A value is known to within 1.6 %, the width of its bucket; there is no interval.";
    Some(Figure {
        title: rows.first()?.title.clone(),
        drawing: chart::latency(rows, &caption)?,
        key: Vec::new(),
        caption,
        table: Table::new(&["target", "percentile", "ns"]).with(rows.iter().flat_map(|row| {
            let points = chart::latency_points(&row.latencies).into_iter();
            points.map(|(part, value)| {
                vec![row.label.clone(), chart::percent(part), value.0.to_string()]
            })
        })),
        file: "latency",
    })
}

/// The measurements of a result, in the order in which they were made.
struct HeatMap<'a> {
    row: &'a Row,
    cells: Vec<&'a Cell>,
    columns: Vec<Column>,
}

impl<'a> HeatMap<'a> {
    fn of(run: &'a RunRecord, row: &'a Row) -> Self {
        let cells: Vec<&Cell> = run.cells_of(row.workload, row.target).collect();
        let columns = cells.iter().map(|cell| Column {
            name: (cell.block + 1).to_string(),
            latencies: cell
                .fio()
                .map_or_else(Histogram::default, |result| result.latencies.clone()),
            counted: cell.is_usable(),
        });
        Self {
            row,
            columns: columns.collect(),
            cells,
        }
    }
}

/// One map, over times from the first to the second of `ends`.
fn heat(map: &HeatMap<'_>, ends: (f64, f64)) -> Option<Figure> {
    let HeatMap {
        row,
        cells,
        columns,
    } = map;
    let title = format!("{} on {}", row.title, short(&row.label, 30));
    let seconds = |at: Option<&&Cell>| at.map_or(0.0, |cell| cell.started.seconds());
    let caption = format!(
        "n = {} operations in {} blocks, from {:.0} s to {:.0} s of the run. Shades are parts of a block's own operations; \
         there is no interval, each block stands for itself. All maps of a test have one scale.",
        grouped(
            columns
                .iter()
                .map(|column| column.latencies.count())
                .sum::<u64>() as f64
        ),
        columns.len(),
        seconds(cells.first()),
        seconds(cells.last()),
    );
    let drawing = chart::heat(
        columns,
        ends,
        &Label {
            title: &format!("{title}: latency over time"),
            desc: &caption,
        },
    )?;
    let rows = columns.iter().map(|column| {
        let percentiles = PARTS.iter().map(|part| {
            checks::percentile(&column.latencies, *part)
                .map_or_else(String::new, |found| found.value.0.to_string())
        });
        let first = [column.name.clone(), column.latencies.count().to_string()];
        let last = if column.counted { "yes" } else { "no" };
        first
            .into_iter()
            .chain(percentiles)
            .chain([last.to_owned()])
            .collect()
    });
    Some(Figure {
        title,
        drawing,
        key: Vec::new(),
        caption,
        table: Table::new(&["block", "n", "p50 ns", "p99 ns", "p99.9 ns", "usable"]).with(rows),
        file: "latency-over-time",
    })
}
