//! Tests of the text of failures.

use std::io;

use super::Failure;
use crate::graph::resolve;

#[derive(Debug, thiserror::Error)]
#[error("reading the table failed")]
struct Quiet(#[source] io::Error);

#[derive(Debug, thiserror::Error)]
#[error("reading the table failed: {0}")]
struct Loud(#[source] io::Error);

fn missing() -> io::Error {
    io::Error::from_raw_os_error(2)
}

#[test]
fn causes_are_reported_once_and_without_numbers() {
    let expected = "outboard: cannot start: reading the table failed: No such file or directory";
    for failure in [
        Failure::because("cannot start", &Quiet(missing())),
        Failure::because("cannot start", &Loud(missing())),
    ] {
        assert_eq!(failure.text(), expected);
    }
}

#[test]
fn a_failure_is_one_line_even_if_its_parts_have_several() {
    let failure = Failure::new("mkfs said:\n  too small\n").next("make it\nlarger");
    assert_eq!(
        failure.text(),
        "outboard: mkfs said: too small; make it larger"
    );
}

#[test]
fn a_wrong_expression_is_a_usage_error_with_its_picture() {
    let failure = Failure::from(resolve("a=memory(1Q)").expect_err("no unit"));
    let text = failure.text();
    let mut lines = text.lines();
    let first = lines.next().expect("a line");
    assert!(
        first.starts_with("outboard: in the disk `a=memory(1Q)`, character 10: "),
        "{first}"
    );
    assert_eq!(lines.next(), Some("  a=memory(1Q)"));
    assert_eq!(lines.next(), Some("           ^^"));
    assert_eq!(failure.status, 2);
}

#[test]
fn programs_get_the_same_as_json() {
    let failure = Failure::new("no").next("yes");
    let json = serde_json::to_string(&failure).expect("plain data");
    assert_eq!(json, r#"{"error":"no","next":"yes","status":1}"#);
}
