//! Names of types that too many types have, and names of files that say no concept.

use std::collections::BTreeMap;

use super::ratchet::{FILE_NAMES_MAX, SHARED_NAMES_MAX};
use super::{EXEMPT, Finding, Tree, words};

/// Types that may have one name.
const SHARING_MAX: usize = 3;

/// Names that every program has several of.
const COMMON: &[&str] = &["Args", "Command", "Error", "Options", "Builder"];

/// Adverbs, pronouns and participles that `ed` and `ing` do not show.
const NO_CONCEPT: &[&str] = &[
    "ago", "again", "ahead", "alone", "along", "apart", "away", "back", "behind", "between",
    "chosen", "done", "enough", "far", "given", "gone", "half", "hands", "held", "kept", "known",
    "lost", "made", "moody", "now", "outside", "own", "seen", "taken", "together",
];

/// What ends with `ed` or `ing` and is a term or a noun.
const NOUNS: &[&str] = &[
    "ceiling",
    "encoding",
    "extended",
    "feed",
    "framing",
    "logging",
    "need",
    "ping",
    "ring",
    "scheduling",
    "seed",
    "speed",
    "string",
    "striped",
    "timing",
    "uring",
    "wording",
];

/// The counts that are above or below what `ratchet.rs` has.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let shared = shared_types(tree);
    let files = files(tree);
    [
        (
            "type names are shared by more than three types",
            shared,
            SHARED_NAMES_MAX,
        ),
        (
            "files and modules have a name that says no concept",
            files,
            FILE_NAMES_MAX,
        ),
    ]
    .into_iter()
    .filter_map(|(what, found, most)| {
        let count = found.len();
        let text = match count.cmp(&most) {
            std::cmp::Ordering::Equal => return None,
            std::cmp::Ordering::Greater => {
                format!(
                    "{count} {what}, at most {most} may be: {}",
                    found.join(", ")
                )
            }
            std::cmp::Ordering::Less => {
                format!("{count} {what}, and ratchet.rs allows {most}: lower it")
            }
        };
        Some(Finding::at("crates", 0, text))
    })
    .collect()
}

/// What is counted, for the tests.
#[cfg(test)]
pub(super) fn list(tree: &Tree) -> Vec<String> {
    [shared_types(tree), files(tree)].concat()
}

/// The names with the number of types that have them.
fn shared_types(tree: &Tree) -> Vec<String> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for (path, text) in tree {
        if is_product(path) {
            for name in text.lines().filter_map(defined_type) {
                *counts.entry(name).or_default() += 1;
            }
        }
    }
    let mut shared: Vec<(&str, usize)> = counts
        .into_iter()
        .filter(|(name, count)| *count > SHARING_MAX && !COMMON.contains(name))
        .collect();
    shared.sort_by_key(|(name, count)| (usize::MAX - count, *name));
    shared
        .iter()
        .map(|(name, count)| format!("{name} {count}"))
        .collect()
}

fn is_product(path: &str) -> bool {
    path.starts_with("crates/")
        && path.ends_with(".rs")
        && !path.starts_with("crates/testkit/")
        && !path.contains("/tests")
}

fn defined_type(line: &str) -> Option<&str> {
    let mut rest = line.trim_start();
    if rest.starts_with("pub(") {
        rest = rest.split_once(") ")?.1;
    }
    rest = rest.strip_prefix("pub ").unwrap_or(rest);
    let name = ["struct ", "enum ", "trait ", "union "]
        .iter()
        .find_map(|item| rest.strip_prefix(item))?;
    name.split(|letter: char| !letter.is_alphanumeric()).next()
}

/// Files and folders of Rust code, each once.
fn files(tree: &Tree) -> Vec<String> {
    let mut found = BTreeMap::new();
    for path in tree.keys().filter(|path| path.ends_with(".rs")) {
        if path.starts_with(EXEMPT) {
            continue;
        }
        let mut ends: Vec<usize> = path.match_indices('/').map(|(at, _)| at).collect();
        ends.push(path.len() - ".rs".len());
        for end in ends {
            let name = path[..end].rsplit('/').next().unwrap_or_default();
            if is_no_concept(name) {
                found.insert(&path[..end], ());
            }
        }
    }
    found.keys().map(|path| (*path).to_owned()).collect()
}

fn is_no_concept(name: &str) -> bool {
    let last = name.rsplit('_').next().unwrap_or(name);
    if NOUNS.contains(&last) {
        return false;
    }
    let is_participle = last.ends_with("ing") || last.ends_with("ed");
    is_participle || NO_CONCEPT.contains(&name) || words::in_name(name).is_some()
}
