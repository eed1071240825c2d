//! What can be wrong with an expression, and how its place is shown.

use std::error::Error;

use super::catalog;
use super::size::{ByteSize, SizeError};
use super::syntax::Span;
use super::time::TimeError;

/// A place in a text that a user wrote.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SourceMark {
    /// The whole text.
    pub(crate) text: String,
    /// The piece that is meant.
    pub(crate) span: Span,
}

/// A wrong expression: what is wrong, and where.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("character {}: {problem}", .mark.column())]
pub(crate) struct ExpressionError {
    /// Where.
    pub(crate) mark: SourceMark,
    /// What.
    pub(crate) problem: ExpressionProblem,
}

/// What is wrong.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ExpressionProblem {
    /// Text beyond the bound.
    #[error("a disk may take {max} bytes of text at most")]
    TooLong {
        /// The bound.
        max: usize,
    },
    /// Nesting beyond the bound.
    #[error("calls may be nested {max} deep at most")]
    TooDeep {
        /// The bound.
        max: usize,
    },
    /// A quote without its twin.
    #[error("this {quote} is never closed: expected another {quote}")]
    UnclosedQuote {
        /// The quote.
        quote: char,
    },
    /// A bracket without its twin.
    #[error("this `(` is never closed: expected `,` or `)`")]
    UnclosedCall,
    /// A token where another one belongs.
    #[error("expected {expected}, found {found}{}", quoting_hint(.expected))]
    Unexpected {
        /// What belongs there.
        expected: &'static str,
        /// What stands there.
        found: String,
    },
    /// `''` as a value.
    #[error("expected a path, a URI or a value, found empty quotes")]
    EmptyWord,
    /// Something before `(` that is no name.
    #[error(
        "`(` may only follow a name like memory or array, not `{text}`; quote a path or a name that has other characters in it"
    )]
    NotAName {
        /// What stands before the bracket.
        text: String,
    },
    /// `f(a=1, b)`.
    #[error("an argument without a key comes before those with one")]
    PositionalAfterKey,
    /// A call of something that does not exist.
    #[error("there is no disk `{name}`{}; there are {}", did_you_mean(*suggestion), catalog::built_names())]
    UnknownDisk {
        /// The name.
        name: String,
        /// The name it looks like.
        suggestion: Option<&'static str>,
    },
    /// `http://…`
    #[error(
        "`{scheme}://` is no disk; remote disks are {}",
        catalog::all_schemes()
    )]
    UnknownScheme {
        /// The scheme.
        scheme: String,
    },
    /// A URI that cannot be used.
    #[error("{reason}")]
    Uri {
        /// What is wrong with it.
        reason: String,
    },
    /// `bucket()` of something else.
    #[error(
        "expected the URI of a volume on an object store: s3://BUCKET/PATH/VOLUME or file:///PATH/VOLUME"
    )]
    NotAVolumeUri,
    /// `durability=local` or `journal-size=` of a volume without a journal.
    #[error("that is for a volume with a journal: write journal=FILE, too")]
    NoJournal,
    /// A journal that nothing would be written to.
    #[error(
        "a journal is for a volume that is written, with durability=local: a flush returns when it is in the journal; with durability=store it would have no use"
    )]
    UnusedJournal,
    /// `prefer=` and something else than a member.
    #[error(
        "`{found}` is none of the members: write one as it is written before, or its place from 1 on"
    )]
    NoMember {
        /// What stands there.
        found: String,
    },
    /// `name=` and something else than a volume.
    #[error("expected GROUP/VOLUME or VOLUME, like vg0/media, found `{found}`")]
    NotAVolume {
        /// What stands there.
        found: String,
    },
    /// A call that lacks an argument.
    #[error("{argument} is missing; write {usage}")]
    Missing {
        /// What it is.
        argument: &'static str,
        /// How the call is written.
        usage: &'static str,
    },
    /// A call with one argument too many.
    #[error("one argument too many; write {usage}")]
    TooMany {
        /// How the call is written.
        usage: &'static str,
    },
    /// A key that the call does not know.
    #[error("there is no argument `{key}`{}; write {usage}", did_you_mean(*suggestion))]
    UnknownKey {
        /// The key.
        key: String,
        /// The key it looks like.
        suggestion: Option<&'static str>,
        /// How the call is written.
        usage: &'static str,
    },
    /// The same key again.
    #[error("`{key}` is given twice")]
    KeyTwice {
        /// The key.
        key: String,
    },
    /// A call where a plain value belongs.
    #[error("expected {expected}, found a disk")]
    NotAWord {
        /// What belongs there.
        expected: &'static str,
    },
    /// No size.
    #[error("expected a size like 64K or 1.5G: {0}")]
    NotASize(SizeError),
    /// No size of a disk.
    #[error("a disk's size is a multiple of 512 bytes, {size} is none")]
    OddSize {
        /// The size.
        size: u64,
    },
    /// No size of blocks.
    #[error("a block size is a power of two from 512 to 65536 bytes, {size} is none")]
    NotABlockSize {
        /// The size.
        size: u64,
    },
    /// A size that is too small or too large.
    #[error("expected a size from {min} to {max}, found {size}")]
    SizeBounds {
        /// The size.
        size: ByteSize,
        /// The smallest.
        min: ByteSize,
        /// The largest.
        max: ByteSize,
    },
    /// No time.
    #[error("expected a time like 2ms or 1.5s: {0}")]
    NotATime(TimeError),
    /// None of the words that may stand there.
    #[error("expected {}, found `{found}`", .choices.join(" or "))]
    NotAChoice {
        /// What stands there.
        found: String,
        /// What may.
        choices: &'static [&'static str],
    },
    /// No kind of request.
    #[error(
        "expected read, write, flush, trim or write-zeroes, or several joined by `+`, found `{found}`"
    )]
    NotAKind {
        /// What stands there.
        found: String,
    },
    /// No place on a disk.
    #[error("expected OFFSET+LENGTH like 1M+64K, found `{found}`")]
    NotAPlace {
        /// What stands there.
        found: String,
    },
    /// No part of a whole.
    #[error("expected a part like 10% or 0.1, in millionths at the finest, found `{found}`")]
    NotAPart {
        /// What stands there.
        found: String,
    },
    /// More disks than one call takes.
    #[error("at most {max} disks make one")]
    TooManyDisks {
        /// The bound.
        max: usize,
    },
    /// A path where only a remote disk will do.
    #[error("expected the URI of a remote disk ({schemes})")]
    NotRemote {
        /// How they begin.
        schemes: String,
    },
    /// No number, or one that is too small or too large.
    #[error("expected a number from 1 to {max}, found `{found}`")]
    NotACount {
        /// What stands there.
        found: String,
        /// The largest that may.
        max: usize,
    },
    /// Neither true nor false.
    #[error("expected true or false, found `{found}`")]
    NotASwitch {
        /// What stands there.
        found: String,
    },
}

