//! Tests of the bench's arithmetic: medians, verdicts and what is read from other programs.

use super::figures::{Figure, Sample, median};
use super::generator::Parser;
use super::rows::{self, Bound, Mark, Row};
use super::work::Work;
use super::{Measured, Results, chosen, fio, report};
use crate::process;

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
    peer: None,
};
const THRICE: Mark = Mark {
    figure: Figure::Rate,
    bound: Bound::RatioAtLeast(3.0),
    peer: None,
};
const TAIL: Mark = Mark {
    figure: Figure::P999,
    bound: Bound::RatioAtMost(0.6),
    peer: None,
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
fn a_mark_against_a_peer_that_is_named_is_held_against_no_other() {
    const SECOND: Mark = Mark {
        peer: Some("second"),
        ..TWICE
    };
    let mut results = results(&[&[SECOND]]);
    assert!(report::table(&results).contains("req/s >= 2x second: not measured"));
    results.contenders.push(contender("second", &[200.0]));
    assert!(report::table(&results).contains("req/s >= 2x second: NOT MET"));
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
    for row in rows::all() {
        assert_eq!(
            rows::all().filter(|other| other.name == row.name).count(),
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

#[test]
fn what_fio_remarks_before_its_report_does_not_hide_it() {
    let printed = r#"fio: connected to NBD server
{
  "jobs": [{
    "error": 0, "job_runtime": 4000, "usr_cpu": 10.0, "sys_cpu": 15.0,
    "read": {
      "total_ios": 1000, "runtime": 2000, "io_bytes": 4096000,
      "lat_ns": {"percentile": {"50.000000": 1000, "99.000000": 2000, "99.900000": 3000}},
      "clat_ns": {"percentile": {"50.000000": 1000, "99.000000": 2000, "99.900000": 3000}}
    },
    "write": {"total_ios": 0}
  }]
}"#;
    let outcome = fio::parse(printed).unwrap();
    assert_eq!(outcome.sample.rate, Some(500.0));
    assert_eq!(outcome.sample.mb_per_s, Some(2.048));
    assert_eq!(outcome.sample.client_cpu_us, Some(1000.0));
    assert_eq!(outcome.sample.p999_us, Some(3.0));
}

#[test]
fn where_a_flush_follows_each_write_latency_is_that_of_the_flush() {
    let printed = r#"{"jobs": [{
    "error": 0, "job_runtime": 1000, "usr_cpu": 1.0, "sys_cpu": 1.0,
    "read": {"total_ios": 0},
    "write": {
      "total_ios": 100, "runtime": 1000, "io_bytes": 409600,
      "lat_ns": {"percentile": {"50.000000": 1000, "99.000000": 2000, "99.900000": 3000}}
    },
    "sync": {
      "total_ios": 100,
      "lat_ns": {"percentile": {"50.000000": 8000, "99.000000": 9000, "99.900000": 9500}}
    }
  }]}"#;
    let sample = fio::parse(printed).unwrap().sample;
    assert_eq!((sample.rate, sample.p50_us), (Some(100.0), Some(8.0)));
    assert_eq!(sample.p999_us, Some(9.5));
}

#[test]
fn a_run_in_which_fio_saw_errors_is_no_measurement() {
    let printed = r#"{"jobs": [{"error": 5, "read": {"total_ios": 1000}}]}"#;
    let error = fio::parse(printed).unwrap_err().to_string();
    assert_eq!(error, "fio saw error 5");
}

#[test]
fn processor_time_is_that_of_the_process_and_of_the_children_it_waited_for() {
    let stat = "7 (a) b) c) S 1 7 7 0 -1 4194304 1 0 0 0 100 20 3 4 20 0 1 0 5";
    assert_eq!(process::ticks(stat), Some(127.0));
    assert_eq!(process::ticks("7 (short) S 1"), None);
}

#[test]
fn the_peak_of_memory_is_read_of_a_status_of_proc() {
    let status = "VmPeak:\t  900 kB\nVmHWM:\t  512 kB\nVmRSS:\t  100 kB\n";
    assert_eq!(process::peak_kib(status), Some(512.0));
    assert_eq!(process::peak_kib("VmPeak:\t  900 kB\n"), None);
}

/// A simple answer to 8 bytes, a chunk of 5 of them, one of a hole, and one that ends it with nothing.
fn answers() -> Vec<u8> {
    let mut bytes = vec![0x67, 0x44, 0x66, 0x98, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7];
    bytes.extend([0xaa; 8]);
    for (done, kind, len) in [(0, 1, 13), (0, 2, 12), (1, 0, 0)] {
        bytes.extend([0x66, 0x8e, 0x33, 0xef, 0, done, 0, kind]);
        bytes.extend([0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, len]);
        bytes.extend(vec![0x67; usize::from(len)]);
    }
    bytes
}

#[test]
fn answers_are_found_wherever_the_stream_is_cut() {
    let bytes = answers();
    for cut in 1..=bytes.len() {
        let mut parser = Parser::default();
        let mut done = Vec::new();
        for piece in bytes.chunks(cut) {
            parser.take(piece, 8, |cookie| done.push(cookie)).unwrap();
        }
        assert_eq!(done, [7, 9], "in pieces of {cut} bytes");
    }
}

#[test]
fn an_answer_of_error_ends_a_measurement() {
    let mut bytes = answers();
    bytes[7] = 5;
    let error = Parser::default().take(&bytes, 8, |_| {}).unwrap_err();
    assert_eq!(error.to_string(), "the server answered with error 5");
}
