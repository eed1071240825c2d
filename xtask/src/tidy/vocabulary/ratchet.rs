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
    row("crates/attach", [126, 9, 7]),
    row("crates/block", [17, 0, 1]),
    row("crates/engine", [52, 2, 5]),
    row("crates/lab", [252, 27, 47]),
    row("crates/lab-drivers", [42, 15, 8]),
    row("crates/nbd", [479, 17, 61]),
    row("crates/nbd-proto", [105, 2, 19]),
    row("crates/nodes", [795, 37, 103]),
    row("crates/outboard", [389, 42, 83]),
    row("crates/testkit", [29, 1, 7]),
    row("docs", [361, 0, 0]),
    row("fuzz", [15, 0, 0]),
    row("tests", [14, 1, 4]),
];

/// Type names that more than three types of the product have, [`super::names`] says which are not counted.
pub(super) const SHARED_NAMES_MAX: usize = 49;

/// Files and modules that are named by an adverb, a participle or a word of the list.
pub(super) const FILE_NAMES_MAX: usize = 79;

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
