//! One test on one target: what all its measurements say together.

use super::{BlockPoint, Cpu, FigureRow, Row};
use crate::checks::denominators::per_mib;
use crate::checks::{self, Check, Finding, Level, Validity};
use crate::fio::Histogram;
use crate::host::Role;
use crate::sensors::CoreTimes;
use crate::stats::{Interval, repeat_interval};
use crate::store::{Cell, Evidence, Headline, RunRecord};
use crate::tools::{Better, Unit};
use crate::units::{Bytes, Nanos};

/// The fewest usable measurements of a result, unless fewer were made.
const USABLE_MIN: usize = 3;

pub(super) fn row(run: &RunRecord, workload: usize, target: usize) -> Row {
    let all: Vec<&Cell> = run.cells_of(workload, target).collect();
    let usable: Vec<&Cell> = all
        .iter()
        .copied()
        .filter(|cell| cell.is_usable())
        .collect();
    let mut latencies = Histogram::default();
    for result in usable.iter().filter_map(|cell| cell.fio()) {
        latencies.merge(&result.latencies);
    }
    let facts = &run.manifest.targets[target];
    // A process of another target does no work for this one meanwhile.
    let process = |role, spent: fn(&Evidence) -> Option<Nanos>| {
        facts.pids(role).next().and_then(|_| cpu(&usable, spent))
    };
    let heading = heading(run, workload, &all);
    let together = together(&all, usable.len());
    let headline = over(&usable, |cell| {
        cell.headline().map(|headline| headline.value)
    });
    Row {
        workload,
        target,
        title: run.plan.workloads[workload].title.clone(),
        label: facts.label.clone(),
        figure: heading.name.to_owned(),
        unit: heading.unit,
        better: heading.better,
        headline,
        figures: figures(&usable),
        rate: headline.filter(|_| heading.unit == Unit::BytesPerSecond),
        operations: over(&usable, |cell| {
            cell.fio().map(|_| cell.operations_per_second())
        }),
        p50: checks::percentile(&latencies, 0.5),
        p99: checks::percentile(&latencies, 0.99),
        latencies,
        server_cpu: process(Role::Server, |seen| seen.server_cpu)
            .or_else(|| cpu(&usable, Evidence::server_time)),
        client_cpu: process(Role::Client, |seen| seen.client_cpu),
        cores: cores(&usable),
        generator_cpu: mean(
            usable
                .iter()
                .filter_map(|cell| Some(cell.fio()?.generator_cpu)),
        ),
        blocks: all.iter().map(|cell| point(cell)).collect(),
        validity: validity(&all, usable.len(), &together),
        findings: together,
        usable: usable.len(),
    }
}

