//! *ceiling*: a result above what the wire, the bus or the memory can carry is no result.
//!
//! Caught in: study A, whose NBD "reads" over 100 Mb/s Ethernet were 167 % and 112 % of what TCP can
//! carry there.

use serde::{Deserialize, Serialize};

use super::noise::Carried;
use super::phase::{FioMeasurement, Measurement};
use super::{Check, Finding};
use crate::plan::Direction;
use crate::units::{BitRate, Bytes, Rate};

/// Slack above a computed ceiling: clocks and rounding.
const COMPUTED_SLACK: f64 = 1.01;
/// Slack above a measured ceiling, which a better measurement might raise.
const MEASURED_SLACK: f64 = 1.25;

/// What a ceiling rests on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum CeilingSource {
    /// The speed a network interface is linked at, less what TCP over Ethernet needs.
    Link {
        /// Its name.
        interface: String,
        /// The link's speed.
        speed: BitRate,
    },
    /// Bytes sent through a loopback socket on this machine just before the run.
    LoopbackSocket,
    /// What a `throttle` in the disk's expression lets through.
    Throttle {
        /// Of which bytes; all where not given.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        direction: Option<Direction>,
    },
    /// Bytes copied in memory on this machine just before the run: no storage is faster.
    MemoryCopy,
}

/// The most a target can carry.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Ceiling {
    /// Of what.
    pub source: CeilingSource,
    /// How much.
    pub rate: Rate,
}

impl Ceiling {
    /// What TCP carries over an interface linked at `speed`.
    #[must_use]
    pub fn of_link(interface: impl Into<String>, speed: BitRate) -> Self {
        Self {
            source: CeilingSource::Link {
                interface: interface.into(),
                speed,
            },
            rate: speed.tcp_goodput(),
        }
    }

    /// What a disk that is throttled to `rate` carries: of all bytes, or of those that are read or written.
    #[must_use]
    pub const fn of_throttle(rate: Rate, direction: Option<Direction>) -> Self {
        Self {
            source: CeilingSource::Throttle { direction },
            rate,
        }
    }

    /// Whether it bounds what moves bytes this way; not known where a tool does both.
    #[must_use]
    pub fn bounds(&self, direction: Option<Direction>) -> bool {
        match self.source {
            CeilingSource::Throttle {
                direction: Some(own),
            } => direction == Some(own),
            _ => true,
        }
    }

    /// What it is, for people.
    #[must_use]
    pub fn describe(&self) -> String {
        match &self.source {
            CeilingSource::Link { interface, speed } => format!("TCP over {interface} ({speed})"),
            CeilingSource::LoopbackSocket => "a loopback socket (measured)".into(),
            CeilingSource::Throttle { direction: None } => "the throttle of its disk".into(),
            CeilingSource::Throttle {
                direction: Some(direction),
            } => format!("the {} throttle of its disk", direction.as_str()),
            CeilingSource::MemoryCopy => "copying in memory (measured)".into(),
        }
    }

    fn slack(&self) -> f64 {
        match self.source {
            CeilingSource::Link { .. } => COMPUTED_SLACK,
            // A throttle lets what was saved up before pass at once.
            CeilingSource::LoopbackSocket
            | CeilingSource::MemoryCopy
            | CeilingSource::Throttle { .. } => MEASURED_SLACK,
        }
    }
}

pub(super) fn of_measurement(seen: &Measurement<'_>) -> Vec<Finding> {
    let ceilings = seen.ceilings.iter();
    let ceilings = ceilings.filter(|ceiling| ceiling.bounds(seen.direction));
    let above = seen
        .rate
        .map(|rate| ceilings.filter_map(move |ceiling| check(rate, ceiling)));
    above.into_iter().flatten().collect()
}

pub(super) fn of_fio(seen: &FioMeasurement<'_>) -> Vec<Finding> {
    let carried = seen.measurement.evidence.carried.as_ref();
    let found = carried.and_then(|carried| crossed(seen.result.bytes, carried));
    found.into_iter().collect()
}

/// Holds `rate` against `ceiling`.
fn check(rate: Rate, ceiling: &Ceiling) -> Option<Finding> {
    let part = rate.0 / ceiling.rate.0;
    if !part.is_finite() || part <= 1.0 {
        return None;
    }
    let text = format!(
        "{rate} is {:.0} % of what {} can carry, {}",
        part * 100.0,
        ceiling.describe(),
        ceiling.rate
    );
    if part > ceiling.slack() {
        return Some(Finding::invalid(Check::Ceiling, text));
    }
    Some(Finding::remark(Check::Ceiling, text))
}

