//! [`Committer`]: what each commit writes, and how it is numbered. Pure.
//!
//! # Invariants
//!
//! * Each commit has a larger [`Sequence`] than those before it, and no object number is used twice.
//! * Data that a commit put into the index itself is put into an object with a later commit, so that the index holds few bytes of data.

use crate::dirty::DirtyMap;
use crate::flush_plan::{FlushPlan, INLINE_MAX};
use crate::format::Sequence;

/// Bytes of data in the index that go into an object with the next commit.
pub(crate) const RELOCATE_AT: u64 = 4 << 20;

/// The commits of one writer.
#[derive(Debug)]
pub(crate) struct Committer {
    /// Of the last commit.
    sequence: Sequence,
    next_object: u64,
    /// Data that is in the index itself.
    inline: DirtyMap,
}

/// A commit to be made.
#[derive(Debug)]
pub(crate) struct CommitPlan {
    /// What it writes.
    pub(crate) plan: FlushPlan,
    /// Its place among the commits.
    pub(crate) sequence: Sequence,
    /// The number of its first object.
    pub(crate) first_object: u64,
}

impl Committer {
    /// That of a writer which has made nothing yet.
    pub(crate) fn new(generation: u32) -> Self {
        Self {
            sequence: Sequence {
                generation,
                commit: 0,
            },
            next_object: 0,
            inline: DirtyMap::default(),
        }
    }

    /// The commit of `changes`, with the data that has been in the index for long enough. The next one is that of a volume which has it:
    /// nothing is committed behind one that fails.
    pub(crate) fn begin(&mut self, changes: &DirtyMap) -> CommitPlan {
        let is_inline = changes.data_len() <= INLINE_MAX
            && self.inline.data_len() + changes.data_len() <= RELOCATE_AT;
        let plan = if is_inline {
            FlushPlan::of(changes, INLINE_MAX)
        } else {
            let mut all = self.inline.clone();
            all.apply(changes);
            FlushPlan::of(&all, 0)
        };
        if plan.objects.is_empty() {
            self.inline.apply(changes);
            self.inline.retain_data();
        } else {
            self.inline = DirtyMap::default();
        }
        let first_object = self.next_object;
        self.next_object += plan.objects.len() as u64;
        self.sequence.commit += 1;
        CommitPlan {
            plan,
            sequence: self.sequence,
            first_object,
        }
    }
}
