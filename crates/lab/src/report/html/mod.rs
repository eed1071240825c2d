//! The page: one file, no network, no script; light, dark and print by its style sheet.
//!
//! Invariants: headings are in order; every drawing has a name and a description for a screen reader;
//! what can be scrolled can be reached with the keyboard; anything from outside is escaped by maud.

mod commands;
mod cover;
mod figure;
mod io_path;
mod parts;
mod results;

use maud::{DOCTYPE, PreEscaped, html};

use super::chart;
use super::contents::contents;
use super::summary::Summary;
use crate::store::RunRecord;

/// The part of the style that the live page of `serve` has, too: colors, light and dark, text, cards, tables.
pub const LOOK: &str = include_str!("look.css");
/// What is drawn in reports alone.
const STYLE: &str = include_str!("style.css");
/// The page may load nothing and run nothing, regardless of its content.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; img-src data:";

/// The whole page.
#[must_use]
pub fn html(run: &RunRecord) -> String {
    let summary = Summary::of(run);
    let sections = contents(run, &summary);
    let title = format!("outboard lab: {}, run {}", run.plan.name, run.id);
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta http-equiv="Content-Security-Policy" content=(POLICY);
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { (title) }
                style { (PreEscaped(LOOK)) (PreEscaped(STYLE)) }
            }
            body {
                a class="skip" href="#main" { "Skip to the results" }
                (chart::patterns())
                (cover::cover(run, &summary))
                nav aria-label="Sections" {
                    ul { @for section in &sections { li { a href={ "#" (section.id) } { (section.title) } } } }
                }
                main id="main" {
                    @for section in &sections { (parts::section(run, &summary, section)) }
                }
                footer { p { "Made by outboard " (run.manifest.outboard) " from run " (run.id) ". This page needs no network and no script." } }
            }
        }
    };
    page.into_string()
}
