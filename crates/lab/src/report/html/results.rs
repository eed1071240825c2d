//! The table of all figures, with the findings on each.

use maud::{Markup, html};

use super::figure::scrolled;
use crate::checks::Validity;
use crate::report::cells::{latency, operations, rates};
use crate::report::notes::Notes;
use crate::report::summary::{Row, Summary};
use crate::report::{NONE, short};
use crate::store::RunRecord;

/// With more results than this the points of curves are folded.
const SHOWN_MAX: usize = 40;

const HEADS: [&str; 11] = [
    "on",
    "MB/s",
    "MiB/s",
    "95 %, MB/s",
    "n",
    "IOPS",
    "p50",
    "p99",
    "server CPU",
    "client CPU",
    "result",
];

pub(super) fn results(run: &RunRecord, summary: &Summary) -> Markup {
    let mut notes = Notes::of(run);
    let is_folded = |row: &&Row| {
        summary.rows.len() > SHOWN_MAX && run.plan.workloads[row.workload].series.is_some()
    };
    let (folded, shown): (Vec<&Row>, Vec<&Row>) = summary.rows.iter().partition(is_folded);
    let shown = table("All results", &shown, &mut notes);
    let points = folded.len();
    let folded = table("Results of sweeps", &folded, &mut notes);
    html! {
        (shown)
        @if points > 0 { details { summary { "The " (points) " points of sweeps" } (folded) } }
        @if notes.texts().next().is_some() {
            ol class="notes" { @for (number, text) in notes.texts() { li id={ "note-" (number) } { (text) } } }
        }
    }
}

fn table(name: &str, rows: &[&Row], notes: &mut Notes) -> Markup {
    let drawn: Vec<Markup> = rows.iter().map(|row| result(row, notes)).collect();
    let is_first = |index: usize| index == 0 || rows[index - 1].workload != rows[index].workload;
    html! {
        @if !rows.is_empty() {
            div class="card" { (scrolled(name, &html! {
                table class="figures" {
                    caption class="unseen" { (name) }
                    thead { tr { @for (index, head) in HEADS.iter().enumerate() {
                        th scope="col" class=(if index == 0 || index == 10 { "text" } else { "" }) { (head) }
                    } } }
                    tbody { @for (index, (row, drawn)) in rows.iter().zip(&drawn).enumerate() {
                        @if is_first(index) { tr class="test" { th colspan="11" scope="rowgroup" { (row.title) } } }
                        (drawn)
                    } }
                }
            })) }
        }
    }
}

fn result(row: &Row, notes: &mut Notes) -> Markup {
    let [mb, mib, interval] = rates(row);
    html! {
        tr {
            th scope="row" { (short(&row.label, 34)) }
            td class="main" { (mb) }
            td { (mib) }
            td { (interval) }
            td { (row.usable) @if row.usable != row.blocks.len() { " of " (row.blocks.len()) } }
            td { (operations(row)) }
            td { (latency(row.p50)) }
            td { (latency(row.p99)) }
            @for found in [row.server_cpu, row.client_cpu] {
                td { @match found {
                    None => (NONE),
                    Some(cpu) => { (format!("{:.0} %", cpu.of_core * 100.0)) span class="second" { (cpu.per_mib) "/MiB" } }
                } }
            }
            td class="text" { (validity(&row.validity, notes)) }
        }
    }
}

fn validity(found: &Validity, notes: &mut Notes) -> Markup {
    let numbers = notes.numbers(found);
    html! {
        @match found {
            Validity::Good => span class="good" { "✓ good" },
            Validity::Remarks { .. } => span class="remarks" { "✓ good, with remarks" },
            Validity::Invalid { .. } => span class="invalid" { "✕ invalid" },
        }
        @for number in numbers { " " a href={ "#note-" (number) } { "[" (number) "]" } }
    }
}
