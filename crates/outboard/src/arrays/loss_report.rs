//! What a reshape found that no member can read, as `array status` and metrics have it. Plain data.

use nodes::array::ReshapeLosses;
use serde::{Deserialize, Serialize};

/// What a reshape found that no member can read: moved as bad blocks, or where it is paused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct LossReport {
    /// Contiguous places of the array.
    pub(crate) places: u64,
    /// Their bytes.
    pub(crate) bytes: u64,
}

impl LossReport {
    pub(super) const fn is_empty(&self) -> bool {
        self.places == 0
    }
}

impl From<ReshapeLosses> for LossReport {
    fn from(of: ReshapeLosses) -> Self {
        Self {
            places: of.places,
            bytes: of.bytes,
        }
    }
}
