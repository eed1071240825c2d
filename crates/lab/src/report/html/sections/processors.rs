//! CPU: each core's course, and what each test cost.

use maud::{Markup, html};

use super::super::figure::{Figure, table};
use crate::report::chart::{self, CoreSeries, KINDS};
use crate::report::summary::Summary;
use crate::report::table::cpu;
use crate::report::{NONE, short};
use crate::store::RunRecord;
use crate::units::Nanos;

/// The most cores that are drawn; the busiest are chosen.
const CORES_MAX: usize = 16;
/// The most points of a core's drawing.
const POINTS_MAX: usize = 240;

pub(in crate::report::html) fn processors(run: &RunRecord, summary: &Summary) -> Markup {
    let series = core_series(run);
    let spans: Vec<(usize, Nanos, Nanos)> = run
        .cells
        .iter()
        .map(|cell| {
            (
                cell.target,
                cell.started,
                Nanos(cell.started.0 + cell.elapsed.0),
            )
        })
        .collect();
    let end = run
        .elapsed
        .unwrap_or_else(|| spans.last().map_or(Nanos(0), |(_, _, end)| *end));
    html! {
        section {
            h2 { "CPU" }
            p class="soft" {
                "Each core by itself, once a second, and which target was being measured (the strip below). "
                "The table has each core's busy part while a test ran, fio included; fio takes a part of one core itself."
            }
            ul class="key" aria-label="Kinds of CPU time" {
                @for (index, (_, name)) in KINDS.iter().enumerate() {
                    li { svg viewBox="0 0 16 14" aria-hidden="true" { rect class={ "k" (index) } x="1" y="1" width="14" height="12" {} } (name) }
                }
            }
            div class="panels" { @for one in &series { (core_figure(one, &spans, end)) } }
            div class="card wide" style="margin-top:1.25rem" { (busy(summary)) }
        }
    }
}

fn core_figure(series: &CoreSeries, spans: &[(usize, Nanos, Nanos)], end: Nanos) -> Markup {
    let mean: f64 = series
        .points
        .iter()
        .map(|(_, values)| values.iter().sum::<f64>())
        .sum::<f64>()
        / series.points.len().max(1) as f64;
    Figure {
        title: None,
        drawing: chart::cores(series, spans, end),
        caption: format!("Core {}: busy {:.0} % of the run on average, n = {} points. No interval: this is a course, not an estimate.",
            series.core, mean * 100.0, series.points.len()),
        head: vec!["s", "programs", "kernel", "soft interrupts", "interrupts", "stolen"],
        rows: series
            .points
            .iter()
            .map(|(at, values)| {
                std::iter::once(format!("{:.1}", at.seconds())).chain(values.iter().map(|value| format!("{value:.3}"))).collect()
            })
            .collect(),
        file: "core",
    }
    .markup()
}

/// The samples of each core, thinned by averaging neighbours; the busiest where there are many.
fn core_series(run: &RunRecord) -> Vec<CoreSeries> {
    let mut all: Vec<CoreSeries> = Vec::new();
    for sample in run.samples.iter().filter(|sample| sample.sensor == "cpu") {
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
    }
}

fn busy(summary: &Summary) -> Markup {
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
    let rows: Vec<Vec<String>> = summary
        .rows
        .iter()
        .map(|row| {
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
        })
        .collect();
    let names: Vec<String> = numbers.iter().map(|core| format!("core {core}")).collect();
    let mut head = vec!["test"];
    head.extend(names.iter().map(String::as_str));
    head.extend([
        "fio, of one core",
        "server, of one core",
        "client, of one core",
    ]);
    table(&head, &rows)
}
