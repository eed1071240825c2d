//! [`SectorImage`]: the content of a disk in memory, and what is known of each sector. Pure.

use block::{Errno, IoBufs, IoError};
use block::{Extent, ExtentKind, Geometry, Operation, Range, merge_extents};

/// The unit that a power cut leaves whole, bytes.
pub const SECTOR: u64 = 512;

/// What a trimmed range reads as afterwards. Both are allowed by the block contract.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TrimLeaves {
    /// Zeroes, reported as a hole.
    #[default]
    Zeroes,
    /// Bytes of no write, reported as data: finds code that relies on zeroes after a trim.
    Garbage,
}

/// Bytes of a disk with the kind of each [`SECTOR`].
pub(crate) struct SectorImage {
    bytes: Vec<u8>,
    kinds: Vec<ExtentKind>,
}

impl SectorImage {
    pub(crate) fn zeroed(size: u64) -> Self {
        let mut image = Self::from_bytes(vec![0; to_usize(size)]);
        image.kinds.fill(ExtentKind::Hole);
        image
    }

    pub(crate) fn from_bytes(bytes: Vec<u8>) -> Self {
        let sectors = bytes.len().div_ceil(to_usize(SECTOR));
        Self {
            bytes,
            kinds: vec![ExtentKind::Data; sectors],
        }
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub(crate) fn read(&self, range: Range) -> &[u8] {
        &self.bytes[span(range)]
    }

    pub(crate) fn write(&mut self, range: Range, bufs: &IoBufs) {
        let mut at = to_usize(range.offset);
        for buf in bufs {
            self.bytes[at..at + buf.len()].copy_from_slice(buf);
            at += buf.len();
        }
        self.mark_touched(range, ExtentKind::Data);
    }

    pub(crate) fn write_slice(&mut self, range: Range, data: &[u8]) {
        self.bytes[span(range)].copy_from_slice(data);
        self.mark_touched(range, ExtentKind::Data);
    }

    pub(crate) fn zero(&mut self, range: Range, kind: ExtentKind) {
        self.bytes[span(range)].fill(0);
        self.mark_whole(range, kind);
    }

    pub(crate) fn trim(&mut self, range: Range, leaves: TrimLeaves) {
        match leaves {
            TrimLeaves::Zeroes => self.zero(range, ExtentKind::Hole),
            TrimLeaves::Garbage => {
                let garbage = crate::pattern(0xA5, range);
                self.write_slice(range, &garbage);
            }
        }
    }

    pub(crate) fn extents(&self, range: Range) -> Vec<Extent> {
        merge_extents(
            sectors_of(range)
                .map(|sector| {
                    let start = (sector * SECTOR).max(range.offset);
                    let end = ((sector + 1) * SECTOR).min(range.end());
                    Extent {
                        range: Range::new(start, end - start),
                        kind: self.kinds[to_usize(sector)],
                    }
                })
                .collect(),
        )
    }

    /// Every sector that `range` touches becomes `kind`.
    fn mark_touched(&mut self, range: Range, kind: ExtentKind) {
        for sector in sectors_of(range) {
            self.kinds[to_usize(sector)] = kind;
        }
    }

    /// Sectors that lie in `range` whole become `kind`; the others hold data outside it.
    fn mark_whole(&mut self, range: Range, kind: ExtentKind) {
        let end_of_disk = self.bytes.len() as u64;
        for sector in sectors_of(range) {
            let end = ((sector + 1) * SECTOR).min(end_of_disk);
            if range.offset <= sector * SECTOR && end <= range.end() {
                self.kinds[to_usize(sector)] = kind;
            }
        }
    }
}

/// Numbers of the sectors that `range` touches.
pub(crate) fn sectors_of(range: Range) -> std::ops::Range<u64> {
    if range.is_empty() {
        return 0..0;
    }
    range.offset / SECTOR..range.end().div_ceil(SECTOR)
}

pub(crate) fn span(range: Range) -> std::ops::Range<usize> {
    to_usize(range.offset)..to_usize(range.end())
}

pub(crate) fn to_usize(value: u64) -> usize {
    usize::try_from(value).expect("a test disk fits memory")
}

/// What every test disk asserts of a request, and refuses by its geometry.
pub(crate) fn admit(
    geometry: &Geometry,
    operation: Operation,
    range: Range,
) -> Result<(), IoError> {
    if let Err(e) = range.check(geometry.size, geometry.block_size) {
        panic!("{operation} was not checked before it reached the disk: {e}");
    }
    let refused = |errno| Err(IoError::new(errno, operation, Some(range)));
    match operation {
        Operation::Read | Operation::Extents | Operation::Flush | Operation::Measure => Ok(()),
        _ if geometry.read_only => refused(Errno::NotPermitted),
        Operation::Trim if !geometry.trim.any() => refused(Errno::NotSupported),
        Operation::WriteZeroes if !geometry.write_zeroes.any() => refused(Errno::NotSupported),
        _ => Ok(()),
    }
}

/// Asserts that the data of a write fills its range.
pub(crate) fn assert_filled(range: Range, data: &IoBufs) {
    let len: usize = data.iter().map(bytes::Bytes::len).sum();
    assert_eq!(len as u64, range.len, "data of a write fills its range");
}
