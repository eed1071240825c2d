//! The picture on the cover: a list of what the bytes pass, drawn as boxes with pipes between them.
//!
//! A list rather than an SVG: names wrap, a narrow page has it from top to bottom, and a screen reader
//! reads it in order. A pipe is as full as its ceiling is used; what holds the rest back is red, has a
//! double border and says so.

use maud::{Markup, html};

use crate::report::io_path::{Edge, IoPath, Limiter, PathStop};
use crate::units::significant;

pub(super) fn picture(way: &IoPath) -> Markup {
    let limits = |limiter: Limiter| way.limiter == Some(limiter);
    html! {
        figure class="way" {
            h2 { "The way from the disk to the application" }
            ol {
                @for (index, one) in way.stops.iter().enumerate() {
                    (stop(one, limits(Limiter::Stop(index))))
                    @if let Some(between) = way.edges.get(index) { (edge(between, limits(Limiter::Edge(index)))) }
                }
            }
            figcaption { "Rates of “" (way.test) "”, the test that moves most bytes. A pipe is as full as its ceiling is used; one without a ceiling is dashed." }
        }
    }
}

fn stop(stop: &PathStop, limits: bool) -> Markup {
    html! {
        li class={ "stop" (if limits { " limits" } else { "" }) } {
            span class="kind" { (stop.kind) }
            strong { (stop.name) }
            @if let Some(detail) = &stop.detail { span class="soft" { (detail) } }
            @if let Some(part) = stop.of_core { span class="soft" { "CPU: " (format!("{:.0}", part * 100.0)) " % of one core" } }
            @if limits { (badge()) }
        }
    }
}

fn edge(edge: &Edge, limits: bool) -> Markup {
    let part = edge.part();
    let full = part.unwrap_or(0.0).clamp(0.0, 1.0) * 100.0;
    html! {
        li class={ "edge" (if limits { " limits" } else { "" }) } {
            span class="flow" {
                (edge.measured.map_or_else(|| "?".to_owned(), |rate| significant(rate.mb())))
                @if let Some(ceiling) = edge.ceiling { " of " (significant(ceiling.mb())) }
                " MB/s"
            }
            span class={ "pipe" (if part.is_none() { " unknown" } else { "" }) } aria-hidden="true" {
                span style={ "width:" (format!("{full:.1}")) "%" } {}
            }
            span class="soft" {
                @if let Some(part) = part { (format!("{:.0}", part * 100.0)) " % of " }
                (edge.what)
            }
            @if limits { (badge()) }
        }
    }
}

fn badge() -> Markup {
    html! { span class="badge" { "▲ holds it back" } }
}
