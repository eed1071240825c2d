//! *observer*: the lab's own cost is measured.
//!
//! Caught in: study A, where "there was some overhead running FIO on the client which was about 5-8%". fio is
//! the application there and is reported by itself; this is about the lab and its sensors.

use super::phase::MachineWatch;
use super::{Check, Finding};
use crate::units::Nanos;

/// The most of one core that the lab and its sensors may take.
const PART_MAX: f64 = 0.01;
/// Measurements shorter than this are too short to say: the kernel counts in ticks of 10 ms.
const TIME_MIN: Nanos = Nanos(500_000_000);

pub(super) fn of_machine(watch: &MachineWatch<'_>) -> Vec<Finding> {
    let found = watch.lab.and_then(|(cpu, elapsed)| check(cpu, elapsed));
    found.into_iter().collect()
}

/// Holds the lab's own CPU time against the time of a measurement.
fn check(lab: Nanos, elapsed: Nanos) -> Option<Finding> {
    let part = lab.0 as f64 / elapsed.0.max(1) as f64;
    // One tick is within what the kernel's counting can make of nothing.
    if elapsed < TIME_MIN || part <= PART_MAX || lab.0 <= 10_000_000 {
        return None;
    }
    Some(Finding::remark(
        Check::Observer,
        format!("measuring took {:.1} % of one core itself", part * 100.0),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::SECOND;

    #[test]
    fn study_a_measured_with_what_took_5_to_8_percent() {
        for percent in [5, 8] {
            let lab = Nanos(60 * SECOND / 100 * percent);
            assert_eq!(
                check(lab, Nanos(60 * SECOND)).unwrap().text,
                format!("measuring took {percent}.0 % of one core itself")
            );
        }
    }

    #[test]
    fn under_one_percent_or_one_tick_is_nothing() {
        assert_eq!(check(Nanos(SECOND / 200), Nanos(SECOND)), None);
        assert_eq!(check(Nanos(10_000_000), Nanos(600_000_000)), None);
        assert_eq!(check(Nanos(SECOND), Nanos(SECOND / 10)), None);
    }
}
