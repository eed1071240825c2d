//! [`Failure`]: the error of a command.
//!
//! One line says what failed, on what, and what to do next; below it, for a disk expression, the
//! place. The exit status is 2 for what the command line alone shows to be wrong, else 1.

use std::error::Error;
use std::fmt::Display;
use std::process::ExitCode;

use lab_drivers::DriverError;
use nodes::array::ArrayError;
use serde::Serialize;

use crate::graph::builder::BuildError;
use crate::graph::{ExpressionError, SourceMark};

/// A command that failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Failure {
    /// What failed, on what, and why: one line.
    #[serde(rename = "error")]
    what: String,
    /// What to do next.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<String>,
    /// Exit status.
    status: u8,
    /// Places in expressions.
    #[serde(skip)]
    pictures: Vec<String>,
    /// Whether the answer on standard output has it already.
    #[serde(skip)]
    is_reported: bool,
}

/// Longest expression, in characters, that is repeated in the message above its picture.
const EXPRESSION_SHOWN_MAX: usize = 60;
/// Exit status of a command that could not be carried out.
const FAILED: u8 = 1;
/// Exit status of a command line that makes no sense.
const USAGE: u8 = 2;

impl Failure {
    /// Something could not be done.
    pub(crate) fn new(what: impl Display) -> Self {
        Self {
            what: one_line(&what.to_string()),
            next: None,
            status: FAILED,
            pictures: Vec::new(),
            is_reported: false,
        }
    }

    /// Something could not be done, because of `error`.
    pub(crate) fn because(what: impl Display, error: &(dyn Error + 'static)) -> Self {
        Self::new(format!("{what}: {}", chain(error)))
    }

    /// `error` says all there is to say.
    pub(crate) fn from_error(error: &(dyn Error + 'static)) -> Self {
        Self::new(chain(error))
    }

    /// The command line makes no sense.
    pub(crate) fn usage(what: impl Display) -> Self {
        Self {
            status: USAGE,
            ..Self::new(what)
        }
    }

    /// The answer that was printed says what failed: only the exit status is left.
    pub(crate) fn reported() -> Self {
        Self {
            is_reported: true,
            ..Self::new("")
        }
    }

    /// The same for a process that printed what failed and exited with `status`.
    pub(crate) fn reported_as(status: u8) -> Self {
        Self {
            status,
            ..Self::reported()
        }
    }

    /// Whether there is nothing left to print.
    pub(crate) const fn is_reported(&self) -> bool {
        self.is_reported
    }

    /// What the user can do about it.
    pub(crate) fn next(mut self, next: impl Display) -> Self {
        self.next = Some(one_line(&next.to_string()));
        self
    }

    /// A place in an expression, shown below the line.
    pub(crate) fn at(mut self, mark: &SourceMark) -> Self {
        self.pictures.push(mark.picture());
        self
    }

    /// The line and the pictures, without a line end behind them.
    pub(crate) fn text(&self) -> String {
        let mut text = format!("outboard: {}", self.line());
        for picture in &self.pictures {
            text.push('\n');
            text.push_str(picture);
        }
        text
    }

    /// The line alone, for another message to go on with.
    pub(crate) fn line(&self) -> String {
        match &self.next {
            Some(next) => format!("{}; {next}", self.what),
            None => self.what.clone(),
        }
    }

    /// For the end of `main`.
    pub(crate) fn exit_code(&self) -> ExitCode {
        ExitCode::from(self.status)
    }
}

impl From<ExpressionError> for Failure {
    fn from(error: ExpressionError) -> Self {
        let text = &error.mark.text;
        let place = if text.chars().count() <= EXPRESSION_SHOWN_MAX {
            format!("in the disk `{text}`, {error}")
        } else {
            format!("in the disk, {error}")
        };
        Self::usage(place).at(&error.mark)
    }
}

impl From<BuildError> for Failure {
    fn from(error: BuildError) -> Self {
        let mut failure = Self::from_error(&error);
        if let Some(next) = error.next() {
            failure = failure.next(next);
        }
        // A plain path is in the message already.
        let composed = error
            .marks()
            .into_iter()
            .filter(|mark| mark.text.contains('('));
        composed.fold(failure, Self::at)
    }
}

impl From<ArrayError> for Failure {
    fn from(error: ArrayError) -> Self {
        let failure = Self::from_error(&error);
        match error.next() {
            Some(next) => failure.next(next),
            None => failure,
        }
    }
}

impl From<DriverError> for Failure {
    fn from(error: DriverError) -> Self {
        let mut failure = match (&error.source, error.what.is_empty()) {
            (None, _) => Self::new(&error.what),
            (Some(source), true) => Self::from_error(&**source),
            (Some(source), false) => Self::because(&error.what, &**source),
        };
        if error.is_usage {
            failure.status = USAGE;
        }
        failure.pictures = error.pictures;
        match error.next {
            Some(next) => failure.next(next),
            None => failure,
        }
    }
}

impl From<Failure> for DriverError {
    fn from(failure: Failure) -> Self {
        Self {
            what: failure.what,
            source: None,
            next: failure.next,
            pictures: failure.pictures,
            is_usage: failure.status == USAGE,
        }
    }
}

/// An error and its causes, as one text. Causes that the error's own message contains are not repeated.
fn chain(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let message = cause.to_string();
        if !text.contains(&message) {
            text.push_str(": ");
            text.push_str(&message);
        }
        next = cause.source();
    }
    // "No such file or directory (os error 2)": the number adds nothing.
    match text.find(" (os error ") {
        Some(_) => without_os_numbers(&text),
        None => text,
    }
}

fn without_os_numbers(text: &str) -> String {
    let mut pieces = text.split(" (os error ");
    let mut clean = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        clean.push_str(piece.split_once(')').map_or(piece, |(_, rest)| rest));
    }
    clean
}

fn one_line(text: &str) -> String {
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    lines.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests;
