//! *label*: the direction is that in which bytes were counted, never that of a heading.
//!
//! Caught in: study A, whose NBD headings are swapped ("SEQ Write" above a line that begins with
//! READ), and study D, which printed reads under "Write".

use super::{Check, Finding};
use crate::fio::JobResult;
use crate::plan::{Direction, FioJob};

pub(super) fn of_job(job: &FioJob, result: &JobResult) -> Option<Finding> {
    check(job.direction, result.direction)
}

/// Holds the direction counted against the one requested.
fn check(asked: Direction, counted: Direction) -> Option<Finding> {
    if asked == counted {
        return None;
    }
    Some(Finding::invalid(
        Check::Label,
        format!(
            "it is called a {} and the bytes were a {}",
            asked.as_str(),
            counted.as_str()
        ),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn study_a_printed_reads_under_its_heading_for_writes() {
        let finding = check(Direction::Write, Direction::Read).unwrap();
        assert_eq!(
            finding.text,
            "it is called a write and the bytes were a read"
        );
        assert_eq!(check(Direction::Read, Direction::Read), None);
    }
}
