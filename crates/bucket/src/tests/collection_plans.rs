//! Plans of collections, against writers that commit, lose objects of interrupted commits, and are followed by others; with snapshots
//! that come and go, and an index that is read at one time and listed at another one.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use fastrand::Rng;

use crate::collection_plan::{AGE, CollectionPlan, RECORD_MAX, candidates};
use crate::format::{CollectionFormatError, CollectionRecord, DataObject};

const fn object(generation: u32, number: u64) -> DataObject {
    DataObject { generation, number }
}

/// Each object has 10 bytes more than its number.
fn listed(objects: &[DataObject]) -> BTreeMap<DataObject, u64> {
    let len = |object: &DataObject| (*object, object.number + 10);
    objects.iter().map(len).collect()
}

fn millis(age: Duration) -> u64 {
    u64::try_from(age.as_millis()).unwrap()
}

fn unused(all: &[DataObject], used: &[DataObject], last: u32) -> Vec<DataObject> {
    let used = used.iter().copied().collect();
    candidates(&listed(all), &used, &(1..=last))
        .into_keys()
        .collect()
}

#[test]
fn objects_of_a_commit_under_way_are_no_candidates() {
    let all = [object(1, 7), object(2, 3), object(2, 4), object(2, 5)];
    // Number 5 of the last writer may be of a commit that is under way, and so may all of a writer that has committed none.
    let expected = [object(1, 7), object(2, 3)];
    assert_eq!(unused(&all, &[object(2, 4)], 2), expected);
    assert_eq!(unused(&all, &[], 2), [object(1, 7)]);
    // A later writer has opened it: all of the second one is certain.
    let expected = [object(1, 7), object(2, 3), object(2, 5)];
    assert_eq!(unused(&all, &[object(2, 4)], 3), expected);
    // The index was read before the second one opened it.
    assert_eq!(unused(&all, &[object(1, 9)], 1), [object(1, 7)]);
    assert!(unused(&all, &[], 0).is_empty());
}

/// Of a clone: what its origin wrote, also into this folder by mistake, is not its own.
#[test]
fn objects_of_other_generations_than_the_folders_own_are_no_candidates() {
    let all = listed(&[object(3, 1), object(4, 1), object(5, 1)]);
    let used = [object(3, 9), object(5, 2)].into();
    let found = candidates(&all, &used, &(4..=5));
    assert_eq!(
        found.into_keys().collect::<Vec<_>>(),
        [object(4, 1), object(5, 1)]
    );
}

#[test]
fn an_object_is_deleted_when_it_was_found_twice_and_long_enough_ago() {
    let found = listed(&[object(1, 1), object(1, 2)]);
    let start = 1_000_000;
    let first = CollectionPlan::of(&found, &CollectionRecord::default(), start);
    assert_eq!(first.due().count(), 0);
    assert!(first.waiting().all(|one| one.wait == AGE));
    let record = first.record();
    assert_eq!(record, first.record_behind());
    let early = CollectionPlan::of(&found, &record, start + millis(AGE) - 1);
    assert_eq!(early.due().count(), 0);
    assert_eq!(early.record(), record, "it does not begin again");
    // One is used again, by what no writer does: it is not a candidate, and is forgotten.
    let mut second = listed(&[object(1, 2), object(1, 3)]);
    let at = start + millis(AGE);
    let plan = CollectionPlan::of(&second, &record, at);
    let due: Vec<_> = plan.due().map(|one| (one.object, one.len)).collect();
    assert_eq!(due, [(object(1, 2), 12)]);
    let times = |record: CollectionRecord| Vec::from_iter(record.found);
    let both = [(object(1, 2), start), (object(1, 3), at)];
    assert_eq!(times(plan.record()), both);
    assert_eq!(times(plan.record_behind()), [(object(1, 3), at)]);
    second.remove(&object(1, 2));
    let next = CollectionPlan::of(&second, &plan.record(), at + 1);
    assert_eq!(times(next.record()), [(object(1, 3), at)]);
}

#[test]
fn a_time_in_the_future_is_one_of_now() {
    let found = listed(&[object(1, 1)]);
    let record = CollectionRecord {
        found: [(object(1, 1), u64::MAX)].into(),
    };
    let plan = CollectionPlan::of(&found, &record, 5);
    assert_eq!(plan.due().count(), 0);
    assert_eq!(plan.record().found[&object(1, 1)], 5);
}

