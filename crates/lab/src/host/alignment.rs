//! Where the parts of a disk lie on what is below: partitions from `/sys`, mappings from dmsetup.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::checks::alignment::DiskSegment;
use crate::units::Bytes;

/// The kernel's sectors, in which `/sys` and tables count.
const SECTOR: u64 = 512;

/// The segments of the block device `name`: one of a partition, those of a mapping; none of a disk.
#[must_use]
pub fn segments(name: &str) -> Vec<DiskSegment> {
    let folder = Path::new("/sys/class/block").join(name);
    let Ok(folder) = fs::canonicalize(folder) else {
        return Vec::new();
    };
    if let Some(start) = number(&folder.join("start")).filter(|_| folder.join("partition").exists())
    {
        let whole = folder.parent().unwrap_or(&folder);
        return vec![DiskSegment {
            name: name.to_owned(),
            start: Bytes(0),
            len: Bytes(
                number(&folder.join("size"))
                    .unwrap_or(0)
                    .saturating_mul(SECTOR),
            ),
            on_lower: Bytes(start.saturating_mul(SECTOR)),
            physical: physical(whole),
        }];
    }
    let Ok(mapping) = fs::read_to_string(folder.join("dm/name")) else {
        return Vec::new();
    };
    let table = Command::new("dmsetup")
        .args(["table", mapping.trim()])
        .output();
    let text = table.map_or_else(
        |_| String::new(),
        |output| String::from_utf8_lossy(&output.stdout).into_owned(),
    );
    table_segments(&text, &|disk| {
        physical(&Path::new("/sys/dev/block").join(disk))
    })
}

/// The linear segments of a table of the device mapper. `physical` gives the physical block of what a
/// segment names: a number (`8:0`) or a path.
#[must_use]
pub(crate) fn table_segments(table: &str, physical: &dyn Fn(&str) -> Bytes) -> Vec<DiskSegment> {
    let segment = |line: &str| {
        let mut words = line.split_whitespace();
        let mut sectors = || words.next()?.parse::<u64>().ok()?.checked_mul(SECTOR);
        let (start, len) = (sectors()?, sectors()?);
        let (kind, disk, offset) = (words.next()?, words.next()?, words.next()?);
        (kind == "linear").then_some(())?;
        Some(DiskSegment {
            name: format!("the segment on {}", disk.trim_start_matches("/dev/")),
            start: Bytes(start),
            len: Bytes(len),
            on_lower: Bytes(offset.parse::<u64>().ok()?.checked_mul(SECTOR)?),
            physical: physical(disk),
        })
    };
    table.lines().filter_map(segment).collect()
}

/// The physical block of the disk with this folder below `/sys`; a sector where it gives none.
fn physical(folder: &Path) -> Bytes {
    Bytes(number(&folder.join("queue/physical_block_size")).unwrap_or(SECTOR))
}

fn number(path: &Path) -> Option<u64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::checks::alignment::check;

    /// As study D printed it.
    const OMNI_DRIVE: &str = "0 121077760 linear /dev/sda 0\n\
        121077760 121077760 linear /dev/sdb 0\n\
        242155520 121077761 linear /dev/sdc 0\n\
        363233281 483321640 linear /dev/sdd 0\n";

    #[test]
    fn study_d_s_table_is_846554921_sectors_and_its_fourth_drive_is_off() {
        let segments = table_segments(OMNI_DRIVE, &|_| Bytes(4096));
        let sectors: u64 = segments.iter().map(|segment| segment.len.0 / SECTOR).sum();
        assert_eq!(sectors, 846_554_921);
        let findings = check(&segments);
        assert_eq!(findings.len(), 1);
        assert!(
            findings[0].text.starts_with("the segment on sdd")
                && findings[0]
                    .text
                    .contains("from sector 363\u{202f}233\u{202f}281 on"),
            "{}",
            findings[0].text
        );
        assert_eq!(check(&table_segments(OMNI_DRIVE, &|_| Bytes(512))), []);
    }

    #[test]
    fn a_device_that_is_not_there_has_no_segments() {
        assert_eq!(segments("no-such-disk"), []);
    }

    proptest! {
        #[test]
        fn no_table_makes_a_parser_panic(text in "[0-9 a-z:/\\n]{0,120}") {
            std::hint::black_box(table_segments(&text, &|_| Bytes(512)));
            std::hint::black_box(table_segments(&format!("{} 1 linear {text}", u64::MAX), &|_| Bytes(512)));
        }
    }
}
