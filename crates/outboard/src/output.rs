//! Standard output: text for people, one JSON value a line for programs.
//!
//! All that the commands print passes through [`write_line`]. Names of files, exports and servers are others'
//! text: what in them would control a terminal is printed as an escape, where there is a terminal.
//!
//! A reader that went away (`outboard status | head -1`) is no failure; a full disk is.

use std::borrow::Cow;
use std::io::{self, IsTerminal, Write};

use serde::Serialize;

use crate::failure::Failure;

/// The format of a command's output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    /// Plain text.
    Text,
    /// JSON, one value a line.
    Json,
}

impl Format {
    /// Prints `value` for programs or `text` for people, and a line end.
    pub(crate) fn print(
        self,
        value: &impl Serialize,
        text: impl FnOnce() -> String,
    ) -> Result<(), Failure> {
        let line = match self {
            Self::Text => text(),
            Self::Json => serde_json::to_string(value).map_err(|e| Failure::from_error(&e))?,
        };
        print(&line)
    }
}

/// Prints a text and a line end, at once.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    match write_line(io::stdout().lock(), text) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(Failure::because(
            "cannot write to the standard output",
            &error,
        )),
        _ => Ok(()),
    }
}

/// Prints a sentence on standard error.
pub(crate) fn note(text: &str) {
    drop(write_line(io::stderr().lock(), text));
}

/// Prints a remark on standard error.
pub(crate) fn remark(text: &str) {
    drop(write_line(
        io::stderr().lock(),
        &format!("outboard: {text}"),
    ));
}

/// Prints a failure on standard error. An error of that is ignored.
pub(crate) fn print_failure(failure: &Failure, format: Format) {
    if failure.is_reported() {
        return;
    }
    let text = match format {
        Format::Text => failure.text(),
        Format::Json => serde_json::to_string(failure).unwrap_or_else(|_| failure.text()),
    };
    drop(write_line(io::stderr().lock(), &text));
}

/// The one place where text is written.
fn write_line(mut out: impl Write + IsTerminal, text: &str) -> io::Result<()> {
    let text = match out.is_terminal() {
        true => escaped(text),
        false => Cow::Borrowed(text),
    };
    writeln!(out, "{text}")?;
    out.flush()
}

/// Line ends and tabs stay; other control characters, and those that turn the direction of writing, become
/// escapes as in Rust's strings.
fn escaped(text: &str) -> Cow<'_, str> {
    if !text.contains(is_control) {
        return Cow::Borrowed(text);
    }
    let mut clean = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match is_control(c) {
            true => clean.extend(c.escape_default()),
            false => clean.push(c),
        }
    }
    Cow::Owned(clean)
}

/// Whether a terminal does something with it instead of showing it. Unicode's controls of direction can make a
/// name look like another one.
fn is_control(c: char) -> bool {
    let turns = matches!(c, '\u{061c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    turns || (c.is_control() && c != '\n' && c != '\t')
}

/// Rows as columns, two blanks apart; the last column is as wide as it likes.
pub(crate) fn columns<const N: usize>(rows: &[[String; N]]) -> String {
    let rows: Vec<&[String]> = rows.iter().map(<[String; N]>::as_slice).collect();
    aligned(&rows, N)
}

/// The same for any number of columns: what is compiled for each number is small.
fn aligned(rows: &[&[String]], count: usize) -> String {
    let width = |column: usize| {
        let cells = rows.iter().map(|row| row[column].chars().count());
        cells.max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..count).map(width).collect();
    let lines = rows.iter().map(|row| {
        let cells = row.iter().zip(&widths);
        let padded: Vec<String> = cells
            .map(|(cell, &width)| format!("{cell:width$}"))
            .collect();
        padded.join("  ").trim_end().to_owned()
    });
    lines.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_would_control_a_terminal_becomes_an_escape() {
        assert_eq!(escaped("a\tb\nc é"), "a\tb\nc é");
        assert_eq!(escaped("\u{1b}[2Jx\r\u{9b}1m"), "\\u{1b}[2Jx\\r\\u{9b}1m");
        assert_eq!(escaped("gpj.\u{202e}txt"), "gpj.\\u{202e}txt");
    }
}
