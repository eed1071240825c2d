//! Changing a [`Section`]: what an edit of a group does to its text. Pure.
//!
//! # Invariants
//!
//! * Entries keep their order; a new entry goes behind the others. What is not named stays as it is.

use super::text::{Section, TextEntry, TextValue};

impl TextValue {
    /// A number that no text of LVM exceeds: a count, or a size in sectors.
    #[must_use]
    pub fn number(number: u64) -> Self {
        Self::Integer(i64::try_from(number).unwrap_or(i64::MAX))
    }

    /// A list of texts.
    pub fn texts<'a>(texts: impl IntoIterator<Item = &'a str>) -> Self {
        let texts = texts.into_iter().map(|text| Self::Text(text.to_owned()));
        Self::List(texts.collect())
    }
}

impl Section {
    /// All entries, in order.
    pub fn entries(&self) -> impl Iterator<Item = (&str, &TextEntry)> {
        let entries = self.entries.iter();
        entries.map(|(name, entry)| (name.as_str(), entry))
    }

    /// All entries, in order, to change.
    pub fn entries_mut(&mut self) -> impl Iterator<Item = (&str, &mut TextEntry)> {
        let entries = self.entries.iter_mut();
        entries.map(|(name, entry)| (name.as_str(), entry))
    }

    /// The section of that name, to change.
    pub fn section_mut(&mut self, name: &str) -> Option<&mut Self> {
        let mut entries = self.entries.iter_mut();
        match entries.find(|(found, _)| found == name) {
            Some((_, TextEntry::Section(section))) => Some(section),
            _ => None,
        }
    }

    /// All sections, in order, to change.
    pub fn sections_mut(&mut self) -> impl Iterator<Item = (&str, &mut Self)> {
        self.entries_mut().filter_map(|(name, entry)| match entry {
            TextEntry::Section(section) => Some((name, section)),
            TextEntry::Value(_) => None,
        })
    }

    /// The section, with an entry more.
    #[must_use]
    pub fn with(mut self, name: &str, value: TextValue) -> Self {
        self.set(name, value);
        self
    }

    /// The section, with a number more.
    #[must_use]
    pub fn with_number(self, name: &str, number: u64) -> Self {
        self.with(name, TextValue::number(number))
    }

    /// The section, with a text more.
    #[must_use]
    pub fn with_text(self, name: &str, text: &str) -> Self {
        self.with(name, TextValue::Text(text.to_owned()))
    }

    /// Gives an entry this value, or adds the entry.
    pub fn set(&mut self, name: &str, value: TextValue) {
        self.put(name, TextEntry::Value(value));
    }

    /// Makes an entry this section, or adds the entry.
    pub fn set_section(&mut self, name: &str, section: Self) {
        self.put(name, TextEntry::Section(section));
    }

    fn put(&mut self, name: &str, entry: TextEntry) {
        let mut entries = self.entries.iter_mut();
        match entries.find(|(found, _)| found == name) {
            Some((_, old)) => *old = entry,
            None => self.entries.push((name.to_owned(), entry)),
        }
    }

    /// Adds a section behind the entry `before`, at the end if there is none of that name.
    pub fn insert_section_after(&mut self, before: &str, name: &str, section: Self) {
        let at = self.entries.iter().position(|(found, _)| found == before);
        let at = at.map_or(self.entries.len(), |at| at + 1);
        let entry = (name.to_owned(), TextEntry::Section(section));
        self.entries.insert(at, entry);
    }

    /// Removes an entry; returns whether there was one.
    pub fn remove(&mut self, name: &str) -> bool {
        let at = self.entries.iter().position(|(found, _)| found == name);
        at.is_some_and(|at| {
            self.entries.remove(at);
            true
        })
    }

    /// Gives an entry another name; returns whether there was one.
    pub fn rename(&mut self, name: &str, new: &str) -> bool {
        let mut entries = self.entries.iter_mut();
        let found = entries.find(|(found, _)| found == name);
        found.is_some_and(|(found, _)| {
            new.clone_into(found);
            true
        })
    }
}
