//! *in flight*: what is requested at once is at most 5 % of what is moved, or the ends of the window
//! are a large part of it.
//!
//! Caught in: study C's largest blocks: 32 of 16 MiB are 512 MiB in flight.

use super::{Check, Finding};
use crate::fio::JobResult;
use crate::plan::FioJob;
use crate::units::Bytes;

/// The largest part.
const PART_MAX: f64 = 0.05;

pub(super) fn of_job(job: &FioJob, result: &JobResult) -> Option<Finding> {
    check(job.in_flight(), result.bytes)
}

/// Holds the bytes in flight against the bytes moved.
fn check(in_flight: Bytes, moved: Bytes) -> Option<Finding> {
    if in_flight.0 as f64 <= moved.0 as f64 * PART_MAX {
        return None;
    }
    Some(Finding::remark(
        Check::InFlight,
        format!("{in_flight} were in flight of only {moved} moved: the ends of the window weigh"),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::MIB;

    #[test]
    fn study_c_had_512_mib_in_flight_of_3_gib_moved() {
        let moved = Bytes(30 * 100 * MIB);
        assert!(check(Bytes(32 * 16 * MIB), moved).is_some());
        assert_eq!(check(Bytes(32 * 64 * 1024), moved), None);
    }
}
