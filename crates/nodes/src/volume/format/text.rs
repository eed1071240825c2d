//! The text of LVM2's metadata: sections of values. Pure.
//!
//! ```text
//! section = NAME "{" { NAME "=" value | section } "}"
//! value   = INTEGER | '"' … '"' | "[" [ value { "," value } ] "]"       # to the end of a line: a remark
//! ```

use std::iter::Peekable;
use std::str::CharIndices;

/// Deepest nesting.
pub const DEPTH_MAX: u32 = 16;

/// A value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TextValue {
    /// A whole number.
    Integer(i64),
    /// A text.
    Text(String),
    /// Several.
    List(Vec<Self>),
}

/// What a name stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TextEntry {
    /// `name = value`
    Value(TextValue),
    /// `name { … }`
    Section(Section),
}

/// What is between braces, in its order.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Section {
    pub(super) entries: Vec<(String, TextEntry)>,
}

/// Why a text cannot be understood.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {what}")]
pub struct TextError {
    /// Counted from 1.
    pub line: usize,
    /// What is wrong there.
    pub what: &'static str,
}

impl Section {
    /// The first entry of that name.
    #[must_use]
    pub fn entry(&self, name: &str) -> Option<&TextEntry> {
        let mut entries = self.entries.iter();
        entries
            .find(|(found, _)| found == name)
            .map(|(_, entry)| entry)
    }

    /// The section of that name.
    #[must_use]
    pub fn section(&self, name: &str) -> Option<&Self> {
        match self.entry(name)? {
            TextEntry::Section(section) => Some(section),
            TextEntry::Value(_) => None,
        }
    }

    /// The names of all entries, in their order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.entries.iter().map(|(name, _)| name.as_str())
    }

    /// All sections.
    pub fn sections(&self) -> impl Iterator<Item = (&str, &Self)> {
        self.entries.iter().filter_map(|(name, entry)| match entry {
            TextEntry::Section(section) => Some((name.as_str(), section)),
            TextEntry::Value(_) => None,
        })
    }

    /// The text of that name.
    #[must_use]
    pub fn text(&self, name: &str) -> Option<&str> {
        match self.entry(name)? {
            TextEntry::Value(TextValue::Text(text)) => Some(text),
            _ => None,
        }
    }

    /// The number of that name, if it is none below zero.
    #[must_use]
    pub fn number(&self, name: &str) -> Option<u64> {
        match self.entry(name)? {
            TextEntry::Value(TextValue::Integer(number)) => u64::try_from(*number).ok(),
            _ => None,
        }
    }

    /// The list of that name.
    #[must_use]
    pub fn list(&self, name: &str) -> Option<&[TextValue]> {
        match self.entry(name)? {
            TextEntry::Value(TextValue::List(list)) => Some(list),
            _ => None,
        }
    }

    /// The texts in the list of that name, or the one text.
    #[must_use]
    pub fn texts(&self, name: &str) -> Vec<String> {
        let text = |value: &TextValue| match value {
            TextValue::Text(text) => Some(text.clone()),
            _ => None,
        };
        match self.entry(name) {
            Some(TextEntry::Value(TextValue::List(list))) => list.iter().filter_map(text).collect(),
            Some(TextEntry::Value(value)) => text(value).into_iter().collect(),
            _ => Vec::new(),
        }
    }
}

/// Understands a whole text.
///
/// # Errors
/// [`TextError`] says where and what.
pub fn parse(text: &str) -> Result<Section, TextError> {
    let mut parser = Parser {
        text,
        rest: text.char_indices().peekable(),
    };
    let section = parser.section(0)?;
    match parser.next_token() {
        None => Ok(section),
        Some(_) => parser.fails("a `}` too many"),
    }
}

#[derive(Debug)]
struct Parser<'a> {
    text: &'a str,
    rest: Peekable<CharIndices<'a>>,
}

impl Parser<'_> {
    fn fails<T>(&mut self, what: &'static str) -> Result<T, TextError> {
        let at = self.rest.peek().map_or(self.text.len(), |(at, _)| *at);
        let line = 1 + self.text[..at].matches('\n').count();
        Err(TextError { line, what })
    }

    /// The next character that means something.
    fn next_token(&mut self) -> Option<char> {
        while let Some((_, c)) = self.rest.peek().copied() {
            if c == '#' {
                while self.rest.next_if(|(_, c)| *c != '\n').is_some() {}
            } else if c.is_whitespace() {
                self.rest.next();
            } else {
                return Some(c);
            }
        }
        None
    }

    fn take(&mut self, wanted: char) -> bool {
        let found = self.next_token() == Some(wanted);
        if found {
            self.rest.next();
        }
        found
    }

    /// The characters from here on that `belongs` has a place for.
    fn run(&mut self, belongs: impl Fn(char) -> bool) -> String {
        let mut run = String::new();
        while let Some((_, c)) = self.rest.next_if(|(_, c)| belongs(*c)) {
            run.push(c);
        }
        run
    }

    /// Entries up to the brace that closes this section, or to the end.
    fn section(&mut self, depth: u32) -> Result<Section, TextError> {
        let mut section = Section::default();
        while let Some(c) = self.next_token() {
            if c == '}' {
                break;
            }
            let name = match c {
                '"' => self.quoted()?,
                _ => self.run(|c| c.is_ascii_alphanumeric() || "-_.+/".contains(c)),
            };
            if name.is_empty() {
                return self.fails("a name is expected");
            }
            let entry = if self.take('=') {
                TextEntry::Value(self.value(depth)?)
            } else if !self.take('{') {
                return self.fails("`=` or `{` is expected");
            } else if depth == DEPTH_MAX {
                return self.fails("sections are nested too deep");
            } else {
                let inner = self.section(depth + 1)?;
                if !self.take('}') {
                    return self.fails("a `}` is missing");
                }
                TextEntry::Section(inner)
            };
            section.entries.push((name, entry));
        }
        Ok(section)
    }

    fn value(&mut self, depth: u32) -> Result<TextValue, TextError> {
        match self.next_token() {
            Some('"') => self.quoted().map(TextValue::Text),
            Some('[') => self.list(depth),
            Some(c) if c == '-' || c.is_ascii_digit() => {
                match self.run(|c| c == '-' || c.is_ascii_digit()).parse() {
                    Ok(number) => Ok(TextValue::Integer(number)),
                    Err(_) => self.fails("a number is too long"),
                }
            }
            _ => self.fails("a value is expected"),
        }
    }

    fn list(&mut self, depth: u32) -> Result<TextValue, TextError> {
        self.rest.next();
        if depth == DEPTH_MAX {
            return self.fails("lists are nested too deep");
        }
        let mut values = Vec::new();
        while !self.take(']') {
            values.push(self.value(depth + 1)?);
            if !self.take(',') && self.next_token() != Some(']') {
                return self.fails("`,` or `]` is expected");
            }
        }
        Ok(TextValue::List(values))
    }

    /// A text in quotes, in which a backslash keeps the next character.
    fn quoted(&mut self) -> Result<String, TextError> {
        self.rest.next();
        let mut text = String::new();
        loop {
            match self.rest.next() {
                Some((_, '"')) => return Ok(text),
                Some((_, '\\')) => text.extend(self.rest.next().map(|(_, c)| c)),
                Some((_, c)) => text.push(c),
                None => return self.fails("a quote is not closed"),
            }
        }
    }
}
