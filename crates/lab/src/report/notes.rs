//! Remarks and reasons, each reported once and numbered, so that a table can point to them. Those that differ
//! only in numbers and names are one.

use super::remark_group::{RemarkGroup, RunNames};
use crate::checks::Validity;
use crate::store::RunRecord;

/// The notes so far.
#[derive(Debug)]
pub(super) struct Notes {
    names: RunNames,
    groups: Vec<RemarkGroup>,
}

impl Notes {
    /// None yet, of `run`.
    pub(super) fn of(run: &RunRecord) -> Self {
        Self {
            names: RunNames::of(run),
            groups: Vec::new(),
        }
    }

    /// The numbers of what makes a result less than good, from 1.
    pub(super) fn numbers(&mut self, validity: &Validity) -> Vec<usize> {
        let texts = match validity {
            Validity::Good => &[],
            Validity::Remarks { texts } => texts.as_slice(),
            Validity::Invalid { reason } => std::slice::from_ref(reason),
        };
        let mut numbers: Vec<usize> = texts.iter().map(|text| self.number(text)).collect();
        numbers.dedup();
        numbers
    }

    fn number(&mut self, text: &str) -> usize {
        let one = RemarkGroup::of(text, &self.names);
        if let Some(index) = self.groups.iter_mut().position(|group| group.merge(&one)) {
            return index + 1;
        }
        self.groups.push(one);
        self.groups.len()
    }

    /// Each with its number, when all results are numbered.
    pub(super) fn texts(&self) -> impl Iterator<Item = (usize, String)> {
        (1..).zip(self.groups.iter().map(|group| group.text("results")))
    }
}
