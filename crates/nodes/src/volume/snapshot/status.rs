//! [`SnapshotStatus`]: what a snapshot is and how full its store is.

/// Whether a snapshot can be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SnapshotState {
    /// It reads as its origin was, with what was written to it since.
    Valid,
    /// It was lost, and why; every request on it fails.
    Invalid(String),
    /// It is being merged into its origin.
    Merging,
}

/// A snapshot, and how full its store is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SnapshotStatus {
    /// Name of the snapshot.
    pub name: String,
    /// Whether it can be used.
    pub state: SnapshotState,
    /// Chunk, bytes; 0 where the store was not read.
    pub chunk: u64,
    /// Chunks of the origin that are in the store; of a merge, those that are left.
    pub copied: u64,
    /// Chunks of the store that are used, its tables among them.
    pub used: u64,
    /// Chunks that the store has.
    pub total: u64,
}

impl SnapshotStatus {
    /// A snapshot of which only the name and the reason are known.
    pub(super) fn invalid(name: &str, reason: &str) -> Self {
        Self {
            name: name.to_owned(),
            state: SnapshotState::Invalid(reason.to_owned()),
            chunk: 0,
            copied: 0,
            used: 0,
            total: 0,
        }
    }

    /// How full the store is, in tenths of a percent; 1000 where it is invalid. One without any chunk of the origin is at 0,
    /// as with the kernel, although its header and its first table are there.
    #[must_use]
    pub fn per_mille(&self) -> u64 {
        if matches!(self.state, SnapshotState::Invalid(_)) || self.total == 0 {
            return 1000;
        }
        if self.copied == 0 {
            return 0;
        }
        let share = u128::from(self.used) * 1000 / u128::from(self.total);
        u64::try_from(share).unwrap_or(1000)
    }
}
