//! The page: offline, without script, escaped, complete and small.

use super::invalidate;
use crate::report::html;
use crate::sensors::Sample;
use crate::synthetic;
use crate::units::{Nanos, SECOND};

#[test]
fn the_page_loads_nothing_and_runs_nothing() {
    let page = html(&synthetic::run(5));
    assert!(page.starts_with("<!DOCTYPE html>"));
    for word in [
        "<script",
        "http://",
        "https://",
        "@import",
        "<link",
        "<img",
        "<iframe",
        "onload",
        "javascript:",
    ] {
        assert!(!page.contains(word), "{word} is in the page");
    }
    assert!(page.contains("default-src 'none'"));
    assert!(page.contains("prefers-color-scheme: dark") && page.contains("@media print"));
}

#[test]
fn names_from_outside_are_text_and_not_markup() {
    let page = html(&synthetic::run(5));
    assert!(page.contains("pi&lt;script&gt;alert(1)&lt;/script&gt;"));
    assert!(page.contains("/mnt/&lt;media&gt;"));
    assert!(page.contains("Raspberry &amp; Co"));
}

#[test]
fn every_test_has_its_bars_percentiles_and_blocks_and_every_core_its_course() {
    let page = html(&synthetic::run(5));
    for label in [
        "throughput in MB/s",
        "latency by percentile",
        "every block, in MB/s",
    ] {
        assert_eq!(page.matches(label).count(), 4, "{label}");
    }
    assert_eq!(page.matches("CPU of core").count(), 2);
    assert_eq!(page.matches("ratio of rates by test").count(), 1);
}

#[test]
fn every_figure_has_a_caption_with_n_a_table_and_csv() {
    let page = html(&synthetic::run(5));
    let figures: Vec<&str> = page.split("<figure>").skip(1).collect();
    assert_eq!(figures.len(), 1 + 3 * 4 + 2);
    for figure in figures {
        let figure = figure.split("</figure>").next().unwrap();
        let caption = figure
            .split("<figcaption>")
            .nth(1)
            .unwrap()
            .split("</figcaption>")
            .next()
            .unwrap();
        assert!(caption.contains("n = "), "{caption}");
        assert!(caption.contains("interval"), "{caption}");
        assert!(figure.contains("<table>") && figure.contains("href=\"data:text/csv"));
        assert!(figure.contains("role=\"img\" aria-label="));
    }
}

#[test]
fn an_invalid_result_is_hatched_and_marked() {
    let mut run = synthetic::run(5);
    let hatched = |page: &str| page.matches("bar hatched-0").count();
    assert_eq!(hatched(&html(&run)), 0);
    invalidate(&mut run, 3, 0, "it is above the wire");
    let page = html(&run);
    assert_eq!(hatched(&page), 1);
    assert!(page.contains("it is above the wire"));
    assert_eq!(page.matches("t0 mark out").count(), 5);
}

#[test]
fn ids_are_unique() {
    let page = html(&synthetic::run(5));
    let mut ids: Vec<&str> = page
        .split(" id=\"")
        .skip(1)
        .map(|rest| rest.split('"').next().unwrap())
        .collect();
    let all = ids.len();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), all);
}

/// The mark: a run of 100,000 samples in under 2 s and under 2 MB. The time is asserted loosely here,
/// since tests are not optimised and share their machine.
#[test]
fn a_hundred_thousand_samples_make_a_page_of_less_than_two_megabytes() {
    let mut run = synthetic::run(20);
    run.samples = (0..100_000u64)
        .map(|index| Sample {
            at: Nanos(index / 40 * SECOND),
            sensor: "cpu".into(),
            item: format!(
                "{}/{}",
                index % 40 / 5,
                ["user", "system", "irq", "softirq", "steal"][(index % 5) as usize]
            ),
            value: (index % 17) as f64 / 100.0,
        })
        .collect();
    run.elapsed = Some(Nanos(2500 * SECOND));
    let started = engine::clock::now();
    let page = html(&run);
    let took = started.elapsed();
    assert!(page.len() < 2_000_000, "{} bytes", page.len());
    assert!(took.as_secs() < 20, "{took:?}");
    assert_eq!(page.matches("CPU of core").count(), 8);
}
