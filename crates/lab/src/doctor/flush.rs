//! [`FlushTimes`]: what a flush adds to a write. Pure.
//!
//! The doctor's writes are not flushed one by one, so a slow flush is not what limits them; a database or a mail server is
//! limited by it, and by nothing else.

use serde::{Deserialize, Serialize};

use super::DoctorJob;
use crate::units::{Nanos, Rate};

/// A flush that takes so many times the write before it is worth a remark.
const SLOW_TIMES: f64 = 2.0;
/// And that takes this long.
const SLOW: Nanos = Nanos(1_000_000);

/// One request that is written, and the flush after it: the middle of several.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct FlushTimes {
    /// The write.
    pub write: Nanos,
    /// The flush.
    pub flush: Nanos,
}

impl FlushTimes {
    /// Of several measurements, each a write into the page cache and its flush; none where there are none. `transfer` is
    /// what the bytes alone take, which a flush waits for.
    #[must_use]
    pub fn middle(all: &[(Nanos, Nanos)], transfer: Nanos) -> Option<Self> {
        let middle = |mut times: Vec<Nanos>| {
            times.sort_unstable();
            times.get(times.len() / 2).copied()
        };
        let write = middle(all.iter().map(|(write, _)| *write).collect())?;
        let flush = middle(all.iter().map(|(_, flush)| *flush).collect())?;
        let transfer = transfer.min(flush);
        Some(Self {
            write: Nanos(write.0.saturating_add(transfer.0)),
            flush: Nanos(flush.0.saturating_sub(transfer.0)),
        })
    }

    /// What a reader has to know of a slow flush.
    #[must_use]
    pub fn remark(&self, job: &DoctorJob) -> Option<String> {
        let is_slow = self.flush >= SLOW && self.flush.0 as f64 >= self.write.0 as f64 * SLOW_TIMES;
        let both = Nanos(self.write.0.saturating_add(self.flush.0));
        let rate = Rate::of(job.block_size, both).filter(|_| is_slow)?;
        Some(format!(
            "A flush takes {}, and the write of {} before it {}: a program that flushes after each write gets {rate}, and \
             only a faster flush helps it (a disk with a cache that survives a power cut, or fewer flushes).",
            self.flush, job.block_size, self.write
        ))
    }
}
