//! Sweeps: one test over block sizes, requests in flight, jobs or places, as curves with what models say.

use super::{Figure, Section, Table};
use crate::plan::{Series, Varies, Workload};
use crate::report::chart::{Along, Flag, Floor, Label, Line, Panel, Plane, Point};
use crate::report::short;
use crate::report::summary::{Row, Summary};
use crate::stats::Interval;
use crate::stats::block_size::{RequestCost, SizePoint};
use crate::stats::knee::{Knee, LoadPoint};
use crate::store::RunRecord;
use crate::tools::Unit;
use crate::units::{Bytes, Nanos, Rate, significant};

/// Places at which a model is drawn between two doublings.
const FIT_STEPS: u32 = 4;

/// One swept test.
struct Sweep<'a> {
    title: &'a str,
    varies: Varies,
    /// Each target's points.
    curves: Vec<Curve<'a>>,
}

/// One target in a sweep.
struct Curve<'a> {
    target: usize,
    label: &'a str,
    points: Vec<Swept<'a>>,
}

/// One point of a curve.
struct Swept<'a> {
    /// What varies.
    value: f64,
    workload: &'a Workload,
    row: &'a Row,
}

pub(super) fn sweeps(run: &RunRecord, summary: &Summary) -> Option<Section> {
    let lead = "Each point is the median of its blocks, the whisker, from five blocks on, its 95 % interval; hollow marks are invalid. \
                The finely dotted line is the model that the caption names, drawn through the points and no measurement.";
    let found = collect(run, summary);
    Section::of_figures("sweeps", "Sweeps", lead, found.iter().map(figure))
}

/// The swept tests in the plan's order.
fn collect<'a>(run: &'a RunRecord, summary: &'a Summary) -> Vec<Sweep<'a>> {
    let mut names: Vec<&str> = Vec::new();
    let mut sweeps: Vec<Sweep<'a>> = Vec::new();
    for row in &summary.rows {
        let workload = &run.plan.workloads[row.workload];
        let Some(series) = &workload.series else {
            continue;
        };
        let index = names.iter().position(|name| *name == series.name);
        let index = index.unwrap_or_else(|| {
            names.push(&series.name);
            sweeps.push(Sweep {
                title: &series.title,
                varies: series.varies,
                curves: Vec::new(),
            });
            sweeps.len() - 1
        });
        let curves = &mut sweeps[index].curves;
        let curve = curves.iter().position(|curve| curve.target == row.target);
        let curve = curve.unwrap_or_else(|| {
            curves.push(Curve {
                target: row.target,
                label: &row.label,
                points: Vec::new(),
            });
            curves.len() - 1
        });
        curves[curve].points.push(Swept {
            value: value(run, workload, series),
            workload,
            row,
        });
    }
    for curve in sweeps.iter_mut().flat_map(|sweep| &mut sweep.curves) {
        curve.points.sort_by(|a, b| a.value.total_cmp(&b.value));
    }
    sweeps
}

/// The position of a point: a place in hundredths is one in bytes of what was there.
fn value(run: &RunRecord, workload: &Workload, series: &Series) -> f64 {
    match workload.fio() {
        Some(job) if series.varies == Varies::TargetPlace => job.begin(run.manifest.size).0 as f64,
        _ => series.point as f64,
    }
}

fn figure(sweep: &Sweep<'_>) -> Figure {
    let mut flags = Vec::new();
    let mut said = Vec::new();
    let mut fits = Vec::new();
    for curve in &sweep.curves {
        let model = model(sweep.varies, curve);
        flags.extend(model.flag.map(|(x, text)| Flag {
            x,
            text,
            look: Some(curve.target),
        }));
        let blocks = curve.points.iter().map(|point| point.row.usable);
        let n = match (blocks.clone().min(), blocks.max()) {
            (Some(least), Some(most)) if least != most => format!("{least} to {most}"),
            (least, _) => least.unwrap_or(0).to_string(),
        };
        said.push(format!(
            "{}: {} points, n = {n} blocks each.{}",
            short(curve.label, 30),
            curve.points.len(),
            model.said
        ));
        fits.push(model.fit);
    }
    let mut points = sweep.curves.iter().flat_map(|curve| &curve.points);
    if points.any(|point| point.row.headline.is_some_and(|found| found.is_known())) {
        said.push("Whiskers are 95 % intervals.".to_owned());
    }
    let caption = said.join(" ");
    let plane = Plane {
        along: along(sweep),
        panels: panels(sweep, &fits),
        flags,
        spans: Vec::new(),
    };
    let label = Label {
        title: &format!("{}, by {}", sweep.title, name(sweep.varies)),
        desc: &caption,
    };
    Figure {
        title: format!("{}, by {}", sweep.title, name(sweep.varies)),
        drawing: plane.draw(&label),
        key: Vec::new(),
        table: table(sweep),
        caption,
        file: "sweep",
    }
}

