//! [`ConfigError`]: why a configuration cannot be used, and where in it.

use std::io;
use std::ops::Range;
use std::path::PathBuf;

/// Something in the text is wrong.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}, column {column}: {what}")]
pub(crate) struct Slip {
    /// Line, from 1.
    pub(crate) line: usize,
    /// Character in it, from 1.
    pub(crate) column: usize,
    /// What is wrong, and what would be right.
    pub(crate) what: String,
}

impl Slip {
    /// `what` is wrong at the byte `at` of `text`.
    pub(super) fn at(text: &str, at: usize, what: impl Into<String>) -> Self {
        let mut end = at.min(text.len());
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        let before = &text[..end];
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        Self {
            line: before.matches('\n').count() + 1,
            column: before[line_start..].chars().count() + 1,
            what: what.into(),
        }
    }

    /// What serde found wrong, in our words.
    pub(super) fn of_toml(text: &str, error: &toml::de::Error) -> Self {
        let start = error.span().map_or(0, |Range { start, .. }| start);
        let message = error.message();
        let message = message.lines().collect::<Vec<_>>().join(" ");
        let what = match message.strip_prefix("unknown field ") {
            Some(rest) => {
                let rest = rest.replace(", expected one of ", "; the keys here are ");
                let rest = rest.replace(", expected ", "; the key here is ");
                format!("unknown key {rest}")
            }
            None => message.replace("missing field", "missing key"),
        };
        Self::at(text, start, what)
    }
}

/// A configuration that cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConfigError {
    /// The file cannot be read.
    #[error("cannot read the configuration {}: {source}", path.display())]
    Unreadable {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The file is absurdly long.
    #[error("the configuration {} is longer than 1 MiB", path.display())]
    TooLong {
        /// Which.
        path: PathBuf,
    },
    /// Something in it is wrong.
    #[error("{}, {slip}", path.display())]
    Slip {
        /// In which.
        path: PathBuf,
        /// What.
        slip: Slip,
    },
}
