//! `/proc/diskstats`: what each block device did. Pure. Source: the kernel's iostats.rst.

use serde::{Deserialize, Serialize};

use crate::checks::direct::Traffic;
use crate::plan::Direction;
use crate::units::Bytes;

/// Sectors are 512 bytes in this file whatever the device has.
const SECTOR: u64 = 512;

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
}

/// Every device. Lines that are none are left out.
#[must_use]
pub fn parse(text: &str) -> Vec<DiskCounters> {
    text.lines().filter_map(device).collect()
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
    })
}
