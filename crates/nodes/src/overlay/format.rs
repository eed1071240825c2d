//! The bytes of a store: device-mapper's persistent snapshot, version 1. Pure.
//!
//! ```text
//! chunk    0        1         2 … E+1       E+2       E+3 … 2E+2    2E+3 …
//!          header   table 0   E × data      table 1   E × data      table 2 …
//!
//! header   "SnAp"  u32 valid = 1  u32 version = 1  u32 chunk in sectors, a power of two     (little-endian)
//! table    E = chunk / 16 exceptions: { u64 chunk of the disk, u64 chunk of the store }; a 0 as the
//!          second one ends the tables
//! ```
//!
//! # Invariants
//!
//! * No bytes panic.
//! * What is not understood is refused by name: a store that the kernel gave up, other versions,
//!   chunks that are no power of two, exceptions that point nowhere, or two of one chunk.

use super::map::{CHUNKS_MAX, Exception};
use crate::zeroes::is_zero;

/// First bytes of a store.
const MAGIC: [u8; 4] = *b"SnAp";
/// The only version there is.
const VERSION: u32 = 1;
/// Unit of the chunk size in a header, bytes.
const SECTOR: u32 = 512;
/// Smallest and largest chunk that is opened, bytes.
pub(crate) const CHUNK_MIN: u32 = SECTOR;
pub(crate) const CHUNK_MAX: u32 = 512 * 1024;
/// The same in sectors.
const SECTORS_MAX: u32 = CHUNK_MAX / SECTOR;
/// Bytes of a header.
pub(crate) const HEADER_LEN: usize = 16;
/// Bytes of an exception.
const EXCEPTION_LEN: u32 = 16;
/// The table chunks begin behind the header.
const FIRST_TABLE: u64 = 1;

/// Why the bytes of a store are refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FormatError {
    /// Other bytes than a store's.
    #[error(
        "it is no overlay's store, and it is not empty: name another file; nothing of it was changed"
    )]
    NotAStore,
    /// The kernel gave it up.
    #[error(
        "the kernel has marked it invalid, because it was full or failed: its changes cannot be \
         trusted any more; remove it to start over from the base"
    )]
    Invalid,
    /// A value of the field `valid` that no version writes.
    #[error("its header is damaged: the field `valid` is {0}, and only 0 and 1 mean something")]
    Valid(u32),
    /// Another version.
    #[error("it is of version {0}, and only version {VERSION} is known")]
    Version(u32),
    /// An impossible chunk.
    #[error("its chunks have {0} sectors: a power of two from 1 to {SECTORS_MAX} is wanted")]
    Chunk(u32),
    /// It ends before its last table.
    #[error(
        "it ends before its table {0}, which lies in chunk {1}: it was cut off; get back what it \
         was, or remove it to start over from the base"
    )]
    CutOff(u64, u64),
    /// A change of what the base has not.
    #[error(
        "it holds a change of chunk {chunk}, and the base ends at chunk {end}: it belongs to another \
         base, or the base was cut off"
    )]
    BeyondBase {
        /// Chunk of the disk.
        chunk: u64,
        /// The one behind the base's last.
        end: u64,
    },
    /// A change that is not in the store.
    #[error("it is damaged: chunk {chunk} of the disk should be in its chunk {at}, {why}")]
    Astray {
        /// Chunk of the disk.
        chunk: u64,
        /// Chunk of the store.
        at: u64,
        /// What is there.
        why: &'static str,
    },
    /// Two changes of one chunk.
    #[error("it is damaged: it holds chunk {0} of the disk twice")]
    Twice(u64),
    /// Two chunks in one place.
    #[error("it is damaged: two chunks of the disk are in its chunk {0}")]
    Shared(u64),
}

/// Where things are in a store of a certain chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct StoreLayout {
    /// Bytes, a power of two.
    chunk: u32,
}

impl StoreLayout {
    /// `chunk` in bytes; `None` for what no store has.
    pub(crate) fn new(chunk: u32) -> Option<Self> {
        let known = chunk.is_power_of_two() && (CHUNK_MIN..=CHUNK_MAX).contains(&chunk);
        known.then_some(Self { chunk })
    }

