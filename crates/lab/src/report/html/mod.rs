//! The page: one file, no network, no script; light, dark and print by its style sheet.

mod figure;
mod sections;

use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::summary::{Summary, TestComparison};
use super::{chart, date, overall, sentences, short};
use crate::stats::{Comparison, Verdict};
use crate::store::RunRecord;
use figure::Figure;

const STYLE: &str = include_str!("style.css");
/// The page may load nothing and run nothing, whatever is in it.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; img-src data:";

/// The whole page.
#[must_use]
pub fn html(run: &RunRecord) -> String {
    let summary = Summary::of(run);
    let title = format!("outboard lab: {}, run {}", run.plan.name, run.id);
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta http-equiv="Content-Security-Policy" content=(POLICY);
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { (title) }
                style { (PreEscaped(STYLE)) }
            }
            body {
                (chart::patterns())
                (cover(run, &summary))
                main {
                    (sections::trust(run, &summary))
                    (sections::throughput(run, &summary))
                    (sections::latency(run, &summary))
                    (sections::blocks(run, &summary))
                    (sections::processors(run, &summary))
                    (sections::machine(run))
                    (sections::commands(run))
                }
                footer { "Made by outboard " (run.manifest.outboard) " from run " (run.id) ". This page needs no network." }
            }
        }
    };
    page.into_string()
}

fn cover(run: &RunRecord, summary: &Summary) -> Markup {
    let labels: Vec<&str> = run
        .manifest
        .targets
        .iter()
        .map(|target| target.label.as_str())
        .collect();
    html! {
        header {
            p class="meta" { (run.plan.name) ", run " (run.id) " · " (date::shown(run.started_unix_ms)) " · " (run.status) }
            h1 { (headline(run, summary)) }
            div class="cover" {
                div {
                    ul class="verdicts" {
                        @for (index, sentence) in sentences(run, summary).iter().enumerate() {
                            li class=(class(summary.comparisons.get(index))) { (sentence) }
                        }
                    }
                    (key(run))
                }
                @if let [a, b] = labels[..] { (comparison(run, summary, a, b)) }
            }
        }
    }
}

fn headline(run: &RunRecord, summary: &Summary) -> String {
    if let Some(sentence) = overall(run, summary) {
        // The interval is in the chart beside it; a headline is to be read at a glance.
        let short = sentence.split(" (").next().unwrap_or(&sentence);
        return format!("{}.", short.trim_end_matches('.'));
    }
    match run.manifest.targets.first() {
        Some(target) if run.manifest.targets.len() == 1 => format!("What {} does", target.label),
        _ => "The two could not be compared".into(),
    }
}

const fn class(test: Option<&TestComparison>) -> &'static str {
    match test {
        None => "level",
        Some(TestComparison {
            comparison: None, ..
        }) => "refused",
        Some(TestComparison {
            comparison: Some(Comparison { verdict, .. }),
            ..
        }) => match verdict {
            Verdict::Faster => "faster",
            Verdict::Slower => "slower",
            Verdict::Same => "level",
            Verdict::CannotTell { .. } => "unsure",
        },
    }
}

/// Which colour and shape is which target.
pub(super) fn key(run: &RunRecord) -> Markup {
    html! {
        ul class="key" aria-label="Targets" {
            @for (index, target) in run.manifest.targets.iter().enumerate() {
                li {
                    svg viewBox="0 0 16 14" aria-hidden="true" {
                        @if index == 0 { circle class="t0 mark" cx="8" cy="7" r="5.5" {} }
                        @else { rect class="t1 mark" x="2.5" y="1.5" width="11" height="11" {} }
                    }
                    (target.label)
                }
            }
        }
    }
}

fn comparison(run: &RunRecord, summary: &Summary, a: &str, b: &str) -> Markup {
    let mut rows: Vec<(String, Option<Comparison>)> = summary
        .comparisons
        .iter()
        .map(|test| {
            (
                run.plan.workloads[test.workload].title.clone(),
                test.comparison,
            )
        })
        .collect();
    rows.push(("Overall".into(), summary.overall));
    let cells = rows.iter().map(|(name, found)| {
        let figure = |value: fn(&Comparison) -> f64| {
            found
                .as_ref()
                .map_or_else(String::new, |found| format!("{:.4}", value(found)))
        };
        vec![
            name.clone(),
            figure(|found| found.ratio.median),
            figure(|found| found.ratio.low),
            figure(|found| found.ratio.high),
            found
                .as_ref()
                .map_or_else(String::new, |found| found.ratio.n.to_string()),
        ]
    });
    Figure {
        title: None,
        drawing: chart::ratio(&rows, a, b),
        caption: format!(
            "Rate of {} divided by that of {}: median of the blocks' ratios and its 95 % interval, n = {} blocks. \
             The band is the same within 3 %.",
            short(a, 40),
            short(b, 40),
            summary.overall.map_or(0, |found| found.ratio.n)
        ),
        head: vec!["test", "ratio", "low", "high", "blocks"],
        rows: cells.collect(),
        file: "comparison",
    }
    .markup()
}
