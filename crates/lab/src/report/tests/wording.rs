//! What a comparison is called, and the digits of its ratio.

use super::invalidate;
use crate::report::sentences::{headline, worded};
use crate::report::{
    RatioText, Summary, compare_runs, csv, history, history_text, json, markdown, sentences, table,
};
use crate::stats::{Interval, compare};
use crate::store::RunId;
use crate::synthetic;
use crate::units::GROUP;

fn text(median: f64, low: f64, high: f64) -> String {
    let found = RatioText::of(&Interval {
        median,
        low,
        high,
        n: 7,
    });
    format!("{} ({})", found.times, found.range())
}

/// "0.01 times (0.01 to 0.01)" says nothing.
#[test]
fn ratios_have_three_digits_and_as_many_as_their_interval_takes() {
    assert_eq!(text(0.01234, 0.0119, 0.0131), "0.0123 (0.0119 to 0.0131)");
    assert_eq!(
        text(0.000_012_3, 0.000_011, 0.000_013),
        "0.000012 (0.000011 to 0.000013)"
    );
    assert_eq!(text(0.5, 0.48, 0.53), "0.500 (0.480 to 0.530)");
    assert_eq!(text(1.0021, 1.0011, 1.0032), "1.0021 (1.0011 to 1.0032)");
    assert_eq!(text(1.5, 0.9, 2.25), "1.50 (0.90 to 2.25)");
    assert_eq!(text(99.99, 51.0, 180.0), "100.0 (51.0 to 180.0)");
    assert_eq!(text(250.0, 180.0, 320.0), "250 (180 to 320)");
    assert_eq!(text(1.0, 1.0, 1.0), "1.00 (1.00 to 1.00)");
}

#[test]
fn what_chance_may_have_made_is_no_significant_difference_everywhere() {
    // Every second block of the first target is twice as fast as the second target's, the others half.
    let mut run = synthetic::run(6);
    for cell in run.cells.iter_mut().filter(|cell| cell.target == 0) {
        let factor = if cell.block % 2 == 0 { 4 } else { 1 };
        cell.fio_mut().unwrap().bytes.0 *= factor;
    }
    let summary = Summary::of(&run);
    assert_eq!(
        headline(&run, &summary),
        "No significant difference between /mnt/<media> and /home/me"
    );
    let said = sentences(&run, &summary);
    assert!(
        said[0].starts_with(
            "Sequential read: no significant difference between /mnt/<media> and /home/me ("
        ),
        "{}",
        said[0]
    );
    let mut later = run.clone();
    (later.id, later.started_unix_ms) = (RunId(8), run.started_unix_ms + 1);
    let text = compare_runs(&later, &run).text();
    assert!(
        text.contains("no significant difference between run 8 and run 7"),
        "{text}"
    );
    let text = history_text(&history(&[run.clone(), later]));
    assert!(text.contains("times, no significant difference"), "{text}");
    invalidate(&mut run, 0, 0, "too fast");
    assert!(sentences(&run, &Summary::of(&run))[0].contains("not compared, because"));
}

#[test]
fn a_difference_too_small_for_its_blocks_says_what_may_show_it() {
    let said = |ratios: &[f64]| worded(&compare(ratios).unwrap(), "a", "b");
    let near = said(&[1.1, 1.3, 0.98, 1.2, 1.05]);
    assert!(
        near.starts_with("no significant difference between a and b (1.10 times, 95 % interval"),
        "{near}"
    );
    assert!(near.contains("more may show one."), "{near}");
    let far = said(&[0.2, 5.0, 1.0, 0.3, 3.0]);
    assert!(far.ends_with("a calmer machine might."), "{far}");
    assert!(said(&[1.0; 5]).starts_with("a and b are the same within 3 % (1.00 times"));
}

/// `1,234` is one and a quarter to a reader with a decimal comma, and two cells to a program.
#[test]
fn numbers_have_spaces_between_thousands_for_people_and_nothing_for_programs() {
    let mut run = synthetic::layered();
    for cell in &mut run.cells {
        if let Some(result) = cell.fio_mut() {
            result.bytes.0 *= 100;
            result.ios *= 100;
        }
    }
    let has_comma = |text: &str| {
        let text: Vec<char> = text.chars().collect();
        let is = |text: &[char]| {
            text[1] == ',' && [0, 2, 3, 4].iter().all(|at| text[*at].is_ascii_digit())
        };
        text.windows(5).any(is)
    };
    for text in [table(&run), markdown(&run)] {
        assert!(text.contains(GROUP), "{text}");
        assert!(!has_comma(&text), "{text}");
    }
    let value: serde_json::Value = serde_json::from_str(&json(&run).unwrap()).unwrap();
    let mut cells = 0;
    for section in value["report"].as_array().unwrap() {
        for figure in section["figures"].as_array().unwrap() {
            // Facts about a machine or a target are text.
            if figure["columns"] == serde_json::json!(["what", "value"]) {
                continue;
            }
            assert!(!figure["rows"].to_string().contains(GROUP), "{figure}");
            cells += figure["rows"].as_array().unwrap().len();
        }
    }
    assert!(cells > 20, "{cells}");
    assert!(!csv(&run).contains(GROUP));
}
