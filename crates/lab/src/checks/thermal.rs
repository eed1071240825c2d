//! *thermal*: temperature, clock and throttle flags while it was measured, and where the temperature
//! would have ended.
//!
//! Caught in: study C, which looked at its curve, saw no plateau and gave up on the question. The curve had
//! levelled off: it ends at 65.8 degrees with a time constant of 660 s.

use std::collections::BTreeMap;

use super::phase::MachineWatch;
use super::{Check, Finding};
use crate::sensors::Sample;
use crate::stats::thermal::{Reach, TemperatureReading, ThermalFit};
use crate::store::RunRecord;
use crate::units::Nanos;

/// A clock that falls below this part of its highest while its core is busy was held back.
const CLOCK_MIN: f64 = 0.90;
/// Below this many degrees to the limit, an outlook is a warning.
const MARGIN_MIN: f64 = 5.0;
/// Above this part, a core is busy and its clock should be high.
const BUSY: f64 = 0.80;
/// From where on a Raspberry Pi throttles, degrees Celsius. Source: Raspberry Pi documentation, "Frequency
/// management and thermal control". Other machines are judged by their flags and clocks alone.
const PI_THROTTLES_AT: f64 = 80.0;
/// What a board's firmware says of itself, as the sensor `throttle` names it. What happened since the
/// machine started, and not now, does not count for a measurement.
const FLAGS: [(&str, &str); 4] = [
    ("under-voltage", "the supply gave too little voltage"),
    ("frequency-capped", "the clock was held down"),
    ("throttled", "the processor was throttled"),
    (
        "soft-temperature-limit",
        "the soft limit of temperature was reached",
    ),
];

pub(super) fn of_machine(watch: &MachineWatch<'_>) -> Vec<Finding> {
    check(&ThermalSeen::of(watch.samples))
}

pub(super) fn of_run(run: &RunRecord) -> Option<Finding> {
    let machine = &run.manifest.machine;
    if !machine.processor.contains("Raspberry Pi") {
        return None;
    }
    let here = run.samples.iter().filter(|sample| sample.machine == 0);
    let here: Vec<Sample> = here.cloned().collect();
    outlook(&ThermalFit::of(&readings(&here))?, PI_THROTTLES_AT)
}

/// What was seen of a processor while it was measured.
#[derive(Debug, Clone, PartialEq, Default)]
struct ThermalSeen {
    /// The highest temperature, degrees Celsius.
    hottest: Option<f64>,
    /// The lowest and the highest clock of a core that was busy, Hz: of the one that fell most.
    clock: Option<(f64, f64)>,
    /// The flags that were up, by the sensor's names.
    flags: Vec<&'static str>,
}

impl ThermalSeen {
    /// Gathers what the sensors `temperature`, `clock` and `throttle` gave.
    fn of(samples: &[Sample]) -> Self {
        let of = |sensor: &'static str| samples.iter().filter(move |one| one.sensor == sensor);
        let is_up = |name: &str| {
            of("throttle").any(|one| {
                let slowed = name == "throttled" && one.item.starts_with("core/");
                (one.item == name || slowed) && one.value > 0.0
            })
        };
        Self {
            hottest: of("temperature").map(|one| one.value).reduce(f64::max),
            clock: clocks(samples),
            flags: FLAGS
                .iter()
                .map(|(name, _)| *name)
                .filter(|name| is_up(name))
                .collect(),
        }
    }
}

/// Of the busy core whose clock fell most: its lowest and its highest.
fn clocks(samples: &[Sample]) -> Option<(f64, f64)> {
    let mut busy: BTreeMap<(Nanos, &str), f64> = BTreeMap::new();
    for sample in samples.iter().filter(|one| one.sensor == "cpu") {
        let core = sample.item.split('/').next().unwrap_or_default();
        *busy.entry((sample.at, core)).or_default() += sample.value;
    }
    let mut ranges: BTreeMap<&str, (f64, f64)> = BTreeMap::new();
    for sample in samples.iter().filter(|one| one.sensor == "clock") {
        let core = sample.item.as_str();
        if busy
            .get(&(sample.at, core))
            .is_some_and(|part| *part > BUSY)
        {
            let range = ranges.entry(core).or_insert((sample.value, sample.value));
            *range = (range.0.min(sample.value), range.1.max(sample.value));
        }
    }
    ranges
        .into_values()
        .min_by(|a, b| (a.0 / a.1).total_cmp(&(b.0 / b.1)))
}

/// The readings of the hottest thermometer, counted from the first of them: what a curve is fitted to.
#[must_use]
pub fn readings(samples: &[Sample]) -> Vec<TemperatureReading> {
    let of = || samples.iter().filter(|one| one.sensor == "temperature");
    let Some(hottest) = of().max_by(|a, b| a.value.total_cmp(&b.value)) else {
        return Vec::new();
    };
    let start = of().map(|one| one.at).min().unwrap_or_default();
    of().filter(|one| one.item == hottest.item)
        .map(|one| TemperatureReading {
            seconds: Nanos(one.at.0 - start.0).seconds(),
            celsius: one.value,
        })
        .collect()
}

