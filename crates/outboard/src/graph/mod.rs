//! Disk expressions: one way to write a disk, on the command line, in the config and in lab plans.
//!
//! ```text
//! named      = [ NAME "=" ] disk                 NAME: letters, digits, _ - . +  or quoted
//! disk       = path-to-the-end | word | call
//! call       = NAME "(" [ argument { "," argument } [ "," ] ] ")"
//! argument   = [ KEY "=" ] ( word | call )
//! word       = bare | "'" … "'" | '"' … '"'      a quote inside quotes is written twice
//! bare       = no blank , ( ) ' "
//! ```
//!
//! A word with `://` in it is a URI, another one a path; where a call expects a size, a switch or a
//! name, the word is read as that. A text that begins with `/`, `./` or `../` is a path up to its
//! end, blanks and brackets included, so that a plain path never needs quotes.
//!
//! # The way of an expression
//!
//! [`token`] and [`parse`] make an `Expression` of the text, [`mod@resolve`] gives each name its meaning
//! and makes a `Disk` of it, [`builder`] opens what the disk names. All but the last are pure.
//!
//! # Invariants
//!
//! * Every `Span` lies within the text, on character boundaries: errors point at the character.
//! * No input panics; nesting and length are bounded ([`parse::DEPTH_MAX`], [`parse::TEXT_MAX`]).
//! * Writing an `Expression` out and parsing it again gives the same expression.
//!
//! # What it does not do
//!
//! It holds no node of its own: those are in `nodes` and `nbd`.

mod absolute;
mod arguments;
mod arrays;
pub(crate) mod builder;
mod catalog;
mod disk;
mod error;
mod faults;
pub(crate) mod outline;
mod parse;
mod resolve;
pub(crate) mod segments;
mod size;
mod syntax;
pub(crate) mod throttle_bounds;
mod time;
mod token;
mod volumes;

pub(crate) use absolute::absolute;
pub(crate) use catalog::usages;
pub(crate) use disk::{Disk, NamedDisk};
pub(crate) use error::{ExpressionError, SourceMark};
pub(crate) use resolve::{as_argument, resolve, with_cache};
pub(crate) use size::{ByteSize, SECTOR, SizeError};
pub(crate) use syntax::Span;

#[cfg(test)]
mod tests;
