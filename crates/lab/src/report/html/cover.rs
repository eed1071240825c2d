//! The cover: the headline, the verdict in three sentences, the picture and the comparison.

use maud::{Markup, html};

use super::figure::figure;
use super::parts::targets;
use super::way;
use crate::report::contents::comparisons;
use crate::report::date;
use crate::report::sentences::{headline, said, verdict};
use crate::report::summary::Summary;
use crate::report::way::Way;
use crate::store::RunRecord;

pub(super) fn cover(run: &RunRecord, summary: &Summary) -> Markup {
    let way = Way::of(run, summary);
    let compared = comparisons(run, summary);
    html! {
        header {
            p class="meta" { (run.plan.name) ", run " (run.id) " · " (date::shown(run.started_unix_ms)) " · " (run.status) }
            h1 { (headline(run, summary)) }
            p class="verdict" { @for sentence in verdict(run, summary, way.as_ref()) { span { (sentence) } " " } }
            @if let Some(way) = &way { (way::picture(way)) }
            div class="cover" {
                section aria-label="Test by test" {
                    h2 { "Test by test" }
                    ul class="verdicts" {
                        @for one in said(run, summary) { li class=(one.class) { (one.text) } }
                    }
                    (targets(run))
                }
                @if !compared.is_empty() { div { @for found in &compared { (figure(found)) } } }
            }
        }
    }
}
