//! The bench's table, its verdicts and its JSON.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde_json::{Map, Value, json};

use super::figures::Figure;
use super::rows::{Bound, Mark};
use super::{Measured, Results};
use crate::clock;

/// One line that says what was measured on.
pub(super) fn machine(seconds: u32, rounds: u32) -> String {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let kernel = read("/proc/sys/kernel/osrelease");
    let load = read("/proc/loadavg");
    let load = load.split(' ').next().unwrap_or("?");
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    format!(
        "{cores} cores, Linux {}, load {load} at the start; medians of {rounds} rounds of {seconds} s",
        kernel.trim()
    )
}

/// A row as a table, with a line for each mark.
pub(super) fn table(results: &Results) -> String {
    let mut text = format!("\n{} ({})\n", results.row.title, results.row.name);
    let figures: Vec<Figure> = Figure::ALL
        .into_iter()
        .filter(|figure| {
            results
                .contenders
                .iter()
                .any(|contender| figure.median(&contender.samples).is_some())
        })
        .collect();
    let heads: String = figures
        .iter()
        .map(|figure| format!("{:>12}", figure.title()))
        .collect();
    text += &format!("  {:<22}{heads}\n", "");
    for contender in &results.contenders {
        let cells: String = figures
            .iter()
            .map(|figure| format!("{:>12}", figure.show(figure.median(&contender.samples))))
            .collect();
        text += &format!("  {:<22}{cells}\n", contender.name);
    }
    for peer in results.contenders.iter().skip(1) {
        let cells: String = figures
            .iter()
            .map(|figure| match ratio(results, *figure, peer) {
                Some(ratio) => format!("{ratio:>11.2}x"),
                None => format!("{:>12}", "-"),
            })
            .collect();
        text += &format!("  {:<22}{cells}\n", format!("/ {}", peer.name));
    }
    for (number, group) in results.row.marks.iter().enumerate() {
        let or = if number == 0 { "marks" } else { "   or" };
        let judged: Vec<String> = group.iter().map(|mark| describe(results, mark)).collect();
        writeln!(text, "  {or}: {}", judged.join("; ")).ok();
    }
    text
}

/// How many rows meet their marks, and which do not.
pub(super) fn summary(all: &[Results]) -> String {
    let missed: Vec<&str> = all
        .iter()
        .filter(|results| !met(results))
        .map(|results| results.row.name)
        .collect();
    let count = all.len() - missed.len();
    if missed.is_empty() {
        format!("{count} of {} rows meet their marks", all.len())
    } else {
        format!(
            "{count} of {} rows meet their marks; not: {}",
            all.len(),
            missed.join(", ")
        )
    }
}

/// Whether one whole group of marks is met. A row without marks is only shown.
fn met(results: &Results) -> bool {
    let marks = results.row.marks;
    let mut groups = marks.iter();
    marks.is_empty()
        || groups.any(|group| group.iter().all(|mark| is_met(results, mark) == Some(true)))
}

fn is_met(results: &Results, mark: &Mark) -> Option<bool> {
    match mark.bound {
        Bound::AtMost(most) => {
            let ours = results.contenders.first()?;
            Some(mark.figure.median(&ours.samples)? <= most)
        }
        Bound::AtLeast(least) => {
            let ours = results.contenders.first()?;
            Some(mark.figure.median(&ours.samples)? >= least)
        }
        Bound::RatioAtLeast(least) => {
            Some(ratio(results, mark.figure, held_against(results, mark)?)? >= least)
        }
        Bound::RatioAtMost(most) => {
            Some(ratio(results, mark.figure, held_against(results, mark)?)? <= most)
        }
    }
}

/// The contender that a mark names, or the first peer.
fn held_against<'a>(results: &'a Results, mark: &Mark) -> Option<&'a Measured> {
    let mut peers = results.contenders.iter().skip(1);
    match mark.peer {
        None => peers.next(),
        Some(name) => peers.find(|peer| peer.name == name),
    }
}

fn ratio(results: &Results, figure: Figure, peer: &Measured) -> Option<f64> {
    let ours = figure.median(&results.contenders.first()?.samples)?;
    let theirs = figure.median(&peer.samples)?;
    (theirs > 0.0).then(|| ours / theirs)
}

fn describe(results: &Results, mark: &Mark) -> String {
    let verdict = match is_met(results, mark) {
        Some(true) => "met",
        Some(false) => "NOT MET",
        None => "not measured",
    };
    let title = mark.figure.title();
    let peer = mark.peer.map(|name| format!(" {name}")).unwrap_or_default();
    match mark.bound {
        Bound::AtMost(most) => format!("{title} <= {most}: {verdict}"),
        Bound::AtLeast(least) => format!("{title} >= {least}: {verdict}"),
        Bound::RatioAtLeast(least) => format!("{title} >= {least}x{peer}: {verdict}"),
        Bound::RatioAtMost(most) => format!("{title} <= {most}x{peer}: {verdict}"),
    }
}

/// Writes everything that was measured, and returns the path.
pub(super) fn write_json(
    folder: &Path,
    seconds: u32,
    rounds: u32,
    all: &[Results],
) -> Result<PathBuf> {
    let rows: Vec<Value> = all.iter().map(row_json).collect();
    let now = clock::unix_seconds();
    let document = json!({
        "machine": machine(seconds, rounds),
        "unix_seconds": now,
        "rows": rows,
    });
    let path = folder.join(format!("bench-{now}.json"));
    std::fs::write(&path, serde_json::to_string_pretty(&document)?)
        .with_context(|| format!("cannot write {}", path.display()))?;
    Ok(path)
}

fn row_json(results: &Results) -> Value {
    let contenders: Vec<Value> = results
        .contenders
        .iter()
        .map(|contender| {
            let medians: Map<String, Value> = Figure::ALL
                .into_iter()
                .filter_map(|figure| {
                    let median = figure.median(&contender.samples)?;
                    Some((figure.title().to_owned(), json!(median)))
                })
                .collect();
            json!({ "name": contender.name, "medians": medians, "rounds": contender.samples })
        })
        .collect();
    let marks: Vec<Vec<String>> = results
        .row
        .marks
        .iter()
        .map(|group| group.iter().map(|mark| describe(results, mark)).collect())
        .collect();
    json!({
        "name": results.row.name,
        "title": results.row.title,
        "met": met(results),
        "marks": marks,
        "contenders": contenders,
    })
}
