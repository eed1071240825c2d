//! Tests of the bench's arithmetic: medians, verdicts and what is read from other programs.

use super::figures::{Figure, Sample, median};
use super::rows::{Bound, Mark, ROWS, Row, Work};
use super::{Measured, Results, chosen, report};

fn contender(name: &str, rates: &[f64]) -> Measured {
    Measured {
        name: name.to_owned(),
        samples: rates
            .iter()
            .map(|rate| Sample {
                rate: Some(*rate),
                ..Sample::default()
            })
            .collect(),
    }
}

fn results(marks: &'static [&'static [Mark]]) -> Results {
    Results {
        row: Row {
            name: "row",
            title: "a row",
            work: Work::Idle { connections: 1 },
            marks,
        },
        contenders: vec![
            contender("outboard", &[100.0, 300.0, 210.0]),
            contender("peer", &[100.0]),
        ],
    }
}

const TWICE: Mark = Mark {
    figure: Figure::Rate,
    bound: Bound::RatioAtLeast(2.0),
};
const THRICE: Mark = Mark {
    figure: Figure::Rate,
    bound: Bound::RatioAtLeast(3.0),
};
const TAIL: Mark = Mark {
    figure: Figure::P999,
    bound: Bound::RatioAtMost(0.6),
};

#[test]
fn the_median_of_an_even_number_is_between_the_two_in_the_middle() {
    assert_eq!(median(vec![4.0, 1.0, 3.0, 2.0]), Some(2.5));
    assert_eq!(median(vec![9.0, 1.0, 5.0]), Some(5.0));
    assert_eq!(median(Vec::new()), None);
}

#[test]
fn a_mark_is_judged_by_the_ratio_of_the_medians() {
    let table = report::table(&results(&[&[TWICE]]));
    assert!(table.contains("req/s >= 2x: met"), "{table}");
    let table = report::table(&results(&[&[THRICE]]));
    assert!(table.contains("req/s >= 3x: NOT MET"), "{table}");
}

#[test]
fn one_group_of_marks_that_is_met_is_enough() {
    let summary = report::summary(&[results(&[&[THRICE], &[TWICE]])]);
    assert_eq!(summary, "1 of 1 rows meet their marks");
    let summary = report::summary(&[results(&[&[TWICE, THRICE]])]);
    assert_eq!(summary, "0 of 1 rows meet their marks; not: row");
}

#[test]
fn a_mark_on_what_was_not_measured_is_not_met() {
    let summary = report::summary(&[results(&[&[TWICE, TAIL]])]);
    assert_eq!(summary, "0 of 1 rows meet their marks; not: row");
}

#[test]
fn every_row_has_a_name_of_its_own_and_a_mark() {
    for row in ROWS {
        assert_eq!(
            ROWS.iter().filter(|other| other.name == row.name).count(),
            1
        );
        assert!(row.marks.iter().all(|group| !group.is_empty()));
    }
}

#[test]
fn a_row_that_does_not_exist_is_named_with_those_that_do() {
    let error = chosen(&["raed-4k".to_owned()]).unwrap_err().to_string();
    assert!(
        error.contains("raed-4k") && error.contains("read-4k"),
        "{error}"
    );
}
