//! Levels and layouts by name, as mdadm calls them. Pure.

use std::fmt;

/// A RAID level.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Level {
    /// One member behind the other.
    Linear,
    /// Striped.
    Raid0,
    /// Mirrored.
    Raid1,
    /// Striped, with parity on one member.
    Raid4,
    /// Striped, with parity on all in turn.
    Raid5,
    /// Striped, with two parities.
    Raid6,
    /// Striped and mirrored.
    Raid10,
    /// Another one, by md's number: multipath (-4), container (-100)…
    Other(i32),
}

impl Level {
    /// By md's number.
    #[must_use]
    pub const fn of(number: i32) -> Self {
        match number {
            -1 => Self::Linear,
            0 => Self::Raid0,
            1 => Self::Raid1,
            4 => Self::Raid4,
            5 => Self::Raid5,
            6 => Self::Raid6,
            10 => Self::Raid10,
            other => Self::Other(other),
        }
    }

    /// md's number.
    #[must_use]
    pub const fn number(self) -> i32 {
        match self {
            Self::Linear => -1,
            Self::Raid0 => 0,
            Self::Raid1 => 1,
            Self::Raid4 => 4,
            Self::Raid5 => 5,
            Self::Raid6 => 6,
            Self::Raid10 => 10,
            Self::Other(number) => number,
        }
    }

    /// Parities of a row; 0 where the level keeps none.
    #[must_use]
    pub const fn parities(self) -> usize {
        match self {
            Self::Raid4 | Self::Raid5 => 1,
            Self::Raid6 => 2,
            _ => 0,
        }
    }

    /// Whether `part` of an array of `parts` holds parity in every row, and no data.
    #[must_use]
    pub const fn is_parity_alone(self, layout: u32, parts: u32, part: u32) -> bool {
        let (is_first, is_last) = (part == 0, part + 1 == parts);
        match (self, layout) {
            (Self::Raid4, _) | (Self::Raid5, 5) | (Self::Raid6, 16..=19) => is_last,
            (Self::Raid5, 4) => is_first,
            (Self::Raid6, 4) => part < 2,
            (Self::Raid6, 5) => part + 2 >= parts,
            (Self::Raid6, 20) => is_first || is_last,
            _ => false,
        }
    }

    /// Whether the data can be had from these parts, of which `present` says whether they are there.
    #[must_use]
    pub fn survives(self, layout: u32, present: &[bool]) -> bool {
        let missing = present.iter().filter(|present| !**present).count();
        match self {
            Self::Raid1 => missing < present.len(),
            Self::Raid4 | Self::Raid5 | Self::Raid6 => missing <= self.parities(),
            Self::Raid10 => raid10_survives(layout, present),
            Self::Linear | Self::Raid0 | Self::Other(_) => missing == 0,
        }
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Linear => write!(f, "linear"),
            Self::Raid0 => write!(f, "raid0"),
            Self::Raid1 => write!(f, "raid1"),
            Self::Raid4 => write!(f, "raid4"),
            Self::Raid5 => write!(f, "raid5"),
            Self::Raid6 => write!(f, "raid6"),
            Self::Raid10 => write!(f, "raid10"),
            Self::Other(-4) => write!(f, "multipath"),
            Self::Other(-100) => write!(f, "container"),
            Self::Other(number) => write!(f, "level {number}"),
        }
    }
}

const RAID5: [(u32, &str); 6] = [
    (0, "left-asymmetric"),
    (1, "right-asymmetric"),
    (2, "left-symmetric"),
    (3, "right-symmetric"),
    (4, "parity-first"),
    (5, "parity-last"),
];

const RAID6: [(u32, &str); 8] = [
    (8, "ddf-zero-restart"),
    (9, "ddf-N-restart"),
    (10, "ddf-N-continue"),
    (16, "left-asymmetric-6"),
    (17, "right-asymmetric-6"),
    (18, "left-symmetric-6"),
    (19, "right-symmetric-6"),
    (20, "parity-first-6"),
];

/// Other names of layouts that levels 5 and 6 have.
const SHORT: [(u32, &str); 5] = [(0, "la"), (1, "ra"), (2, "ls"), (3, "rs"), (2, "default")];

/// Layouts of level 5 by the names that DDF has for them.
const RAID5_OF_DDF: [(u32, &str); 3] = [
    (1, "ddf-zero-restart"),
    (0, "ddf-N-restart"),
    (2, "ddf-N-continue"),
];

/// The layouts of a level with parity by name, mdadm's long names first. Level 4 has none.
fn parity_layouts(level: Level) -> impl Iterator<Item = (u32, &'static str)> {
    let (long, more): (&[_], &[_]) = match level {
        Level::Raid5 => (&RAID5, &RAID5_OF_DDF),
        Level::Raid6 => (&RAID5, &RAID6),
        _ => (&[], &[]),
    };
    let short: &[_] = if long.is_empty() { &[] } else { &SHORT };
    [long, more, short].into_iter().flatten().copied()
}

/// md's number of a layout of level 5 or 6, by any name that mdadm has for it.
///
/// # Errors
/// The names that there are.
pub fn parity_layout(level: Level, name: &str) -> Result<u32, Vec<&'static str>> {
    let found = parity_layouts(level).find(|(_, known)| *known == name);
    match found {
        Some((number, _)) => Ok(number),
        None => Err(parity_layouts(level).map(|(_, name)| name).collect()),
    }
}

/// The name of a layout, where the level has layouts.
#[must_use]
pub fn layout_name(level: Level, layout: u32) -> Option<String> {
    let named = |table: &[(u32, &str)]| {
        let mut rows = table.iter();
        rows.find(|(number, _)| *number == layout)
            .map(|(_, name)| (*name).to_owned())
    };
    let name = match level {
        Level::Raid5 => named(&RAID5),
        Level::Raid6 => named(&RAID5).or_else(|| named(&RAID6)),
        Level::Raid10 => raid10(layout),
        Level::Raid0 => named(&[(1, "original"), (2, "alternate")]),
        _ => return None,
    };
    match (name, level) {
        // Arrays from before layouts had numbers.
        (None, Level::Raid0) => None,
        (None, _) => Some(format!("unknown layout {layout:#x}")),
        (name, _) => name,
    }
}

/// `near=2`: copies side by side, in other halves of the members, or a chunk further on.
fn raid10(layout: u32) -> Option<String> {
    let (near, far) = (layout & 0xff, layout >> 8 & 0xff);
    let is_offset = layout & 0x1_0000 != 0;
    if layout >> 17 > 1 || near == 0 || far == 0 {
        return None;
    }
    let mut parts = Vec::new();
    if near > 1 || far == 1 {
        parts.push(format!("near={near}"));
    }
    if far > 1 {
        let way = if is_offset { "offset" } else { "far" };
        parts.push(format!("{way}={far}"));
    }
    Some(parts.join(", "))
}

/// Whether each chunk has a copy on a part that is there. The copies of the chunk at part `first` are
/// the next `near` parts, and those as far behind them for each of `far`.
fn raid10_survives(layout: u32, present: &[bool]) -> bool {
    let (near, far) = (layout & 0xff, layout >> 8 & 0xff);
    let (Ok(near), Ok(far)) = (usize::try_from(near), usize::try_from(far)) else {
        return false;
    };
    let parts = present.len();
    if near * far > parts {
        return false;
    }
    (0..parts).all(|chunk| {
        let first = chunk * near;
        let mut copies = (0..far).flat_map(|f| (0..near).map(move |n| first + n + f * near));
        copies.any(|copy| present[copy % parts])
    })
}
