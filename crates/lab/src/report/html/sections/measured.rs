//! Throughput, latency and single blocks: a panel for each test.

use maud::{Markup, html};

use super::super::figure::Figure;
use super::super::key;
use super::tests;
use crate::checks::ceiling::Ceiling;
use crate::report::chart;
use crate::report::summary::{Row, Summary};
use crate::report::table::latency as shown;
use crate::report::{range, short};
use crate::store::RunRecord;
use crate::units::{Rate, grouped};

pub(in crate::report::html) fn throughput(run: &RunRecord, summary: &Summary) -> Markup {
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

pub(in crate::report::html) fn latency(run: &RunRecord, summary: &Summary) -> Markup {
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

pub(in crate::report::html) fn blocks(run: &RunRecord, summary: &Summary) -> Markup {
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
