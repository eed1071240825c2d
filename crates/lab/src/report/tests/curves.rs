//! Sweeps, layers and many targets: what a run with all of them shows.

use crate::checks::{Check, Finding};
use crate::report::{Summary, html, json, markdown};
use crate::synthetic;

fn between<'a>(text: &'a str, from: &str, to: &str) -> &'a str {
    let rest = text
        .split(from)
        .nth(1)
        .unwrap_or_else(|| panic!("no {from}"));
    rest.split(to).next().unwrap()
}

fn section<'a>(page: &'a str, id: &str) -> &'a str {
    between(page, &format!("<section id=\"{id}\""), "</section>")
}

/// The made-up disk takes 40 us for a request and moves 500 MB/s, so 95 % are had from 371 KiB on; it
/// answers 12 at once.
#[test]
fn curves_say_what_a_request_costs_and_where_the_knee_is() {
    let page = html(&synthetic::layered());
    let sweeps = section(&page, "sweeps");
    assert_eq!(sweeps.matches("<figure>").count(), 2);
    assert_eq!(
        sweeps.matches(">95 % at 37").count(),
        4,
        "one for each target"
    );
    assert_eq!(
        sweeps.matches(">knee at 1").count(),
        4,
        "one for each target"
    );
    assert!(sweeps.contains("A request costs 4") && sweeps.contains("Little's law"));
    for panel in [">MB/s<", ">operations per second<", ">p99 in ms<"] {
        assert_eq!(sweeps.matches(panel).count(), 2, "{panel}");
    }
    assert_eq!(sweeps.matches(" fit\"").count(), 8);
}

#[test]
fn an_invalid_point_is_hollow_in_each_panel_and_its_reason_is_in_the_table() {
    let page = html(&synthetic::layered());
    let sizes = section(&page, "sweeps").split("</figure>").next().unwrap();
    // Of operations and percentiles nothing usable is left, so there is nothing to draw.
    assert_eq!(sizes.matches("t1 mark out").count(), 1);
    assert!(between(sizes, "<details>", "</details>").contains("it was not direct"));
}

/// Study C called powers of two fast, since all other sizes were not direct.
#[test]
fn sizes_that_went_two_ways_have_no_model_and_no_flag() {
    let mut run = synthetic::layered();
    for cell in run.cells.iter_mut().filter(|cell| cell.workload % 2 == 0) {
        if let Some(result) = cell.fio_mut() {
            result.runtime.0 *= 3;
        }
    }
    let page = html(&run);
    let sizes = section(&page, "sweeps").split("</figure>").next().unwrap();
    assert!(sizes.contains("No one model fits"));
    assert_eq!(sizes.matches("95 % at").count(), 0);
}

#[test]
fn points_of_curves_have_no_panels_of_their_own() {
    let page = html(&synthetic::layered());
    for id in ["throughput", "blocks"] {
        assert_eq!(section(&page, id).matches("<figure>").count(), 2, "{id}");
    }
    assert!(page.len() < 1_000_000, "{}", page.len());
}

#[test]
fn each_layer_stands_on_the_one_its_plan_names_else_on_the_baseline() {
    let page = html(&synthetic::layered());
    let layers = section(&page, "layers").split("</figure>").next().unwrap();
    let rows: Vec<&str> = layers.split("<tr>").skip(2).collect();
    assert_eq!(rows.len(), 4);
    for (row, below) in rows
        .iter()
        .zip(["", "disk", "Loop on the disk", "Loop on the disk"])
    {
        let cell = between(row, "<td class=\"text\">", "</td>");
        assert_eq!(cell, below);
    }
    // Loops cost; what is faster than the loop that it stands on is to be checked.
    assert!(
        rows[1].contains(">+2") && rows[2].contains(">+3"),
        "{rows:?}"
    );
    assert!(rows[3].contains(": check<"));
}

#[test]
fn an_invalid_layer_says_so_and_is_hatched() {
    let mut run = synthetic::layered();
    for cell in run
        .cells
        .iter_mut()
        .filter(|cell| (cell.workload, cell.target) == (0, 2))
    {
        cell.findings
            .push(Finding::invalid(Check::Ceiling, "too fast"));
    }
    let page = html(&run);
    let layers = section(&page, "layers").split("</figure>").next().unwrap();
    assert!(layers.contains("Loop on the loop: invalid"));
    assert!(Summary::of(&run).row(0, 2).unwrap().headline.is_none());
}

#[test]
fn many_targets_are_together_on_the_cover_and_one_by_one_below() {
    let page = html(&synthetic::layered());
    let cover = between(&page, "<header>", "</header>");
    assert!(cover.contains("All targets against disk: ratios by target"));
    assert!(between(cover, "<h1>", "</h1>").starts_with("3 targets against disk: "));
    assert_eq!(
        section(&page, "comparisons")
            .matches("ratios by test")
            .count(),
        3
    );
    assert!(section(&page, "faults").contains("RAID 1"));
    assert_eq!(
        cover.matches("class=\"slower\"").count() + cover.matches("class=\"refused\"").count(),
        63
    );
}

#[test]
fn markdown_and_json_have_the_curves_too() {
    let run = synthetic::layered();
    let text = markdown(&run);
    assert!(text.contains("## Sweeps") && text.contains("## What each layer costs"));
    let value: serde_json::Value = serde_json::from_str(&json(&run).unwrap()).unwrap();
    let sections = value["report"].as_array().unwrap();
    let sweeps = sections
        .iter()
        .find(|section| section["id"] == "sweeps")
        .unwrap();
    let sizes = sweeps["figures"][0]["rows"].as_array().unwrap();
    assert_eq!(sizes.len(), 4 * 12);
}
