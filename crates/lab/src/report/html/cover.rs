//! The cover: the headline, the verdict in three sentences, the picture and the comparison.

use maud::{Markup, html};

use super::figure::figure;
use super::io_path;
use super::parts::targets;
use crate::report::contents::overview;
use crate::report::date;
use crate::report::io_path::IoPath;
use crate::report::sentences::{TestSentence, headline, said, verdict};
use crate::report::summary::Summary;
use crate::store::RunRecord;

/// Sentences that are shown at once.
const SENTENCES_MAX: usize = 8;

pub(super) fn cover(run: &RunRecord, summary: &Summary) -> Markup {
    let way = IoPath::of(run, summary);
    let compared = overview(run, summary);
    let mut said = said(run, summary);
    said.sort_by_key(|one| one.is_point);
    let (first, more) = said.split_at(said.len().min(SENTENCES_MAX));
    html! {
        header {
            p class="meta" { (run.plan.name) ", run " (run.id) " · " (date::shown(run.started_unix_ms)) " · " (run.status) }
            h1 { (headline(run, summary)) }
            p class="verdict" { @for sentence in verdict(run, summary, way.as_ref()) { span { (sentence) } " " } }
            @if let Some(way) = &way { (io_path::picture(way)) }
            div class="cover" {
                section aria-label="Test by test" {
                    h2 { "Test by test" }
                    (list(first))
                    @if !more.is_empty() {
                        details { summary { (more.len()) " more" } (list(more)) }
                    }
                    (targets(run))
                }
                @if let Some(found) = &compared { div { (figure(found, "Overview")) } }
            }
        }
    }
}

fn list(said: &[TestSentence]) -> Markup {
    html! { ul class="verdicts" { @for one in said { li class=(one.class) { (one.text) } } } }
}
