//! *asymmetry*: two results are compared only if their jobs are equal.
//!
//! Caught in: study C (read with 1 job, write with 4) and study A (60 s against 256 MiB).

use serde::{Deserialize, Serialize};

use super::{Check, Finding};

/// What must be equal before two results may be compared.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct JobShape {
    /// Bytes of a request, as fio says.
    pub(crate) block_size: String,
    /// Requests in flight per job.
    pub(crate) depth: u32,
    /// Jobs.
    pub(crate) jobs: u32,
    /// Past the page cache.
    pub(crate) direct: bool,
    /// The engine that was used.
    pub(crate) engine: String,
    /// What ends it: bytes, time or both.
    pub(crate) limit: String,
}

/// Every way in which the jobs differ, as one finding.
pub(super) fn check(a: &JobShape, b: &JobShape) -> Option<Finding> {
    let rows = [
        ("block size", a.block_size.clone(), b.block_size.clone()),
        ("depth", a.depth.to_string(), b.depth.to_string()),
        ("jobs", a.jobs.to_string(), b.jobs.to_string()),
        ("direct", a.direct.to_string(), b.direct.to_string()),
        ("engine", a.engine.clone(), b.engine.clone()),
        ("limit", a.limit.clone(), b.limit.clone()),
    ];
    let different: Vec<String> = rows
        .into_iter()
        .filter(|(_, x, y)| x != y)
        .map(|(what, x, y)| format!("{what} {x} against {y}"))
        .collect();
    if different.is_empty() {
        return None;
    }
    Some(Finding::invalid(
        Check::Asymmetry,
        format!("the jobs differ: {}", different.join(", ")),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn study_c(jobs: u32) -> JobShape {
        JobShape {
            block_size: "64k".into(),
            depth: 32,
            jobs,
            direct: true,
            engine: "libaio".into(),
            limit: "30 s".into(),
        }
    }

    #[test]
    fn study_c_compared_one_job_that_read_with_four_that_wrote() {
        let finding = check(&study_c(1), &study_c(4)).unwrap();
        assert_eq!(finding.text, "the jobs differ: jobs 1 against 4");
    }

    #[test]
    fn study_a_compared_60_seconds_with_256_mebibytes() {
        let card = JobShape {
            limit: "60 s".into(),
            ..study_c(4)
        };
        let nbd = JobShape {
            limit: "256 MiB".into(),
            ..study_c(4)
        };
        assert!(
            check(&card, &nbd)
                .unwrap()
                .text
                .contains("60 s against 256 MiB")
        );
    }

    #[test]
    fn equal_jobs_are_compared() {
        assert_eq!(check(&study_c(1), &study_c(1)), None);
    }
}
