//! Where data and parity of RAID 4, 5 and 6 lie. Pure.
//!
//! The chunks of the array are dealt out in rows, one chunk on each part; a row has one parity (P) or
//! two (P and Q), which move from part to part as the layout says:
//!
//! ```text
//! left-symmetric, RAID 5   part 0  part 1  part 2        RAID 6   part 0  part 1  part 2  part 3
//! row 0                      0       1       P                      Q       0       1       P
//! row 1                      3       P       2                      3       2..     P       Q
//! row 2                      P       4       5                      …
//! ```
//!
//! # The order of Q
//!
//! In Q each chunk counts 2 to the power of its *exponent*, and the exponent is not the number of the
//! data chunk. md counts parts from the one behind Q on, around the end, and leaves out P; the layouts
//! that come from DDF count all parts from 0, P and Q as if they were zero.
//!
//! # What it does not do
//!
//! It reads nothing and computes nothing.

use super::super::format::{Level, SECTOR};

/// Parts that P alone can cover: as many as a superblock has roles.
const PARTS_MAX_P: u32 = super::super::format::MEMBERS_MAX;
/// Parts that Q can cover: exponents repeat behind it.
const PARTS_MAX_Q: u32 = 255;

/// How chunks are dealt out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::array) struct Layout {
    /// Bytes of a chunk.
    pub(in crate::array) chunk: u64,
    /// Chunks of a row, parity and all.
    pub(in crate::array) parts: usize,
    p: PlaceP,
    q: Option<PlaceQ>,
    data: PlaceData,
    order: OrderQ,
}

/// Where P is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PlaceP {
    /// Always here.
    Fixed(usize),
    /// From part 0 on, one further each row.
    Right,
    /// From the last part on, one back each row.
    Left,
    /// The same, a row ahead.
    LeftAhead,
}

/// Where Q is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PlaceQ {
    /// Behind P, around the end.
    Behind,
    /// Before P, around the beginning.
    Before,
    /// Always on the last part; the others are a RAID 5 of their own.
    Last,
}

/// Where data is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PlaceData {
    /// From part 0 on, past parity.
    FromFirst,
    /// From behind parity on, around the end.
    FromParity,
}

/// How exponents of Q are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OrderQ {
    FromQ,
    FromFirst,
}

/// Where the chunks of one row are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::array) struct Row {
    /// The part with P.
    pub(in crate::array) p: usize,
    /// The part with Q, in RAID 6.
    pub(in crate::array) q: Option<usize>,
    parts: usize,
    /// Where data begins, and how many parts it goes round; `None`: from part 0 on, past parity.
    round: Option<(usize, usize)>,
    order: OrderQ,
}

/// What RAID 5 calls its layouts, and those of RAID 6 that stand on them.
const fn rotation(layout: u32) -> Option<(PlaceP, PlaceData)> {
    Some(match layout {
        0 => (PlaceP::Left, PlaceData::FromFirst),
        1 => (PlaceP::Right, PlaceData::FromFirst),
        2 => (PlaceP::Left, PlaceData::FromParity),
        3 => (PlaceP::Right, PlaceData::FromParity),
        4 => (PlaceP::Fixed(0), PlaceData::FromFirst),
        _ => return None,
    })
}

impl Layout {
    /// The layout of an array of `parts` members. `Err`: why there is none.
    pub(in crate::array) fn new(
        level: Level,
        layout: u32,
        parts: u32,
        chunk: u64,
    ) -> Result<Self, String> {
        let (least, most) = match level {
            Level::Raid6 => (4, PARTS_MAX_Q),
            _ => (2, PARTS_MAX_P),
        };
        if parts < least || parts > most {
            return Err(format!(
                "a {level} of {parts} parts cannot be: it has {least} to {most}"
            ));
        }
        if chunk == 0 || !chunk.is_multiple_of(SECTOR) {
            return Err(format!(
                "its chunk of {chunk} bytes is not made of sectors of {SECTOR} bytes"
            ));
        }
        // At most as many as a superblock has roles.
        let parts = usize::try_from(parts).map_err(|e| e.to_string())?;
        let last = parts - 1;
        let unknown = || format!("layout {layout} of {level} is not known");
        let (p, q, data) = match (level, layout) {
            // md does not look at the layout of RAID 4.
            (Level::Raid4, _) | (Level::Raid5, 5) => {
                (PlaceP::Fixed(last), None, PlaceData::FromFirst)
            }
            (Level::Raid5, _) => {
                let (p, data) = rotation(layout).ok_or_else(unknown)?;
                (p, None, data)
            }
            (Level::Raid6, _) => {
                let (p, q, data) = six(layout, last).ok_or_else(unknown)?;
                (p, Some(q), data)
            }
            _ => return Err(format!("{level} has no parity")),
        };
        let order = match layout {
            8..=10 => OrderQ::FromFirst,
            _ => OrderQ::FromQ,
        };
        Ok(Self {
            chunk,
            parts,
            p,
            q,
            data,
            order,
        })
    }

