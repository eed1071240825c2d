//! The report as Markdown, for an issue or a letter.

use super::table::{cpu, latency};
use super::{NONE, Summary, date, overall, range, sentences};
use crate::checks::Validity;
use crate::store::RunRecord;
use crate::units::{grouped, significant};

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
    for sentence in overall(run, &summary)
        .into_iter()
        .chain(sentences(run, &summary))
    {
        out += &format!("- {}\n", escaped(&sentence));
    }
    out += "\n| test | on | MB/s | MiB/s | 95 % MB/s | n | IOPS | p50 | p99 | server CPU | client CPU | result |\n";
    out += "|---|---|--:|--:|---|--:|--:|--:|--:|--:|--:|---|\n";
    for row in &summary.rows {
        let rate = |unit: f64| {
            row.rate
                .map_or_else(|| NONE.into(), |rate| significant(rate.median / unit))
        };
        let cells = [
            row.title.clone(),
            row.label.clone(),
            rate(1e6),
            rate(1_048_576.0),
            row.rate.map_or_else(
                || NONE.into(),
                |rate| range(rate.low / 1e6, rate.high / 1e6),
            ),
            row.usable.to_string(),
            row.operations
                .map_or_else(|| NONE.into(), |found| grouped(found.median)),
            latency(row.p50),
            latency(row.p99),
            cpu(row.server_cpu),
            cpu(row.client_cpu),
            row.validity.to_string(),
        ];
        out += &format!("| {} |\n", cells.map(|cell| escaped(&cell)).join(" | "));
    }
    out += "\n## Remarks\n\n";
    out += &remarks(run, &summary);
    out += "\n## Machine\n\n";
    let machine = &run.manifest.machine;
    out += &format!(
        "{}, {}, {} cores, {}; {}; {}; outboard {}.\n\n",
        escaped(&machine.processor),
        escaped(&machine.architecture),
        machine.cores,
        machine.memory,
        escaped(&machine.kernel),
        escaped(&run.manifest.fio),
        escaped(&run.manifest.outboard)
    );
    for target in &run.manifest.targets {
        out += &format!(
            "- {}: {} on {}\n",
            escaped(&target.label),
            escaped(&target.filesystem),
            escaped(&target.source)
        );
    }
    out += "\n## Commands\n\n";
    for command in &run.commands {
        out += &format!("    {}\n", command.line.replace(['\n', '\r'], " "));
    }
    out
}

fn remarks(run: &RunRecord, summary: &Summary) -> String {
    let mut lines: Vec<String> = run
        .findings
        .iter()
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
