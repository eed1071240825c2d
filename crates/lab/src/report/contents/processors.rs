//! CPU: each core's course, and what each test cost.

use super::timeline::{POINTS_MAX, end, machines, spans};
use super::{Figure, ReportBlock, Section, Table};
use crate::report::cells::cpu;
use crate::report::chart::{self, CoreSeries, KINDS};
use crate::report::summary::Summary;
use crate::report::{NONE, short};
use crate::sensors::Sample;
use crate::store::RunRecord;
use crate::units::Nanos;

/// The most cores that are drawn; the busiest are chosen.
const CORES_MAX: usize = 16;

pub(super) fn processors(run: &RunRecord, summary: &Summary) -> Option<Section> {
    let lead = "Each core of each machine by itself, once a second, and which target was being measured (the strip below). \
                The table has each core's busy part of this machine while a test ran, fio included; fio takes a part of one core itself.";
    let mut parts = vec![ReportBlock::Text(lead.into()), ReportBlock::Kinds];
    for (of, samples) in &machines(run) {
        let series = core_series(samples, of);
        parts.extend(
            series
                .iter()
                .map(|one| ReportBlock::Figure(core_figure(run, one))),
        );
    }
    parts.push(ReportBlock::Table(busy(summary)));
    Some(Section::new("cpu", "CPU", parts))
}

fn core_figure(run: &RunRecord, series: &CoreSeries) -> Figure {
    let busy = |kinds: std::ops::Range<usize>| {
        let sum: f64 = series
            .points
            .iter()
            .map(|(_, values)| values[kinds.clone()].iter().sum::<f64>())
            .sum();
        sum / series.points.len().max(1) as f64 * 100.0
    };
    let caption = format!(
        "{}: busy {:.0} % of the run on average (programs {:.0}, kernel {:.0}, interrupts {:.0}, stolen {:.0}), n = {} points. \
         No interval: this is a course, not an estimate.",
        upper(&series.name),
        busy(0..5),
        busy(0..1),
        busy(1..2),
        busy(2..4),
        busy(4..5),
        series.points.len()
    );
    let spans: Vec<(usize, Nanos, Nanos)> = spans(run)
        .into_iter()
        .map(|(target, from, to)| (target, seconds(from), seconds(to)))
        .collect();
    Figure {
        title: upper(&series.name),
        drawing: chart::cores(series, &spans, seconds(end(run)), &caption),
        key: Vec::new(),
        caption,
        table: Table::new(&[
            "s",
            "programs",
            "kernel",
            "soft interrupts",
            "interrupts",
            "stolen",
        ])
        .with(series.points.iter().map(|(at, values)| {
            let values = values.iter().map(|value| format!("{value:.3}"));
            std::iter::once(format!("{:.1}", at.seconds()))
                .chain(values)
                .collect()
        })),
        file: "core",
    }
}

/// With a capital letter.
fn upper(name: &str) -> String {
    name.replacen("core", "Core", 1)
}

fn seconds(value: f64) -> Nanos {
    Nanos(crate::units::round(value * 1e9))
}

/// The samples of each core, thinned by averaging neighbours; the busiest where there are many.
fn core_series(samples: &[Sample], of_machine: &str) -> Vec<CoreSeries> {
    let mut all: Vec<CoreSeries> = Vec::new();
    for sample in samples.iter().filter(|sample| sample.sensor == "cpu") {
        let Some((core, kind)) = sample.item.split_once('/') else {
            continue;
        };
        let (Ok(core), Some(kind)) = (
            core.parse::<u32>(),
            KINDS.iter().position(|(name, _)| *name == kind),
        ) else {
            continue;
        };
        let index = all
            .iter()
            .position(|series| series.core == core)
            .unwrap_or_else(|| {
                all.push(CoreSeries {
                    core,
                    name: format!("core {core}{of_machine}"),
                    points: Vec::new(),
                });
                all.len() - 1
            });
        let points = &mut all[index].points;
        if points.last().is_none_or(|(at, _)| *at != sample.at) {
            points.push((sample.at, [0.0; 5]));
        }
        if let Some((_, values)) = points.last_mut() {
            values[kind] = sample.value;
        }
    }
    let load = |series: &CoreSeries| {
        series
            .points
            .iter()
            .map(|(_, values)| values.iter().sum::<f64>())
            .sum::<f64>()
    };
    all.sort_by(|a, b| load(b).total_cmp(&load(a)));
    all.truncate(CORES_MAX);
    all.sort_by_key(|series| series.core);
    all.into_iter().map(thinned).collect()
}

fn thinned(series: CoreSeries) -> CoreSeries {
    let together = series.points.len().div_ceil(POINTS_MAX).max(1);
    let points = series.points.chunks(together).map(|chunk| {
        let mut mean = [0.0; 5];
        for (_, values) in chunk {
            for (sum, value) in mean.iter_mut().zip(values) {
                *sum += value / chunk.len() as f64;
            }
        }
        (chunk[chunk.len() / 2].0, mean)
    });
    CoreSeries {
        core: series.core,
        points: points.collect(),
        name: series.name,
    }
}

fn busy(summary: &Summary) -> Table {
    let numbers: Vec<u32> = summary
        .rows
        .first()
        .map(|row| {
            row.cores
                .iter()
                .map(|(core, _)| *core)
                .take(CORES_MAX)
                .collect()
        })
        .unwrap_or_default();
    let rows = summary.rows.iter().map(|row| {
        let core = |number: &u32| {
            row.cores
                .iter()
                .find(|(core, _)| core == number)
                .map_or_else(|| NONE.into(), |(_, part)| format!("{:.0} %", part * 100.0))
        };
        let mut cells = vec![format!("{}, {}", row.title, short(&row.label, 30))];
        cells.extend(numbers.iter().map(core));
        cells.extend([
            format!("{:.0} %", row.generator_cpu * 100.0),
            cpu(row.server_cpu),
            cpu(row.client_cpu),
        ]);
        cells
    });
    let mut table = Table::new(&["test"]).with(rows);
    table
        .head
        .extend(numbers.iter().map(|core| format!("core {core}")));
    table.head.extend(
        [
            "fio, of one core",
            "server, of one core",
            "client, of one core",
        ]
        .map(str::to_owned),
    );
    table
}