/// Whether heat or the supply held the machine back.
fn check(seen: &ThermalSeen) -> Vec<Finding> {
    let at = seen.hottest.map_or_else(String::new, |celsius| {
        format!(" at up to {celsius:.1} degrees")
    });
    let mut texts: Vec<String> = FLAGS
        .iter()
        .filter(|(name, _)| seen.flags.contains(name))
        .map(|(_, text)| format!("{text}{at}"))
        .collect();
    if let (true, Some((least, most))) = (texts.is_empty(), seen.clock)
        && least < most * CLOCK_MIN
    {
        texts.push(format!(
            "the clock of a busy core fell from {:.2} to {:.2} GHz{at}",
            most / 1e9,
            least / 1e9
        ));
    }
    texts
        .into_iter()
        .map(|text| Finding::remark(Check::Thermal, text))
        .collect()
}

/// Where the temperature leads, compared with the one at which the machine throttles. Reported only when
/// it throttles, comes near it, or is not known.
fn outlook(fit: &ThermalFit, throttles_at: f64) -> Option<Finding> {
    let text = match fit.reaches(throttles_at) {
        Reach::Never { margin } if margin >= MARGIN_MIN => return None,
        Reach::Never { margin } => format!(
            "it warms up to {:.1} degrees, {margin:.1} below where it throttles",
            fit.end
        ),
        Reach::After { seconds } => format!(
            "after {seconds:.0} s of this load it reaches {throttles_at:.0} degrees and throttles"
        ),
        Reach::CannotTell => {
            "too little of the warming was seen to say whether it throttles: measure for longer"
                .into()
        }
    };
    Some(Finding::remark(Check::Thermal, text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::SECOND;

    const STUDY_C: ThermalFit = ThermalFit {
        start: 42.0,
        end: 65.8,
        time_constant: 660.0,
        error: 0.2,
        seen: 0.93,
    };

    #[test]
    fn study_c_would_not_have_throttled_at_80_degrees() {
        assert_eq!(outlook(&STUDY_C, 80.0), None);
        assert!(
            outlook(&STUDY_C, 70.0)
                .unwrap()
                .text
                .starts_with("it warms up to 65.8 degrees, 4.2 below")
        );
    }

    #[test]
    fn study_c_with_a_limit_of_60_degrees_would_throttle_after_a_quarter_of_an_hour() {
        assert_eq!(
            outlook(&STUDY_C, 60.0).unwrap().text,
            "after 932 s of this load it reaches 60 degrees and throttles"
        );
    }

    fn sample(second: u64, sensor: &str, item: &str, value: f64) -> Sample {
        Sample {
            machine: 0,
            at: Nanos(second * SECOND),
            sensor: sensor.into(),
            item: item.into(),
            value,
        }
    }

    #[test]
    fn flags_of_now_are_held_against_a_result_and_those_of_the_past_are_not() {
        let mut samples = vec![
            sample(1, "temperature", "cpu-thermal", 81.5),
            sample(1, "throttle", "throttled", 0.0),
            sample(1, "throttle", "throttled-since-boot", 1.0),
        ];
        assert_eq!(check(&ThermalSeen::of(&samples)), []);
        samples.push(sample(2, "throttle", "throttled", 1.0));
        samples.push(sample(2, "throttle", "under-voltage", 1.0));
        let texts: Vec<String> = check(&ThermalSeen::of(&samples))
            .into_iter()
            .map(|one| one.text)
            .collect();
        assert_eq!(
            texts,
            [
                "the supply gave too little voltage at up to 81.5 degrees",
                "the processor was throttled at up to 81.5 degrees"
            ]
        );
    }

    #[test]
    fn a_core_that_slowed_down_was_throttled() {
        let samples = [sample(1, "throttle", "core/3", 2.0)];
        assert_eq!(ThermalSeen::of(&samples).flags, ["throttled"]);
    }

    /// Core 0 is busy all the time, core 1 is not and may save power.
    fn clocks_of(busy: [f64; 3], idle: [f64; 3]) -> Vec<Sample> {
        (0..3u64)
            .zip(busy.into_iter().zip(idle))
            .flat_map(|(second, (busy, idle))| {
                [
                    sample(second, "cpu", "0/user", 0.5),
                    sample(second, "cpu", "0/system", 0.5),
                    sample(second, "cpu", "1/user", 0.1),
                    sample(second, "clock", "0", busy),
                    sample(second, "clock", "1", idle),
                ]
            })
            .collect()
    }

    #[test]
    fn without_flags_the_falling_clock_of_a_busy_core_counts() {
        let found = check(&ThermalSeen::of(&clocks_of(
            [1.5e9, 1.0e9, 1.5e9],
            [1.5e9, 1.5e9, 1.5e9],
        )));
        assert_eq!(
            found[0].text,
            "the clock of a busy core fell from 1.50 to 1.00 GHz"
        );
        let saving = clocks_of([1.5e9, 1.45e9, 1.5e9], [1.5e9, 0.6e9, 1.5e9]);
        assert_eq!(check(&ThermalSeen::of(&saving)), []);
        assert_eq!(check(&ThermalSeen::default()), []);
    }

    #[test]
    fn a_curve_is_that_of_the_hottest_thermometer() {
        let samples: Vec<Sample> = (0..3600u64)
            .step_by(10)
            .flat_map(|second| {
                [
                    sample(second + 7, "temperature", "case", 30.0),
                    sample(second + 7, "temperature", "cpu", STUDY_C.at(second as f64)),
                ]
            })
            .collect();
        let fit = ThermalFit::of(&readings(&samples)).unwrap();
        assert!((fit.end - 65.8).abs() < 0.1 && (fit.time_constant - 660.0).abs() < 5.0);
        assert_eq!(readings(&[]), []);
    }
}
