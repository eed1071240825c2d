//! A test over time: its medians in every run of the same plan on the same target of the same machine.
//!
//! Invariants: runs are put together only if their plans are equal, under any names; each is
//! compared with the one before it; invalid results are listed and compared with nothing.

use std::collections::BTreeMap;

use serde::Serialize;

use super::summary::Summary;
use super::table::aligned;
use super::{NONE, RatioText, date, range, short};
use crate::checks::Validity;
use crate::stats::{Comparison, Interval, Verdict};
use crate::store::{RunId, RunRecord};
use crate::tools::Unit;

/// The longest name in a heading.
const NAME_MAX: usize = 60;

/// One test on one target of one machine, oldest run first.
#[derive(Debug, Clone, Serialize)]
pub struct History {
    /// The plan's name.
    pub plan: String,
    /// The test's name for people.
    pub title: String,
    /// The target's name.
    pub label: String,
    /// The machine's name.
    pub machine: String,
    /// Of the figures.
    pub unit: Unit,
    /// The runs.
    pub points: Vec<HistoryPoint>,
}

/// One run.
#[derive(Debug, Clone, Serialize)]
pub struct HistoryPoint {
    /// Which.
    pub run: RunId,
    /// Milliseconds since 1970.
    pub started_unix_ms: u64,
    /// The median with its interval; none of an invalid result.
    pub figure: Option<Interval>,
    /// Over the valid result before it, above one where it is better.
    pub over_last: Option<Comparison>,
    /// Whether it may be believed.
    pub validity: Validity,
}

/// What must be equal for two results to be of one history.
type Key = (String, String, String, String);

/// Every history in `runs`, which may be in any order.
#[must_use]
pub fn history(runs: &[RunRecord]) -> Vec<History> {
    let mut sorted: Vec<&RunRecord> = runs.iter().collect();
    sorted.sort_by_key(|run| (run.started_unix_ms, run.id));
    let mut order: Vec<Key> = Vec::new();
    let mut found: BTreeMap<Key, Vec<(&RunRecord, super::Row)>> = BTreeMap::new();
    for run in sorted {
        let plan = run.plan.to_toml().unwrap_or_else(|_| run.plan.name.clone());
        for row in Summary::of(run).rows {
            let machine = run.manifest.machine.hostname.clone();
            let test = run.plan.workloads[row.workload].name.clone();
            let key = (plan.clone(), machine, row.label.clone(), test);
            if !found.contains_key(&key) {
                order.push(key.clone());
            }
            found.entry(key).or_default().push((run, row));
        }
    }
    order
        .into_iter()
        .filter_map(|key| one(found.remove(&key)?))
        .collect()
}

fn one(rows: Vec<(&RunRecord, super::Row)>) -> Option<History> {
    let (run, first) = rows.first()?;
    let mut history = History {
        plan: run.plan.name.clone(),
        title: first.title.clone(),
        label: first.label.clone(),
        machine: run.manifest.machine.hostname.clone(),
        unit: first.unit,
        points: Vec::new(),
    };
    let mut last: Option<&RunRecord> = None;
    for (run, row) in &rows {
        let valid = row.validity.is_usable();
        history.points.push(HistoryPoint {
            run: run.id,
            started_unix_ms: run.started_unix_ms,
            figure: row.headline.filter(|_| valid),
            over_last: last.filter(|_| valid).and_then(|last| over(run, last, row)),
            validity: row.validity.clone(),
        });
        if valid {
            last = Some(run);
        }
    }
    Some(history)
}

/// The same test of two runs, when their jobs are equal.
fn over(run: &RunRecord, last: &RunRecord, row: &super::Row) -> Option<Comparison> {
    let compared = super::compare_runs(run, last);
    compared
        .tests
        .into_iter()
        .find(|test| test.title == row.title && test.label_a == row.label)?
        .comparison
}

/// As lines for a terminal.
#[must_use]
pub fn history_text(histories: &[History]) -> String {
    if histories.is_empty() {
        return "No run was made yet.\n".into();
    }
    let mut lines = Vec::new();
    for one in histories {
        lines.push(format!(
            "{}: {} on {} ({})",
            one.plan,
            one.title,
            short(&one.label, NAME_MAX),
            one.machine
        ));
        let head = [
            "  run",
            "when",
            "median",
            "95 %",
            "blocks",
            "against the last",
        ];
        let mut rows = vec![head.map(String::from).to_vec()];
        rows.extend(one.points.iter().map(|point| line(one.unit, point)));
        lines.extend(aligned(&rows));
        lines.push(String::new());
    }
    lines.pop();
    lines.join("\n") + "\n"
}

fn line(unit: Unit, point: &HistoryPoint) -> Vec<String> {
    let figure = |shown: fn(Unit, &Interval) -> String| {
        point
            .figure
            .as_ref()
            .map_or_else(|| NONE.into(), |found| shown(unit, found))
    };
    vec![
        format!("  {}", point.run),
        date::shown(point.started_unix_ms),
        figure(|unit, found| unit.shown(found.median)),
        figure(|unit, found| match unit {
            _ if !found.is_known() => NONE.into(),
            Unit::BytesPerSecond => format!("{} MB/s", range(found.low / 1e6, found.high / 1e6)),
            _ => format!("{} to {}", unit.shown(found.low), unit.shown(found.high)),
        }),
        figure(|_, found| found.n.to_string()),
        match (&point.validity, point.over_last) {
            (Validity::Invalid { reason }, _) => format!("invalid: {reason}"),
            (_, Some(found)) => format!(
                "{} times, {}",
                RatioText::of(&found.ratio).times,
                verdict(found.verdict)
            ),
            (_, None) => String::new(),
        },
    ]
}

const fn verdict(found: Verdict) -> &'static str {
    match found {
        Verdict::Faster => "faster",
        Verdict::Slower => "slower",
        Verdict::Same => "the same within 3 %",
        Verdict::CannotTell { .. } => "no significant difference",
    }
}