    /// Bytes of a chunk.
    pub(crate) fn chunk(self) -> u64 {
        self.chunk.into()
    }

    /// Exceptions in a table.
    pub(crate) fn per_table(self) -> u64 {
        (self.chunk / EXCEPTION_LEN).into()
    }

    /// From one table to the next, chunks.
    pub(crate) fn stride(self) -> u64 {
        self.per_table() + 1
    }

    /// Chunk of table `index`.
    pub(crate) fn table(self, index: u64) -> u64 {
        self.stride()
            .saturating_mul(index)
            .saturating_add(FIRST_TABLE)
    }

    /// Whether chunk `at` of a store is no place for data.
    pub(crate) fn is_own(self, at: u64) -> bool {
        at == 0 || at % self.stride() == FIRST_TABLE
    }

    /// Tables before chunk `at` of a store.
    pub(crate) fn tables_before(self, at: u64) -> u64 {
        if at <= FIRST_TABLE {
            return 0;
        }
        (at - FIRST_TABLE - 1) / self.stride() + 1
    }

    /// Chunks of a store that holds `count` exceptions, and the table that ends them.
    pub(crate) fn chunks_for(self, count: u64) -> u64 {
        let tables = count / self.per_table() + 1;
        count.saturating_add(tables).saturating_add(FIRST_TABLE)
    }

    /// Exceptions that a store of `chunks` chunks can list: the table that ends them must be there.
    pub(crate) fn count_max(self, chunks: u64) -> u64 {
        let tables = self.tables_before(chunks);
        (tables * self.per_table()).saturating_sub(1)
    }

    /// First sectors of a store with empty tables.
    pub(crate) fn header(self) -> [u8; HEADER_LEN] {
        self.header_with(1)
    }

    /// First sectors of a store that is not to be used any more.
    pub(crate) fn invalid_header(self) -> [u8; HEADER_LEN] {
        self.header_with(0)
    }

    fn header_with(self, valid: u32) -> [u8; HEADER_LEN] {
        let mut bytes = [0; HEADER_LEN];
        let numbers = [valid, VERSION, self.chunk / SECTOR];
        bytes[..4].copy_from_slice(&MAGIC);
        for (field, number) in bytes[4..].chunks_exact_mut(4).zip(numbers) {
            field.copy_from_slice(&number.to_le_bytes());
        }
        bytes
    }
}

/// Reads the first bytes of a store. `None`: they are zeroes, which is what the kernel takes for a
/// new one.
pub(crate) fn read_header(bytes: &[u8]) -> Result<Option<StoreLayout>, FormatError> {
    if is_zero(bytes) {
        return Ok(None);
    }
    let Some((fields, _)) = bytes.split_first_chunk::<HEADER_LEN>() else {
        return Err(FormatError::NotAStore);
    };
    if !fields.starts_with(&MAGIC) {
        return Err(FormatError::NotAStore);
    }
    let [valid, version, sectors] = [4, 8, 12].map(|at| {
        let [a, b, c, d] = [0, 1, 2, 3].map(|n| fields[at + n]);
        u32::from_le_bytes([a, b, c, d])
    });
    match (valid, version) {
        (0, _) => return Err(FormatError::Invalid),
        (1, VERSION) => {}
        (1, version) => return Err(FormatError::Version(version)),
        (valid, _) => return Err(FormatError::Valid(valid)),
    }
    let layout = sectors.checked_mul(SECTOR).and_then(StoreLayout::new);
    layout.map(Some).ok_or(FormatError::Chunk(sectors))
}

/// One table, read.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ExceptionTable {
    /// Exceptions up to the end or the first zero.
    pub(crate) count: usize,
    /// There are bytes behind the end that mean nothing: what a torn write leaves.
    pub(crate) leftover: bool,
}

impl ExceptionTable {
    /// Whether another table follows.
    pub(crate) fn is_full(&self, layout: StoreLayout) -> bool {
        self.count as u64 == layout.per_table()
    }
}

