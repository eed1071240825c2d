//! Whether the figures may be believed: how they were made, what the checks say, how sure they are.

use super::{ReportBlock, Section, Table};
use crate::checks::steady::NOT_STEADY;
use crate::checks::{Check, Finding, Level};
use crate::plan::Direction;
use crate::report::short;
use crate::report::summary::{Row, Summary, blocks_again};
use crate::runner::{LAY_OUT, SAME_FILESYSTEM};
use crate::stats::{Interval, VALUES_MIN};
use crate::store::{RunRecord, Status};
use crate::tools::{Tool, Writes};
use crate::units::Bytes;

pub(super) fn trust(run: &RunRecord, summary: &Summary) -> Option<Section> {
    let manifest = &run.manifest;
    let again = match blocks_again(run).as_slice() {
        [] => "",
        _ => " The last blocks are of layers alone that were faster than what they stand on.",
    };
    let shuffled = format!(
        "Each block made every test once on every target, in an order shuffled by seed {}.{again}",
        run.seed
    );
    let fio = manifest.engine.map(|engine| format!(
        "fio submitted by {}{}, on a file of {} that was written before it was read. A write counts until its last \
         flush has ended.",
        engine.as_str(),
        match manifest.direct {
            true => ", past the page cache",
            false => ", through the page cache",
        },
        manifest.size,
    ));
    let how = std::iter::once(shuffled)
        .chain(fio)
        .chain(wear(run))
        .collect::<Vec<_>>()
        .join(" ");
    let mut parts = vec![
        ReportBlock::Text(how),
        ReportBlock::Text(sureness(run, summary)),
    ];
    let said = checks(run, summary);
    if said.rows.is_empty() {
        parts.push(ReportBlock::Text("No check has anything to say.".into()));
    } else {
        parts.push(ReportBlock::Table(said));
    }
    parts.push(ReportBlock::Results);
    Some(Section::new("trust", "Can I trust it?", parts))
}

/// What was written in all, where anything was: counted for fio, bounded for tools that have a bound.
pub(in crate::report) fn wear(run: &RunRecord) -> Option<String> {
    let results = run.cells.iter().filter_map(|cell| cell.fio());
    let writes = results.filter(|result| result.direction == Direction::Write);
    let measured: u64 = writes.map(|result| result.bytes.0).sum();
    let lay_outs = run.commands.iter().filter(|one| one.purpose == LAY_OUT);
    let laid_out = run.manifest.size.0.saturating_mul(lay_outs.count() as u64);
    let mut written = measured.saturating_add(laid_out);
    let (mut is_bound, mut unbounded) = (false, Vec::new());
    for (index, workload) in run.plan.workloads.iter().enumerate() {
        let Some(kind) = workload.tool().map(Tool::kind) else {
            continue;
        };
        let starts = run.cells.iter().filter(|cell| cell.workload == index);
        let mut targets: Vec<usize> = starts.clone().map(|cell| cell.target).collect();
        let starts = targets.len() as u64;
        targets.sort_unstable();
        targets.dedup();
        let once = kind.laid_out().0.saturating_mul(targets.len() as u64);
        let each = match kind.writes() {
            Writes::AtMost(bytes) => bytes.0,
            Writes::Nothing => 0,
            Writes::AsMuchAsItCan if starts == 0 => 0,
            Writes::AsMuchAsItCan => {
                unbounded.push(workload.title.as_str());
                0
            }
        };
        let of_tool = once.saturating_add(each.saturating_mul(starts));
        is_bound |= of_tool > 0;
        written = written.saturating_add(of_tool);
    }
    if written == 0 && unbounded.is_empty() {
        return None;
    }
    let most = if is_bound { "at most " } else { "" };
    let more = match unbounded.is_empty() {
        true => String::new(),
        false => format!(
            ", and what {} wrote, which is not counted",
            unbounded.join(" and ")
        ),
    };
    Some(format!(
        "The run wrote {most}{} to its targets, test files included{more}: flash wears by that.",
        Bytes(written)
    ))
}

/// That there are too few blocks for an interval; none where there are enough of every result. A block that was stopped
/// in its middle is none for the tests that it lacks.
pub(in crate::report) fn too_few(run: &RunRecord, summary: &Summary) -> Option<String> {
    let valid = summary.rows.iter().filter(|row| row.validity.is_usable());
    let least = valid.map(|row| row.usable).min();
    // Where nothing is valid, that is what is wrong with it.
    let least = least.unwrap_or_else(|| blocks(run) as usize);
    match least {
        // An imported run has no blocks of its own.
        _ if run.status == Status::Imported => None,
        VALUES_MIN.. => None,
        1 => Some(format!(
            "Too few repeats: 1 block, and an interval takes {VALUES_MIN}."
        )),
        _ => Some(format!(
            "Too few repeats: {least} blocks, and an interval takes {VALUES_MIN}."
        )),
    }
}

/// Blocks that were begun.
fn blocks(run: &RunRecord) -> u32 {
    let begun = run.cells.iter().map(|cell| cell.block + 1);
    begun.max().unwrap_or(0)
}

