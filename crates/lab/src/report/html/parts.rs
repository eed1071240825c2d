//! The parts of a section as markup; neighbouring figures and facts share a grid.

use maud::{Markup, html};

use super::figure::{figure, scrolled, table};
use super::{commands, results};
use crate::report::chart;
use crate::report::contents::{ReportBlock, Section};
use crate::report::summary::Summary;
use crate::store::RunRecord;

pub(super) fn section(run: &RunRecord, summary: &Summary, section: &Section) -> Markup {
    let heading = format!("{}-heading", section.id);
    html! {
        section id=(section.id) aria-labelledby=(heading) {
            h2 id=(heading) { (section.title) }
            @for group in groups(&section.parts) {
                @if is_panel(&group[0]) {
                    div class="panels" { @for part in group { (one(run, summary, section, part)) } }
                } @else {
                    (one(run, summary, section, &group[0]))
                }
            }
        }
    }
}

/// Panels of one kind that follow each other; everything else by itself.
fn groups(parts: &[ReportBlock]) -> impl Iterator<Item = &[ReportBlock]> {
    parts.chunk_by(|a, b| is_panel(a) && std::mem::discriminant(a) == std::mem::discriminant(b))
}

const fn is_panel(part: &ReportBlock) -> bool {
    matches!(part, ReportBlock::Figure(_) | ReportBlock::Facts { .. })
}

fn one(run: &RunRecord, summary: &Summary, section: &Section, part: &ReportBlock) -> Markup {
    html! {
        @match part {
            ReportBlock::Text(text) => p class="soft" { (text) },
            ReportBlock::Targets => (targets(run)),
            ReportBlock::Kinds => (kinds()),
            ReportBlock::Figure(found) => (figure(found, section.title)),
            ReportBlock::Table(found) => div class="card" { (scrolled(section.title, &table(found, Some(section.title)))) },
            ReportBlock::Facts { title, items } => div class="card" {
                h3 { (title) }
                dl { @for (name, value) in items { dt { (name) } dd { (value) } } }
            },
            ReportBlock::List(lines) => ul { @for line in lines { li { (line) } } },
            ReportBlock::Results => (results::results(run, summary)),
            ReportBlock::Commands => (commands::commands(run)),
        }
    }
}

/// Which colour and shape is which target.
pub(super) fn targets(run: &RunRecord) -> Markup {
    let targets = run.manifest.targets.iter().enumerate();
    key(
        "Targets",
        targets.map(|(index, target)| (index, target.label.as_str())),
    )
}

/// Looks and what they stand for.
pub(super) fn key<'a>(name: &str, items: impl Iterator<Item = (usize, &'a str)>) -> Markup {
    html! {
        ul class="key" aria-label=(name) {
            @for (look, text) in items { li { (chart::swatch(look)) (text) } }
        }
    }
}

/// The shades of CPU time.
fn kinds() -> Markup {
    html! {
        ul class="key" aria-label="Kinds of CPU time" {
            @for (index, (_, name)) in chart::KINDS.iter().enumerate() {
                li { svg class="swatch" viewBox="0 0 16 14" aria-hidden="true" { rect class={ "k" (index) } x="1" y="1" width="14" height="12" {} } (name) }
            }
        }
    }
}
