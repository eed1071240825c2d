//! What crates and folders of documents may still have of words that the vocabulary replaces. These numbers only fall; a crate whose
//! row is down to the rule loses it.

use super::Finding;

/// What one folder may have.
#[derive(Debug, Clone, Copy)]
pub(super) struct Allowance {
    pub(super) folder: &'static str,
    /// Comment lines, messages, names.
    pub(super) limits: [usize; 3],
}

const fn row(folder: &'static str, limits: [usize; 3]) -> Allowance {
    Allowance { folder, limits }
}

const ROWS: &[Allowance] = &[
    row("crates/lab", [39, 4, 0]),
    row("crates/lab-drivers", [0, 0, 2]),
    row("crates/nbd", [9, 0, 1]),
    row("crates/nodes", [4, 7, 0]),
    row("crates/outboard", [11, 12, 1]),
    row("tests", [5, 1, 0]),
];

/// Type names that more than three types of the product have, [`super::names`] says which are not counted.
pub(super) const SHARED_NAMES_MAX: usize = 1;

/// Files and modules that are named by an adverb, a participle or a word of the list.
pub(super) const FILE_NAMES_MAX: usize = 0;

pub(super) fn of(folder: &str) -> Option<&'static Allowance> {
    ROWS.iter().find(|row| row.folder == folder)
}

/// Rows of folders that are gone.
pub(super) fn stale(is_there: impl Fn(&str) -> bool) -> Vec<Finding> {
    ROWS.iter()
        .filter(|row| !is_there(row.folder))
        .map(|row| Finding::at(row.folder, 0, "needs no row in ratchet.rs any more"))
        .collect()
}