/// How many results are good, and how wide the intervals are.
pub(in crate::report) fn sureness(run: &RunRecord, summary: &Summary) -> String {
    let all = summary.rows.len();
    let valid = summary
        .rows
        .iter()
        .filter(|row| row.validity.is_usable())
        .count();
    let results = match all - valid {
        0 if unsteady(summary) > 0 => format!(
            "No result is invalid, but {} of {all} are not steady",
            unsteady(summary)
        ),
        0 => format!("All {all} results are valid"),
        invalid => format!("{invalid} of {all} results are invalid and in no median"),
    };
    let blocks = blocks(run);
    let few = too_few(run, summary).map_or_else(String::new, |few| few + " ");
    let results = format!("{few}{results}");
    let plural = if blocks == 1 { "" } else { "s" };
    let made = format!("{} measurements in {blocks} block{plural}", run.cells.len());
    let sure = match widest(summary) {
        None => format!("{results}; {made}."),
        Some((row, width)) => format!(
            "{results}; {made}; the widest 95 % interval is ±{:.1} % of its median ({} on {}).",
            width * 100.0,
            row.title,
            short(&row.label, 30)
        ),
    };
    let is_emulated = run
        .findings
        .iter()
        .any(|finding| finding.check == Check::Emulation);
    match is_emulated {
        true => format!("{sure} The machine is emulated: no figure is that of a real one."),
        false => sure,
    }
}

/// Results that had not settled.
fn unsteady(summary: &Summary) -> usize {
    let is_unsteady =
        |finding: &Finding| finding.check == Check::Steady && finding.text.starts_with(NOT_STEADY);
    let rows = summary.rows.iter();
    rows.filter(|row| row.findings.iter().any(is_unsteady))
        .count()
}

/// What disturbed the run, in one line; none where nothing did.
pub(in crate::report) fn noise(run: &RunRecord, summary: &Summary) -> Option<String> {
    let cells = run.cells.len();
    let marked = |check: Check| {
        let has = |finding: &Finding| finding.check == check;
        let cells = run.cells.iter();
        cells.filter(|cell| cell.findings.iter().any(has)).count()
    };
    let counts = [
        (
            unsteady(summary),
            summary.rows.len(),
            "results are not steady",
        ),
        (
            marked(Check::Noise),
            cells,
            "measurements had other load or traffic",
        ),
        (
            marked(Check::Thermal),
            cells,
            "measurements had heat or throttling",
        ),
    ];
    let counts = counts.into_iter().filter(|(count, ..)| *count > 0);
    let mut parts: Vec<String> = counts
        .map(|(count, all, what)| format!("{count} of {all} {what}"))
        .collect();
    parts.extend(shared(run));
    (!parts.is_empty()).then(|| format!("Noise: {}.", parts.join("; ")))
}

/// Targets that share a filesystem, else those that share a device or the disk below it.
fn shared(run: &RunRecord) -> Option<String> {
    let texts = run.findings.iter().map(|finding| finding.text.as_str());
    let mut pairs = texts.filter(|text| text.ends_with(SAME_FILESYSTEM));
    if let Some(first) = pairs.next() {
        return Some(match pairs.count() {
            0 => first.to_owned(),
            more => format!("{first}, and {more} more pairs of targets are"),
        });
    }
    let mut devices: Vec<&str> = Vec::new();
    for facts in &run.manifest.targets {
        let disk = facts.identity.as_ref().map(|disk| disk.name.as_str());
        let own: Vec<&str> = facts.device.as_deref().into_iter().chain(disk).collect();
        if let Some(device) = own.iter().find(|device| devices.contains(device)) {
            return Some(format!("targets share the device {device}"));
        }
        devices.extend(own);
    }
    None
}

fn widest(summary: &Summary) -> Option<(&Row, f64)> {
    summary
        .rows
        .iter()
        .filter(|row| row.validity.is_usable())
        .filter_map(|row| {
            Some((
                row,
                row.rate.filter(Interval::is_known)?.relative_half_width(),
            ))
        })
        .filter(|(_, width)| width.is_finite())
        .max_by(|a, b| a.1.total_cmp(&b.1))
}

/// A line for each check that has something to say, the worst first.
fn checks(run: &RunRecord, summary: &Summary) -> Table {
    let all = || {
        run.findings
            .iter()
            .chain(&summary.findings)
            .chain(summary.rows.iter().flat_map(|row| &row.findings))
            .chain(run.cells.iter().flat_map(|cell| &cell.findings))
    };
    let mut seen: Vec<Check> = all().map(|finding| finding.check).collect();
    seen.sort_unstable();
    seen.dedup();
    let count = |check: Check, level: Level| {
        all()
            .filter(|finding| finding.check == check && finding.level == level)
            .count()
    };
    seen.sort_by_key(|check| std::cmp::Reverse(count(*check, Level::Invalid)));
    let rows = seen.into_iter().map(|check| {
        let worst = all()
            .filter(|finding| finding.check == check)
            .max_by_key(|finding| finding.level);
        vec![
            check.to_string(),
            count(check, Level::Invalid).to_string(),
            count(check, Level::Remark).to_string(),
            worst.map_or_else(String::new, |Finding { text, .. }| text.clone()),
        ]
    });
    Table::new(&["check", "invalid", "remarks", "for example"]).with(rows)
}
