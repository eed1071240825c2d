//! Partitions that begin off a block of their disk: each aligned request touches one block more, and most writes are read
//! before. Pure.
//!
//! # Invariants
//!
//! * A start is compared with blocks of 4 KiB, which most drives have even if they report less, and with the block size that
//!   the disk prefers (that of an overlay), up to 1 MiB: partition tables are aligned to that.
//!
//! # What it does not do
//!
//! It refuses nothing: a slow disk is attached. Parts of disks in an expression, as in `partition(…)`, are checked where
//! they are opened.

use crate::sysfs::Partition;

/// The physical block of most drives, bytes.
const PHYSICAL: u64 = 4096;
/// What partitions are aligned to, bytes: no larger block is expected of them.
const ALIGNMENT_MAX: u64 = 1 << 20;

/// The partitions that begin off a block of a disk that prefers requests of `preferred` bytes, in one line.
pub(crate) fn partition_warning(partitions: &[Partition], preferred: u32) -> Option<String> {
    let mut off = partitions.iter().filter_map(|partition| {
        let what = format!("partition {}", partition.number);
        let line = warning(&what, partition.start, preferred)?;
        Some((partition.number.to_string(), line))
    });
    let (_, first) = off.next()?;
    let others: Vec<String> = off.map(|(number, _)| number).collect();
    Some(match others.as_slice() {
        [] => first,
        [other] => format!("{first}; partition {other} is off, too"),
        others => format!("{first}; partitions {} are off, too", others.join(", ")),
    })
}

fn warning(what: &str, start: u64, preferred: u32) -> Option<String> {
    let preferred = u64::from(preferred).min(ALIGNMENT_MAX);
    if !start.is_multiple_of(PHYSICAL) {
        return Some(format!(
            "{what} begins at byte {start}, no multiple of 4 KiB: writes are slow on most drives"
        ));
    }
    (!start.is_multiple_of(preferred)).then(|| {
        format!(
            "{what} begins at byte {start}, no multiple of the {} KiB that the disk takes at once: writes are slow",
            preferred >> 10
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(starts: &[u64], preferred: u32) -> Option<String> {
        let partitions = (1..).zip(starts).map(|(number, start)| Partition {
            number,
            device: None,
            start: *start,
            size: 1 << 20,
        });
        partition_warning(&partitions.collect::<Vec<_>>(), preferred)
    }

    #[test]
    fn partitions_that_begin_off_a_block_are_named_in_one_line() {
        let off = "partition 1 begins at byte 32256, no multiple of 4 KiB: writes are slow on most drives";
        let more = |text: &str| Some(format!("{off}{text}"));
        assert_eq!(line(&[32_256, 1 << 20], 512), more(""));
        assert_eq!(
            line(&[32_256, 1 << 20, 512], 512),
            more("; partition 3 is off, too")
        );
        assert_eq!(
            line(&[32_256, 1536, 512], 4096),
            more("; partitions 2, 3 are off, too")
        );
    }

    #[test]
    fn a_partition_within_a_block_that_the_disk_prefers_is_named_with_it() {
        let expected = "partition 2 begins at byte 36864, no multiple of the 64 KiB that the disk takes at once: writes are slow";
        assert_eq!(line(&[65_536, 36_864], 65_536).as_deref(), Some(expected));
    }

    /// A table is aligned to 1 MiB, also on a disk that prefers more.
    #[test]
    fn a_partition_at_1_mib_is_named_for_no_disk() {
        for preferred in [1, 512, 4096, 65_536, 1 << 20, 4 << 20] {
            assert_eq!(line(&[1 << 20, 17 << 20], preferred), None);
        }
    }
}