/// What the headline of these measurements is; where all of them failed, that of the same test elsewhere.
fn heading<'a>(run: &'a RunRecord, workload: usize, all: &[&'a Cell]) -> Headline<'a> {
    let mut of_test = run.cells.iter().filter(|cell| cell.workload == workload);
    let first = all.iter().find_map(|cell| cell.headline());
    let first = first.or_else(|| of_test.find_map(Cell::headline));
    first.unwrap_or(Headline {
        name: "throughput",
        value: 0.0,
        unit: Unit::BytesPerSecond,
        better: Better::Higher,
    })
}

fn point(cell: &Cell) -> BlockPoint {
    BlockPoint {
        block: cell.block,
        rate: cell.headline().map_or(0.0, |headline| headline.value),
        usable: cell.is_usable(),
    }
}

/// The interval of a value over measurements; those that do not have it are left out.
fn over(cells: &[&Cell], value: fn(&Cell) -> Option<f64>) -> Option<Interval> {
    let values: Vec<f64> = cells.iter().filter_map(|cell| value(cell)).collect();
    repeat_interval(&values)
}

/// Every figure that a tool gave, in its order.
fn figures(cells: &[&Cell]) -> Vec<FigureRow> {
    let Some(first) = cells.iter().find_map(|cell| cell.tool()) else {
        return Vec::new();
    };
    let value = |name: &str| {
        let values: Vec<f64> = cells
            .iter()
            .filter_map(|cell| {
                let figures = &cell.tool()?.figures;
                Some(figures.iter().find(|figure| figure.name == name)?.value)
            })
            .collect();
        repeat_interval(&values)
    };
    first
        .figures
        .iter()
        .filter_map(|figure| {
            Some(FigureRow {
                name: figure.name.clone(),
                unit: figure.unit,
                better: figure.better,
                value: value(&figure.name)?,
            })
        })
        .collect()
}

/// What all measurements of one result make of it. Remarks are reported once for each check.
fn validity(all: &[&Cell], usable: usize, together: &[Finding]) -> Validity {
    if all.is_empty() {
        return Validity::Invalid {
            reason: "it was not measured".into(),
        };
    }
    let first = all.iter().find_map(|cell| invalid(cell));
    if let Some(first) = first.filter(|_| !is_enough(all, usable)) {
        return Validity::Invalid {
            reason: first.text.clone(),
        };
    }
    Validity::of(remarks(all).iter().chain(together))
}

/// What only all of them together show.
fn together(all: &[&Cell], usable: usize) -> Vec<Finding> {
    if !is_enough(all, usable) {
        return Vec::new();
    }
    let out: Vec<&Finding> = all.iter().filter_map(|cell| invalid(cell)).collect();
    let left_out = out.first().map(|first| {
        let text = format!(
            "{} of {} blocks are left out: {}",
            out.len(),
            all.len(),
            first.text
        );
        Finding::remark(first.check, text)
    });
    left_out.into_iter().chain(steadiness(all)).collect()
}

/// The first that makes a measurement none.
fn invalid(cell: &Cell) -> Option<&Finding> {
    let mut findings = cell.findings.iter();
    findings.find(|finding| finding.level == Level::Invalid)
}

/// Whether enough of them are usable to say anything.
fn is_enough(all: &[&Cell], usable: usize) -> bool {
    !all.is_empty()
        && (usable == all.len() || usable * 2 > all.len() && usable >= USABLE_MIN.min(all.len()))
}

/// Of the usable measurements in their order. A run that was made with fewer blocks than it takes was configured
/// to: its plan's blocks are shown with every figure.
fn steadiness(all: &[&Cell]) -> Vec<Finding> {
    let values: Vec<f64> = all
        .iter()
        .filter(|cell| cell.is_usable())
        .filter_map(|cell| Some(cell.headline()?.value))
        .collect();
    checks::blocks(&values)
}

fn remarks(all: &[&Cell]) -> Vec<Finding> {
    let mut first_of: Vec<(Check, Finding, usize)> = Vec::new();
    for finding in all.iter().flat_map(|cell| &cell.findings) {
        if finding.level != Level::Remark {
            continue;
        }
        match first_of
            .iter_mut()
            .find(|(check, _, _)| *check == finding.check)
        {
            Some((_, _, count)) => *count += 1,
            None => first_of.push((finding.check, finding.clone(), 1)),
        }
    }
    first_of
        .into_iter()
        .map(|(_, mut finding, count)| {
            if count < all.len() {
                finding.text = format!("{} ({count} of {} blocks)", finding.text, all.len());
            }
            finding
        })
        .collect()
}

fn cpu(cells: &[&Cell], spent: fn(&Evidence) -> Option<Nanos>) -> Option<Cpu> {
    let mut total = Nanos(0);
    let mut time = 0.0;
    let mut bytes = 0u64;
    for cell in cells {
        total.0 = total.0.saturating_add(spent(&cell.evidence)?.0);
        time += cell.runtime().seconds();
        bytes = bytes.saturating_add(cell.bytes()?);
    }
    let per_mib = per_mib(total, Bytes(bytes))?;
    (time > 0.0).then(|| Cpu {
        of_core: total.seconds() / time,
        per_mib,
    })
}

/// Each core's busy part over all measurements.
fn cores(cells: &[&Cell]) -> Vec<(u32, f64)> {
    let mut sums: Vec<(u32, CoreTimes)> = Vec::new();
    for (number, times) in cells.iter().flat_map(|cell| &cell.evidence.cores) {
        match sums.iter_mut().find(|(same, _)| same == number) {
            Some((_, sum)) => {
                sum.user += times.busy();
                sum.idle += times.idle;
            }
            None => sums.push((
                *number,
                CoreTimes {
                    user: times.busy(),
                    idle: times.idle,
                    ..CoreTimes::default()
                },
            )),
        }
    }
    sums.into_iter()
        .map(|(number, sum)| (number, sum.busy() as f64 / sum.total().max(1) as f64))
        .collect()
}

fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let (sum, count) = values.fold((0.0, 0u32), |(sum, count), value| (sum + value, count + 1));
    if count == 0 {
        0.0
    } else {
        sum / f64::from(count)
    }
}
