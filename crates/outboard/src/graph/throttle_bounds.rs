//! What the throttles in an expression let through: the most bytes per second of its disk, read, written, and in both
//! directions together.
//!
//! # Invariants
//!
//! * A bound is never too low for data that is spread over all of a disk: where some bytes pass no throttle, there is none.
//! * Nothing is opened but files that are members of an array, for the level in their superblocks. Of a level that is not
//!   known each byte passes one member.
//!
//! # What it does not do
//!
//! An overlay answers from its own file what was written, and a cache what was read: those have no bound.

use std::fs::File;
use std::num::NonZeroU64;
use std::os::unix::fs::FileExt as _;

use nodes::array::format::{Level, PLACE_LEN, decode, places};

use super::disk::{Array, Disk};
use super::segments::file;

/// Bytes per second at most.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct ByteRates {
    /// In both directions together.
    pub(crate) any: Option<u64>,
    /// Read.
    pub(crate) read: Option<u64>,
    /// Written.
    pub(crate) write: Option<u64>,
}

/// What all of `disk` lets through.
pub(crate) fn byte_rates(disk: &Disk) -> ByteRates {
    match disk {
        Disk::Throttle { disk, rates } => {
            let any = rates.bytes_per_s.map(NonZeroU64::get);
            let read = rates.read_bytes_per_s.map(NonZeroU64::get);
            let write = rates.write_bytes_per_s.map(NonZeroU64::get);
            let both = read
                .zip(write)
                .map(|(read, write)| read.saturating_add(write));
            let own = ByteRates {
                any: least([any, both]),
                read: least([any, read]),
                write: least([any, write]),
            };
            own.with(byte_rates(disk), |own, below| least([own, below]))
        }
        Disk::Blocks { disk, .. }
        | Disk::Partition { disk, .. }
        | Disk::Delay { disk, .. }
        | Disk::Fault { disk, .. } => byte_rates(disk),
        Disk::Cache(cached) => ByteRates {
            write: byte_rates(&cached.disk).write,
            ..ByteRates::default()
        },
        Disk::Linear { disks, .. } => sum(disks),
        Disk::Volume(volume) => sum(&volume.disks),
        Disk::Stripe { disks, .. } => stripe(disks),
        Disk::Array(array) => of_array(array),
        Disk::File { .. }
        | Disk::Memory { .. }
        | Disk::Null(_)
        | Disk::Zero(_)
        | Disk::Error(_)
        | Disk::Remote { .. }
        | Disk::Bucket(_)
        | Disk::Rbd(_)
        | Disk::Overlay(_)
        | Disk::Dm { .. } => ByteRates::default(),
    }
}

impl ByteRates {
    fn with(self, other: Self, both: impl Fn(Option<u64>, Option<u64>) -> Option<u64>) -> Self {
        Self {
            any: both(self.any, other.any),
            read: both(self.read, other.read),
            write: both(self.write, other.write),
        }
    }

    fn times(self, count: u64) -> Self {
        let times = |rate: Option<u64>| rate.map(|rate| rate.saturating_mul(count));
        Self {
            any: times(self.any),
            read: times(self.read),
            write: times(self.write),
        }
    }
}

/// The least that is known.
fn least(rates: [Option<u64>; 2]) -> Option<u64> {
    rates.into_iter().flatten().min()
}

/// Of disks of which each byte is on one.
fn sum(disks: &[Disk]) -> ByteRates {
    let add = |one: Option<u64>, other: Option<u64>| Some(one?.saturating_add(other?));
    let rates = disks.iter().map(byte_rates);
    let all = rates.reduce(|one, other| one.with(other, add));
    all.unwrap_or_default()
}

/// Of disks in turns: all wait for the slowest.
fn stripe(disks: &[Disk]) -> ByteRates {
    let all = disks.iter().map(byte_rates);
    let slowest = all.reduce(|one, other| one.with(other, |one, other| least([one, other])));
    slowest.unwrap_or_default().times(disks.len() as u64)
}

/// Of a mirror: each byte is written to all members and read from one.
fn of_array(array: &Array) -> ByteRates {
    let all = sum(&array.members);
    match level(array) {
        Some(Level::Raid1) => ByteRates {
            write: array
                .members
                .iter()
                .filter_map(|one| byte_rates(one).write)
                .min(),
            ..all
        },
        _ => all,
    }
}

/// As the first member with a superblock has it.
fn level(array: &Array) -> Option<Level> {
    array.members.iter().find_map(|member| {
        let (path, size) = file(member)?;
        let open = File::open(path).ok()?;
        places(size).into_iter().find_map(|(version, at)| {
            let mut bytes = vec![0; usize::try_from(PLACE_LEN).ok()?];
            open.read_exact_at(&mut bytes, at).ok()?;
            decode(version, at, &bytes).ok()?.map(|found| found.level)
        })
    })
}

#[cfg(test)]
mod tests {
    use lab::plan;

    use super::*;
    use crate::graph::resolve;

    fn rates(text: &str) -> [Option<u64>; 3] {
        let found = byte_rates(&resolve(text).unwrap().disk);
        [found.any, found.read, found.write]
    }

    #[test]
    fn a_throttle_bounds_the_direction_that_it_names() {
        assert_eq!(rates("throttle(memory(1M),bytes=1000/s)"), [Some(1000); 3]);
        let one = "throttle(memory(1M),read-bytes=1000/s)";
        assert_eq!(rates(one), [None, Some(1000), None]);
        let both = "throttle(memory(1M),read-bytes=1000/s,write-bytes=300/s)";
        assert_eq!(rates(both), [Some(1300), Some(1000), Some(300)]);
        let two = "delay(throttle(throttle(memory(1M),bytes=1000/s),write-bytes=500/s),read=1ms)";
        assert_eq!(rates(two), [Some(1000), Some(1000), Some(500)]);
        assert_eq!(rates("throttle(memory(1M),ops=5)"), [None; 3]);
    }

    #[test]
    fn disks_of_several_carry_what_their_members_do() {
        let (fast, slow) = (
            "throttle(memory(1M),bytes=900/s)",
            "throttle(memory(1M),bytes=200/s)",
        );
        assert_eq!(rates(&format!("linear({fast},{slow})")), [Some(1100); 3]);
        assert_eq!(
            rates(&format!("stripe({fast},{slow},chunk=64K)")),
            [Some(400); 3]
        );
        // Some of its bytes pass no throttle.
        assert_eq!(rates(&format!("linear({fast},memory(1M))")), [None; 3]);
        assert_eq!(rates(&format!("overlay({slow},top)")), [None; 3]);
        assert_eq!(
            rates(&format!("cache({slow},file)")),
            [None, None, Some(200)]
        );
    }

    /// It was given for `throttle(FILE, bytes=…)` alone, and mirrors of throttled disks had none.
    #[test]
    fn every_target_of_a_plan_that_is_throttled_has_a_ceiling() {
        let mut count = 0;
        for plan in plan::list().unwrap() {
            for target in &plan.targets {
                let text = toml::to_string(target).unwrap();
                let table: toml::Table = text.parse().unwrap();
                let disk = table
                    .get("disk")
                    .and_then(toml::Value::as_str)
                    .unwrap_or_default();
                if disk.contains("throttle(") {
                    let disk = disk.replace(['{', '}'], "");
                    let [any, read, write] = rates(&disk);
                    assert!(any.is_some() && read.is_some() && write.is_some(), "{disk}");
                    count += 1;
                }
            }
        }
        assert!(count >= 7, "{count}");
    }
}
