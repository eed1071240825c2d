//! Which crate may depend on which: the reason why they are crates.

use anyhow::{Context, Result};
use toml::Table;

use super::{Finding, Tree};

/// Every crate of the workspace with those it may name. `testkit` is for tests: only the package that is
/// nothing but tests depends on it outright.
const ARROWS: &[(&str, &[&str])] = &[
    ("crates/block", &[]),
    ("crates/nbd-proto", &[]),
    ("crates/engine", &["block"]),
    ("crates/nbd", &["nbd-proto", "engine", "block"]),
    ("crates/nodes", &["nbd", "engine", "block"]),
    ("crates/attach", &["nbd", "engine", "block"]),
    ("crates/lab", &["engine"]),
    (
        "crates/lab-drivers",
        &["lab", "attach", "nodes", "nbd", "engine", "block"],
    ),
    (
        "crates/outboard",
        &[
            "attach",
            "lab",
            "lab-drivers",
            "nodes",
            "nbd",
            "engine",
            "block",
        ],
    ),
    ("crates/testkit", &["engine", "block"]),
    ("tests", &["testkit"]),
    ("xtask", &[]),
];

/// Tables whose crates are linked into what is shipped.
const TABLES: &[&str] = &["dependencies", "build-dependencies"];

/// Every arrow that the list does not have, and every crate that the list does not know.
pub(super) fn check(tree: &Tree) -> Result<Vec<Finding>> {
    let members: Vec<&str> = ARROWS
        .iter()
        .filter_map(|(folder, _)| folder.strip_prefix("crates/"))
        .collect();
    let mut findings = Vec::new();
    for (path, text) in tree {
        let Some(folder) = path.strip_suffix("/Cargo.toml") else {
            continue;
        };
        if folder == "fuzz" {
            continue;
        }
        let Some((_, allowed)) = ARROWS.iter().find(|(known, _)| *known == folder) else {
            findings.push(Finding::at(path, 0, "tidy knows no arrows for this crate"));
            continue;
        };
        let manifest: Table = text
            .parse()
            .with_context(|| format!("{path} is not what Cargo reads"))?;
        let named = TABLES
            .iter()
            .filter_map(|table| manifest.get(*table)?.as_table())
            .flat_map(Table::keys);
        for name in named {
            if members.contains(&name.as_str()) && !allowed.contains(&name.as_str()) {
                findings.push(Finding::at(path, 0, format!("may not depend on {name}")));
            }
        }
    }
    Ok(findings)
}
