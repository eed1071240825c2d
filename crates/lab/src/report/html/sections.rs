//! The sections below the cover, from whether it can be trusted to the commands.

use maud::{Markup, html};

use super::figure::{Figure, table};
use super::key;
use crate::checks::ceiling::Ceiling;
use crate::checks::{Level, Validity};
use crate::report::chart::{self, CoreSeries, KINDS};
use crate::report::notes::Notes;
use crate::report::summary::{Row, Summary};
use crate::report::table::{cpu, latency as shown};
use crate::report::{NONE, range, short};
use crate::store::RunRecord;
use crate::units::{Nanos, Rate, grouped, significant};

/// The most cores that are drawn; the busiest are chosen.
const CORES_MAX: usize = 16;
/// The most points of a core's drawing.
const POINTS_MAX: usize = 240;

/// Each test with its rows.
fn tests<'a>(
    run: &'a RunRecord,
    summary: &'a Summary,
) -> impl Iterator<Item = (&'a str, Vec<&'a Row>)> {
    run.plan
        .workloads
        .iter()
        .enumerate()
        .map(|(index, workload)| {
            let rows = summary
                .rows
                .iter()
                .filter(|row| row.workload == index)
                .collect();
            (workload.title.as_str(), rows)
        })
}

pub(super) fn trust(run: &RunRecord, summary: &Summary) -> Markup {
    let manifest = &run.manifest;
    html! {
        section {
            h2 { "The figures, and whether to trust them" }
            p {
                "Each block made every test once on every target, in an order shuffled by seed " (run.seed) ". "
                "fio submitted by " (manifest.engine.as_str()) (if manifest.direct { ", past the page cache" } else { ", through the page cache" })
                ", on a file of " (manifest.size) " that was written before it was read. A write counts until its last flush has ended."
            }
            (figures(summary))
            @if !run.findings.is_empty() {
                p { "About the run as a whole:" }
                ul { @for finding in &run.findings { li class=(if finding.level == Level::Invalid { "invalid" } else { "" }) { (finding.text) } } }
            }
        }
    }
}

fn figures(summary: &Summary) -> Markup {
    let mut notes = Notes::default();
    let heads = [
        "on",
        "MB/s",
        "MiB/s",
        "95 %, MB/s",
        "n",
        "IOPS",
        "p50",
        "p99",
        "server CPU",
        "client CPU",
        "result",
    ];
    let rows: Vec<Markup> = summary
        .rows
        .iter()
        .map(|row| figures_row(row, &mut notes))
        .collect();
    html! {
        div class="card wide" {
            table class="figures" {
                thead { tr { @for (index, head) in heads.iter().enumerate() {
                    th scope="col" class=(if index == 0 || index == 10 { "text" } else { "" }) { (head) }
                } } }
                tbody { @for (row, drawn) in summary.rows.iter().zip(rows) {
                    @if row.target == 0 { tr class="test" { th colspan="11" scope="rowgroup" { (row.title) } } }
                    (drawn)
                } }
            }
        }
        @if notes.texts().next().is_some() {
            ol class="notes" { @for (number, text) in notes.texts() { li id={ "note-" (number) } { (text) } } }
        }
    }
}

fn figures_row(row: &Row, notes: &mut Notes) -> Markup {
    let unit = |unit: f64| {
        row.rate
            .map_or_else(|| NONE.into(), |rate| significant(rate.median / unit))
    };
    html! {
        tr {
            td { (short(&row.label, 34)) }
            td class="main" { (unit(1e6)) }
            td { (unit(1_048_576.0)) }
            td { (row.rate.map_or_else(|| NONE.into(), |rate| range(rate.low / 1e6, rate.high / 1e6))) }
            td { (row.usable) @if row.usable != row.blocks.len() { " of " (row.blocks.len()) } }
            td { (row.operations.map_or_else(|| NONE.into(), |found| grouped(found.median))) }
            td { (shown(row.p50)) }
            td { (shown(row.p99)) }
            @for found in [row.server_cpu, row.client_cpu] {
                td { @match found {
                    None => (NONE),
                    Some(cpu) => { (format!("{:.0} %", cpu.of_core * 100.0)) span class="second" { (cpu.per_mib) "/MiB" } }
                } }
            }
            td class="text" { (validity(&row.validity, notes)) }
        }
    }
}

fn validity(found: &Validity, notes: &mut Notes) -> Markup {
    let numbers = notes.numbers(found);
    html! {
        @match found {
            Validity::Good => span class="good" { "✓ good" },
            Validity::Remarks { .. } => span class="remarks" { "✓ good, with remarks" },
            Validity::Invalid { .. } => span class="invalid" { "✕ invalid" },
        }
        @for number in numbers { " " a href={ "#note-" (number) } { "[" (number) "]" } }
    }
}

pub(super) fn throughput(run: &RunRecord, summary: &Summary) -> Markup {
    let lowest = run.manifest.targets.first().and_then(|target| {
        target
            .ceilings
            .iter()
            .min_by(|a, b| a.rate.0.total_cmp(&b.rate.0))
    });
    html! {
        section {
            h2 { "Throughput" }
            p class="soft" { "Bars start at zero. Whiskers are the 95 % interval of the median, small circles the single blocks. Hatched bars are invalid and in no median." }
            (key(run))
            div class="panels" { @for (title, rows) in tests(run, summary) { (throughput_of(title, &rows, lowest)) } }
        }
    }
}

