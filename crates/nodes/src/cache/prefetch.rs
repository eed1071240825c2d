//! A start of a machine: what it reads first is recorded, and read ahead at the next one.
//!
//! # Invariants
//!
//! * At most [`PREFETCHES`] reads of a profile are in flight: a request of a user waits for no more than these on the
//!   way to the disk.
//! * Nothing that is cached already is read, and no granule gives way to one that was only read ahead: as many are read
//!   as the cache has slots.
//! * A disk that fails ends the prefetching, and fails no request.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

use block::Range;
use futures_util::StreamExt as _;
use futures_util::stream;

use super::profile::{BootProfile, ProfileRecorder};
use super::read::joined;
use super::slots::SlotLookup;
use super::stats::count;
use super::{Cache, Shared};

/// Reads in flight.
const PREFETCHES: usize = 2;

impl Cache {
    /// Records from now on which parts of the disk are read first.
    pub fn record_reads(&self) {
        self.shared.state().recorder = Some(ProfileRecorder::default());
    }

    /// Ends the recording: what was read. `None`: nothing was recorded.
    #[must_use]
    pub fn recorded(&self) -> Option<BootProfile> {
        let recorder = self.shared.state().recorder.take()?;
        Some(recorder.profile(self.shared.layout.disk_size))
    }

    /// Reads what a profile names into the cache, in its order, until all of it is there or the cache is closed. It keeps
    /// no cache open, and needs not be waited for.
    pub fn prefetch(&self, profile: &BootProfile) -> impl Future<Output = ()> + Send + 'static {
        let layout = self.shared.layout;
        let reads = profile.reads(layout.disk_size, layout.slots);
        let shared = Arc::downgrade(&self.shared);
        async move {
            let read = |range| prefetch(shared.clone(), range);
            let mut done = stream::iter(reads).map(read).buffered(PREFETCHES);
            while done.next().await == Some(true) {}
        }
    }
}

/// Reads a range, of a cache that is still there; false where there is no more to do.
async fn prefetch(shared: Weak<Shared>, range: Range) -> bool {
    match shared.upgrade() {
        Some(shared) => shared.prefetch(range).await,
        None => false,
    }
}

impl Shared {
    /// Reads what is not in the cache of `range`; false where that failed, or the cache is being closed.
    async fn prefetch(self: &Arc<Self>, range: Range) -> bool {
        if self.failure.get().is_some() || self.is_closing.load(Ordering::Acquire) {
            return false;
        }
        let pieces = joined(self.state().pieces(range)).into_iter();
        let missing = pieces.filter(|piece| piece.found == SlotLookup::Miss);
        for piece in missing {
            if let Err(error) = self.fetch(piece.range).await {
                let name = &self.name;
                tracing::info!("the disk of {name} is not read ahead any more: {error}");
                return false;
            }
            count(&self.counters.bytes_prefetched, piece.range.len);
        }
        true
    }
}
