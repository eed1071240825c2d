//! An [`ArrayReport`] as text: a line of its health, and a tree of its members. Pure.
//!
//! ```text
//! media  4.00 GiB  raid1 of 2, degraded: 1 of 2 parts work
//! ├─0    a.img     in sync
//! └─1    b.img     failed: it cannot be written: input/output error
//!   recovery   ━━━━━━━━────────────────  33.3 %, 1.30 GiB of 4.00 GiB, 210.00 MiB/s, 13 s left
//!   bitmap     3 of 64 chunks of 64 MiB are dirty
//!   last scrub 8 sectors differed, at 1048576+4096
//! ```

use engine::clock::Calendar;
use indicatif::HumanBytes;

use super::report::{
    ArrayReport, MemberHealth, MemberReport, PlaceReport, ScrubReport, SyncReport,
};
use crate::commands::inspect::visible;
use crate::output::columns;

/// Cells of a bar.
const BAR_LEN: u64 = 24;
/// Places of differences that are shown.
const PLACES_SHOWN_MAX: usize = 10;

/// The whole report as a tree.
pub(crate) fn tree(report: &ArrayReport) -> String {
    let mut lines = vec![head(report)];
    lines.extend(members(report));
    lines.extend(details(report));
    lines.join("\n")
}

/// What it is and how it is, in one line.
pub(crate) fn line(report: &ArrayReport) -> String {
    let mut line = head(report);
    if let Some(sync) = &report.sync {
        line.push_str("; ");
        line.push_str(&progress(sync));
    }
    let failed = report.members.iter();
    let failed =
        failed.filter(|member| matches!(member.state, MemberHealth::Failed | MemberHealth::Stale));
    for member in failed {
        let state = member.state.words();
        line.push_str(&format!("; {} is {state}", visible(&member.name)));
    }
    line
}

fn head(report: &ArrayReport) -> String {
    let kind = match (report.level.as_str(), &report.layout) {
        (level, Some(layout)) => format!("{level} ({layout})"),
        (level, None) => level.to_owned(),
    };
    let name = visible(report.short_name());
    let size = HumanBytes(report.size);
    let health = health(report);
    let of = report.parts;
    format!("{name}: {kind} of {of}, {size}, {health}")
}

/// How it is, in words.
pub(crate) fn health(report: &ArrayReport) -> String {
    if report.taken_over.is_some() {
        return "stopped: another host took it over".to_owned();
    }
    let mut words = Vec::new();
    if report.is_degraded() {
        words.push(format!(
            "degraded: {} of {} parts work",
            report.working, report.parts
        ));
    } else {
        words.push("complete".to_owned());
    }
    let state = match (report.resync_pending, report.clean) {
        (true, _) => "resync pending",
        (false, true) => "clean",
        (false, false) => "in use",
    };
    words.push(state.to_owned());
    if report.read_only {
        words.push("read-only".to_owned());
    }
    words.join(", ")
}

fn members(report: &ArrayReport) -> Vec<String> {
    let shown: Vec<&MemberReport> = report
        .members
        .iter()
        .filter(|m| is_shown(m, report))
        .collect();
    let count = shown.len();
    let row = |(n, member): (usize, &&MemberReport)| {
        let branch = if n + 1 == count { "└─" } else { "├─" };
        let part = member
            .part
            .map_or_else(|| "-".to_owned(), |part| part.to_string());
        let name = match member.name.as_str() {
            "" => "-".to_owned(),
            name => visible(name),
        };
        [format!("{branch}{part}"), name, state(member, report)]
    };
    let rows: Vec<[String; 3]> = shown.iter().enumerate().map(row).collect();
    columns(&rows).lines().map(str::to_owned).collect()
}

/// Whether a member has a line. A missing member has none where a failed member of the same slot has one.
fn is_shown(member: &MemberReport, report: &ArrayReport) -> bool {
    let held = |other: &MemberReport| {
        other.part == member.part
            && matches!(other.state, MemberHealth::Failed | MemberHealth::Stale)
    };
    member.state != MemberHealth::Missing || !report.members.iter().any(held)
}

fn state(member: &MemberReport, report: &ArrayReport) -> String {
    let mut words = member.state.words().to_owned();
    if report.resync_pending && member.state == MemberHealth::InSync {
        // It holds its part, and others may hold something else.
        words.push_str(", resync pending");
    }
    if let (None, Some(to)) = (&report.sync, member.rebuilt_to) {
        words.push_str(&format!(", {} so far", HumanBytes(to)));
    }
    let marks = [
        (member.remote, "remote"),
        (member.write_mostly, "write-mostly"),
        (member.fail_fast, "failfast"),
    ];
    for (_, mark) in marks.iter().filter(|(is_so, _)| *is_so) {
        words.push_str(&format!(", {mark}"));
    }
    if member.corrected > 0 {
        words.push_str(&format!(", {} read errors corrected", member.corrected));
    }
    if let Some(why) = &member.why {
        words.push_str(&format!(": {}", visible(why)));
    }
    words
}

