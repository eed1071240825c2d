//! *generator*: what makes the load has a ceiling of its own, and a result that is the processor's is
//! not called one of the storage.
//!
//! Caught in: study B, whose kernel compilation was "largely unaffected by disk performance being CPU
//! bound" and stands in every chart of disks.

use super::{Check, Finding};
use crate::units::grouped;

/// Above this part of a core for each job, fio waits for its processor.
const CPU_BOUND: f64 = 0.95;
/// Above this part of all cores, a program waits for processors.
const ALL_BUSY: f64 = 0.90;
/// Above this part of the generator's ceiling, it is the generator that is seen.
const NEAR_CEILING: f64 = 0.80;

/// What the generator did.
#[derive(Debug, Clone, Copy)]
pub struct Generated {
    /// Operations per second that it made.
    pub operations: f64,
    /// Parts of one core that each job used.
    pub cpu: f64,
    /// Operations per second that it makes of the same job on a disk that does nothing, if measured.
    pub ceiling: Option<f64>,
}

/// Whether it is fio that was measured.
#[must_use]
pub fn check(seen: &Generated) -> Option<Finding> {
    if let Some(ceiling) = seen.ceiling.filter(|ceiling| *ceiling > 0.0) {
        let part = seen.operations / ceiling;
        if part > NEAR_CEILING {
            return Some(Finding::remark(
                Check::Generator,
                format!(
                    "{:.0} % of the {} operations a second that fio makes on a disk which does nothing: the \
                     storage may be faster",
                    part * 100.0,
                    grouped(ceiling)
                ),
            ));
        }
    }
    (seen.cpu >= CPU_BOUND).then(|| {
        Finding::remark(
            Check::Generator,
            format!(
                "fio was CPU-bound ({:.0} % of a core for each job): the storage may be faster",
                seen.cpu * 100.0
            ),
        )
    })
}

/// Whether a program that is not fio waited for processors and not for storage. `busy` is its part of
/// all the cores that it could use.
#[must_use]
pub fn program(name: &str, busy: f64) -> Option<Finding> {
    (busy >= ALL_BUSY).then(|| {
        Finding::remark(
            Check::Generator,
            format!(
                "{name} kept {:.0} % of all cores busy: it is CPU-bound and tells nothing of storage",
                busy * 100.0
            ),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn study_b_compiled_a_kernel_which_is_cpu_bound() {
        assert!(
            program("make", 0.98)
                .unwrap()
                .text
                .contains("tells nothing of storage")
        );
        assert_eq!(program("tar", 0.3), None);
    }

    #[test]
    fn near_its_ceiling_on_a_null_disk_it_is_fio_that_is_seen() {
        let seen = |operations, cpu| {
            check(&Generated {
                operations,
                cpu,
                ceiling: Some(1_000_000.0),
            })
        };
        assert!(
            seen(910_000.0, 1.0)
                .unwrap()
                .text
                .starts_with("91 % of the 1,000,000 operations")
        );
        assert_eq!(seen(200_000.0, 0.5), None);
        assert!(
            seen(200_000.0, 0.97)
                .unwrap()
                .text
                .contains("CPU-bound (97 %")
        );
    }

    #[test]
    fn without_a_ceiling_the_processor_alone_is_looked_at() {
        let seen = Generated {
            operations: 1e9,
            cpu: 0.5,
            ceiling: None,
        };
        assert_eq!(check(&seen), None);
    }
}
