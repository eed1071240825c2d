//! [`RelocationPlan`]: which data objects are worth vacating: the volume uses a small part of them, and nothing else any. Pure.
//!
//! # Invariants
//!
//! * An object that a snapshot, a clone or a command at work refers to stays: a copy of its blocks would free nothing.
//! * Only objects of the folder's own writers are vacated, and none that the volume does not use at all: a collection deletes those, and a
//!   commit under way may have made them.
//! * If nothing is overwritten meanwhile, and nothing but the volume refers to its objects, they have at most 100 / [`RelocatedPart`] times
//!   the bytes that are used, once those that were vacated are deleted.

use std::collections::{BTreeMap, BTreeSet};

use crate::format::DataObject;

/// Objects of which less than this part is used are vacated, in percent: 1 to 100.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RelocatedPart(u8);

impl RelocatedPart {
    /// `None` where it is not 1 to 100.
    #[must_use]
    pub const fn new(percent: u8) -> Option<Self> {
        match percent {
            1..=100 => Some(Self(percent)),
            _ => None,
        }
    }

    /// In percent.
    #[must_use]
    pub const fn percent(self) -> u8 {
        self.0
    }
}

impl Default for RelocatedPart {
    /// What is left is at most 1.34 times what is used.
    fn default() -> Self {
        Self(75)
    }
}

/// The objects to be vacated.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct RelocationPlan {
    /// Which.
    pub(crate) objects: BTreeSet<DataObject>,
    /// Their bytes.
    pub(crate) bytes: u64,
    /// The bytes of them that are used, and moved.
    pub(crate) used: u64,
}

impl RelocationPlan {
    /// That of the objects `listed`, with the length of each, of which the volume uses so many bytes, as they are stored; `is_held`:
    /// something else refers to it.
    pub(crate) fn of(
        listed: &BTreeMap<DataObject, u64>,
        used_bytes: impl Fn(&DataObject) -> Option<u64>,
        is_held: impl Fn(&DataObject) -> bool,
        part: RelocatedPart,
    ) -> Self {
        let mut plan = Self::default();
        for (object, len) in listed {
            let Some(used) = used_bytes(object) else {
                continue;
            };
            let is_sparse = u128::from(used) * 100 < u128::from(*len) * u128::from(part.0);
            if is_sparse && !is_held(object) {
                plan.objects.insert(*object);
                plan.bytes += len;
                plan.used += used;
            }
        }
        plan
    }
}
