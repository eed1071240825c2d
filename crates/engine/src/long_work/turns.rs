//! [`Turns`]: which job does its next slice. Pure.
//!
//! # Invariants
//!
//! * Jobs that have had no slice yet go first, in the order they came, but after [`FIRST_IN_A_ROW`] of them one of the
//!   others has its turn: neither kind waits for ever.
//! * The others take turns: each has one slice before any has another.

use std::collections::VecDeque;

/// First slices before a later one.
pub(super) const FIRST_IN_A_ROW: u32 = 4;

/// Jobs that wait for a slice.
#[derive(Debug)]
pub(super) struct Turns<J> {
    /// Those that have had none.
    first: VecDeque<J>,
    later: VecDeque<J>,
    /// First slices since the last later one.
    in_a_row: u32,
}

impl<J> Turns<J> {
    pub(super) const fn new() -> Self {
        Self {
            first: VecDeque::new(),
            later: VecDeque::new(),
            in_a_row: 0,
        }
    }

    /// Jobs that wait.
    pub(super) fn len(&self) -> usize {
        self.first.len() + self.later.len()
    }

    /// Adds a job that has had no slice.
    pub(super) fn push_first(&mut self, job: J) {
        self.first.push_back(job);
    }

    /// Adds a job that has had one, and needs more.
    pub(super) fn push_later(&mut self, job: J) {
        self.later.push_back(job);
    }

    /// The job that is next.
    pub(super) fn next(&mut self) -> Option<J> {
        let is_first_due = self.in_a_row < FIRST_IN_A_ROW || self.later.is_empty();
        if is_first_due && let Some(job) = self.first.pop_front() {
            self.in_a_row += 1;
            return Some(job);
        }
        self.in_a_row = 0;
        self.later.pop_front()
    }
}
