//! Text -> [`Table`]. Pure.

use super::error::{Problem, TableError};
use super::table::{Line, Place, Table};
use super::target::{self, LineLength};
use super::words::{Word, Words};
use crate::parts::PARTS_MAX;

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
    let len = LineLength::new(start, len, len_place)?;
    let name = plain(words, "the target")?;
    let target = target::parse(&name, words, &len)?;
    words.finish()?;
    Ok(Line {
        place,
        start,
        len: len.sectors(),
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
