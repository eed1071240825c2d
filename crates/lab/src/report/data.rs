//! A run for other programs: JSON with everything, CSV with one line for each measurement.

use serde_json::{Value, json as value};

use super::contents::{ReportBlock, Section, contents};
use super::io_path::IoPath;
use super::sentences::verdict;
use super::{Summary, overall, sentences};
use crate::LabError;
use crate::checks::Validity;
use crate::fio::JobResult;
use crate::store::{Cell, RunRecord};
use crate::tools::Unit;
use crate::units::Nanos;

/// The run, its summary and its sentences; times in nanoseconds, rates in bytes per second.
///
/// # Errors
/// [`LabError::BadRequest`] when a figure has no JSON form, which a stored run rules out.
pub fn json(run: &RunRecord) -> Result<String, LabError> {
    let summary = Summary::of(run);
    let way = IoPath::of(run, &summary);
    let unusable = |error: serde_json::Error| {
        LabError::BadRequest(format!("run {} has no JSON form: {error}", run.id))
    };
    let to = |found: Result<Value, serde_json::Error>| found.map_err(unusable);
    let document = value!({
        "schema": 2,
        "units": { "rate": "bytes per second", "time": "nanoseconds" },
        "run": to(serde_json::to_value(run))?,
        "summary": to(serde_json::to_value(&summary))?,
        "sentences": sentences(run, &summary),
        "overall": overall(run, &summary),
        "verdict": verdict(run, &summary, way.as_ref()),
        "way": to(serde_json::to_value(&way))?,
        "report": contents(run, &summary).iter().map(section).collect::<Vec<Value>>(),
    });
    serde_json::to_string_pretty(&document).map_err(unusable)
}

/// A section of the page: its texts, and its figures as tables.
fn section(section: &Section) -> Value {
    let mut texts = Vec::new();
    let mut figures = Vec::new();
    for part in &section.parts {
        match part {
            ReportBlock::Text(text) => texts.push(text.clone()),
            ReportBlock::List(lines) => texts.extend(lines.iter().cloned()),
            ReportBlock::Facts { title, items } => figures.push(value!({
                "title": title, "columns": ["what", "value"], "rows": items,
            })),
            ReportBlock::Table(table) => figures.push(value!({
                "title": section.title, "columns": table.head, "rows": table.rows,
            })),
            ReportBlock::Figure(figure) => figures.push(value!({
                "title": figure.title, "caption": figure.caption,
                "columns": figure.table.head, "rows": figure.table.rows,
            })),
            // In the summary and among the run's commands.
            ReportBlock::Targets
            | ReportBlock::Kinds
            | ReportBlock::Results
            | ReportBlock::Commands => {}
        }
    }
    value!({ "id": section.id, "title": section.title, "texts": texts, "figures": figures })
}

/// One line for each measurement; what fio or a tool does not give is empty.
#[must_use]
pub fn csv(run: &RunRecord) -> String {
    csv_of(std::slice::from_ref(run))
}

/// The same of several runs.
#[must_use]
pub fn csv_of(runs: &[RunRecord]) -> String {
    let head = [
        "run",
        "block",
        "position",
        "test",
        "target",
        "figure",
        "value",
        "unit",
        "direction",
        "started_ns",
        "bytes",
        "operations",
        "runtime_ns",
        "bytes_per_second",
        "operations_per_second",
        "p50_ns",
        "p99_ns",
        "server_cpu_ns",
        "client_cpu_ns",
        "engine",
        "direct",
        "validity",
    ];
    let mut lines = vec![head.map(String::from).to_vec()];
    for run in runs {
        lines.extend(run.cells.iter().map(|cell| line(run, cell)));
    }
    lines_of(&lines)
}

fn line(run: &RunRecord, cell: &Cell) -> Vec<String> {
    let fio = cell.fio();
    let of_fio = |value: fn(&JobResult) -> String| fio.map(value).unwrap_or_default();
    let percentile = |part| {
        fio.and_then(|result| crate::checks::percentile(&result.latencies, part))
            .map(|found| found.value.0.to_string())
            .unwrap_or_default()
    };
    let time = |found: Option<Nanos>| found.map(|time| time.0.to_string()).unwrap_or_default();
    let headline = cell.headline();
    let is_rate = headline.is_some_and(|found| found.unit == Unit::BytesPerSecond);
    let test = run.plan.workloads.get(cell.workload);
    let target = run.manifest.targets.get(cell.target);
    vec![
        run.id.to_string(),
        cell.block.to_string(),
        cell.position.to_string(),
        test.map(|test| test.name.clone()).unwrap_or_default(),
        target
            .map(|target| target.label.clone())
            .unwrap_or_default(),
        headline
            .map(|found| found.name.to_owned())
            .unwrap_or_default(),
        headline
            .map(|found| found.value.to_string())
            .unwrap_or_default(),
        headline.map(|found| unit(found.unit)).unwrap_or_default(),
        of_fio(|result| result.direction.as_str().into()),
        cell.started.0.to_string(),
        cell.bytes()
            .map(|bytes| bytes.to_string())
            .unwrap_or_default(),
        of_fio(|result| result.ios.to_string()),
        cell.runtime().0.to_string(),
        match is_rate {
            true => format!("{:.0}", cell.rate().0),
            false => String::new(),
        },
        fio.map(|_| format!("{:.1}", cell.operations_per_second()))
            .unwrap_or_default(),
        percentile(0.5),
        percentile(0.99),
        time(cell.evidence.server_time()),
        time(cell.evidence.client_cpu),
        of_fio(|result| result.engine.clone()),
        of_fio(|result| result.direct.to_string()),
        Validity::of(&cell.findings).to_string(),
    ]
}

/// A unit as it is stored: `bytes-per-second`.
fn unit(unit: Unit) -> String {
    let value = serde_json::to_value(unit).ok();
    value
        .and_then(|value| Some(value.as_str()?.to_owned()))
        .unwrap_or_default()
}

/// Lines of comma separated cells (RFC 4180). A cell that a spreadsheet would take for a formula gets
/// an apostrophe, since labels come from outside.
pub(super) fn lines_of(rows: &[Vec<String>]) -> String {
    let mut out = String::new();
    for row in rows {
        let cells: Vec<String> = row.iter().map(|cell| quoted(cell)).collect();
        out.push_str(&cells.join(","));
        out.push_str("\r\n");
    }
    out
}

fn quoted(cell: &str) -> String {
    let is_formula = cell.starts_with(['=', '+', '@', '\t', '\r'])
        || (cell.starts_with('-') && cell.parse::<f64>().is_err());
    let cell = if is_formula {
        format!("'{cell}")
    } else {
        cell.to_owned()
    };
    if cell.contains(['"', ',', '\n', '\r']) {
        return format!("\"{}\"", cell.replace('"', "\"\""));
    }
    cell
}
