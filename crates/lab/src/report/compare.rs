//! Two runs compared: each test of one with the same test of the other, if their jobs are equal.
//!
//! Invariants: a pair is compared only if both are valid and their jobs are equal; what is not compared
//! is named with the reason. Blocks of different runs are no pairs, so drift between the runs is in the
//! figure: the report states that, and a machine that differs. A test on a disk is compared with the same test on
//! the same disk, by its serial, wherever that is plugged in by then. Where drives changed slots between
//! the runs, drives are compared with slots as well.

use serde::Serialize;

use super::sentences::worded;
use super::square::{Square, squares};
use super::summary::{Row, Summary, refusal, side};
use super::{RatioText, short, table::aligned};
use crate::checks::identity::Identity;
use crate::checks::{self, Validity};
use crate::stats::{Comparison, compare_unpaired};
use crate::store::{RunId, RunRecord};

/// The longest name in a line.
const NAME_MAX: usize = 32;

/// Two runs, compared.
#[derive(Debug, Clone, Serialize)]
pub struct RunComparison {
    /// The first run.
    pub a: RunId,
    /// What it is compared with.
    pub b: RunId,
    /// Tests that both have.
    pub tests: Vec<PairedTest>,
    /// Tests that only one has: `run 3: Random read on /mnt`.
    pub unpaired: Vec<String>,
    /// Tests of drives that stood in another slot in each run.
    pub squares: Vec<Square>,
    /// What else differs: the machine, the version of fio, a disk that is another one or elsewhere.
    pub remarks: Vec<String>,
}

/// A test that both runs have.
#[derive(Debug, Clone, Serialize)]
pub struct PairedTest {
    /// The test's name for people.
    pub title: String,
    /// The target of the first run.
    pub label_a: String,
    /// The target of the second run.
    pub label_b: String,
    /// The first run's median, as printed.
    pub figure_a: Option<String>,
    /// The second run's median, as printed.
    pub figure_b: Option<String>,
    /// First over second, above one where the first is better.
    pub comparison: Option<Comparison>,
    /// Why they are not compared.
    pub refused: Option<String>,
}

/// Compares `a` with `b`.
#[must_use]
pub fn compare_runs(a: &RunRecord, b: &RunRecord) -> RunComparison {
    let (rows_a, rows_b) = (Summary::of(a).rows, Summary::of(b).rows);
    let mut taken = Vec::new();
    let mut tests = Vec::new();
    let mut figures = Vec::new();
    let mut unpaired = Vec::new();
    let mut moved: Vec<String> = Vec::new();
    for row in &rows_a {
        let partner = partner((a, row), (b, &rows_b), &taken);
        match partner {
            Some(index) => {
                taken.push(index);
                tests.push(paired((a, row), (b, &rows_b[index])));
                figures.push((goodness(a, row), goodness(b, &rows_b[index])));
                let said = disks_of((a, row), (b, &rows_b[index]));
                moved.extend(said.filter(|text| !moved.contains(text)));
            }
            None => unpaired.push(only(a, row)),
        }
    }
    compare_together(&mut tests, figures);
    let alone = rows_b.iter().enumerate();
    let alone = alone.filter(|(index, _)| !taken.contains(index));
    unpaired.extend(alone.map(|(_, row)| only(b, row)));
    RunComparison {
        a: a.id,
        b: b.id,
        tests,
        unpaired,
        squares: squares(&[a, b]),
        remarks: remarks(a, b).into_iter().chain(moved).collect(),
    }
}

/// The disk below a row.
fn disk<'a>(run: &'a RunRecord, row: &Row) -> Option<&'a Identity> {
    run.manifest.targets.get(row.target)?.identity.as_ref()
}

/// Whether both are one disk, as far as that is known.
fn is_same(a: Option<&Identity>, b: Option<&Identity>) -> bool {
    let lasting = |disk: Option<&Identity>| disk.and_then(Identity::lasting).map(str::to_owned);
    lasting(a).is_some() && lasting(a) == lasting(b)
}

/// Findings on the disks below two rows, from the earlier run to the later one.
fn disks_of((a, row_a): (&RunRecord, &Row), (b, row_b): (&RunRecord, &Row)) -> Option<String> {
    let (one, other) = (disk(a, row_a)?, disk(b, row_b)?);
    let found = match a.started_unix_ms <= b.started_unix_ms {
        true => checks::disks(one, other),
        false => checks::disks(other, one),
    };
    let found = found.into_iter().next()?;
    Some(format!("at {}, {}", row_a.label, found.text))
}

/// The same test on the same disk under the same name, on the same disk, or on the same target; where each
/// run has one target, on that.
fn partner(
    (a, row): (&RunRecord, &Row),
    (b, rows): (&RunRecord, &[Row]),
    taken: &[usize],
) -> Option<usize> {
    let test = &a.plan.workloads[row.workload];
    let is_same_test = |other: &Row| {
        let other = &b.plan.workloads[other.workload];
        (&test.name, &test.title) == (&other.name, &other.title)
            || (test.title == other.title && test.direction() == other.direction())
    };
    let alone = a.manifest.targets.len() == 1 && b.manifest.targets.len() == 1;
    let target = |run: &RunRecord, row: &Row| run.manifest.targets[row.target].name.clone();
    let candidates = || {
        rows.iter()
            .enumerate()
            .filter(|(index, other)| !taken.contains(index) && is_same_test(other))
    };
    let own = disk(a, row);
    let is_on_it = |other: &Row| is_same(own, disk(b, other));
    let there = candidates().find(|(_, other)| is_on_it(other) && other.label == row.label);
    let elsewhere = || candidates().find(|(_, other)| is_on_it(other));
    let by_label = || candidates().find(|(_, other)| other.label == row.label);
    let by_name = || candidates().find(|(_, other)| alone || target(b, other) == target(a, row));
    let found = there.or_else(elsewhere).or_else(by_label);
    found.or_else(by_name).map(|(index, _)| index)
}

