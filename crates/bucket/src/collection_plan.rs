//! [`CollectionPlan`]: which data objects nothing refers to any more, and which of them may be deleted now. Pure.
//!
//! An entry refers only to objects of its own commit. So an object that no entry of the index or of a checkpoint refers to after its commit is
//! never referred to again, and the only question is whether its commit has been made.
//!
//! # Invariants
//!
//! * No object of a commit that is under way, or yet to come, is a candidate: of the last generation only numbers below the largest that is
//!   referred to are, since commits are made one at a time, and of later generations none.
//! * Only generations of the folder's own writers are considered.
//! * An object is deleted when two collections found it unused, the first of them at least [`AGE`] ago: what found it in the index before
//!   has read it, or finds it missing and scans the index once more.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use std::time::Duration;

use crate::format::{CollectionRecord, DataObject};

/// How long an object is known as unused before it is deleted: readers poll the index each 15 s, and a read that has its pointer is
/// retried for ten minutes.
pub(crate) const AGE: Duration = Duration::from_secs(15 * 60);
/// Objects of a record; more are found by later collections.
pub(crate) const RECORD_MAX: usize = 100_000;

/// The data objects that nothing refers to, and never will, with the length of each. `referenced` has those of the tables of the index and
/// of all its checkpoints, `listed` those that were in the store behind that; `own` are the generations of the folder, the last one of those tables.
pub(crate) fn candidates(
    listed: &BTreeMap<DataObject, u64>,
    referenced: &BTreeSet<DataObject>,
    own: &RangeInclusive<u32>,
) -> BTreeMap<DataObject, u64> {
    let last = *own.end();
    let of_last = |number| DataObject {
        generation: last,
        number,
    };
    let committed = referenced.range(of_last(0)..=of_last(u64::MAX));
    let committed = committed.map(|object| object.number).next_back();
    let is_committed = |object: &DataObject| {
        object.generation < last || committed.is_some_and(|largest| object.number < largest)
    };
    let unused = listed.iter().filter(|(object, _)| {
        own.contains(&object.generation) && is_committed(object) && !referenced.contains(object)
    });
    unused.map(|(object, len)| (*object, *len)).collect()
}

/// An object that nothing refers to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct UnusedObject {
    /// Its name.
    pub(crate) object: DataObject,
    /// Its length, bytes.
    pub(crate) len: u64,
    /// When it was found first, in milliseconds since 1970, if that is in a record.
    pub(crate) found: Option<u64>,
    /// How long it waits yet; nothing: it is deleted.
    pub(crate) wait: Duration,
}

/// What is done with the objects that nothing refers to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CollectionPlan {
    /// When the candidates were found, in milliseconds since 1970.
    now: u64,
    /// In order of their names.
    pub(crate) unused: Vec<UnusedObject>,
}

impl CollectionPlan {
    /// That of these candidates at `now`, behind the collection that left `record`.
    pub(crate) fn of(
        candidates: &BTreeMap<DataObject, u64>,
        record: &CollectionRecord,
        now: u64,
    ) -> Self {
        let recorded = candidates.keys();
        let recorded = recorded.filter(|object| record.found.contains_key(object));
        let mut new_left = RECORD_MAX.saturating_sub(recorded.count());
        let unused = candidates.iter().filter_map(|(&object, &len)| {
            // A time in the future is that of another clock.
            let found = record.found.get(&object).map(|found| now.min(*found));
            if found.is_none() {
                new_left = new_left.checked_sub(1)?;
            }
            let age = Duration::from_millis(now - found.unwrap_or(now));
            Some(UnusedObject {
                object,
                len,
                found,
                wait: AGE.saturating_sub(age),
            })
        });
        let unused = unused.collect();
        Self { now, unused }
    }

    /// Those that are deleted.
    pub(crate) fn due(&self) -> impl Iterator<Item = &UnusedObject> {
        self.unused.iter().filter(|one| one.wait.is_zero())
    }

    /// Those that wait.
    pub(crate) fn waiting(&self) -> impl Iterator<Item = &UnusedObject> {
        self.unused.iter().filter(|one| !one.wait.is_zero())
    }

    /// The record to be written before anything is deleted: an interrupted collection is continued by the next one.
    pub(crate) fn record(&self) -> CollectionRecord {
        self.record_of(self.unused.iter())
    }

    /// The record behind the deletes.
    pub(crate) fn record_behind(&self) -> CollectionRecord {
        self.record_of(self.waiting())
    }

    fn record_of<'a>(&self, objects: impl Iterator<Item = &'a UnusedObject>) -> CollectionRecord {
        let found = objects.map(|one| (one.object, one.found.unwrap_or(self.now)));
        CollectionRecord {
            found: found.collect(),
        }
    }
}
