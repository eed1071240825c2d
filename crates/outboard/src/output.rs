//! Standard output: text for people, one JSON value a line for programs.
//!
//! A reader that went away (`outboard status | head -1`) is no failure; a full disk is.

use std::io::{self, Write};

use serde::Serialize;

use crate::failure::Failure;

/// Whom a command talks to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    /// People.
    Text,
    /// Programs.
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
    let mut out = io::stdout().lock();
    let written = writeln!(out, "{text}").and_then(|()| out.flush());
    match written {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(Failure::because(
            "cannot write to the standard output",
            &error,
        )),
        _ => Ok(()),
    }
}

/// Tells something beside the answer, on standard error.
pub(crate) fn remark(text: &str) {
    drop(writeln!(io::stderr().lock(), "outboard: {text}"));
}

/// Tells a failure on standard error. Nothing can be done if that is gone too.
pub(crate) fn tell(failure: &Failure, format: Format) {
    let text = match format {
        Format::Text => failure.text(),
        Format::Json => serde_json::to_string(failure).unwrap_or_else(|_| failure.text()),
    };
    drop(writeln!(io::stderr().lock(), "{text}"));
}

/// Rows as columns, two blanks apart; the last column is as wide as it likes.
pub(crate) fn columns<const N: usize>(rows: &[[String; N]]) -> String {
    let width = |column: usize| {
        let cells = rows.iter().map(|row| row[column].chars().count());
        cells.max().unwrap_or(0)
    };
    let widths: [usize; N] = std::array::from_fn(width);
    let lines = rows.iter().map(|row| {
        let cells = row.iter().zip(widths);
        let padded: Vec<String> = cells
            .map(|(cell, width)| format!("{cell:width$}"))
            .collect();
        padded.join("  ").trim_end().to_owned()
    });
    lines.collect::<Vec<_>>().join("\n")
}