fn details(report: &ArrayReport) -> Vec<String> {
    let mut rows: Vec<[String; 2]> = Vec::new();
    let mut row = |name: &str, value: String| rows.push([format!("  {name}"), value]);
    if let Some(takeover) = &report.taken_over {
        let when = takeover.at.map(|at| format!(" ({})", Calendar::of(at)));
        let (member, why) = (visible(&takeover.member), visible(&takeover.why));
        let told = format!("{member}{}: {why}", when.unwrap_or_default());
        row("taken over", told);
    }
    if let Some(sync) = &report.sync {
        row(
            sync.kind.name(),
            format!("{}  {}", bar(sync), figures(sync)),
        );
    }
    if let Some(pause) = &report.reshape_paused {
        let (done, of) = (HumanBytes(pause.done), HumanBytes(pause.of));
        let why = visible(&pause.why);
        row("reshape paused", format!("at {done} of {of}: {why}"));
    }
    let lost = report.reshape_lost;
    if lost.places > 0 {
        let (places, bytes) = (lost.places, HumanBytes(lost.bytes));
        row(
            "reshape lost",
            format!("{bytes} in {places} places that no member can read"),
        );
    }
    if let Some(untrusted) = &report.untrusted {
        row("may be wrong", untrusted.words());
    }
    if let Some(scrubbed) = &report.scrubbed {
        row("last scrub", scrub(scrubbed));
    }
    if let Some(bitmap) = report.bitmap {
        let (dirty, chunks, chunk) = (bitmap.dirty, bitmap.chunks, HumanBytes(bitmap.chunk));
        row(
            "bitmap",
            format!("{dirty} of {chunks} chunks of {chunk} dirty"),
        );
    }
    if report.ppl {
        row("consistency policy", "ppl".to_owned());
    }
    if report.journal {
        row("consistency policy", "journal".to_owned());
    }
    row("uuid", report.uuid.clone());
    let mut about = format!("superblocks {}, {} events", report.version, report.events);
    if report.chunk > 0 {
        about.push_str(&format!(", chunks of {}", HumanBytes(report.chunk)));
    }
    row("format", about);
    if let Some(export) = &report.export {
        row("export", visible(export));
    }
    columns(&rows).lines().map(str::to_owned).collect()
}

/// What is done and how far, in words.
fn progress(sync: &SyncReport) -> String {
    format!("{} {}", sync.kind.name(), figures(sync))
}

fn figures(sync: &SyncReport) -> String {
    let per_mille = sync.per_mille();
    let mut words = format!(
        "{}.{} %, {} of {}",
        per_mille / 10,
        per_mille % 10,
        HumanBytes(sync.done),
        HumanBytes(sync.of)
    );
    if sync.speed > 0 {
        words.push_str(&format!(", {}/s", HumanBytes(sync.speed)));
    }
    if let Some(left) = sync.seconds_left {
        words.push_str(&format!(", {} left", time(left)));
    }
    if sync.mismatches > 0 {
        words.push_str(&format!(", {} sectors differ so far", sync.mismatches));
    }
    words
}

fn bar(sync: &SyncReport) -> String {
    let full = sync.per_mille() * BAR_LEN / 1000;
    let cells = (0..BAR_LEN).map(|cell| if cell < full { '━' } else { '─' });
    cells.collect()
}

/// The array as an expression names it, if it has members that it had not `before`.
pub(crate) fn with_newcomers(before: &ArrayReport, now: &ArrayReport) -> Option<String> {
    let is_here = |member: &&MemberReport| {
        matches!(
            member.state,
            MemberHealth::InSync
                | MemberHealth::Rebuilding
                | MemberHealth::Replacement
                | MemberHealth::Spare
                | MemberHealth::Journal
        )
    };
    let here = |report: &ArrayReport| -> Vec<String> {
        let members = report.members.iter().filter(is_here);
        members.map(|member| member.name.clone()).collect()
    };
    let (was, is) = (here(before), here(now));
    let came = is.iter().any(|name| !was.contains(name));
    came.then(|| format!("array({})", is.join(", ")))
}

/// What a scrub found, in words.
pub(crate) fn scrub(scrubbed: &ScrubReport) -> String {
    let mut words = match (scrubbed.mismatches, scrubbed.repaired) {
        (0, _) => "all copies are identical".to_owned(),
        (count, false) => format!("{count} sectors of 512 bytes differ"),
        (count, true) => format!("{count} sectors of 512 bytes differed and were repaired"),
    };
    if scrubbed.rewritten_bytes > 0 {
        let bytes = scrubbed.rewritten_bytes;
        words.push_str(&format!(", {bytes} bytes of bad blocks were rewritten"));
    }
    if !scrubbed.finished {
        words.push_str(", ended before its end");
    }
    if !scrubbed.places.is_empty() {
        let count = scrubbed.places.len() as u64;
        words.push_str(&format!(", at {}", places(&scrubbed.places, count)));
    }
    words
}

/// The first of so many places, in words.
pub(super) fn places(places: &[PlaceReport], count: u64) -> String {
    let shown = places.iter().take(PLACES_SHOWN_MAX);
    let shown: Vec<String> = shown
        .map(|place| format!("{}+{}", place.offset, place.len))
        .collect();
    let list = shown.join(", ");
    match count.saturating_sub(shown.len() as u64) {
        0 => list,
        more => format!("{list} and {more} more places (--json lists them)"),
    }
}

/// `90 s`, `12 min`, `3 h 20 min`.
fn time(seconds: u64) -> String {
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7200 => format!("{} min", seconds / 60),
        _ => format!("{} h {} min", seconds / 3600, seconds / 60 % 60),
    }
}
