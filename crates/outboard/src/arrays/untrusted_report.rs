//! [`UntrustedReport`]: where an array may be wrong that was being written when it stopped, lacks members, and is read by force. Plain data.

use indicatif::HumanBytes;
use nodes::array::UntrustedPlaces;
use serde::{Deserialize, Serialize};

use super::report::PlaceReport;
use super::show::PLACES_SHOWN_MAX;

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

impl From<block::Range> for PlaceReport {
    fn from(range: block::Range) -> Self {
        Self {
            offset: range.offset,
            len: range.len,
        }
    }
}

impl UntrustedReport {
    /// In words.
    pub(crate) fn words(&self) -> String {
        let shown = self.places.iter().take(PLACES_SHOWN_MAX);
        let shown: Vec<String> = shown
            .map(|place| format!("{}+{}", place.offset, place.len))
            .collect();
        let bytes = HumanBytes(self.bytes);
        let mut words = format!("{} places, {bytes}, at {}", self.count, shown.join(", "));
        let more = self.count.saturating_sub(shown.len() as u64);
        if more > 0 {
            words.push_str(&format!(" and {more} more places (--json lists them)"));
        }
        if let Some(rest) = self.rest {
            words.push_str(&format!(", and in {}+{}", rest.offset, rest.len));
        }
        words
    }
}