    /// Parities of a row.
    pub(in crate::array) const fn parities(&self) -> usize {
        if self.q.is_some() { 2 } else { 1 }
    }

    /// Chunks of data in a row.
    pub(in crate::array) const fn data(&self) -> usize {
        self.parts - self.parities()
    }

    /// Bytes of data in a row.
    pub(in crate::array) const fn row_len(&self) -> u64 {
        self.chunk * self.data() as u64
    }

    /// Where the chunks of row `row` are.
    pub(in crate::array) fn row(&self, row: u64) -> Row {
        let ring = match self.q {
            Some(PlaceQ::Last) => self.parts - 1,
            _ => self.parts,
        };
        let turn = |row: u64| {
            let turn = row % ring as u64;
            usize::try_from(turn).expect("less than the number of parts")
        };
        let p = match self.p {
            PlaceP::Fixed(part) => part,
            PlaceP::Right => turn(row),
            PlaceP::Left => ring - 1 - turn(row),
            PlaceP::LeftAhead => ring - 1 - turn(row + 1),
        };
        let past_parity = match self.q {
            Some(PlaceQ::Behind) => p + 2,
            None | Some(PlaceQ::Before | PlaceQ::Last) => p + 1,
        };
        let round = match self.data {
            PlaceData::FromFirst => None,
            PlaceData::FromParity => Some((past_parity, ring)),
        };
        let q = self.q.map(|q| match q {
            PlaceQ::Behind => (p + 1) % self.parts,
            PlaceQ::Before => (p + self.parts - 1) % self.parts,
            PlaceQ::Last => self.parts - 1,
        });
        Row {
            p,
            q,
            parts: self.parts,
            round,
            order: self.order,
        }
    }
}

/// The layouts of RAID 6 by md's numbers; those from 16 on are RAID 5 with Q on a part of its own.
const fn six(layout: u32, last: usize) -> Option<(PlaceP, PlaceQ, PlaceData)> {
    Some(match layout {
        0..=3 => match rotation(layout) {
            Some((p, data)) => (p, PlaceQ::Behind, data),
            None => return None,
        },
        4 => (PlaceP::Fixed(0), PlaceQ::Behind, PlaceData::FromFirst),
        5 => (
            PlaceP::Fixed(last - 1),
            PlaceQ::Behind,
            PlaceData::FromFirst,
        ),
        8 => (PlaceP::Right, PlaceQ::Behind, PlaceData::FromFirst),
        9 => (PlaceP::LeftAhead, PlaceQ::Behind, PlaceData::FromFirst),
        10 => (PlaceP::Left, PlaceQ::Before, PlaceData::FromParity),
        16..=20 => match rotation(layout - 16) {
            Some((p, data)) => (p, PlaceQ::Last, data),
            None => return None,
        },
        _ => return None,
    })
}

impl Row {
    /// The part with data chunk `index` of the row.
    pub(in crate::array) fn part(&self, index: usize) -> usize {
        if let Some((from, ring)) = self.round {
            return (from + index) % ring;
        }
        let q = self.q.unwrap_or(self.p);
        let (low, high) = (self.p.min(q), self.p.max(q));
        let past_low = index + usize::from(index >= low);
        past_low + usize::from(high > low && past_low >= high)
    }

    /// The exponent of `part` in Q. Not for parity.
    pub(in crate::array) fn exponent(&self, part: usize) -> usize {
        let (OrderQ::FromQ, Some(q)) = (self.order, self.q) else {
            return part;
        };
        let behind_q = |part: usize| (part + self.parts - q - 1) % self.parts;
        let at = behind_q(part);
        at - usize::from(behind_q(self.p) < at)
    }

    /// How many exponents there are, those of parity that counts as zero among them.
    pub(in crate::array) const fn exponents(&self) -> usize {
        match self.order {
            OrderQ::FromQ => self.parts - 2,
            OrderQ::FromFirst => self.parts,
        }
    }

    /// Chunks of the row, parity and all.
    pub(in crate::array) const fn parts(&self) -> usize {
        self.parts
    }

    /// Whether `part` has parity here.
    pub(in crate::array) fn is_parity(&self, part: usize) -> bool {
        part == self.p || Some(part) == self.q
    }
}
