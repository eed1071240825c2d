//! *units*: what fio printed is bytes over time, so that no unit was mistaken.
//!
//! Caught in: study C, which took 940 Mb/s for 117.5 MiB/s. The other half of this check is
//! [`crate::units`]: rates are bytes per second inside and printed in both units.

use super::{Check, Finding};
use crate::fio::JobResult;
use crate::plan::FioJob;
use crate::units::{Bytes, Nanos, Rate};

/// fio rounds its times to milliseconds and its rates to bytes.
const TOLERANCE: f64 = 0.02;

pub(super) fn of_job(_: &FioJob, result: &JobResult) -> Option<Finding> {
    check(result.bytes, result.runtime, result.printed_rate)
}

/// Holds a printed rate against the bytes and the time it came from.
fn check(bytes: Bytes, time: Nanos, printed: Rate) -> Option<Finding> {
    let Some(rate) = Rate::of(bytes, time) else {
        return Some(Finding::invalid(
            Check::Units,
            "no time passed while it was measured",
        ));
    };
    // A window of few milliseconds is rounded by as much as half of one.
    let rounding = 1e6 / time.0 as f64;
    if (printed.0 / rate.0 - 1.0).abs() <= TOLERANCE + rounding {
        return None;
    }
    Some(Finding::invalid(
        Check::Units,
        format!("{bytes} in {time} are {rate}, and {printed} was printed"),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn study_a_printed_1031_kib_per_second_and_that_is_what_its_bytes_and_time_give() {
        let (bytes, time) = (Bytes(61_956 * 1024), Nanos::from_ms(60_070));
        assert_eq!(check(bytes, time, Rate(1031.0 * 1024.0)), None);
    }

    #[test]
    fn mebibytes_taken_for_megabytes_are_noticed() {
        let (bytes, time) = (Bytes(61_956 * 1024), Nanos::from_ms(60_070));
        assert!(check(bytes, time, Rate(1031.0 * 1000.0)).is_some());
    }

    #[test]
    fn nothing_in_no_time_is_no_result() {
        assert!(check(Bytes(1), Nanos(0), Rate(1.0)).is_some());
    }
}
