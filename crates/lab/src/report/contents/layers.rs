//! Layers: what each target costs against the one below it, as a waterfall for each test.

use super::latency::rows_of;
use super::{Figure, ReportBlock, Section, Table, singles};
use crate::report::chart::{self, Label, Layer};
use crate::report::short;
use crate::report::summary::{Row, Summary, of_two};
use crate::stats::{Comparison, Interval, compare_family};
use crate::store::RunRecord;
use crate::tools::Unit;
use crate::units::{MIB, significant};

/// What the figures in brackets of a caption are.
const INTERVALS: &str = "In brackets the 95 % interval of the cost, paired by block, as wide as all layers of the test together make it.";

/// With fewer targets the comparison says it all, unless one is on another.
const TARGETS_MIN: usize = 3;

pub(super) fn layers(run: &RunRecord, summary: &Summary) -> Option<Section> {
    let below: Vec<Option<usize>> = (0..run.manifest.targets.len())
        .map(|target| below(run, target))
        .collect();
    if below.len() < TARGETS_MIN || below.iter().all(Option::is_none) {
        return None;
    }
    let lead = "Each bar is the time that the test takes: pale what the layer below takes, full what this one adds. A layer without one \
                below it stands on what the run compares with. A layer that is faster than what it stands on is to be checked: a cache, \
                or an order of measurements that favoured it.";
    let figures: Vec<ReportBlock> = singles(run)
        .filter_map(|workload| figure(run, &rows_of(summary, workload), &below))
        .map(ReportBlock::Figure)
        .collect();
    if figures.is_empty() {
        return None;
    }
    let mut parts = vec![ReportBlock::Text(lead.into())];
    parts.extend(figures);
    Some(Section::new("layers", "What each layer costs", parts))
}

/// The target below one: what its plan says, else the baseline.
fn below(run: &RunRecord, target: usize) -> Option<usize> {
    let facts = &run.manifest.targets[target];
    let planned = run
        .plan
        .targets
        .iter()
        .find(|planned| planned.name == facts.name);
    let named = planned.and_then(|planned| planned.on());
    let named = named.and_then(|on| {
        let targets = &run.manifest.targets;
        targets.iter().position(|found| found.name == on)
    });
    named
        .or(run.manifest.baseline)
        .filter(|below| *below != target)
}

fn figure(run: &RunRecord, rows: &[&Row], below: &[Option<usize>]) -> Option<Figure> {
    let first = rows.first()?;
    let unit = unit(first)?;
    let costs = costs(run, rows, below);
    let layers: Vec<Layer> = rows
        .iter()
        .zip(costs)
        .map(|(row, cost)| Layer {
            name: row.label.clone(),
            on: below[row.target].and_then(|on| rows.iter().position(|other| other.target == on)),
            time: row.headline.and_then(|found| time(row, found)),
            cost,
            counted: row.validity.is_usable(),
        })
        .collect();
    // A circle or a single layer shows no cost.
    if layers
        .iter()
        .all(|layer| layer.on.is_none() || layer.time.is_none())
    {
        return None;
    }
    let mut said: Vec<String> = layers
        .iter()
        .map(|layer| {
            let n = layer.time.map_or(0, |time| time.n);
            format!(
                "{}: {}, n = {n}.",
                short(&layer.name, 30),
                chart::said(layer)
            )
        })
        .collect();
    let mut times = layers.iter().filter_map(|layer| layer.time);
    if times.any(|time| time.is_known()) {
        said.push(INTERVALS.to_owned());
    }
    let caption = said.join(" ");
    let title = format!("{}: what each layer costs", first.title);
    Some(Figure {
        drawing: chart::waterfall(
            &layers,
            unit,
            &Label {
                title: &title,
                desc: &caption,
            },
        ),
        title: first.title.clone(),
        key: Vec::new(),
        caption,
        table: table(&layers, unit),
        file: "layers",
    })
}

/// What each layer costs against the one below it: the layers of one test are compared together.
fn costs(run: &RunRecord, rows: &[&Row], below: &[Option<usize>]) -> Vec<Option<Comparison>> {
    let ratios = rows.iter().map(|row| {
        let on = below[row.target];
        let pairs = on.map_or_else(Vec::new, |on| of_two(run, row.workload, on, row.target));
        pairs.into_iter().map(|(_, ratio)| ratio).collect()
    });
    compare_family(&ratios.collect::<Vec<Vec<f64>>>())
}

/// The unit of times; none for what is no time and no rate.
const fn unit(row: &Row) -> Option<&'static str> {
    match row.unit {
        Unit::BytesPerSecond => Some("us/MiB"),
        Unit::PerSecond => Some("us/operation"),
        Unit::Nanoseconds => Some("ms"),
        Unit::Count | Unit::Bytes | Unit::Part | Unit::Celsius | Unit::Hertz => None,
    }
}

/// A headline as time, in [`unit()`].
fn time(row: &Row, found: Interval) -> Option<Interval> {
    let of = |value: f64| match row.unit {
        Unit::BytesPerSecond => MIB as f64 / value * 1e6,
        Unit::PerSecond => 1e6 / value,
        _ => value / 1e6,
    };
    let ends = (of(found.low), of(found.high));
    let time = Interval {
        median: of(found.median),
        low: ends.0.min(ends.1),
        high: ends.0.max(ends.1),
        n: found.n,
    };
    (time.median.is_finite() && time.high.is_finite()).then_some(time)
}

fn table(layers: &[Layer], unit: &str) -> Table {
    let rows = layers.iter().map(|layer| {
        let figure = |value: fn(&Interval) -> f64| {
            layer
                .time
                .as_ref()
                .map_or_else(String::new, |time| significant(value(time)))
        };
        let end = |value: fn(&Interval) -> f64| {
            let known = layer.time.filter(Interval::is_known);
            known.map_or_else(String::new, |time| significant(value(&time)))
        };
        let below = layer.on.and_then(|on| layers.get(on));
        vec![
            layer.name.clone(),
            below.map_or_else(String::new, |below| below.name.clone()),
            figure(|time| time.median),
            end(|time| time.low),
            end(|time| time.high),
            layer.time.map_or(0, |time| time.n).to_string(),
            chart::said(layer),
        ]
    });
    Table::new(&["layer", "stands on", unit, "low", "high", "n", "cost"]).with(rows)
}
