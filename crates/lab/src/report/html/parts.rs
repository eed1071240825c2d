//! The parts of a section as markup; neighbouring figures and facts share a grid.

use maud::{Markup, html};

use super::figure::{figure, scrolled, table};
use super::{commands, results};
use crate::report::chart;
use crate::report::contents::{Part, Section};
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
fn groups(parts: &[Part]) -> impl Iterator<Item = &[Part]> {
    parts.chunk_by(|a, b| is_panel(a) && std::mem::discriminant(a) == std::mem::discriminant(b))
}

const fn is_panel(part: &Part) -> bool {
    matches!(part, Part::Figure(_) | Part::Facts { .. })
}

fn one(run: &RunRecord, summary: &Summary, section: &Section, part: &Part) -> Markup {
    html! {
        @match part {
            Part::Text(text) => p class="soft" { (text) },
            Part::Targets => (targets(run)),
            Part::Kinds => (kinds()),
            Part::Figure(found) => (figure(found)),
            Part::Table(found) => div class="card" { (scrolled(section.title, &table(found, Some(section.title)))) },
            Part::Facts { title, items } => div class="card" {
                h3 { (title) }
                dl { @for (name, value) in items { dt { (name) } dd { (value) } } }
            },
            Part::List(lines) => ul { @for line in lines { li { (line) } } },
            Part::Results => (results::results(run, summary)),
            Part::Commands => (commands::commands(run)),
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
