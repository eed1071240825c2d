//! The shape of a disk expression, as written: no meaning yet, every part with its place.
//!
//! [`std::fmt::Display`] writes an expression so that parsing it gives the same one again.

use std::fmt;

use super::token::{is_bare_word, is_key, is_name};

/// A piece of the text, in bytes: from `start` up to, not including, `end`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Span {
    /// First byte.
    pub(crate) start: usize,
    /// Behind the last byte.
    pub(crate) end: usize,
}

/// A path, a URI, a size or a switch, depending on the position.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Word {
    /// The characters, without quotes.
    pub(crate) text: String,
    /// Where, quotes included.
    pub(crate) span: Span,
}

/// The name before a `=`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Key {
    /// The characters, without quotes.
    pub(crate) text: String,
    /// Where, without the `=`.
    pub(crate) span: Span,
}

/// `[KEY=]VALUE` inside a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Argument {
    /// The key, if it has one.
    pub(crate) key: Option<Key>,
    /// The value.
    pub(crate) value: Expression,
}

/// `NAME(ARGUMENT, …)`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Call {
    /// The name and where it is.
    pub(crate) name: Word,
    /// The arguments, in order.
    pub(crate) arguments: Vec<Argument>,
    /// Where, from the name to the closing bracket.
    pub(crate) span: Span,
}

/// A disk, or the value of an argument.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Expression {
    /// A word.
    Word(Word),
    /// A call.
    Call(Call),
}

/// `[NAME=]DISK`, as `serve` takes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Named {
    /// The name of the export, if given.
    pub(crate) name: Option<Key>,
    /// The disk.
    pub(crate) disk: Expression,
}

impl Expression {
    /// Where it is.
    pub(crate) const fn span(&self) -> Span {
        match self {
            Self::Word(word) => word.span,
            Self::Call(call) => call.span,
        }
    }
}

/// Writes `text` as a word: bare where that reads back as the same word.
fn write_word(f: &mut fmt::Formatter<'_>, text: &str) -> fmt::Result {
    if is_bare_word(text) {
        return f.write_str(text);
    }
    write_quoted(f, text)
}

fn write_quoted(f: &mut fmt::Formatter<'_>, text: &str) -> fmt::Result {
    write!(f, "'{}'", text.replace('\'', "''"))
}

impl fmt::Display for Expression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Word(word) => write_word(f, &word.text),
            Self::Call(call) => write!(f, "{call}"),
        }
    }
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        debug_assert!(is_name(&self.name.text));
        write!(f, "{}(", self.name.text)?;
        for (index, argument) in self.arguments.iter().enumerate() {
            if index > 0 {
                f.write_str(", ")?;
            }
            if let Some(key) = &argument.key {
                write!(f, "{key}=")?;
            }
            write!(f, "{}", argument.value)?;
        }
        f.write_str(")")
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if is_key(&self.text) {
            f.write_str(&self.text)
        } else {
            write_quoted(f, &self.text)
        }
    }
}

impl fmt::Display for Named {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(name) = &self.name {
            write!(f, "{name}=")?;
        }
        write!(f, "{}", self.disk)
    }
}
