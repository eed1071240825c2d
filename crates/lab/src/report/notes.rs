//! Remarks and reasons, each reported once and numbered, so that a table can point to them.

use crate::checks::Validity;

/// The notes so far.
#[derive(Debug, Default)]
pub(super) struct Notes(Vec<String>);

impl Notes {
    /// The numbers of what makes a result less than good, from 1.
    pub(super) fn numbers(&mut self, validity: &Validity) -> Vec<usize> {
        match validity {
            Validity::Good => Vec::new(),
            Validity::Remarks { texts } => texts.iter().map(|text| self.number(text)).collect(),
            Validity::Invalid { reason } => vec![self.number(reason)],
        }
    }

    fn number(&mut self, text: &str) -> usize {
        if let Some(index) = self.0.iter().position(|known| known == text) {
            return index + 1;
        }
        self.0.push(text.to_owned());
        self.0.len()
    }

    /// Each with its number.
    pub(super) fn texts(&self) -> impl Iterator<Item = (usize, &str)> {
        (1..).zip(self.0.iter().map(String::as_str))
    }
}