/// Below this part of the bytes counted, an interface did not carry them.
const CARRIED_MIN: f64 = 0.97;

/// Holds the bytes counted against those that the wire carried meanwhile: what did not cross it came
/// from a cache on this side. This catches what is faster than a wire of unknown speed.
fn crossed(counted: Bytes, carried: &Carried) -> Option<Finding> {
    let part = carried.bytes.0 as f64 / counted.0.max(1) as f64;
    (part < CARRIED_MIN).then(|| {
        Finding::invalid(
            Check::Ceiling,
            format!(
                "only {} of the {counted} counted crossed {}: the rest came from or went to a cache",
                carried.bytes, carried.interface
            ),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checks::Level;

    fn fast_ethernet() -> Ceiling {
        Ceiling::of_link("eth0", BitRate::from_mbit(100))
    }

    #[test]
    fn study_a_read_at_167_and_112_percent_of_its_wire() {
        for (kib, percent) in [(19_156.0, "167 %"), (12_867.0, "112 %")] {
            let finding = check(Rate(kib * 1024.0), &fast_ethernet()).unwrap();
            assert_eq!(finding.level, Level::Invalid);
            assert!(finding.text.contains(percent), "{}", finding.text);
        }
    }

    #[test]
    fn what_study_a_wrote_over_its_wire_is_possible() {
        for kib in [9_798.0, 3_258.0] {
            assert_eq!(check(Rate(kib * 1024.0), &fast_ethernet()), None);
        }
    }

    /// The story: dbench had 238 MB/s from a disk behind a wire of 100 Mb/s, and the result was called good.
    #[test]
    fn what_is_faster_than_its_throttle_came_from_a_cache() {
        let wire = Ceiling::of_throttle(Rate(11_768_530.0), None);
        let finding = check(Rate(238e6), &wire).unwrap();
        assert_eq!(finding.level, Level::Invalid);
        assert!(
            finding.text.contains("the throttle of its disk"),
            "{}",
            finding.text
        );
        assert_eq!(check(Rate(11.7e6), &wire), None);
    }

    #[test]
    fn a_throttle_of_one_direction_bounds_that_alone() {
        let writes = Ceiling::of_throttle(Rate(1e6), Some(Direction::Write));
        assert!(writes.bounds(Some(Direction::Write)));
        assert!(!writes.bounds(Some(Direction::Read)) && !writes.bounds(None));
        let all = Ceiling::of_throttle(Rate(1e6), None);
        assert!(all.bounds(Some(Direction::Read)) && all.bounds(None));
        // Runs of before have no direction.
        let stored: CeilingSource = serde_json::from_str("{\"kind\":\"throttle\"}").unwrap();
        assert_eq!(stored, all.source);
    }

    #[test]
    fn study_c_above_117_7_megabytes_over_a_gigabit_is_no_result() {
        let gigabit = Ceiling::of_link("eth0", BitRate::from_mbit(1000));
        assert_eq!(check(Rate(117.6e6), &gigabit), None);
        assert_eq!(check(Rate(119e6), &gigabit).unwrap().level, Level::Invalid);
    }

    #[test]
    fn a_little_above_a_measured_ceiling_is_a_remark() {
        let measured = Ceiling {
            source: CeilingSource::LoopbackSocket,
            rate: Rate(3e9),
        };
        assert_eq!(check(Rate(3.3e9), &measured).unwrap().level, Level::Remark);
        assert_eq!(check(Rate(4e9), &measured).unwrap().level, Level::Invalid);
    }

    #[test]
    fn study_a_moved_256_mib_in_13_7_s_of_which_100_megabits_carry_154_mib() {
        let seconds = 13.684;
        let wire = Carried {
            interface: "eth0".into(),
            bytes: Bytes(crate::units::round(
                BitRate::from_mbit(100).bytes_per_second().0 * seconds,
            )),
        };
        let finding = crossed(Bytes(256 << 20), &wire).unwrap();
        assert_eq!(finding.level, Level::Invalid);
        assert!(
            finding.text.starts_with("only 163.1 MiB of the 256 MiB"),
            "{}",
            finding.text
        );
        let whole = Carried {
            bytes: Bytes(270 << 20),
            ..wire
        };
        assert_eq!(crossed(Bytes(256 << 20), &whole), None);
    }
}
