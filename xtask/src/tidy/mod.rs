//! `cargo xtask tidy`: the rules of this repository that no compiler checks.
//!
//! Every rule is a pure function from the tree's text to findings, so each has its own tests. The shape of
//! Rust code is read from its layout, which `cargo fmt --check` guarantees beforehand.

mod arrows;
mod docs;
mod links;
mod source;
#[cfg(test)]
mod tests;
mod text;
mod vocabulary;

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use anyhow::{Context, Result, bail};

use crate::shell;

/// Folders that hold no source.
const SKIPPED: &[&str] = &[".git", "target", "fuzz/target", "fuzz/artifacts"];

/// Files that hold no text of ours.
const SKIPPED_FILES: &[&str] = &["Cargo.lock", "fuzz/Cargo.lock"];

/// The text of every file, by its path from the root.
pub(super) type Tree = BTreeMap<String, String>;

/// One thing that is against a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Finding {
    pub(super) path: String,
    /// Counted from 1; 0 where the whole file is meant.
    pub(super) line: usize,
    pub(super) what: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "{}: {}", self.path, self.what),
            line => write!(f, "{}:{line}: {}", self.path, self.what),
        }
    }
}

impl Finding {
    pub(super) fn at(path: &str, line: usize, what: impl Into<String>) -> Self {
        Self {
            path: path.to_owned(),
            line,
            what: what.into(),
        }
    }
}

/// What to show.
#[derive(Debug, Default, clap::Args)]
pub(crate) struct Args {
    /// List the lines of a crate (crates/nbd; all when none is named) with words that the vocabulary replaces.
    #[arg(long, value_name = "FOLDER", num_args = 0..=1, default_missing_value = "")]
    words: Option<String>,
}

/// Checks the repository; prints each finding and fails when there is one.
pub(crate) fn run(args: &Args) -> Result<()> {
    let mut tree = Tree::new();
    read(&shell::root(), "", &mut tree)?;
    if let Some(folder) = &args.words {
        for finding in vocabulary::list(&tree, folder.trim_end_matches('/')) {
            println!("{finding}");
        }
        return Ok(());
    }
    let mut findings = check(&tree)?;
    // Its limits are those of the whole repository.
    findings.extend(vocabulary::check(&tree));
    for finding in &findings {
        println!("{finding}");
    }
    if !findings.is_empty() {
        bail!("tidy found {} places against the rules", findings.len());
    }
    Ok(())
}

/// All rules on one tree.
pub(super) fn check(tree: &Tree) -> Result<Vec<Finding>> {
    let mut findings = arrows::check(tree)?;
    findings.extend(docs::check(tree)?);
    findings.extend(links::check(tree));
    for (path, text) in tree {
        findings.extend(text::check(path, text));
        if path.ends_with(".rs") {
            findings.extend(source::check(path, text));
        }
    }
    findings.extend(source::stale_exceptions(tree));
    Ok(findings)
}

fn read(root: &Path, folder: &str, tree: &mut Tree) -> Result<()> {
    let here = root.join(folder);
    let entries =
        std::fs::read_dir(&here).with_context(|| format!("cannot read {}", here.display()))?;
    for entry in entries {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = if folder.is_empty() {
            name
        } else {
            format!("{folder}/{name}")
        };
        let kind = entry.file_type()?;
        if kind.is_dir() && !SKIPPED.contains(&path.as_str()) {
            read(root, &path, tree)?;
        }
        if kind.is_file() && !SKIPPED_FILES.contains(&path.as_str()) {
            // What is no text (a picture, a compressed fixture) has no lines to check.
            if let Ok(text) = String::from_utf8(std::fs::read(entry.path())?) {
                tree.insert(path, text);
            }
        }
    }
    Ok(())
}
