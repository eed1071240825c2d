//! [`CopyProgress`]: how far a copy is, to be looked at while it goes on.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

/// What a copy is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CopyStage {
    /// Moving bytes.
    Copying,
    /// Waiting until the target has them for good.
    Flushing,
    /// Reading both back.
    Verifying,
}

/// Bytes that were dealt with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Read from the source.
    pub read: u64,
    /// Written to the target.
    pub written: u64,
    /// Zeroed in the target without being written.
    pub zeroed: u64,
    /// Zeroes that the target had already.
    pub kept: u64,
    /// Compared.
    pub verified: u64,
}

impl Counts {
    /// Bytes of the source that the target has.
    #[must_use]
    pub const fn done(&self) -> u64 {
        self.written + self.zeroed + self.kept
    }
}

/// How far a copy is.
#[derive(Debug, Default)]
pub struct CopyProgress {
    stage: AtomicU8,
    read: AtomicU64,
    written: AtomicU64,
    zeroed: AtomicU64,
    kept: AtomicU64,
    verified: AtomicU64,
    position: AtomicU64,
}

impl CopyProgress {
    /// What it is doing.
    #[must_use]
    pub fn stage(&self) -> CopyStage {
        match self.stage.load(Ordering::Relaxed) {
            0 => CopyStage::Copying,
            1 => CopyStage::Flushing,
            _ => CopyStage::Verifying,
        }
    }

    /// What it has done.
    #[must_use]
    pub fn counts(&self) -> Counts {
        let load = |count: &AtomicU64| count.load(Ordering::Relaxed);
        Counts {
            read: load(&self.read),
            written: load(&self.written),
            zeroed: load(&self.zeroed),
            kept: load(&self.kept),
            verified: load(&self.verified),
        }
    }

    /// All that is to be copied below this byte is written to the target, though not durable before a flush that begins now.
    #[must_use]
    pub fn position(&self) -> u64 {
        self.position.load(Ordering::Acquire)
    }

    pub(super) fn set_position(&self, position: u64) {
        self.position.store(position, Ordering::Release);
    }

    pub(super) fn enter(&self, stage: CopyStage) {
        let number = match stage {
            CopyStage::Copying => 0,
            CopyStage::Flushing => 1,
            CopyStage::Verifying => 2,
        };
        self.stage.store(number, Ordering::Relaxed);
    }

    pub(super) fn add(&self, counts: &Counts) {
        let pairs = [
            (&self.read, counts.read),
            (&self.written, counts.written),
            (&self.zeroed, counts.zeroed),
            (&self.kept, counts.kept),
            (&self.verified, counts.verified),
        ];
        for (total, count) in pairs {
            total.fetch_add(count, Ordering::Relaxed);
        }
    }
}
