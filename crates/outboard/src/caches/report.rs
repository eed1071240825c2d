//! [`CacheReport`]: a cache file that is open, as JSON and in words. Pure.

use indicatif::HumanBytes;
use nodes::CacheStatus;
use serde::{Deserialize, Serialize};

/// A cache file; sizes are bytes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct CacheReport {
    /// The file.
    pub(crate) file: String,
    /// What it may hold.
    pub(crate) capacity: u64,
    /// What of the disk is in it.
    pub(crate) cached: u64,
    /// Reads that were answered from it alone.
    pub(crate) hits: u64,
    /// Reads that the disk was read for.
    pub(crate) misses: u64,
    /// What was read of the disk.
    pub(crate) filled: u64,
    /// What was read ahead by a boot profile.
    pub(crate) prefetched: u64,
    /// Why it is out of use.
    pub(crate) failure: Option<String>,
}

impl From<CacheStatus> for CacheReport {
    fn from(status: CacheStatus) -> Self {
        Self {
            file: status.file,
            capacity: status.capacity,
            cached: status.cached,
            hits: status.hits,
            misses: status.misses,
            filled: status.bytes_filled,
            prefetched: status.bytes_prefetched,
            failure: status.failure,
        }
    }
}

impl CacheReport {
    /// A line for a status.
    pub(crate) fn line(&self) -> String {
        if let Some(why) = &self.failure {
            return format!("cache {}: out of use: {why}", self.file);
        }
        let (cached, capacity) = (HumanBytes(self.cached), HumanBytes(self.capacity));
        let reads = self.hits + self.misses;
        let answered = match reads {
            0 => "not read yet".to_owned(),
            reads => format!("{} of {reads} reads answered from it", self.hits),
        };
        format!("cache {}: {cached} of {capacity}, {answered}", self.file)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_what_it_holds_what_it_answers_and_why_it_does_not() {
        let mut report = CacheReport::from(CacheStatus {
            file: "/var/cache/root".to_owned(),
            capacity: 8 << 30,
            cached: 3 << 20,
            ..CacheStatus::default()
        });
        let expected = "cache /var/cache/root: 3.00 MiB of 8.00 GiB, not read yet";
        assert_eq!(report.line(), expected);
        (report.hits, report.misses) = (3, 1);
        assert!(report.line().ends_with(", 3 of 4 reads answered from it"));
        report.failure = Some("I/O error".to_owned());
        let expected = "cache /var/cache/root: out of use: I/O error";
        assert_eq!(report.line(), expected);
    }
}