const fn name(varies: Varies) -> &'static str {
    match varies {
        Varies::BlockSize => "block size",
        Varies::Depth => "requests in flight",
        Varies::Jobs => "jobs",
        Varies::Offset | Varies::TargetPlace => "place",
        Varies::Clients => "clients",
        Varies::Streams => "streams",
    }
}

fn along(sweep: &Sweep<'_>) -> Along {
    let values = || {
        let curves = sweep.curves.iter();
        curves.flat_map(|curve| curve.points.iter().map(|point| point.value))
    };
    let most = values().fold(1.0, f64::max);
    match sweep.varies {
        Varies::Offset | Varies::TargetPlace => Along::TargetPlace { end: most },
        varies => Along::Doubling {
            of: name(varies),
            is_bytes: varies == Varies::BlockSize,
            ends: (values().fold(most, f64::min).max(1.0), most),
        },
    }
}

/// What a model says of one curve.
#[derive(Default)]
struct Model {
    /// In the units of the first panel.
    fit: Vec<(f64, f64)>,
    flag: Option<(f64, String)>,
    /// With a blank before it.
    said: String,
}

fn model(varies: Varies, curve: &Curve<'_>) -> Model {
    match varies {
        Varies::BlockSize => request_cost(curve),
        Varies::Depth | Varies::Jobs => knee(curve),
        Varies::Offset | Varies::TargetPlace | Varies::Clients | Varies::Streams => {
            Model::default()
        }
    }
}

/// What a request costs and what a byte.
fn request_cost(curve: &Curve<'_>) -> Model {
    let rate = |point: &Swept<'_>| Some((point.value, valid(point.row)?.median));
    let rates: Vec<(f64, f64)> = curve.points.iter().filter_map(rate).collect();
    let points: Vec<SizePoint> = rates
        .iter()
        .map(|(size, rate)| SizePoint {
            size: Bytes(crate::units::round(*size)),
            rate: Rate(*rate),
        })
        .collect();
    let Some(cost) = RequestCost::of(&points) else {
        return Model::default();
    };
    if !cost.fits() {
        let error = cost.error * 100.0;
        let said = format!(
            " No one model fits (up to {error:.0} % off): sizes went different ways to the disk."
        );
        return Model {
            said,
            ..Model::default()
        };
    }
    let size = |x: f64| Bytes(crate::units::round(x));
    let fit = between(&rates)
        .filter_map(|x| Some((x, cost.rate(size(x))?.mb())))
        .collect();
    let bandwidth = cost.bandwidth.map_or_else(
        || "no bandwidth is seen".to_owned(),
        |bandwidth| format!("bytes go at {bandwidth}"),
    );
    let enough = cost.enough().filter(|_| cost.is_seen());
    let said = match enough {
        Some(enough) => format!(
            " A request costs {} and {bandwidth}; 95 % of that from {enough} on.",
            cost.fixed
        ),
        None => format!(
            " A request costs {} and {bandwidth}; the sweep ends before 95 % of that.",
            cost.fixed
        ),
    };
    Model {
        fit,
        flag: enough.map(|enough| (enough.0 as f64, format!("95 % at {enough}"))),
        said,
    }
}

/// Where more in flight stops to help.
fn knee(curve: &Curve<'_>) -> Model {
    let in_flight = |point: &Swept<'_>| {
        let job = point.workload.fio()?;
        Some(f64::from(job.depth) * f64::from(job.jobs))
    };
    let loads: Vec<LoadPoint> = curve
        .points
        .iter()
        .filter_map(|point| {
            valid(point.row)?;
            Some(LoadPoint {
                in_flight: in_flight(point)?,
                throughput: point.row.operations?.median,
            })
        })
        .collect();
    let (Some(knee), Some(first)) = (Knee::of(&loads), curve.points.first()) else {
        return Model::default();
    };
    // What is drawn is what varies, and the model counts all that is in flight.
    let factor = in_flight(first).unwrap_or(1.0) / first.value.max(1.0);
    let ends: Vec<(f64, f64)> = curve
        .points
        .iter()
        .map(|point| (point.value, 0.0))
        .collect();
    let said = format!(
        " The bounds of Little's law meet at {} in flight: a request that waits for none takes {}, and {} operations a second \
         is the most{}.",
        significant(knee.in_flight),
        knee.unloaded,
        crate::units::grouped(knee.throughput),
        match knee.is_seen {
            true => format!("; 95 % of that from {} on", significant(knee.saturated)),
            false => ", at the sweep's end: more may give more".to_owned(),
        }
    );
    Model {
        fit: between(&ends)
            .map(|x| (x, knee.bound(x * factor)))
            .collect(),
        flag: knee.is_seen.then(|| {
            let text = format!("knee at {}", significant(knee.in_flight / factor));
            (knee.in_flight / factor, text)
        }),
        said,
    }
}

/// Places from the first to the last point, a few to each doubling.
fn between(points: &[(f64, f64)]) -> impl Iterator<Item = f64> {
    let low = points.first().map_or(1.0, |(x, _)| x.max(1.0));
    let high = points.last().map_or(1.0, |(x, _)| x.max(1.0));
    let factor = 2f64.powf(1.0 / f64::from(FIT_STEPS));
    std::iter::successors(Some(low), move |x| Some(x * factor))
        .take_while(move |x| *x < high)
        .chain([high])
}