/// Reads a table and adds its exceptions to `found`, as they are: numbers that no store has become
/// [`CHUNKS_MAX`].
pub(crate) fn read_table(bytes: &[u8], found: &mut Vec<Exception>) -> ExceptionTable {
    let (entries, _) = bytes.as_chunks::<16>();
    let mut count = 0;
    for entry in entries {
        let (old, new) = decode(entry);
        if new == 0 {
            break;
        }
        found.push(Exception::new(old.min(CHUNKS_MAX), new.min(CHUNKS_MAX)));
        count += 1;
    }
    let leftover = entries[count..].iter().flatten().any(|&byte| byte != 0);
    ExceptionTable { count, leftover }
}

/// Writes an exception into its place of a table.
pub(crate) fn put(table: &mut [u8], index: usize, exception: Exception) {
    let start = index * EXCEPTION_LEN as usize;
    let (old, new) = table[start..start + EXCEPTION_LEN as usize].split_at_mut(8);
    old.copy_from_slice(&exception.old().to_le_bytes());
    new.copy_from_slice(&exception.new_chunk().to_le_bytes());
}

fn decode(entry: &[u8; 16]) -> (u64, u64) {
    let mut halves = [[0; 8]; 2];
    halves[0].copy_from_slice(&entry[..8]);
    halves[1].copy_from_slice(&entry[8..]);
    let [old, new] = halves.map(u64::from_le_bytes);
    (old, new)
}

/// What a store must keep to.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bounds {
    pub(crate) layout: StoreLayout,
    /// Chunks of the store.
    pub(crate) store: u64,
    /// Chunks of the base, the last one perhaps not whole. `None`: it is not known.
    pub(crate) base: Option<u64>,
}

/// Checks all exceptions of a store, and sorts them by chunk of the disk. Returns the gaps between
/// the chunks of the store that they use, `gaps_max` at most, and the chunk behind the last.
pub(crate) fn check(
    exceptions: &mut [Exception],
    bounds: Bounds,
    gaps_max: usize,
) -> Result<(Vec<std::ops::Range<u64>>, u64), FormatError> {
    for exception in exceptions.iter() {
        check_one(*exception, bounds)?;
    }
    exceptions.sort_unstable_by_key(|exception| exception.new_chunk());
    let mut gaps = Vec::new();
    let mut next = bounds.layout.table(0) + 1;
    for exception in exceptions.iter() {
        let at = exception.new_chunk();
        if at < next {
            return Err(FormatError::Shared(at));
        }
        let room = gaps_max - gaps.len();
        gaps.extend(without_tables(next..at, bounds.layout).take(room));
        next = at + 1;
    }
    exceptions.sort_unstable_by_key(|exception| exception.old());
    let twice = exceptions
        .windows(2)
        .find(|pair| pair[0].old() == pair[1].old());
    match twice {
        Some(pair) => Err(FormatError::Twice(pair[0].old())),
        None => Ok((gaps, next)),
    }
}

fn check_one(exception: Exception, bounds: Bounds) -> Result<(), FormatError> {
    let (chunk, at) = (exception.old(), exception.new_chunk());
    let astray = |why| Err(FormatError::Astray { chunk, at, why });
    match bounds.base {
        Some(end) if chunk >= end => return Err(FormatError::BeyondBase { chunk, end }),
        _ if chunk >= CHUNKS_MAX => return astray("and no disk has so many chunks"),
        _ => {}
    }
    if at >= bounds.store {
        return astray("which is behind its end");
    }
    if bounds.layout.is_own(at) {
        return astray("where its own tables are");
    }
    Ok(())
}

/// The parts of `chunks` of a store where data may be; none is empty.
fn without_tables(
    chunks: std::ops::Range<u64>,
    layout: StoreLayout,
) -> impl Iterator<Item = std::ops::Range<u64>> {
    let mut at = chunks.start;
    std::iter::from_fn(move || {
        while at < chunks.end && layout.is_own(at) {
            at += 1;
        }
        let start = at;
        let table = layout.table(layout.tables_before(start));
        at = table.min(chunks.end).max(start);
        (start < at).then_some(start..at)
    })
}
