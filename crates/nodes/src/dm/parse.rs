//! Text -> [`DmTable`]. Pure.

use super::error::{DmProblem, TableError};
use super::table::{DmTable, TableLine, TextPosition};
use super::target::{self, LineLength};
use super::words::{Word, Words};
use crate::parts::PARTS_MAX;

/// Reads a table.
///
/// # Errors
/// [`TableError`], with the place.
pub fn parse(text: &str) -> Result<DmTable, TableError> {
    let mut lines: Vec<TableLine> = Vec::new();
    for (number, text) in (1..).zip(text.lines()) {
        let mut words = Words::new(text, number);
        let place = words.place();
        if text.trim_start().starts_with('#') || words.is_empty() {
            continue;
        }
        if lines.len() == PARTS_MAX {
            return Err(DmProblem::TooManyLines { max: PARTS_MAX }.at(place));
        }
        let expected = lines.last().map_or(0, |line| line.start + line.len);
        lines.push(line(&mut words, expected)?);
    }
    if lines.is_empty() {
        let place = TextPosition { line: 1, column: 1 };
        return Err(DmProblem::NoLine.at(place));
    }
    Ok(DmTable { lines })
}

fn line(words: &mut Words<'_>, expected: u64) -> Result<TableLine, TableError> {
    let place = words.place();
    let (start, _) = plain_number(words, "the first sector")?;
    if start != expected {
        return Err(DmProblem::NotContiguous { start, expected }.at(place));
    }
    let (len, len_place) = plain_number(words, "the length in sectors")?;
    let len = LineLength::new(start, len, len_place)?;
    let name = plain(words, "the target")?;
    let target = target::parse(&name, words, &len)?;
    words.finish()?;
    Ok(TableLine {
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
        .ok_or_else(|| DmProblem::Missing { what, target }.at(place))
}

fn plain_number(
    words: &mut Words<'_>,
    what: &'static str,
) -> Result<(u64, TextPosition), TableError> {
    let word = plain(words, what)?;
    if word.place.column == 1 && word.text.ends_with(':') {
        let found = word.text;
        return Err(DmProblem::DeviceName { found }.at(word.place));
    }
    word.number(what).map(|number| (number, word.place))
}
