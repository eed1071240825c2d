//! The table for a terminal, and the list of runs.

use super::cells::{cpu, latency, operations, rates};
use super::contents::{noise, too_few, wear};
use super::notes::Notes;
use super::remark_group::{RunNames, grouped};
use super::summary::{Row, Summary};
use super::{NONE, date, overall, sentences, short};
use crate::checks::Validity;
use crate::store::{RunLine, RunRecord};

/// The longest target name in the table.
const NAME_MAX: usize = 24;

/// The figures, what they say, and whether they may be believed.
#[must_use]
pub fn table(run: &RunRecord) -> String {
    let summary = Summary::of(run);
    let mut notes = Notes::of(run);
    let mut rows: Vec<Vec<String>> = vec![HEAD.iter().map(|head| (*head).to_owned()).collect()];
    let mut test = None;
    for row in &summary.rows {
        if test != Some(row.workload) {
            rows.push(vec![row.title.clone()]);
            test = Some(row.workload);
        }
        rows.push(cells(row, &mut notes));
    }
    let mut lines = Vec::new();
    lines.extend(too_few(run, &summary));
    lines.extend(aligned(&rows));
    lines.push(String::new());
    lines.extend(figures(&summary));
    lines.extend(sentences(run, &summary));
    lines.extend(overall(run, &summary));
    lines.extend(
        notes
            .texts()
            .map(|(number, text)| format!("[{number}] {text}.")),
    );
    let of_run = run.findings.iter().chain(&summary.findings);
    let of_run = of_run.map(|finding| finding.text.as_str());
    let of_run = grouped(of_run, &RunNames::of(run)).into_iter();
    lines.extend(of_run.map(|text| format!("Note: {text}.")));
    lines.extend(noise(run, &summary));
    lines.extend(wear(run));
    lines.push(format!(
        "Run {} on {}: {} measurements, {}.",
        run.id,
        date::shown(run.started_unix_ms),
        run.cells.len(),
        run.status
    ));
    lines.join("\n") + "\n"
}

/// What tools measured, every figure of them.
fn figures(summary: &Summary) -> Vec<String> {
    let mut rows = vec![
        ["", "figure", "median", "95 %", "blocks", ""]
            .map(String::from)
            .to_vec(),
    ];
    for row in summary.rows.iter().filter(|row| !row.figures.is_empty()) {
        rows.push(vec![format!(
            "{} on {}",
            row.title,
            short(&row.label, NAME_MAX)
        )]);
        rows.extend(row.figures.iter().map(|figure| {
            let shown = |value| figure.unit.shown(value);
            vec![
                String::new(),
                figure.name.clone(),
                shown(figure.value.median),
                match figure.value.is_known() {
                    true => format!(
                        "{} to {}",
                        shown(figure.value.low),
                        shown(figure.value.high)
                    ),
                    false => NONE.to_owned(),
                },
                figure.value.n.to_string(),
                String::new(),
            ]
        }));
    }
    if rows.len() == 1 {
        return Vec::new();
    }
    let mut lines = aligned(&rows);
    lines.push(String::new());
    lines
}

const HEAD: [&str; 10] = [
    "",
    "MB/s",
    "MiB/s",
    "95 % MB/s",
    "IOPS",
    "p50",
    "p99",
    "server CPU",
    "client CPU",
    "result",
];

fn cells(row: &Row, notes: &mut Notes) -> Vec<String> {
    let [mb, mib, interval] = rates(row);
    vec![
        format!("  {}", short(&row.label, NAME_MAX)),
        mb,
        mib,
        interval,
        operations(row),
        latency(row.p50),
        latency(row.p99),
        cpu(row.server_cpu),
        cpu(row.client_cpu),
        result(&row.validity, notes),
    ]
}

/// The verdict on a row, with the numbers of its notes.
fn result(validity: &Validity, notes: &mut Notes) -> String {
    let word = match validity {
        Validity::Good => return "good".into(),
        Validity::Remarks { .. } => "good",
        Validity::Invalid { .. } => "INVALID",
    };
    let numbers: Vec<String> = notes
        .numbers(validity)
        .iter()
        .map(usize::to_string)
        .collect();
    format!("{word} [{}]", numbers.join(","))
}

/// Columns as wide as their widest cell; the first to the left, the last too, the others to the
/// right. A row of one cell is a heading.
pub(super) fn aligned(rows: &[Vec<String>]) -> Vec<String> {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        rows.iter()
            .filter(|row| row.len() > 1)
            .filter_map(|row| row.get(column))
            .map(|cell| cell.chars().count())
            .max()
            .unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    rows.iter()
        .map(|row| {
            let cells: Vec<String> = row
                .iter()
                .enumerate()
                .map(|(column, cell)| {
                    let pad = " ".repeat(widths[column].saturating_sub(cell.chars().count()));
                    if column == 0 || column + 1 == columns {
                        format!("{cell}{pad}")
                    } else {
                        format!("{pad}{cell}")
                    }
                })
                .collect();
            cells.join("  ").trim_end().to_owned()
        })
        .collect()
}

/// The lines of `lab list`.
#[must_use]
pub fn run_list(runs: &[RunLine]) -> String {
    if runs.is_empty() {
        return "No run was made yet.\n".into();
    }
    let mut rows = vec![
        ["run", "when", "plan", "measurements", "ended", "targets"]
            .map(String::from)
            .to_vec(),
    ];
    for run in runs {
        rows.push(vec![
            run.id.to_string(),
            date::shown(run.started_unix_ms),
            run.plan.clone(),
            run.cells.to_string(),
            run.status.to_string(),
            run.targets.join(" against "),
        ]);
    }
    aligned(&rows).join("\n") + "\n"
}
