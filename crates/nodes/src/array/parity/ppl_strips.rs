//! What an entry of a partial parity log says of its row: which parity is the sum of which data and of which partial parity.
//! Pure.
//!
//! ```text
//!             part 0   part 1   part 2   part 3          entry: D1 and D2 from here on, so many bytes
//! row         | D0   | D1   | D2   | P    |
//! columns       ····   ████   ████   ░░░░                 ░░ = ██ + ██ + partial parity, which is the sum of ··
//! ```
//!
//! An entry that has as much partial parity as a chunk may begin and end within chunks, and is of several strips then:
//! other implementations than Linux's write such.
//!
//! # Invariants
//!
//! * A strip lies in one row of the array, and its parity on the part that the entry names; what else an entry says is
//!   refused.

use block::Range;

use super::super::format::SECTOR;
use super::super::format::ppl::PplEntry;
use super::layout::Layout;

/// Columns of a row in which the same data are written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::array) struct PplStrip {
    /// Which bytes of each member.
    pub(in crate::array) columns: Range,
    /// The parts with data that are written.
    pub(in crate::array) written: Vec<usize>,
    /// Where the partial parity of the entry has its sum of the others; `None`: there are no others.
    pub(in crate::array) parity_at: Option<u64>,
    /// The part with the parity.
    pub(in crate::array) p: usize,
}

/// An entry that cannot be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::array) struct ImpossibleEntry;

/// The strips of an entry, of an array of `size` bytes.
///
/// # Errors
/// It is of no row, or of another part.
pub(in crate::array) fn strips(
    layout: &Layout,
    size: u64,
    entry: &PplEntry,
) -> Result<Vec<PplStrip>, ImpossibleEntry> {
    let chunk = layout.chunk;
    let data = layout.data() as u64;
    let (parity_len, data_len) = (u64::from(entry.parity_len), u64::from(entry.data_len));
    let is_whole = parity_len.is_multiple_of(SECTOR) && data_len.is_multiple_of(SECTOR);
    let first = entry.data_sector.checked_mul(SECTOR);
    let first = first.filter(|first| is_whole && data_len > 0 && *first < size);
    let first = first.ok_or(ImpossibleEntry)?;
    let row = first / layout.row_len();
    let row_end = (row + 1) * layout.row_len();
    // How long a strip is, how many chunks it writes at most, and where data end.
    let (len, chunks, end) = if parity_len == chunk {
        (chunk, data, first + data_len)
    } else {
        let (chunks, len) = match parity_len {
            0 => (data, data_len / data),
            len => (data_len / len, len),
        };
        let fits = chunks * len == data_len && first % chunk + len <= chunk;
        if !fits || parity_len > chunk || chunks > data {
            return Err(ImpossibleEntry);
        }
        (len, chunks, first + (chunks - 1) * chunk + len)
    };
    let of = layout.row(row);
    if end > row_end || end > size || usize::try_from(entry.parity_part) != Ok(of.p) {
        return Err(ImpossibleEntry);
    }
    let mut borders = vec![0, chunk - first % chunk, len];
    if parity_len == chunk {
        borders.push(data_len % chunk);
    }
    borders.retain(|border| *border <= len);
    borders.sort_unstable();
    borders.dedup();
    let strip = |border: &[u64]| {
        let (from, to) = (border[0], border[1]);
        let starts = (0..chunks).map(|index| first + from + index * chunk);
        let indexes = starts.take_while(|start| *start < end).map(|start| {
            let index = (start - row * layout.row_len()) / chunk;
            usize::try_from(index).expect("less than the number of parts")
        });
        PplStrip {
            columns: Range::new(row * chunk + (first + from) % chunk, to - from),
            written: indexes.map(|index| of.part(index)).collect(),
            parity_at: (parity_len > 0).then_some(from),
            p: of.p,
        }
    };
    let strips = borders.windows(2).map(strip);
    Ok(strips.filter(|strip| !strip.written.is_empty()).collect())
}
