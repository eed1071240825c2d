//! [`UntrustedReport`]: where an array may be wrong that was being written when it stopped, lacks members, and is read by force. Plain data.

use indicatif::HumanBytes;
use nodes::array::UntrustedPlaces;
use serde::{Deserialize, Serialize};

use super::report::PlaceReport;
use super::show;

/// Where an array that is read by force may be wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct UntrustedReport {
    /// Bytes of the array: the first thousand places.
    pub(crate) places: Vec<PlaceReport>,
    /// How many places there are.
    pub(crate) count: u64,
    /// How many bytes they have.
    pub(crate) bytes: u64,
    /// What was not looked at in detail, and is not counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) rest: Option<PlaceReport>,
}

impl From<&UntrustedPlaces> for UntrustedReport {
    fn from(of: &UntrustedPlaces) -> Self {
        Self {
            places: of.places.iter().copied().map(PlaceReport::from).collect(),
            count: of.count,
            bytes: of.bytes,
            rest: of.rest.map(PlaceReport::from),
        }
    }
}

impl UntrustedReport {
    /// In words.
    pub(crate) fn words(&self) -> String {
        let bytes = HumanBytes(self.bytes);
        let at = show::places(&self.places, self.count);
        let mut words = format!("{} places, {bytes}, at {at}", self.count);
        if let Some(rest) = self.rest {
            words.push_str(&format!(", and in {}+{}", rest.offset, rest.len));
        }
        words
    }
}
