//! Writes arrays with parity byte by byte, as the table of `docs/formats/md.md` says: slow, and made
//! without anything of what it is to judge.

use testkit::pattern;

use crate::array::format::Level;

/// An array and its content.
#[derive(Debug, Clone)]
pub(crate) struct Sample {
    pub(crate) level: Level,
    pub(crate) layout: u32,
    pub(crate) parts: usize,
    /// Bytes.
    pub(crate) chunk: usize,
    pub(crate) rows: usize,
    /// What the array holds.
    pub(crate) data: Vec<u8>,
}

/// One row by the table: the parts with P and Q, those with data in order, and each part's exponent in
/// Q.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TableRow {
    pub(crate) p: usize,
    pub(crate) q: Option<usize>,
    pub(crate) data: Vec<usize>,
    pub(crate) exponents: Vec<(usize, usize)>,
}

/// Every level and layout there is.
pub(crate) fn layouts() -> Vec<(Level, u32)> {
    let five = (0..=5).map(|layout| (Level::Raid5, layout));
    let six = [0, 1, 2, 3, 4, 5, 8, 9, 10, 16, 17, 18, 19, 20];
    let six = six.map(|layout| (Level::Raid6, layout));
    [(Level::Raid4, 0)]
        .into_iter()
        .chain(five)
        .chain(six)
        .collect()
}

/// The array of these dimensions, filled with a pattern.
pub(crate) fn sample(
    (level, layout): (Level, u32),
    parts: usize,
    chunk: usize,
    rows: usize,
) -> Sample {
    let parities = if level == Level::Raid6 { 2 } else { 1 };
    let len = (parts - parities) * chunk * rows;
    Sample {
        level,
        layout,
        parts,
        chunk,
        rows,
        data: pattern(0x5a, block::Range::new(0, len as u64)),
    }
}

/// RAID 5 by its table.
fn five(layout: u32, n: i64, stripe: i64) -> (i64, Vec<i64>) {
    let left = n - 1 - stripe.rem_euclid(n);
    let right = stripe.rem_euclid(n);
    let skipping = |p: i64| (0..n).filter(|disk| *disk != p).collect();
    let behind = |p: i64| (0..n - 1).map(|i| (p + 1 + i).rem_euclid(n)).collect();
    match layout {
        0 => (left, skipping(left)),
        1 => (right, skipping(right)),
        2 => (left, behind(left)),
        3 => (right, behind(right)),
        4 => (0, (0..n - 1).map(|i| i + 1).collect()),
        5 => (n - 1, (0..n - 1).collect()),
        _ => panic!("no layout of RAID 5: {layout}"),
    }
}

/// RAID 6 by its table.
fn six(layout: u32, n: i64, stripe: i64) -> (i64, i64, Vec<i64>) {
    let left = n - 1 - stripe.rem_euclid(n);
    let right = stripe.rem_euclid(n);
    let after = |p: i64| (p + 1).rem_euclid(n);
    let skipping = |p: i64| {
        let rest = (0..n).filter(|disk| *disk != p && *disk != after(p));
        rest.collect::<Vec<_>>()
    };
    let behind = |from: i64| (0..n - 2).map(|i| (from + i).rem_euclid(n)).collect();
    match layout {
        0 => (left, after(left), skipping(left)),
        1 => (right, after(right), skipping(right)),
        2 => (left, after(left), behind(left + 2)),
        3 => (right, after(right), behind(right + 2)),
        4 => (0, 1, (0..n - 2).map(|i| i + 2).collect()),
        5 => (n - 2, n - 1, (0..n - 2).collect()),
        8 => (right, after(right), skipping(right)),
        9 => {
            let p = n - 1 - (stripe + 1).rem_euclid(n);
            (p, after(p), skipping(p))
        }
        10 => (left, (left - 1).rem_euclid(n), behind(left + 1)),
        16..=20 => {
            let (p, data) = five(layout - 16, n - 1, stripe);
            (p, n - 1, data)
        }
        _ => panic!("no layout of RAID 6: {layout}"),
    }
}

/// Row `stripe` by the tables.
pub(crate) fn table(level: Level, layout: u32, parts: usize, stripe: usize) -> TableRow {
    let n = i64::try_from(parts).unwrap();
    let disk = |disk: i64| usize::try_from(disk).unwrap();
    let all = |disks: Vec<i64>| disks.into_iter().map(disk).collect::<Vec<_>>();
    let stripe = i64::try_from(stripe).unwrap();
    if level != Level::Raid6 {
        let layout = if level == Level::Raid4 { 5 } else { layout };
        let (p, data) = five(layout, n, stripe);
        return TableRow {
            p: disk(p),
            q: None,
            data: all(data),
            exponents: Vec::new(),
        };
    }
    let (p, q, data) = six(layout, n, stripe);
    let mut exponents = Vec::new();
    if (8..=10).contains(&layout) {
        exponents.extend(data.iter().map(|d| (disk(*d), disk(*d))));
    } else {
        let mut at = (q + 1).rem_euclid(n);
        while exponents.len() < parts - 2 {
            if at != p && at != q {
                exponents.push((disk(at), exponents.len()));
            }
            at = (at + 1).rem_euclid(n);
        }
    }
    TableRow {
        p: disk(p),
        q: Some(disk(q)),
        data: all(data),
        exponents,
    }
}

/// Twice an element of the field of polynomial 0x11d.
fn twice(byte: u8) -> u8 {
    let doubled = u16::from(byte) << 1;
    let reduced = if doubled > 0xff {
        doubled ^ 0x11d
    } else {
        doubled
    };
    u8::try_from(reduced).unwrap()
}

impl Sample {
    pub(crate) fn member_size(&self) -> u64 {
        (self.chunk * self.rows) as u64
    }

    /// What each member holds.
    pub(crate) fn members(&self) -> Vec<Vec<u8>> {
        let mut members = vec![vec![0; self.chunk * self.rows]; self.parts];
        let mut chunks = self.data.chunks(self.chunk);
        for row in 0..self.rows {
            let table = table(self.level, self.layout, self.parts, row);
            let place = row * self.chunk..(row + 1) * self.chunk;
            for part in &table.data {
                members[*part][place.clone()].copy_from_slice(chunks.next().unwrap());
            }
            for at in place {
                members[table.p][at] = table.data.iter().fold(0, |p, d| p ^ members[*d][at]);
                if let Some(q) = table.q {
                    members[q][at] = q_of(&members, &table.exponents, at);
                }
            }
        }
        members
    }
}

fn q_of(members: &[Vec<u8>], exponents: &[(usize, usize)], at: usize) -> u8 {
    let terms = exponents.iter().map(|(part, exponent)| {
        let byte = members[*part][at];
        (0..*exponent).fold(byte, |byte, _| twice(byte))
    });
    terms.fold(0, |q, term| q ^ term)
}
