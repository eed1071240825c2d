//! [`CacheUse`]: a cache file between the target and its disk, and which reads it answered. Pure.

use serde::{Deserialize, Serialize};

/// From this part of the reads on, the cache file is what was measured.
const MOST: f64 = 0.9;
/// Up to this part of the reads, the disk behind it is.
const FEW: f64 = 0.1;

/// A cache file, and the reads that reached it while the target was measured.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CacheUse {
    /// The cache file.
    pub file: String,
    /// The disk behind it.
    pub disk: String,
    /// Reads that the file answered by itself.
    pub hits: u64,
    /// Reads that the disk behind it was read for.
    pub misses: u64,
}

/// What answered the reads of a target with a cache file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReadOrigin {
    /// The cache file.
    File,
    /// The disk behind it.
    Disk,
    /// Either for a part of them.
    Both,
    /// Neither: no read reached the cache.
    Memory,
}

impl CacheUse {
    /// What answered the reads.
    #[must_use]
    pub fn origin(&self) -> ReadOrigin {
        match self.hit_ratio() {
            None => ReadOrigin::Memory,
            Some(ratio) if ratio >= MOST => ReadOrigin::File,
            Some(ratio) if ratio <= FEW => ReadOrigin::Disk,
            Some(_) => ReadOrigin::Both,
        }
    }

    /// The part of the reads that the file answered; `None` where there was none.
    fn hit_ratio(&self) -> Option<f64> {
        let all = self.hits.saturating_add(self.misses);
        (all > 0).then(|| self.hits as f64 / all as f64)
    }

    /// Which part of the path was measured, as a sentence.
    #[must_use]
    pub fn remark(&self) -> String {
        let Self { file, disk, .. } = self;
        let percent = self.hit_ratio().unwrap_or_default() * 100.0;
        let hits = format!(
            "The cache file {file} answered {percent:.0} % of {} reads",
            self.hits.saturating_add(self.misses)
        );
        match self.origin() {
            ReadOrigin::File => {
                format!("{hits}. What was measured is that file, and not {disk} behind it.")
            }
            ReadOrigin::Disk => {
                format!("{hits}. What was measured is {disk} behind it.")
            }
            ReadOrigin::Both => format!(
                "{hits}, and {disk} behind it the others: what was measured is both. What the file can hold of it is in it \
                 now, so that the next run shows the file."
            ),
            ReadOrigin::Memory => format!(
                "No read reached the cache file {file} or {disk} behind it: this machine's memory answered."
            ),
        }
    }
}
