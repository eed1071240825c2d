//! The report as Markdown, for an issue or a letter.

use super::cells::{cpu, latency, operations, rates};
use super::contents::{ReportBlock, Section, Table, contents};
use super::io_path::IoPath;
use super::remark_group::{RunNames, grouped};
use super::sentences::verdict;
use super::{Summary, date, sentences};
use crate::checks::Validity;
use crate::store::RunRecord;

/// Longer tables are left to JSON and to the page.
const ROWS_MAX: usize = 60;

/// The figures, the sentences, the checks, the machine and the commands.
#[must_use]
pub fn markdown(run: &RunRecord) -> String {
    let summary = Summary::of(run);
    let mut out = format!("# Lab run {}: {}\n\n", run.id, escaped(&run.plan.name));
    out += &format!(
        "{}, {} measurements, {}.\n\n",
        date::shown(run.started_unix_ms),
        run.cells.len(),
        escaped(&run.status.to_string())
    );
    let way = IoPath::of(run, &summary);
    out += &format!(
        "{}\n\n",
        escaped(&verdict(run, &summary, way.as_ref()).join(" "))
    );
    for sentence in sentences(run, &summary) {
        out += &format!("- {}\n", escaped(&sentence));
    }
    out += "\n| test | on | MB/s | MiB/s | 95 % MB/s | n | IOPS | p50 | p99 | server CPU | client CPU | result |\n";
    out += "|---|---|--:|--:|---|--:|--:|--:|--:|--:|--:|---|\n";
    out += &rows(&summary);
    out += "\n## Remarks\n\n";
    out += &remarks(run, &summary);
    for part in &contents(run, &summary) {
        out += &section(part);
    }
    out += "\n## Commands\n\n";
    for command in &run.commands {
        out += &format!("    {}\n", command.line.replace(['\n', '\r'], " "));
    }
    out
}

/// The lines of the table.
fn rows(summary: &Summary) -> String {
    let mut out = String::new();
    for row in &summary.rows {
        let [mb, mib, interval] = rates(row);
        let cells = [
            row.title.clone(),
            row.label.clone(),
            mb,
            mib,
            interval,
            row.usable.to_string(),
            operations(row),
            latency(row.p50),
            latency(row.p99),
            cpu(row.server_cpu),
            cpu(row.client_cpu),
            row.validity.to_string(),
        ];
        out += &format!("| {} |\n", cells.map(|cell| escaped(&cell)).join(" | "));
    }
    out
}

/// A section's texts and figures as tables. Courses of a point a second are for the page and for JSON.
fn section(section: &Section) -> String {
    let mut out = format!("\n## {}\n", escaped(section.title));
    for part in &section.parts {
        match part {
            ReportBlock::Text(text) => out += &format!("\n{}\n", escaped(text)),
            ReportBlock::List(lines) => {
                out += "\n";
                out.extend(lines.iter().map(|line| format!("- {}\n", escaped(line))));
            }
            ReportBlock::Facts { title, items } => {
                out += &format!("\n### {}\n\n", escaped(title));
                out.extend(
                    items
                        .iter()
                        .map(|(name, value)| format!("- {name}: {}\n", escaped(value))),
                );
            }
            ReportBlock::Table(found) => out += &format!("\n{}", table(found)),
            ReportBlock::Figure(figure) => {
                out += &format!(
                    "\n### {}\n\n{}\n\n",
                    escaped(&figure.title),
                    escaped(&figure.caption)
                );
                out += &table(&figure.table);
            }
            ReportBlock::Targets
            | ReportBlock::Kinds
            | ReportBlock::Results
            | ReportBlock::Commands => {}
        }
    }
    out
}

fn table(table: &Table) -> String {
    if table.rows.len() > ROWS_MAX {
        return format!(
            "{} lines of figures are in the JSON and on the page.\n",
            table.rows.len()
        );
    }
    let line = |cells: &[String]| {
        let cells: Vec<String> = cells.iter().map(|cell| escaped(cell)).collect();
        format!("| {} |\n", cells.join(" | "))
    };
    let rows: String = table.rows.iter().map(|row| line(row)).collect();
    format!(
        "{}|{}\n{rows}",
        line(&table.head),
        "---|".repeat(table.head.len())
    )
}

fn remarks(run: &RunRecord, summary: &Summary) -> String {
    let mut lines: Vec<String> = run
        .findings
        .iter()
        .chain(&summary.findings)
        .map(|finding| finding.text.clone())
        .collect();
    for row in &summary.rows {
        let of = format!("{} on {}", row.title, row.label);
        match &row.validity {
            Validity::Good => {}
            Validity::Remarks { texts } => {
                lines.extend(texts.iter().map(|text| format!("{of}: {text}")))
            }
            Validity::Invalid { reason } => lines.push(format!("{of} is invalid because {reason}")),
        }
    }
    if lines.is_empty() {
        return "None.\n".into();
    }
    let lines = grouped(lines.iter().map(String::as_str), &RunNames::of(run));
    lines
        .iter()
        .map(|line| format!("- {}\n", escaped(line)))
        .collect()
}

/// Keeps what comes from outside from being markup.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            '|' | '*' | '_' | '`' | '[' | ']' | '\\' | '#' => {
                out.push('\\');
                out.push(c);
            }
            '\n' | '\r' => out.push(' '),
            other => out.push(other),
        }
    }
    out
}