/// The headline, where it may be believed.
fn valid(row: &Row) -> Option<Interval> {
    row.headline.filter(|_| row.validity.is_usable())
}

/// The ends of an interval, where there are blocks enough for one.
fn ends(found: Interval) -> Option<(f64, f64)> {
    found.is_known().then_some((found.low, found.high))
}

/// Bytes per second and operations per second, or the tool's headline, and the slowest of a hundred.
fn panels(sweep: &Sweep<'_>, fits: &[Vec<(f64, f64)>]) -> Vec<Panel> {
    let first = sweep.curves.first().and_then(|curve| curve.points.first());
    let Some(first) = first else {
        return Vec::new();
    };
    let is_rate = first.row.unit == Unit::BytesPerSecond;
    let has_knee = matches!(sweep.varies, Varies::Depth | Varies::Jobs);
    let headline = |row: &Row| {
        let factor = if is_rate { 1e-6 } else { 1.0 };
        let shown = row
            .blocks
            .iter()
            .map(|block| block.rate)
            .collect::<Vec<_>>();
        let median = crate::stats::median(&shown)?;
        let found = row.headline;
        let median = found.map_or(median, |found| found.median);
        let ends = found.and_then(ends);
        let ends = ends.map(|(low, high)| (low * factor, high * factor));
        Some((median * factor, ends))
    };
    let operations = |row: &Row| {
        let found = row.operations?;
        Some((found.median, ends(found)))
    };
    let p99 = |row: &Row| Some((row.p99?.value.0 as f64 / 1e6, None));
    let unit = if is_rate {
        "MB/s"
    } else {
        first.row.figure.as_str()
    };
    let mut all: Vec<(&str, Floor, Vec<Line>)> = Vec::new();
    // A model is in the panel of its data.
    let none = vec![Vec::new(); fits.len()];
    let (over_rates, over_operations) = if has_knee {
        (&none[..], fits)
    } else {
        (fits, &none[..])
    };
    let operations_floor = if has_knee { Floor::Zero } else { Floor::Log };
    all.push((unit, Floor::Zero, lines(sweep, over_rates, &headline)));
    all.push((
        "operations per second",
        operations_floor,
        lines(sweep, over_operations, &operations),
    ));
    all.push(("p99 in ms", Floor::Log, lines(sweep, &none, &p99)));
    all.retain(|(_, _, lines)| lines.iter().any(|line| !line.points.is_empty()));
    if matches!(sweep.varies, Varies::Offset | Varies::TargetPlace) {
        all.truncate(1);
    }
    let panel = |(name, floor, lines): (&str, Floor, Vec<Line>)| Panel {
        name: name.to_owned(),
        floor,
        lines,
        limit: None,
    };
    all.into_iter().map(panel).collect()
}

/// A value with its interval.
type Value<'a> = &'a dyn Fn(&Row) -> Option<(f64, Option<(f64, f64)>)>;

fn lines(sweep: &Sweep<'_>, fits: &[Vec<(f64, f64)>], value: Value<'_>) -> Vec<Line> {
    let curves = sweep.curves.iter().zip(fits);
    let lines = curves.map(|(curve, fit)| Line {
        look: curve.target,
        name: curve.label.to_owned(),
        points: curve
            .points
            .iter()
            .filter_map(|point| {
                let (y, ends) = value(point.row)?;
                Some(Point {
                    x: point.value,
                    y,
                    ends,
                    counted: point.row.validity.is_usable(),
                })
            })
            .collect(),
        fit: fit.clone(),
    });
    lines.collect()
}

fn table(sweep: &Sweep<'_>) -> Table {
    let figure = |value: Option<f64>| value.map_or_else(String::new, |value| format!("{value:.0}"));
    let rows = sweep.curves.iter().flat_map(|curve| {
        curve.points.iter().map(|point| {
            let row = point.row;
            let known = row.headline.filter(Interval::is_known);
            vec![
                curve.label.to_owned(),
                format!("{:.0}", point.value),
                figure(row.headline.map(|found| found.median)),
                figure(known.map(|found| found.low)),
                figure(known.map(|found| found.high)),
                row.usable.to_string(),
                figure(row.operations.map(|found| found.median)),
                row.p99.map_or_else(String::new, |found| {
                    let Nanos(ns) = found.value;
                    ns.to_string()
                }),
                row.validity.to_string(),
            ]
        })
    });
    let first = sweep.curves.iter().flat_map(|curve| &curve.points).next();
    let unit = match first.map(|point| (point.row.unit, point.row.figure.as_str())) {
        Some((Unit::BytesPerSecond, _)) | None => "bytes/s",
        Some((_, figure)) => figure,
    };
    let head = [
        "target",
        name(sweep.varies),
        unit,
        "low",
        "high",
        "n",
        "operations/s",
        "p99 ns",
        "result",
    ];
    Table::new(&head).with(rows)
}
