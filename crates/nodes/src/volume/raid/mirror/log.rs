//! The log of an old mirror (device-mapper's `mirror`): which regions are the same on all of its legs. Pure.
//!
//! ```text
//! byte 0      magic "rRiM", version 2, regions (u64): little-endian
//! byte 1024   a bit for each region, the lowest of a byte first; set: all legs are equal there
//! ```
//!
//! # Invariants
//!
//! * No input panics; no more than [`REGIONS_MAX`] regions are held, independent of what a header says.
//! * A region of which the log says nothing is not in sync.

use block::Range;

use crate::fields::Fields;

/// Where the bits begin, byte of the log.
pub const BITS_AT: u64 = 1024;
/// Most regions of a mirror: 16 MiB of bits.
pub const REGIONS_MAX: u64 = 1 << 27;
/// Bytes of the header.
pub const HEADER_LEN: u64 = 16;
const MAGIC: &[u8; 4] = b"rRiM";
/// The versions that are known: 1 had its bits in the order of the machine, which is this one where that is
/// little-endian.
const VERSIONS: std::ops::RangeInclusive<u32> = 1..=2;

/// What is wrong with a log, or with the regions of a mirror.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum LogProblem {
    /// It is of another version.
    #[error("its log has the unknown version {0}")]
    Version(u32),
    /// Its regions are none.
    #[error("it has regions of {0} bytes")]
    RegionSize(u64),
    /// It would take too much memory.
    #[error("it has {0} regions, more than {REGIONS_MAX}")]
    Regions(u64),
}

/// Reads the header of a log: how many regions it knows. 0 where nothing was written yet.
///
/// # Errors
/// [`LogProblem::Version`].
pub fn decode(bytes: &[u8]) -> Result<u64, LogProblem> {
    if bytes.len() < 16 || !bytes.starts_with(MAGIC) {
        return Ok(0);
    }
    let fields = Fields::of(bytes);
    match fields.u32(4) {
        version if VERSIONS.contains(&version) => Ok(fields.u64(8)),
        version => Err(LogProblem::Version(version)),
    }
}

/// Which regions of a mirror are in sync.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Regions {
    size: u64,
    region: u64,
    /// A bit for each region that is known to be in sync.
    bits: Vec<u8>,
    /// What counts for regions behind the last bit.
    rest: bool,
}

impl Regions {
    /// The regions of a mirror of `size` bytes, all of them in sync, or none.
    ///
    /// # Errors
    /// [`LogProblem`]: there are too many, or they cannot be.
    pub fn new(size: u64, region: u64, in_sync: bool) -> Result<Self, LogProblem> {
        if region == 0 || !region.is_multiple_of(512) {
            return Err(LogProblem::RegionSize(region));
        }
        match size.div_ceil(region) {
            ..=REGIONS_MAX => Ok(Self {
                size,
                region,
                bits: Vec::new(),
                rest: in_sync,
            }),
            regions => Err(LogProblem::Regions(regions)),
        }
    }

    /// The same, by a log: the `bits` of the first `known` regions.
    #[must_use]
    pub fn with_log(mut self, known: u64, bits: &[u8]) -> Self {
        let known = known.min(self.count()).min(bits.len() as u64 * 8);
        let len = usize::try_from(known.div_ceil(8)).expect("bounded");
        self.bits = bits[..len].to_vec();
        for bit in known..len as u64 * 8 {
            let at = usize::try_from(bit / 8).expect("bounded");
            let mask = 1 << (bit % 8);
            self.bits[at] = if self.rest {
                self.bits[at] | mask
            } else {
                self.bits[at] & !mask
            };
        }
        self
    }

    /// How many there are.
    #[must_use]
    pub const fn count(&self) -> u64 {
        self.size.div_ceil(self.region)
    }

    /// How many are in sync.
    #[must_use]
    pub fn in_sync(&self) -> u64 {
        let known = self.count().min(self.bits.len() as u64 * 8);
        let whole = usize::try_from(known / 8).expect("bounded");
        let ones = self.bits[..whole]
            .iter()
            .map(|byte| u64::from(byte.count_ones()));
        let last = (known / 8 * 8..known).filter(|index| self.is_in_sync(*index));
        let rest = if self.rest { self.count() - known } else { 0 };
        ones.sum::<u64>() + last.count() as u64 + rest
    }

    /// Bytes of the bits in a log.
    #[must_use]
    pub const fn bits_len(&self) -> u64 {
        self.count().div_ceil(8)
    }

    /// Whether a region is in sync.
    #[inline]
    #[must_use]
    pub fn is_in_sync(&self, index: u64) -> bool {
        let byte = usize::try_from(index / 8).ok();
        let byte = byte.and_then(|at| self.bits.get(at));
        byte.map_or(self.rest, |byte| byte & (1 << (index % 8)) != 0)
    }

    /// The region that a byte of the mirror is in.
    #[inline]
    #[must_use]
    pub const fn region_of(&self, offset: u64) -> u64 {
        offset / self.region
    }

    /// The first bytes of `range` with one answer, at most `len_max` and at least to the end of their region, and that
    /// answer: whether they are in sync.
    #[must_use]
    pub fn run(&self, range: Range, len_max: u64) -> (Range, bool) {
        let first = self.region_of(range.offset);
        let in_sync = self.is_in_sync(first);
        let mut end = (first + 1).saturating_mul(self.region);
        while end < range.end()
            && end - range.offset < len_max
            && self.is_in_sync(self.region_of(end)) == in_sync
        {
            end = end.saturating_add(self.region);
        }
        let end = end.min(range.end());
        (Range::new(range.offset, end - range.offset), in_sync)
    }
}
