//! What crates may still have of words that the vocabulary replaces. These numbers only fall; a crate whose
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
    row(".", [33, 0, 0]),
    row("crates/engine", [2, 2, 0]),
    row("crates/lab", [51, 25, 46]),
    row("crates/lab-drivers", [1, 9, 7]),
    row("crates/nbd", [12, 13, 4]),
    row("crates/nbd-proto", [0, 0, 1]),
    row("crates/nodes", [4, 32, 63]),
    row("crates/outboard", [20, 25, 21]),
    row("docs", [232, 0, 0]),
    row("tests", [9, 1, 0]),
];

/// Type names that more than three types of the product have, [`super::names`] says which are not counted.
pub(super) const SHARED_NAMES_MAX: usize = 9;

/// Files and modules that are named by an adverb, a participle or a word of the list.
pub(super) const FILE_NAMES_MAX: usize = 47;

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