#[test]
fn a_record_has_so_many_objects_at_most_and_keeps_those_that_wait() {
    let max = u64::try_from(RECORD_MAX).unwrap();
    let all: Vec<DataObject> = (0..max + 5).map(|number| object(1, number)).collect();
    let last = max + 4;
    let record = CollectionRecord {
        found: [(object(1, last), 0)].into(),
    };
    let plan = CollectionPlan::of(&listed(&all), &record, 1);
    assert_eq!(plan.record().found.len(), RECORD_MAX);
    assert_eq!(plan.record().found[&object(1, last)], 0);
}

#[test]
fn records_survive_and_what_is_none_is_refused_by_name() {
    let record = CollectionRecord {
        found: [(object(1, 1), 7), (object(2, 3), 7), (object(2, 4), 9)].into(),
    };
    let text = String::from_utf8(record.encode()).unwrap();
    assert_eq!(
        CollectionRecord::decode(text.as_bytes()),
        Ok(record.clone())
    );
    let none = CollectionRecord::default();
    assert_eq!(CollectionRecord::decode(&none.encode()), Ok(none));
    let changed = |from: &str, to: &str| {
        assert!(text.contains(from), "{text}");
        CollectionRecord::decode(text.replace(from, to).as_bytes()).unwrap_err()
    };
    let version = changed("\"version\": 1", "\"version\": 2");
    assert_eq!(version, CollectionFormatError::Version(2));
    let name = "00000002-0000000000000003";
    let object = changed(name, "../x");
    assert_eq!(object, CollectionFormatError::Object("../x".to_owned()));
    for (from, to) in [("outboard collection", "x"), ("\"time\"", "\"when\"")] {
        assert!(matches!(changed(from, to), CollectionFormatError::Json(_)));
    }
    for bytes in [&b""[..], b"x", b"[]", &text.as_bytes()[..text.len() / 2]] {
        assert!(matches!(
            CollectionRecord::decode(bytes),
            Err(CollectionFormatError::Json(_))
        ));
    }
}

/// A volume of one writer after another, each block of it an object.
#[derive(Default)]
struct ModelVolume {
    store: BTreeSet<DataObject>,
    generation: u32,
    next: u64,
    index: Vec<DataObject>,
    snapshots: Vec<Vec<DataObject>>,
    /// Objects of a commit that is under way.
    pending: Vec<DataObject>,
}

impl ModelVolume {
    fn step(&mut self, rng: &mut Rng) {
        match rng.u8(0..8) {
            // Another writer; what is under way is lost.
            0 => {
                self.generation += 1;
                self.next = 0;
                self.pending.clear();
            }
            1 => self.snapshots.push(self.index.clone()),
            2 if !self.snapshots.is_empty() => {
                self.snapshots
                    .swap_remove(rng.usize(0..self.snapshots.len()));
            }
            3..=5 if self.generation > 0 && self.pending.is_empty() => {
                for _ in 0..rng.u64(1..4) {
                    let object = object(self.generation, self.next);
                    self.next += 1;
                    self.pending.push(object);
                    self.store.insert(object);
                }
            }
            _ => {
                for object in self.pending.drain(..) {
                    match rng.usize(0..8) {
                        nth if nth < self.index.len() => self.index[nth] = object,
                        _ => self.index.push(object),
                    }
                }
            }
        }
    }

    fn used(&self) -> BTreeSet<DataObject> {
        let snapshots = self.snapshots.iter().flatten();
        let all = snapshots.chain(&self.index).chain(&self.pending);
        all.copied().collect()
    }
}

/// The index is read first, then the snapshots are listed, then the objects; the volume goes on in between, and afterwards.
#[test]
fn no_candidate_is_used_then_or_later() {
    let mut found = 0;
    for seed in 0..3000 {
        let mut rng = Rng::with_seed(seed);
        let mut volume = ModelVolume::default();
        let mut steps = |volume: &mut ModelVolume, max: usize| {
            for _ in 0..rng.usize(0..max) {
                volume.step(&mut rng);
            }
        };
        steps(&mut volume, 40);
        let mut used: BTreeSet<DataObject> = volume.index.iter().copied().collect();
        let last = volume.generation;
        steps(&mut volume, 10);
        used.extend(volume.snapshots.iter().flatten());
        steps(&mut volume, 10);
        let all = volume.store.iter().map(|object| (*object, 1)).collect();
        let unused = candidates(&all, &used, &(1..=last));
        found += unused.len();
        for _ in 0..10 {
            let used = volume.used();
            assert!(
                unused.keys().all(|object| !used.contains(object)),
                "world {seed}"
            );
            steps(&mut volume, 5);
        }
    }
    assert!(found > 1000, "{found}");
}
