//! Text -> [`Table`]. Pure.

use std::path::PathBuf;

use super::SECTOR;
use super::error::{Problem, TableError};
use super::refused;
use super::snapshot;
use super::table::{Device, DeviceName, Line, Place, Table, Target};
use super::words::{Word, Words};
use crate::parts::PARTS_MAX;

/// Stripes of one line, at most: as many as the kernel can take in a line of its ioctl.
const STRIPES_MAX: u64 = 4096;
/// The targets there are, for messages.
const KNOWN: &str = "linear, striped, zero, error, snapshot and snapshot-origin";
/// Sectors of the largest disk.
const SECTORS_MAX: u64 = i64::MAX.unsigned_abs() / SECTOR;

/// Reads a table.
///
/// # Errors
/// [`TableError`], with the place.
pub fn parse(text: &str) -> Result<Table, TableError> {
    let mut lines: Vec<Line> = Vec::new();
    for (number, text) in (1..).zip(text.lines()) {
        let mut words = Words::new(text, number);
        let place = words.place();
        if text.trim_start().starts_with('#') || words.is_empty() {
            continue;
        }
        if lines.len() == PARTS_MAX {
            return Err(Problem::TooManyLines { max: PARTS_MAX }.at(place));
        }
        let expected = lines.last().map_or(0, |line| line.start + line.len);
        lines.push(line(&mut words, expected)?);
    }
    if lines.is_empty() {
        let place = Place { line: 1, column: 1 };
        return Err(Problem::NoLine.at(place));
    }
    Ok(Table { lines })
}

fn line(words: &mut Words<'_>, expected: u64) -> Result<Line, TableError> {
    let place = words.place();
    let (start, _) = plain_number(words, "the first sector")?;
    if start != expected {
        return Err(Problem::NotContiguous { start, expected }.at(place));
    }
    let (len, len_place) = plain_number(words, "the length in sectors")?;
    if len == 0 {
        return Err(Problem::NoSectors.at(len_place));
    }
    if start.checked_add(len).is_none_or(|end| end > SECTORS_MAX) {
        return Err(Problem::TooLarge.at(len_place));
    }
    let name = plain(words, "the target")?;
    let target = target(&name, words, len, len_place)?;
    words.finish()?;
    Ok(Line {
        place,
        start,
        len,
        target,
    })
}

/// A word before the arguments.
fn plain(words: &mut Words<'_>, what: &'static str) -> Result<Word, TableError> {
    let place = words.place();
    let target = "the line's beginning";
    words
        .plain()
        .ok_or_else(|| Problem::Missing { what, target }.at(place))
}

fn plain_number(words: &mut Words<'_>, what: &'static str) -> Result<(u64, Place), TableError> {
    let word = plain(words, what)?;
    if word.place.column == 1 && word.text.ends_with(':') {
        let found = word.text;
        return Err(Problem::DeviceName { found }.at(word.place));
    }
    word.number(what).map(|number| (number, word.place))
}

fn target(
    name: &Word,
    words: &mut Words<'_>,
    len: u64,
    len_place: Place,
) -> Result<Target, TableError> {
    match name.text.as_str() {
        "linear" => {
            words.begin_arguments("linear");
            linear(words, len)
        }
        "striped" => {
            words.begin_arguments("striped");
            striped(words, len, len_place)
        }
        "zero" => {
            words.begin_arguments("zero");
            Ok(Target::Zero)
        }
        "error" => {
            words.begin_arguments("error");
            Ok(Target::Error)
        }
        "snapshot" => {
            words.begin_arguments("snapshot");
            snapshot::snapshot(words)
        }
        "snapshot-origin" => {
            words.begin_arguments("snapshot-origin");
            let origin = device(words, "the origin's device")?;
            Ok(Target::SnapshotOrigin { origin })
        }
        other => Err(match refused::find(other) {
            Some((name, instead)) => Problem::Refused { name, instead },
            None => Problem::UnknownTarget {
                found: other.to_owned(),
                known: KNOWN,
            },
        }
        .at(name.place)),
    }
}

fn linear(words: &mut Words<'_>, len: u64) -> Result<Target, TableError> {
    let device = device(words, "the device")?;
    let offset = offset(words, len)?;
    Ok(Target::Linear { device, offset })
}

/// The kernel's rules: a chunk is any number of sectors; the line is a multiple of the stripes, and
/// each stripe of the chunk.
fn striped(words: &mut Words<'_>, len: u64, len_place: Place) -> Result<Target, TableError> {
    let (count, place) = words.number("the number of stripes")?;
    if count == 0 || count > STRIPES_MAX {
        return Err(Problem::StripeCount { max: STRIPES_MAX }.at(place));
    }
    let (chunk, place) = words.number("the chunk in sectors")?;
    match chunk {
        0 => return Err(Problem::NoChunk.at(place)),
        SECTORS_MAX.. => return Err(Problem::TooLarge.at(place)),
        _ => {}
    }
    let each = len / count;
    if !len.is_multiple_of(count) || !each.is_multiple_of(chunk) {
        let problem = Problem::NotDivisible {
            len,
            stripes: count,
            chunk,
        };
        return Err(problem.at(len_place));
    }
    let stripe = |_| Ok((device(words, "a stripe's device")?, offset(words, each)?));
    let stripes = (0..count).map(stripe).collect::<Result<_, _>>()?;
    Ok(Target::Striped { chunk, stripes })
}

/// An offset on a device from which on `len` sectors are used.
fn offset(words: &mut Words<'_>, len: u64) -> Result<u64, TableError> {
    let (offset, place) = words.number("the device's first sector")?;
    if offset.checked_add(len).is_none_or(|end| end > SECTORS_MAX) {
        return Err(Problem::TooLarge.at(place));
    }
    Ok(offset)
}

/// `MAJOR:MINOR`, or anything else: a path.
pub(super) fn device(words: &mut Words<'_>, what: &'static str) -> Result<Device, TableError> {
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