fn did_you_mean(suggestion: Option<&'static str>) -> String {
    suggestion.map_or_else(String::new, |name| format!(" (did you mean {name}?)"))
}

fn quoting_hint(expected: &str) -> &'static str {
    if expected.contains("end of the disk") {
        "; quote a path that has blanks, brackets, commas or `=` in it"
    } else {
        ""
    }
}

impl ExpressionProblem {
    /// A URI that does not parse.
    pub(super) fn uri(error: impl Error) -> Self {
        let reason = error.to_string();
        Self::Uri { reason }
    }
}

impl ExpressionError {
    /// An error at `span` of `text`.
    pub(crate) fn new(text: &str, span: Span, problem: ExpressionProblem) -> Self {
        let text = text.to_owned();
        Self {
            mark: SourceMark { text, span },
            problem,
        }
    }
}

/// Most characters of a text that a picture shows before and behind the place.
const AROUND_MAX: usize = 60;

impl SourceMark {
    /// The first character's number, from 1.
    pub(crate) fn column(&self) -> usize {
        1 + self.before().chars().count()
    }

    fn before(&self) -> &str {
        self.text.get(..self.span.start).unwrap_or_default()
    }

    /// The text and a line of carets below the place; two lines, without a line end behind them.
    pub(crate) fn picture(&self) -> String {
        let before = self.before();
        let behind = self.text.get(self.span.start..).unwrap_or_default();
        let cut = before.chars().count().saturating_sub(AROUND_MAX);
        let mut line = String::from("  ");
        if cut > 0 {
            line.push('…');
        }
        line.extend(before.chars().skip(cut).map(visible));
        let indent = line.chars().count();
        line.extend(behind.chars().take(AROUND_MAX).map(visible));
        if behind.chars().nth(AROUND_MAX).is_some() {
            line.push('…');
        }
        let place = self.text.get(self.span.start..self.span.end);
        let marked = place.map_or(0, |place| place.chars().count());
        let carets = "^".repeat(marked.clamp(1, AROUND_MAX));
        format!("{line}\n{:indent$}{carets}", "")
    }
}

/// One visible column for each character, so that the carets stay below their place.
fn visible(c: char) -> char {
    if c.is_control() { '·' } else { c }
}
