//! The vocabulary: words in comments, messages and names for which the field has a standard term.
//!
//! A crate passes with at most [`PER_MILLE`] such comment lines in a thousand and no such message or name; so does each
//! folder of documents (`docs/guide`, …; the documents of the root are one), by its lines outside of consoles.
//! A folder that is above that has a row in [`ratchet`] with the counts that it has, which only fall.
//! `cargo xtask tidy --words FOLDER` lists the lines of one crate, each with the term to write.

mod names;
mod ratchet;
mod scan;
#[cfg(test)]
mod tests;
mod words;

use std::collections::BTreeMap;

use self::ratchet::Allowance;
use self::scan::Kind;
use super::{Finding, Tree};

/// Comment lines in a thousand that may have a word of the list: some uses are right.
const PER_MILLE: usize = 8;

/// Files that name the words in order to refuse them.
const EXEMPT: &str = "xtask/src/tidy/vocabulary/";

/// What was found in one crate or folder.
#[derive(Debug, Default)]
struct Usage {
    comment_lines: usize,
    comments: Vec<Finding>,
    messages: Vec<Finding>,
    names: Vec<Finding>,
}

/// Crates above their allowance, allowances above what is there, shared type names and names of files.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    let usage = usage(tree);
    for (folder, used) in &usage {
        findings.extend(against(folder, used, ratchet::of(folder)));
    }
    findings.extend(ratchet::stale(|folder| usage.contains_key(folder)));
    findings.extend(names::check(tree));
    findings
}

/// Every line of one folder, or of all, that has a word of the list.
pub(super) fn list(tree: &Tree, folder: &str) -> Vec<Finding> {
    usage(tree)
        .into_iter()
        .filter(|(name, _)| folder.is_empty() || *name == folder)
        .flat_map(|(_, used)| [used.comments, used.messages, used.names])
        .flatten()
        .collect()
}

fn usage(tree: &Tree) -> BTreeMap<&str, Usage> {
    let mut folders: BTreeMap<&str, Usage> = BTreeMap::new();
    for (path, text) in tree {
        if path.starts_with(EXEMPT) {
            continue;
        }
        let pieces = scan::pieces(path, text);
        if pieces.is_empty() {
            continue;
        }
        let used = folders.entry(folder(path)).or_default();
        for piece in pieces {
            let into = match piece.kind {
                Kind::Comment | Kind::Document => {
                    used.comment_lines += 1;
                    &mut used.comments
                }
                Kind::Message => &mut used.messages,
                Kind::Name => &mut used.names,
            };
            let matches = match piece.kind {
                Kind::Comment => words::in_comment(piece.text),
                Kind::Document => words::in_document(piece.text),
                Kind::Message => words::in_message(piece.text),
                Kind::Name => words::in_name(piece.text),
            };
            if let Some((word, term)) = matches {
                into.push(Finding::at(path, piece.line, format!("{word}: {term}")));
            }
        }
    }
    folders
}

/// The crate, the folder of documents, the first folder below the root, or `.` for the root itself.
fn folder(path: &str) -> &str {
    let is_split = ["crates/", "docs/"].iter().any(|top| path.starts_with(top));
    let depth = if is_split { 2 } else { 1 };
    path.match_indices('/')
        .nth(depth - 1)
        .map_or(".", |(end, _)| &path[..end])
}

/// One folder against its row, or against the rule where it has none.
fn against(folder: &str, used: &Usage, row: Option<&Allowance>) -> Option<Finding> {
    let rule = [(used.comment_lines * PER_MILLE).div_ceil(1000), 0, 0];
    let limit = row.map_or(rule, |row| row.limits);
    let counts = [&used.comments, &used.messages, &used.names].map(Vec::len);
    let [comments, messages, names] = counts;
    let fits = |most: [usize; 3]| counts.iter().zip(most).all(|(count, most)| *count <= most);
    let what = if !fits(limit) {
        format!(
            "{comments} comment lines, {messages} messages and {names} names have words that the vocabulary \
             replaces, at most {limit:?} may: `cargo xtask tidy --words {folder}` lists them"
        )
    } else if row.is_some() && fits(rule) {
        "needs no row in ratchet.rs any more".to_owned()
    } else if row.is_some() && counts != limit {
        format!("its row falls to row(\"{folder}\", [{comments}, {messages}, {names}])")
    } else {
        return None;
    };
    Some(Finding::at(folder, 0, what))
}
