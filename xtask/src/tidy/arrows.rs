//! Which crate may depend on which: the reason why they are crates. ARCHITECTURE.md draws the same arrows.

use std::collections::BTreeSet;

use anyhow::{Context, Result};
use toml::Table;

use super::{Finding, Tree};

/// Every crate of the workspace with those it may name. `testkit` is for tests: only the package that is
/// nothing but tests depends on it outright.
const ARROWS: &[(&str, &[&str])] = &[
    ("crates/block", &[]),
    ("crates/nbd-proto", &[]),
    ("crates/engine", &[]),
    ("crates/nbd", &["nbd-proto", "engine", "block"]),
    ("crates/nodes", &["engine", "block"]),
    ("crates/bucket", &["engine", "block"]),
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
            "bucket",
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
    ("xtask/same-features", &[]),
];

/// Where the arrows are drawn for readers.
const MAP: &str = "ARCHITECTURE.md";

/// Tables whose crates are linked into what is shipped.
const TABLES: &[&str] = &["dependencies", "build-dependencies"];

/// Every arrow that the list does not have, and every crate that the list does not know.
pub(super) fn check(tree: &Tree) -> Result<Vec<Finding>> {
    let members: Vec<&str> = ARROWS
        .iter()
        .filter_map(|(folder, _)| folder.strip_prefix("crates/"))
        .collect();
    let mut findings = check_map(tree);
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

/// Every crate whose arrows on the map of ARCHITECTURE.md are not those of the list. A crate without arrows
/// does not stand on the map.
fn check_map(tree: &Tree) -> Vec<Finding> {
    let Some(text) = tree.get(MAP) else {
        return Vec::new();
    };
    let drawn = map_arrows(text);
    let crates = ARROWS
        .iter()
        .filter_map(|(folder, arrows)| Some((folder.strip_prefix("crates/")?, arrows)));
    let differs = crates.filter(|(name, arrows)| {
        let drawn = drawn.iter().filter(|(from, _)| from == name);
        let drawn: BTreeSet<&str> = drawn.flat_map(|(_, to)| to.iter().copied()).collect();
        drawn != arrows.iter().copied().collect()
    });
    let finding = |(name, arrows): (&str, &&[&str])| {
        let arrows = arrows.join(", ");
        let what = format!("the map's arrows of {name} are not those of tidy: {arrows}");
        Finding::at(MAP, 0, what)
    };
    differs.map(finding).collect()
}

/// The arrows `NAME ─► NAME, …` below the heading of the crates; two spaces separate two of one line.
fn map_arrows(text: &str) -> Vec<(&str, Vec<&str>)> {
    let section = text.lines().skip_while(|line| *line != "## Crates");
    let section = section.take_while(|line| !line.starts_with("### "));
    let mut arrows = Vec::new();
    for line in section {
        let pieces: Vec<&str> = line.split("─►").collect();
        for pair in pieces.windows(2) {
            let from = pair[0].split_whitespace().next_back();
            let to = pair[1].trim_start().split("  ").next();
            let to = to.into_iter().flat_map(|list| list.split(','));
            arrows.extend(from.map(|from| (from, to.map(str::trim).collect())));
        }
    }
    arrows
}
