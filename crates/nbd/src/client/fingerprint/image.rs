//! [`RegionImage`]: a copy of a few regions of a disk. Pure.

use block::{IoBufs, Range};

/// Bytes of regions that do not overlap, in order.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct RegionImage {
    regions: Vec<(u64, Vec<u8>)>,
}

impl RegionImage {
    /// Adds bytes that are behind those that are there. They may continue the last region.
    pub(crate) fn push(&mut self, offset: u64, bytes: impl Iterator<Item = u8>) {
        match self.regions.last_mut() {
            Some((start, last)) if *start + last.len() as u64 == offset => last.extend(bytes),
            _ => self.regions.push((offset, bytes.collect())),
        }
    }

    /// The bytes of `range`, if they are all in one region.
    pub(super) fn bytes(&self, range: Range) -> Option<&[u8]> {
        self.regions.iter().find_map(|(start, bytes)| {
            let from = usize::try_from(range.offset.checked_sub(*start)?).ok()?;
            bytes.get(from..from.checked_add(range.len_usize())?)
        })
    }

    /// Takes what was written to `range`, as far as it is here. `None`: zeroes.
    pub(super) fn write(&mut self, range: Range, data: Option<&IoBufs>) {
        for (start, bytes) in &mut self.regions {
            let region = Range::new(*start, bytes.len() as u64);
            let Some(data) = data else {
                fill(region, bytes, range, |part, _| part.fill(0));
                continue;
            };
            let mut at = range.offset;
            for piece in data {
                let range = Range::new(at, piece.len() as u64);
                fill(region, bytes, range, |part, skip| {
                    part.copy_from_slice(&piece[skip..skip + part.len()]);
                });
                at = range.end();
            }
        }
    }
}

/// Hands the part of `bytes`, which are those of `region`, to `change` that `range` overlaps, and how much of `range` lies
/// before it.
fn fill(region: Range, bytes: &mut [u8], range: Range, change: impl FnOnce(&mut [u8], usize)) {
    if !region.overlaps(&range) {
        return;
    }
    let (from, to) = (
        range.offset.max(region.offset),
        range.end().min(region.end()),
    );
    let within = Range::new(from - region.offset, to - from);
    let skip = Range::new(0, from - range.offset).len_usize();
    let at = Range::new(0, within.offset).len_usize();
    change(&mut bytes[at..at + within.len_usize()], skip);
}