fn throughput_of(title: &str, rows: &[&Row], ceiling: Option<&Ceiling>) -> Markup {
    let mut caption: Vec<String> = rows.iter().map(|row| interval_of(row)).collect();
    if let Some(found) = ceiling {
        caption.push(format!(
            "Ceiling of {}: {} by {}.",
            short(&rows[0].label, 30),
            found.rate,
            found.describe()
        ));
    }
    let figure = |value: Option<f64>| value.map_or_else(String::new, |value| format!("{value:.0}"));
    Figure {
        title: Some(title.to_owned()),
        drawing: chart::throughput(rows, ceiling),
        caption: caption.join(" "),
        head: vec![
            "target",
            "bytes/s",
            "low",
            "high",
            "n",
            "operations/s",
            "result",
        ],
        rows: rows
            .iter()
            .map(|row| {
                vec![
                    row.label.clone(),
                    figure(row.rate.map(|rate| rate.median)),
                    figure(row.rate.map(|rate| rate.low)),
                    figure(row.rate.map(|rate| rate.high)),
                    row.usable.to_string(),
                    figure(row.operations.map(|found| found.median)),
                    row.validity.to_string(),
                ]
            })
            .collect(),
        file: "throughput",
    }
    .markup()
}

fn interval_of(row: &Row) -> String {
    let name = short(&row.label, 30);
    match row.rate {
        Some(rate) => format!(
            "{name}: {}, 95 % interval {} MB/s, n = {}.",
            Rate(rate.median),
            range(rate.low / 1e6, rate.high / 1e6),
            rate.n
        ),
        None => format!("{name}: {}.", row.validity),
    }
}

pub(super) fn latency(run: &RunRecord, summary: &Summary) -> Markup {
    html! {
        section {
            h2 { "Latency" }
            p class="soft" { "How long an operation took from being submitted, all blocks together (histograms added, percentiles never averaged). A line ends where fewer than ten operations were slower." }
            (key(run))
            div class="panels" { @for (title, rows) in tests(run, summary) { (latency_of(title, &rows)) } }
        }
    }
}

fn latency_of(title: &str, rows: &[&Row]) -> Markup {
    let Some(drawing) = chart::latency(rows) else {
        return html! { div class="card" { h3 { (title) } p class="soft" { "Too few operations for percentiles." } } };
    };
    let caption: Vec<String> = rows
        .iter()
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
    Figure {
        title: Some(title.to_owned()),
        drawing,
        caption: caption.join(" ")
            + " A value is known to within 1.6 %, the width of its bucket; there is no interval.",
        head: vec!["target", "percentile", "ns"],
        rows: rows
            .iter()
            .flat_map(|row| {
                chart::latency_points(&row.latencies)
                    .into_iter()
                    .map(|(part, value)| {
                        vec![
                            row.label.clone(),
                            format!("{:.3}", part * 100.0),
                            value.0.to_string(),
                        ]
                    })
            })
            .collect(),
        file: "latency",
    }
    .markup()
}

pub(super) fn blocks(run: &RunRecord, summary: &Summary) -> Markup {
    html! {
        section {
            h2 { "Block by block" }
            p class="soft" { "Every single measurement, in time order. Lines are medians; hollow marks are invalid." }
            (key(run))
            div class="panels" {
                @for (title, rows) in tests(run, summary) {
                    ({
                        let cells = rows.iter().flat_map(|row| row.blocks.iter().map(|block| vec![
                            row.label.clone(), (block.block + 1).to_string(), format!("{:.0}", block.rate),
                            (if block.usable { "yes" } else { "no" }).to_owned(),
                        ]));
                        Figure {
                            title: Some(title.to_owned()),
                            drawing: chart::blocks(&rows),
                            caption: rows.iter().map(|row| interval_of(row)).collect::<Vec<_>>().join(" "),
                            head: vec!["target", "block", "bytes/s", "usable"],
                            rows: cells.collect(),
                            file: "blocks",
                        }.markup()
                    })
                }
            }
        }
    }
}

pub(super) fn processors(run: &RunRecord, summary: &Summary) -> Markup {
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

pub(super) fn machine(run: &RunRecord) -> Markup {
    let machine = &run.manifest.machine;
    html! {
        section {
            h2 { "Machine and targets" }
            div class="panels" {
                div class="card" { h3 { (machine.hostname) } dl {
                    (item("processor", &machine.processor))
                    (item("cores", &format!("{} ({})", machine.cores, machine.architecture)))
                    (item("memory", &machine.memory.to_string()))
                    (item("kernel", &machine.kernel))
                    (item("system", &machine.system))
                    (item("load before", &significant(machine.load)))
                    (item("fio", &run.manifest.fio))
                    (item("outboard", &run.manifest.outboard))
                } }
                @for target in &run.manifest.targets {
                    div class="card" { h3 { (target.label) } dl {
                        (item("directory", &target.directory.display().to_string()))
                        (item("filesystem", &format!("{} on {}", target.filesystem, target.source)))
                        (item("options", &target.options))
                        @if let Some(device) = &target.device {
                            (item("device", &format!("{device}{}{}", target.model.as_ref().map(|model| format!(", {model}")).unwrap_or_default(),
                                match target.rotational { Some(true) => ", rotating", _ => "" })))
                        }
                        @if let Some(align) = target.dio_align { (item("direct I/O needs", &format!("{} B", align.offset))) }
                        @if let Some(peer) = target.peer { (item("server", &peer.to_string())) }
                        @for ceiling in &target.ceilings { (item("ceiling", &format!("{} by {}", ceiling.rate, ceiling.describe()))) }
                    } }
                }
            }
        }
    }
}

fn item(name: &str, value: &str) -> Markup {
    html! { dt { (name) } dd { (value) } }
}

pub(super) fn commands(run: &RunRecord) -> Markup {
    html! {
        section {
            h2 { "Every command" }
            p class="soft" { "Each as it was run, once. Before each measurement: sync, then the page cache was dropped as far as permitted." }
            @for command in &run.commands { pre { code { (command.line) } } }
        }
    }
}
