//! A line of a table as words with their columns. Pure.
//!
//! Blanks part words. Behind the target's name a `#` begins a comment, wherever it stands, and a
//! backslash takes the next character as it is (a blank in a path); so dmsetup and the kernel read
//! it.

use super::error::{DmProblem, TableError};
use super::table::TextPosition;

/// A word and where it begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Word {
    pub(super) text: String,
    pub(super) place: TextPosition,
}

/// The words of one line, taken from the front.
#[derive(Debug)]
pub(super) struct Words<'a> {
    target: Option<&'static str>,
    line: usize,
    rest: &'a str,
    /// Characters before `rest`.
    before: usize,
}

impl<'a> Words<'a> {
    /// The words of `text`, which is line `line`.
    pub(super) const fn new(text: &'a str, line: usize) -> Self {
        Self {
            target: None,
            line,
            rest: text,
            before: 0,
        }
    }

    /// Where the next word begins, or would begin.
    pub(super) fn place(&mut self) -> TextPosition {
        self.skip_blanks();
        TextPosition {
            line: self.line,
            column: self.before + 1,
        }
    }

    /// The next word as it stands there.
    pub(super) fn plain(&mut self) -> Option<Word> {
        let place = self.place();
        let len = self.rest.find(is_blank).unwrap_or(self.rest.len());
        let text = self.rest[..len].to_owned();
        self.advance(len);
        (!text.is_empty()).then_some(Word { text, place })
    }

    /// From here on the words are the arguments of `target`.
    pub(super) fn begin_arguments(&mut self, target: &'static str) {
        self.target = Some(target);
        self.rest = self.rest.split('#').next().unwrap_or("");
    }

    /// The next argument.
    pub(super) fn argument(&mut self, what: &'static str) -> Result<Word, TableError> {
        let place = self.place();
        let mut text = String::new();
        let mut len = 0;
        let mut chars = self.rest.char_indices();
        while let Some((at, c)) = chars.next() {
            if is_blank(c) {
                break;
            }
            let next = if c == '\\' { chars.next() } else { None };
            let (at, taken) = next.unwrap_or((at, c));
            text.push(taken);
            len = at + taken.len_utf8();
        }
        self.advance(len);
        if text.is_empty() {
            let target = self.target.unwrap_or("the line");
            return Err(DmProblem::Missing { what, target }.at(place));
        }
        Ok(Word { text, place })
    }

    /// The next argument as a number.
    pub(super) fn number(&mut self, what: &'static str) -> Result<(u64, TextPosition), TableError> {
        let word = self.argument(what)?;
        word.number(what).map(|number| (number, word.place))
    }

    /// Whether there is another argument.
    pub(super) fn is_empty(&mut self) -> bool {
        self.skip_blanks();
        self.rest.is_empty()
    }

    /// Refuses arguments that are left over.
    pub(super) fn finish(&mut self) -> Result<(), TableError> {
        if self.is_empty() {
            return Ok(());
        }
        let word = self.argument("")?;
        let target = self.target.unwrap_or("the line");
        let found = word.text;
        Err(DmProblem::Extra { found, target }.at(word.place))
    }

    fn skip_blanks(&mut self) {
        let len = self.rest.len() - self.rest.trim_start_matches(is_blank).len();
        self.advance(len);
    }

    fn advance(&mut self, len: usize) {
        let (passed, rest) = self.rest.split_at(len);
        self.before += passed.chars().count();
        self.rest = rest;
    }
}

impl Word {
    /// The word as a decimal number.
    pub(super) fn number(&self, what: &'static str) -> Result<u64, TableError> {
        let digits = !self.text.is_empty() && self.text.bytes().all(|b| b.is_ascii_digit());
        let number = digits.then(|| self.text.parse().ok()).flatten();
        number.ok_or_else(|| {
            let found = self.text.clone();
            DmProblem::Number { what, found }.at(self.place)
        })
    }
}

const fn is_blank(c: char) -> bool {
    c.is_ascii_whitespace() || c == '\x0b'
}
