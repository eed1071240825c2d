//! The targets that are supported: [`TARGETS`], one line and one file each.
//!
//! A new target is a file here with a type that implements [`DmTarget`] and a function that parses its
//! arguments, and a line of [`TARGETS`]. Everything else (which disks to open, which of their bytes are in
//! use, alignment, overlaps, size checks) follows from [`DmTarget::uses`].

mod error;
mod linear;
mod origin;
mod snapshot;
mod striped;
mod unsupported_targets;
mod zero;

use std::fmt;
use std::path::PathBuf;

use super::SECTOR;
use super::error::{DmProblem, TableError};
use super::table::{Device, DeviceName, DeviceUse, TableLine, TextPosition};
use super::words::{Word, Words};
use crate::Segment;

/// Parses the arguments of a target.
type Parse = fn(&mut Words<'_>, &LineLength) -> Result<Box<dyn DmTarget>, TableError>;

/// Every supported target: its name in tables and the parser of its arguments.
const TARGETS: [(&str, Parse); 6] = [
    ("linear", linear::parse),
    ("striped", striped::parse),
    ("zero", zero::parse),
    ("error", error::parse),
    ("snapshot", snapshot::parse),
    ("snapshot-origin", origin::parse),
];

/// Sectors of the largest disk.
const SECTORS_MAX: u64 = i64::MAX.unsigned_abs() / SECTOR;

/// What a run of sectors is. Offsets and lengths are in sectors.
pub(super) trait DmTarget: fmt::Debug + Send + Sync {
    /// The sectors of devices that a line of `len` sectors maps to, in the order of its arguments.
    fn uses(&self, len: u64) -> Vec<DeviceUse<'_>>;

    /// Builds the disk of `line` from `parts`: the sectors of [`DmTarget::uses`], in that order.
    ///
    /// # Errors
    /// If the parts do not fit each other.
    fn build(&self, line: &TableLine, parts: Vec<Segment>) -> Result<Segment, TableError>;

    /// What the user should know of a line that is valid.
    fn remark(&self) -> Option<String> {
        None
    }
}

/// The length of a line, in sectors, and where the text has it.
#[derive(Debug, Clone, Copy)]
pub(super) struct LineLength {
    sectors: u64,
    place: TextPosition,
}

impl LineLength {
    /// The length of a line that begins at sector `start`.
    pub(super) fn new(start: u64, sectors: u64, place: TextPosition) -> Result<Self, TableError> {
        if sectors == 0 {
            return Err(DmProblem::NoSectors.at(place));
        }
        if !ends_on_disk(start, sectors) {
            return Err(DmProblem::TooLarge.at(place));
        }
        Ok(Self { sectors, place })
    }

    pub(super) const fn sectors(&self) -> u64 {
        self.sectors
    }
}

/// Parses the arguments of the target `name`.
pub(super) fn parse(
    name: &Word,
    words: &mut Words<'_>,
    len: &LineLength,
) -> Result<Box<dyn DmTarget>, TableError> {
    let known = TARGETS.iter().find(|(known, _)| *known == name.text);
    if let Some((known, parse)) = known {
        words.begin_arguments(known);
        return parse(words, len);
    }
    let problem = match unsupported_targets::find(&name.text) {
        Some((name, instead)) => DmProblem::Refused { name, instead },
        None => DmProblem::UnknownTarget {
            found: name.text.clone(),
            known: list_of_names(),
        },
    };
    Err(problem.at(name.place))
}

/// The names of all supported targets.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    TARGETS.iter().map(|(name, _)| *name)
}

/// The names as a sentence lists them.
fn list_of_names() -> String {
    let names: Vec<_> = names().collect();
    match names.as_slice() {
        [] => String::new(),
        [only] => (*only).to_owned(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

/// `MAJOR:MINOR`, or anything else: a path.
fn device(words: &mut Words<'_>, what: &'static str) -> Result<Device, TableError> {
    let word = words.argument(what)?;
    let place = word.place;
    let number = word.text.split_once(':').and_then(|(major, minor)| {
        let (major, minor) = (decimal(major)?, decimal(minor)?);
        Some(DeviceName::Number { major, minor })
    });
    let name = number.unwrap_or_else(|| DeviceName::Path(PathBuf::from(word.text)));
    Ok(Device { name, place })
}

fn decimal(text: &str) -> Option<u32> {
    let digits = text.bytes().all(|b| b.is_ascii_digit());
    digits.then(|| text.parse().ok()).flatten()
}

/// An offset on a device from which on the target uses `len` sectors.
fn offset(words: &mut Words<'_>, len: u64) -> Result<u64, TableError> {
    let (offset, place) = words.number("the device's first sector")?;
    if !ends_on_disk(offset, len) {
        return Err(DmProblem::TooLarge.at(place));
    }
    Ok(offset)
}

fn ends_on_disk(start: u64, len: u64) -> bool {
    start.checked_add(len).is_some_and(|end| end <= SECTORS_MAX)
}

/// The segment of a target that is one run of one disk.
fn only(parts: Vec<Segment>) -> Segment {
    let [only] = <[Segment; 1]>::try_from(parts).expect("the target uses one device");
    only
}
