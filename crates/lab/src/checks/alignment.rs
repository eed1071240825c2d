//! *alignment*: a partition, a segment or a stripe that begins off a physical block makes each aligned
//! request touch one block more, and each aligned write read before it writes.
//!
//! Caught in: study D, where one drive had a sector more than the others: everything on the drive
//! behind it, from sector 363,233,281 on, was off 4 KiB.

use serde::{Deserialize, Serialize};

use super::phase::TargetCheck;
use super::{Check, Finding};
use crate::units::{Bytes, grouped};

/// The kernel's sectors, in which tables are written.
const SECTOR: u64 = 512;

/// A part of a disk that lies on another one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiskSegment {
    /// What it is: `the segment on sdd`, `vda1`.
    pub name: String,
    /// Where it begins on the upper disk.
    pub start: Bytes,
    /// How long it is.
    pub len: Bytes,
    /// Where it begins on the lower disk.
    pub on_lower: Bytes,
    /// The lower disk's physical block.
    pub physical: Bytes,
}

impl DiskSegment {
    /// How far an aligned request of the upper disk is off a physical block of the lower one.
    #[must_use]
    pub fn off(&self) -> Bytes {
        let block = self.physical.0.max(1);
        Bytes((self.on_lower.0 % block + block - self.start.0 % block) % block)
    }
}

pub(super) fn of_target(target: &TargetCheck<'_>) -> Vec<Finding> {
    check(target.segments)
}

/// Every segment that is off.
pub(crate) fn check(segments: &[DiskSegment]) -> Vec<Finding> {
    segments
        .iter()
        .filter(|segment| segment.off().0 != 0)
        .map(|segment| {
            Finding::remark(
                Check::Alignment,
                format!(
                    "{} ({} from sector {} on) is {} off its blocks of {}: each aligned request there touches one more",
                    segment.name,
                    segment.len,
                    grouped((segment.start.0 / SECTOR) as f64),
                    segment.off(),
                    segment.physical
                ),
            )
        })
        .collect()
}

/// A chunk of a stripe that is no whole number of physical blocks.
#[must_use]
pub fn chunk(chunk: Bytes, physical: Bytes) -> Option<Finding> {
    (!chunk.0.is_multiple_of(physical.0.max(1))).then(|| {
        Finding::remark(
            Check::Alignment,
            format!("chunks of {chunk} are no whole number of blocks of {physical}"),
        )
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The table that study D wrote: start, length.
    fn study_d() -> Vec<DiskSegment> {
        [
            ("sda", 0, 121_077_760),
            ("sdb", 121_077_760, 121_077_760),
            ("sdc", 242_155_520, 121_077_761),
            ("sdd", 363_233_281, 483_321_640),
        ]
        .map(|(drive, start, len)| DiskSegment {
            name: format!("the segment on {drive}"),
            start: Bytes(start * SECTOR),
            len: Bytes(len * SECTOR),
            on_lower: Bytes(0),
            physical: Bytes(4096),
        })
        .to_vec()
    }

    #[test]
    fn study_d_put_its_fourth_drive_off_4_kib_by_one_sector() {
        let findings = check(&study_d());
        assert_eq!(findings.len(), 1, "{findings:?}");
        assert_eq!(
            findings[0].text,
            "the segment on sdd (230.5 GiB from sector 363\u{202f}233\u{202f}281 on) is 3.5 KiB off its blocks of 4 KiB: \
             each aligned request there touches one more"
        );
    }

    #[test]
    fn study_ds_table_is_846554921_sectors_long_and_without_gaps() {
        let table = study_d();
        let sectors: u64 = table.iter().map(|segment| segment.len.0 / SECTOR).sum();
        assert_eq!(sectors, 846_554_921);
        for pair in table.windows(2) {
            assert_eq!(pair[0].start.0 + pair[0].len.0, pair[1].start.0);
        }
    }

    #[test]
    fn a_partition_at_sector_63_is_off_and_one_at_a_mebibyte_is_not() {
        let partition = |sector: u64| DiskSegment {
            name: "sda1".into(),
            start: Bytes(0),
            len: Bytes(1 << 30),
            on_lower: Bytes(sector * SECTOR),
            physical: Bytes(4096),
        };
        assert_eq!(check(&[partition(63)]).len(), 1);
        assert_eq!(check(&[partition(2048)]), []);
    }

    #[test]
    fn a_chunk_is_whole_blocks() {
        assert_eq!(chunk(Bytes(65_536), Bytes(4096)), None);
        assert!(chunk(Bytes(2048), Bytes(4096)).is_some());
    }

    proptest! {
        #[test]
        fn off_is_what_an_aligned_request_is_off(
            start in 0u64..1 << 40, on_lower in 0u64..1 << 40, power in 9u32..16, step in 0u64..1000
        ) {
            let physical = 1u64 << power;
            let segment = DiskSegment {
                name: String::new(), start: Bytes(start), len: Bytes(u64::MAX), on_lower: Bytes(on_lower),
                physical: Bytes(physical),
            };
            // An aligned place of the upper disk within the segment.
            let upper = (start.div_ceil(physical) + step) * physical;
            prop_assert_eq!((upper - start + on_lower) % physical, segment.off().0);
        }
    }
}
