//! Drives by slots: the same drives measured in several slots, and which of the two makes the difference.
//! Study D's question, which it answered by eye.
//!
//! A drive is its serial, a slot is the place it is plugged in at; both were noted when the runs were
//! made. Invariant: each run gives one value for each drive, its median, since blocks of one run share
//! in any case.

use serde::Serialize;

use super::summary::Summary;
use crate::stats::effects::{Effect, Observation, P_MAX, TwoFactors, two_factors};
use crate::store::RunRecord;
use crate::units::significant;

/// What one test says of drives and slots.
#[derive(Debug, Clone, Serialize)]
pub struct Square {
    /// The test's name for people.
    pub title: String,
    /// Drives, identified by serial.
    pub drives: usize,
    /// Slots, identified by their path in the device tree.
    pub slots: usize,
    /// The first factor is the drive, the second one the slot.
    pub effects: TwoFactors,
}

/// A value, with the names of what gave it.
struct Value {
    test: (String, String),
    drive: String,
    slot: String,
    better: f64,
}

/// Every test of `runs` in which a drive stood in more than one slot, as far as it can be judged.
#[must_use]
pub(super) fn squares(runs: &[&RunRecord]) -> Vec<Square> {
    let values: Vec<Value> = runs.iter().flat_map(|run| values(run)).collect();
    let mut tests: Vec<&(String, String)> = Vec::new();
    for value in &values {
        if !tests.contains(&&value.test) {
            tests.push(&value.test);
        }
    }
    let seed = runs.first().map_or(0, |run| run.seed);
    let of_test = |test: &(String, String)| {
        let own: Vec<&Value> = values.iter().filter(|value| value.test == *test).collect();
        square(&test.1, &own, seed)
    };
    tests.into_iter().filter_map(of_test).collect()
}

/// The median of each test on each target with a known drive and slot.
fn values(run: &RunRecord) -> Vec<Value> {
    let value = |row: &super::Row| {
        let identity = run.manifest.targets[row.target].identity.as_ref()?;
        let headline = row.headline.filter(|_| row.validity.is_usable())?;
        let test = &run.plan.workloads[row.workload];
        Some(Value {
            test: (test.name.clone(), test.title.clone()),
            drive: identity.serial.clone()?,
            slot: identity.place.clone()?,
            better: row.better.goodness(headline.median),
        })
    };
    Summary::of(run).rows.iter().filter_map(value).collect()
}

fn square(title: &str, values: &[&Value], seed: u64) -> Option<Square> {
    let moved = |one: &Value| {
        let elsewhere = |other: &&Value| other.drive == one.drive && other.slot != one.slot;
        values.iter().any(elsewhere)
    };
    values.iter().find(|one| moved(one))?;
    let (mut drives, mut slots) = (Vec::new(), Vec::new());
    let observations: Vec<Observation> = values
        .iter()
        .map(|value| Observation {
            first: level(&mut drives, &value.drive),
            second: level(&mut slots, &value.slot),
            value: value.better,
        })
        .collect();
    Some(Square {
        title: title.to_owned(),
        drives: drives.len(),
        slots: slots.len(),
        effects: two_factors(&observations, seed)?,
    })
}

fn level<'a>(known: &mut Vec<&'a str>, name: &'a str) -> usize {
    let found = known.iter().position(|one| *one == name);
    found.unwrap_or_else(|| {
        known.push(name);
        known.len() - 1
    })
}

impl Square {
    /// As one sentence.
    pub(super) fn sentence(&self) -> String {
        let Self {
            title,
            drives,
            slots,
            effects,
        } = self;
        let said = |effect: &Effect| {
            let told = match effect.is_distinguishable() {
                true => "distinguishable from chance",
                false => "not distinguishable from chance",
            };
            let ratio = significant(effect.ratio);
            format!("a factor of {ratio} ({told}, p {:.3})", effect.p)
        };
        let confounded = match effects.confounded {
            0 => String::new(),
            1 => "; one difference may be either's, since not every drive met every slot".into(),
            many => format!("; {many} differences may be either's: let more drives change slots"),
        };
        format!(
            "{title}: {drives} drives make {}, {slots} slots {}{confounded}. \
             Told from chance is what chance gives in less than {} of 100 cases.",
            said(&effects.first),
            said(&effects.second),
            P_MAX * 100.0
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checks::identity::Identity;
    use crate::store::{RunId, RunRecord};
    use crate::synthetic;
    use crate::units::round;

    /// Study D's drives, by what each wrote when it stood in the slots in their order, and its slots in
    /// the run: `drives[slot]`.
    fn run(id: i64, drives: [usize; 4], megabytes: [f64; 4]) -> RunRecord {
        let mut run = synthetic::run(5);
        run.id = RunId(id);
        run.manifest.baseline = None;
        let model = run.manifest.targets[1].clone();
        run.manifest.targets = (0..4)
            .map(|slot| {
                let mut target = model.clone();
                target.name = format!("slot-{slot}");
                target.label = format!("/mnt/slot-{slot}");
                target.identity = Some(Identity {
                    name: format!("sd{slot}"),
                    serial: Some(format!("SERIAL{}", drives[slot])),
                    world_wide_name: None,
                    place: Some(format!("usb-0:1.{slot}:1.0")),
                });
                target
            })
            .collect();
        let own = run.cells.iter().filter(|cell| cell.target == 1);
        let mut cells = Vec::new();
        for cell in own.filter(|cell| cell.workload == 1) {
            for (slot, rate) in megabytes.iter().enumerate() {
                let mut cell = cell.clone();
                cell.target = slot;
                let result = cell.fio_mut().unwrap();
                result.runtime.0 = round(result.bytes.0 as f64 / (rate * 1e6) * 1e9);
                cells.push(cell);
            }
        }
        run.cells = cells;
        run
    }

    fn study_d() -> [RunRecord; 2] {
        [
            run(1, [0, 1, 2, 3], [2.365, 2.387, 1.929, 3.929]),
            run(2, [3, 2, 1, 0], [3.730, 1.934, 2.386, 2.351]),
        ]
    }

    #[test]
    fn study_d_in_two_orders_has_an_effect_of_the_drive_and_none_of_the_slot() {
        let [there, back] = study_d();
        let found = squares(&[&there, &back]);
        assert_eq!(found.len(), 1, "{found:?}");
        let square = &found[0];
        assert_eq!((square.drives, square.slots), (4, 4));
        assert!(square.effects.first.is_distinguishable(), "{square:?}");
        assert!(!square.effects.second.is_distinguishable(), "{square:?}");
        let said = square.sentence();
        assert!(said.contains("4 slots a factor of 1.0"), "{said}");
        assert!(said.contains("(not distinguishable from chance"), "{said}");
        assert!(said.contains("one difference may be either's"), "{said}");
    }

    #[test]
    fn two_runs_with_every_drive_where_it_was_say_nothing_of_slots() {
        let [there, _] = study_d();
        assert!(squares(&[&there, &there]).is_empty());
    }

    #[test]
    fn a_drive_without_a_serial_is_in_no_square() {
        let [mut there, mut back] = study_d();
        for run in [&mut there, &mut back] {
            for target in &mut run.manifest.targets {
                target.identity.as_mut().unwrap().serial = None;
            }
        }
        assert!(squares(&[&there, &back]).is_empty());
    }
}
