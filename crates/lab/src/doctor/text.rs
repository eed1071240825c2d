//! An examination and its verdict as a text for people. Pure.

use std::cmp::Ordering;

use super::{Cause, Examination, Verdict, wording};
use crate::units::{Rate, significant};

/// The whole answer.
#[must_use]
pub fn text(examination: &Examination, verdict: &Verdict) -> String {
    let mut out = format!("{}: {}\n", examination.target, examination.about);
    let job = examination.job;
    out.push_str(&format!(
        "{} {} at a time, {}, {} at once{}: {}\n\n",
        match job.direction {
            crate::plan::Direction::Read => "Reading",
            crate::plan::Direction::Write => "Writing",
        },
        job.block_size,
        match job.pattern {
            crate::plan::Pattern::Sequential => "in order",
            crate::plan::Pattern::Random => "at random",
        },
        job.depth,
        if examination.is_flushed {
            ", each flushed"
        } else {
            ""
        },
        examination.rate
    ));
    out.push_str(&table(examination, verdict));
    out.push('\n');
    out.push_str(&verdict.sentence);
    out.push('\n');
    for line in &verdict.evidence {
        out.push_str(&folded("  ", line));
    }
    if let Some(next) = &verdict.next {
        let part = next.part.map_or_else(
            || "something else comes".to_owned(),
            |part| format!("the {part} comes"),
        );
        let most = match next.unknown.first() {
            Some(unknown) => format!(" at most, for what the {unknown} carries is not known"),
            None => String::new(),
        };
        let line = format!(
            "Next, {part} at {}{most}: {} times what it is now.",
            next.rate,
            significant(next.times)
        );
        out.push_str(&folded("  ", &line));
    }
    for line in verdict.advice.lines() {
        // A command stays on its line.
        match line.starts_with(' ') {
            true => out.push_str(&format!("  {line}\n")),
            false => out.push_str(&folded("  ", line)),
        }
    }
    for (title, lines) in [
        ("Does not fit together", &verdict.contradictions),
        ("Not measured", &verdict.unknown),
        ("Remarks", &examination.remarks),
    ] {
        if !lines.is_empty() {
            out.push_str(&format!("\n{title}:\n"));
            lines
                .iter()
                .for_each(|line| out.push_str(&folded("  ", line)));
        }
    }
    out
}

/// Each part, what it carries, and how that is known; then what was tried in their place.
fn table(examination: &Examination, verdict: &Verdict) -> String {
    let mut out = String::new();
    for part in &examination.way {
        let mut bounds: Vec<_> = examination
            .bounds
            .iter()
            .filter(|bound| bound.part == *part)
            .collect();
        let order = |bound: &super::Bound| (!bound.is_an_end(), bound.rate.0);
        bounds.sort_by(|a, b| order(a).partial_cmp(&order(b)).unwrap_or(Ordering::Equal));
        let mark = if verdict.limiter.contains(part) {
            '>'
        } else {
            ' '
        };
        let Some(least) = bounds.first() else {
            row(&mut out, mark, part.name(), "-", "no figure of its own");
            continue;
        };
        let reason = wording::reason(&least.evidence);
        let rate = match least.is_an_end() {
            true => shown(least.rate),
            false => format!("over {}", shown(least.rate)),
        };
        row(&mut out, mark, part.name(), &rate, &reason);
    }
    let stores = examination.served.iter();
    for store in stores.flat_map(|served| &served.stores) {
        let is_cause =
            matches!(&verdict.cause, Some(Cause::Store { store: of, .. }) if of == store);
        let mark = if is_cause { '>' } else { ' ' };
        let (time, how) = store.row(examination.job.direction);
        row(&mut out, mark, "store", &time, &how);
    }
    for sub in &examination.substitutions {
        row(&mut out, ' ', "instead", &shown(sub.rate), &sub.by);
    }
    out
}

fn row(out: &mut String, mark: char, name: &str, rate: &str, how: &str) {
    out.push_str(&format!("{mark} {name:10}{rate:>18}  {how}\n"));
}

fn shown(rate: Rate) -> String {
    format!("{} MB/s", significant(rate.mb()))
}

/// Columns of a terminal that is not wide.
const WIDTH: usize = 96;

/// A line, cut at blanks, each piece behind `indent`.
fn folded(indent: &str, line: &str) -> String {
    let mut out = String::new();
    let mut column = 0;
    for word in line.split(' ') {
        let len = word.chars().count();
        if column > 0 && column + 1 + len > WIDTH {
            out.push('\n');
            column = 0;
        }
        out.push_str(if column == 0 { indent } else { " " });
        column += len + if column == 0 { indent.len() } else { 1 };
        out.push_str(word);
    }
    out.push('\n');
    out
}
