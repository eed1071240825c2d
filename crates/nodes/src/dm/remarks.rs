//! What should be known of a table that is right. Pure. Lines are counted as in the text, from 1.

use std::fmt;

use super::table::{Device, DeviceUse, DmTable, Need, TableLine};

/// Sectors of the blocks that drives and filesystems have today: 4096 bytes.
pub(super) const BLOCK: u64 = 8;

/// Something about a table that is worth a warning.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Remark {
    /// Blocks of 4096 bytes do not lie on blocks of 4096 bytes of the device.
    Misaligned {
        /// Line in the text.
        line: usize,
        /// First sector of the segment.
        start: u64,
        /// How many sectors blocks lie off those of the device, or of one of them.
        off: u64,
        /// Line in the text of the segment before, if there is one.
        before: Option<usize>,
    },
    /// The segment begins within a block of 4096 bytes, of which the first half lies elsewhere.
    Split {
        /// Line in the text.
        line: usize,
        /// First sector of the segment.
        start: u64,
        /// Line in the text of the segment before.
        before: Option<usize>,
    },
    /// Sectors of a device are there twice.
    Overlap {
        /// Line in the text.
        line: usize,
        /// Line in the text that uses the same sectors; may be the same one.
        other: usize,
        /// The device, as the table names it.
        device: String,
        /// First sector of the device that both use.
        start: u64,
    },
    /// Something that only the line's target knows.
    OfTarget {
        /// Line in the text.
        line: usize,
        /// What.
        text: String,
    },
}

/// What should be known of `table`, in the order of its lines.
#[must_use]
pub fn remarks(table: &DmTable) -> Vec<Remark> {
    let lines = table.lines();
    let before = [None].into_iter().chain(lines.iter().map(Some));
    let each = lines
        .iter()
        .zip(before)
        .map(|(line, before)| of(line, before));
    each.flatten().chain(overlaps(table)).collect()
}

/// Devices that are used twice at one place: by the kernel's rules this is no error.
fn overlaps(table: &DmTable) -> Vec<Remark> {
    let mut uses: Vec<_> = table.lines().iter().flat_map(uses).collect();
    uses.sort_by_key(|(device, start, _, line)| (device.to_string(), *start, *line));
    let mut remarks = Vec::new();
    // The use of the same device that reaches furthest so far.
    let mut furthest: Option<(&Device, u64, usize)> = None;
    for (device, start, len, line) in uses {
        let end = start + len;
        match furthest {
            Some((known, reach, other)) if known.name == device.name => {
                if start < reach {
                    remarks.push(Remark::Overlap {
                        line,
                        other,
                        device: device.to_string(),
                        start,
                    });
                }
                if end > reach {
                    furthest = Some((device, end, line));
                }
            }
            _ => furthest = Some((device, end, line)),
        }
    }
    remarks
}

/// Device, first sector, sectors and line in the text of what `line` writes to.
fn uses(line: &TableLine) -> Vec<(&Device, u64, u64, usize)> {
    let written = line.uses().into_iter().filter_map(|used| match used.need {
        Need::Disk {
            device,
            read_only: false,
        } => Some((device, used.offset, used.len, line.place.line)),
        _ => None,
    });
    written.collect()
}

fn of(line: &TableLine, before: Option<&TableLine>) -> Vec<Remark> {
    let (start, number) = (line.start, line.place.line);
    let before = before.map(|line| line.place.line);
    let off = |used: &DeviceUse<'_>| (start % BLOCK + BLOCK - used.offset % BLOCK) % BLOCK;
    let off = line.uses().iter().map(off).max().unwrap_or(0);
    let mut remarks = Vec::new();
    if off > 0 {
        remarks.push(Remark::Misaligned {
            line: number,
            start,
            off,
            before,
        });
    } else if !start.is_multiple_of(BLOCK) {
        remarks.push(Remark::Split {
            line: number,
            start,
            before,
        });
    }
    let own = line.target.remark();
    remarks.extend(own.map(|text| Remark::OfTarget { line: number, text }));
    remarks
}

impl fmt::Display for Remark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Misaligned {
                line,
                start,
                off,
                before,
            } => {
                let sectors = if *off == 1 { "sector" } else { "sectors" };
                write!(
                    f,
                    "line {line}: blocks of 4096 bytes lie {off} {sectors} off those of the device"
                )?;
                if start.is_multiple_of(BLOCK) {
                    write!(f, ": its first sector there is no multiple of {BLOCK}")?;
                } else {
                    write!(
                        f,
                        ": the segment begins at sector {start}, which is no multiple of {BLOCK}"
                    )?;
                }
                write!(f, "; writes of a block change two, which is slow")?;
                mend(f, *start, *before)
            }
            Self::Split {
                line,
                start,
                before,
            } => {
                write!(
                    f,
                    "line {line}: the segment begins at sector {start}, which is no multiple of \
                     {BLOCK}: a block of 4096 bytes lies on both sides of it"
                )?;
                mend(f, *start, *before)
            }
            Self::Overlap {
                line,
                other,
                device,
                start,
            } => write!(
                f,
                "line {line}: {device} is used by line {other} too, from its sector {start} on: what \
                 is written to one changes the other"
            ),
            Self::OfTarget { line, text } => write!(f, "line {line}: {text}"),
        }
    }
}

/// How to get the segment to a whole block.
fn mend(f: &mut fmt::Formatter<'_>, start: u64, before: Option<usize>) -> fmt::Result {
    match (start % BLOCK, before) {
        (0, _) | (_, None) => Ok(()),
        (over, Some(before)) => write!(
            f,
            " (while the disk is still empty, make line {before} shorter by {over})"
        ),
    }
}