fn paired((a, row_a): (&RunRecord, &Row), (b, row_b): (&RunRecord, &Row)) -> PairedTest {
    let figure = |row: &Row| row.headline.map(|found| row.unit.shown(found.median));
    let refused = refused((a, row_a), (b, row_b));
    PairedTest {
        title: row_a.title.clone(),
        label_a: row_a.label.clone(),
        label_b: row_b.label.clone(),
        figure_a: figure(row_a),
        figure_b: figure(row_b),
        refused,
        comparison: None,
    }
}

/// Compares the figures of each test that may be compared, all of them together.
fn compare_together(tests: &mut [PairedTest], mut figures: Vec<(Vec<f64>, Vec<f64>)>) {
    for (test, figures) in tests.iter().zip(&mut figures) {
        if test.refused.is_some() {
            *figures = (Vec::new(), Vec::new());
        }
    }
    for (test, comparison) in tests.iter_mut().zip(compare_unpaired(&figures)) {
        test.comparison = comparison;
        if comparison.is_none() && test.refused.is_none() {
            test.refused = Some("one of them has no figure".into());
        }
    }
}

fn refused((a, row_a): (&RunRecord, &Row), (b, row_b): (&RunRecord, &Row)) -> Option<String> {
    for (run, row) in [(a, row_a), (b, row_b)] {
        if let Validity::Invalid { reason } = &row.validity {
            return Some(format!("in run {} it is invalid: {reason}", run.id));
        }
    }
    let side = |run, row: &Row| side(run, row.workload, row.target);
    if row_a.figure != row_b.figure || row_a.unit != row_b.unit {
        return Some(format!("{} is no {}", row_a.figure, row_b.figure));
    }
    refusal(side(a, row_a)?, side(b, row_b)?)
}

/// The usable figures, turned so that more is better.
fn goodness(run: &RunRecord, row: &Row) -> Vec<f64> {
    let figures = run
        .cells_of(row.workload, row.target)
        .filter(|cell| cell.is_usable())
        .filter_map(|cell| cell.headline());
    figures
        .map(|headline| headline.better.goodness(headline.value))
        .collect()
}

fn only(run: &RunRecord, row: &Row) -> String {
    format!("run {}: {} on {}", run.id, row.title, row.label)
}

/// What differs around the jobs.
fn remarks(a: &RunRecord, b: &RunRecord) -> Vec<String> {
    let (one, other) = (&a.manifest.machine, &b.manifest.machine);
    let fio = |run: &RunRecord| run.manifest.fio.clone().unwrap_or_default();
    let rows = [
        ("machine", &one.hostname, &other.hostname),
        ("kernel", &one.kernel, &other.kernel),
        ("processor", &one.processor, &other.processor),
        ("fio", &fio(a), &fio(b)),
        ("outboard", &a.manifest.outboard, &b.manifest.outboard),
    ];
    let differ = rows.into_iter().filter(|(_, one, other)| one != other);
    std::iter::once(
        "the runs were made at different times: drift between them is in the ratios".into(),
    )
    .chain(differ.map(|(what, one, other)| format!("the {what} differs: {one} against {other}")))
    .collect()
}

impl RunComparison {
    /// As lines for a terminal.
    #[must_use]
    pub fn text(&self) -> String {
        let head = ["test", "on", "run A", "run B", "ratio", "95 %"].map(String::from);
        let mut rows = vec![head.to_vec()];
        let mut said = Vec::new();
        let (a, b) = (format!("run {}", self.a), format!("run {}", self.b));
        for test in &self.tests {
            let label = match test.label_a == test.label_b {
                true => short(&test.label_a, NAME_MAX),
                false => format!(
                    "{} / {}",
                    short(&test.label_a, NAME_MAX / 2),
                    short(&test.label_b, NAME_MAX / 2)
                ),
            };
            let ratio = test.comparison.map(|found| found.ratio);
            let text = ratio.as_ref().map(RatioText::of);
            rows.push(vec![
                test.title.clone(),
                label.clone(),
                test.figure_a.clone().unwrap_or_else(|| super::NONE.into()),
                test.figure_b.clone().unwrap_or_else(|| super::NONE.into()),
                text.as_ref()
                    .map_or_else(|| super::NONE.into(), |text| text.times.clone()),
                match (ratio, &text) {
                    (Some(ratio), Some(text)) if ratio.is_known() => text.range(),
                    _ => super::NONE.into(),
                },
            ]);
            said.push(match (&test.comparison, &test.refused) {
                (Some(found), _) => format!("{}: {}", test.title, worded(found, &a, &b)),
                (None, reason) => format!(
                    "{} on {label}: not compared, because {}.",
                    test.title,
                    reason.as_deref().unwrap_or("there is no figure")
                ),
            });
        }
        let mut lines = aligned(&rows);
        lines.push(String::new());
        lines.extend(said);
        lines.extend(self.squares.iter().map(Square::sentence));
        lines.extend(self.unpaired.iter().map(|one| format!("Only in {one}.")));
        lines.extend(self.remarks.iter().map(|remark| format!("Note: {remark}.")));
        lines.join("\n") + "\n"
    }
}
