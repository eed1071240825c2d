//! Throughput: bars from zero with intervals, blocks and the nearest ceiling.

use super::latency::rows_of;
use super::{Figure, Section, Table, singles};
use crate::checks::ceiling::Ceiling;
use crate::report::chart;
use crate::report::summary::{Row, Summary};
use crate::report::{range, short};
use crate::stats::Interval;
use crate::store::RunRecord;
use crate::tools::Unit;
use crate::units::Rate;

pub(super) fn rates(run: &RunRecord, summary: &Summary) -> Option<Section> {
    let lowest = |workload: usize| {
        let direction = run.plan.workloads[workload].direction();
        let ceilings = run.manifest.targets.first()?.ceilings.iter();
        let ceilings = ceilings.filter(|ceiling| ceiling.bounds(direction));
        ceilings.min_by(|a, b| a.rate.0.total_cmp(&b.rate.0))
    };
    let lead = "Bars start at zero. Whiskers, from five blocks on, are the 95 % interval, where the median of such a run again would lie, small circles the \
                single blocks. Hatched bars are invalid and in no median.";
    let figures =
        singles(run).filter_map(|workload| rates_of(&rows_of(summary, workload), lowest(workload)));
    Section::of_figures("throughput", "Throughput", lead, figures)
}

/// Whether their headline is bytes per second.
pub(super) fn are_rates(rows: &[&Row]) -> bool {
    rows.iter().all(|row| row.unit == Unit::BytesPerSecond)
}

fn rates_of(rows: &[&Row], ceiling: Option<&Ceiling>) -> Option<Figure> {
    let first = rows.first().filter(|_| are_rates(rows))?;
    let mut caption: Vec<String> = rows.iter().map(|row| interval_of(row)).collect();
    caption.extend(ceiling.map(|found| {
        format!(
            "Ceiling of {}: {} by {}.",
            short(&first.label, 30),
            found.rate,
            found.describe()
        )
    }));
    let caption = caption.join(" ");
    let figure = |value: Option<f64>| value.map_or_else(String::new, |value| format!("{value:.0}"));
    let head = [
        "target",
        "bytes/s",
        "low",
        "high",
        "n",
        "operations/s",
        "result",
    ];
    Some(Figure {
        title: first.title.clone(),
        drawing: chart::throughput(rows, ceiling, &caption),
        key: Vec::new(),
        caption,
        table: Table::new(&head).with(rows.iter().map(|row| {
            let known = row.rate.filter(Interval::is_known);
            vec![
                row.label.clone(),
                figure(row.rate.map(|rate| rate.median)),
                figure(known.map(|rate| rate.low)),
                figure(known.map(|rate| rate.high)),
                row.usable.to_string(),
                figure(row.operations.map(|found| found.median)),
                row.validity.to_string(),
            ]
        })),
        file: "throughput",
    })
}

/// A row's median and interval in words.
pub(super) fn interval_of(row: &Row) -> String {
    let name = short(&row.label, 30);
    match row.rate {
        Some(rate) if !rate.is_known() => {
            let few = "too few repeats for an interval";
            format!("{name}: {}, {few}, n = {}.", Rate(rate.median), rate.n)
        }
        Some(rate) => format!(
            "{name}: {}, 95 % interval {} MB/s, n = {}.",
            Rate(rate.median),
            range(rate.low / 1e6, rate.high / 1e6),
            rate.n
        ),
        None => format!("{name}: {}.", row.validity),
    }
}
