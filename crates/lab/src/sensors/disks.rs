//! `/proc/diskstats`: what each block device did. Pure. Source: the kernel's iostats.rst.

use serde::{Deserialize, Serialize};

use super::Counter;
use crate::checks::direct::Traffic;
use crate::plan::Direction;
use crate::units::Bytes;

/// Sectors are 512 bytes in this file for every device.
const SECTOR: u64 = 512;
/// Times in this file are in milliseconds; a sample is a part of the time.
const PART: f64 = 1e-3;

/// A device's counters since boot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiskCounters {
    /// Its major and minor number.
    pub number: (u32, u32),
    /// `vda`, `loop0`, `nbd0`.
    pub name: String,
    /// Reads done.
    pub reads: u64,
    /// Bytes read.
    pub read: Bytes,
    /// Writes done.
    pub writes: u64,
    /// Bytes written.
    pub written: Bytes,
    /// Milliseconds with something to do.
    pub busy_ms: u64,
    /// Milliseconds that requests waited, all of them together.
    pub waited_ms: u64,
}

impl DiskCounters {
    /// What the device did since `earlier` in one direction.
    #[must_use]
    pub fn since(&self, earlier: &Self, direction: Direction) -> Traffic {
        let (bytes, requests) = match direction {
            Direction::Read => (
                self.read.0.saturating_sub(earlier.read.0),
                self.reads.saturating_sub(earlier.reads),
            ),
            Direction::Write => (
                self.written.0.saturating_sub(earlier.written.0),
                self.writes.saturating_sub(earlier.writes),
            ),
        };
        Traffic {
            bytes: Bytes(bytes),
            requests,
        }
    }

    /// As counters: `vda/read` and the like in bytes, `vda/reads` in requests, `vda/busy` as a part of
    /// the time, `vda/queue` as requests that were waiting on average.
    pub(super) fn counters(&self) -> impl Iterator<Item = Counter> {
        let counter =
            |what: &str, count: u64| Counter::new("disk", format!("{}/{what}", self.name), count);
        [
            counter("read", self.read.0),
            counter("write", self.written.0),
            counter("reads", self.reads),
            counter("writes", self.writes),
            counter("busy", self.busy_ms).worth(PART),
            counter("queue", self.waited_ms).worth(PART),
        ]
        .into_iter()
    }

    /// Whether it ever did anything: what is worth following where no disk is named.
    pub(crate) fn is_used(&self) -> bool {
        (self.reads > 0 || self.writes > 0) && !self.name.starts_with("ram")
    }
}

/// Every device. Lines that are none are left out.
#[must_use]
pub fn parse(text: &str) -> Vec<DiskCounters> {
    text.lines().filter_map(device).collect()
}

/// The flushes of the device called `name` since boot, and the milliseconds that they took. Source: the kernel's
/// iostats.rst, fields 16 and 17; none before Linux 5.5.
#[must_use]
pub fn flushes(text: &str, name: &str) -> Option<(u64, u64)> {
    let mut lines = text
        .lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>());
    let words = lines.find(|words| words.get(2) == Some(&name))?;
    Some((words.get(18)?.parse().ok()?, words.get(19)?.parse().ok()?))
}

fn device(line: &str) -> Option<DiskCounters> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let count = |index: usize| words.get(index)?.parse::<u64>().ok();
    Some(DiskCounters {
        number: (words.first()?.parse().ok()?, words.get(1)?.parse().ok()?),
        name: (*words.get(2)?).to_owned(),
        reads: count(3)?,
        read: Bytes(count(5)?.saturating_mul(SECTOR)),
        writes: count(7)?,
        written: Bytes(count(9)?.saturating_mul(SECTOR)),
        busy_ms: count(12).unwrap_or(0),
        waited_ms: count(13).unwrap_or(0),
    })
}
