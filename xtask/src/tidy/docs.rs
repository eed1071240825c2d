//! Decisions are numbered and fit a page, and every dependency has its line.

use std::collections::BTreeSet;

use anyhow::{Context, Result};
use toml::Table;

use super::{Finding, Tree};

const FOLDER: &str = "docs/adr/";
const DEPENDENCIES: &str = "docs/adr/0001-dependencies.md";
/// Characters of a decision, which is a page at most: context, figures, choice. Descriptions belong to the code and the guides.
const PAGE_MAX: usize = 4000;

/// Decisions without a number of their own, dependencies without a line, lines without a dependency.
pub(super) fn check(tree: &Tree) -> Result<Vec<Finding>> {
    let mut findings = numbers(tree);
    findings.extend(lengths(tree));
    let Some(workspace) = tree.get("Cargo.toml") else {
        return Ok(findings);
    };
    let manifest: Table = workspace
        .parse()
        .context("Cargo.toml is not what Cargo reads")?;
    let named: BTreeSet<&str> = manifest
        .get("workspace")
        .and_then(|table| table.get("dependencies")?.as_table())
        .into_iter()
        .flatten()
        .filter(|(_, value)| value.get("path").is_none())
        .map(|(name, _)| name.as_str())
        .collect();
    let listed = tree
        .get(DEPENDENCIES)
        .map_or_else(BTreeSet::new, |text| lines(text));
    for name in named.difference(&listed) {
        findings.push(Finding::at(
            DEPENDENCIES,
            0,
            format!("has no line for {name}"),
        ));
    }
    for name in listed.difference(&named) {
        findings.push(Finding::at(
            DEPENDENCIES,
            0,
            format!("{name} is no dependency"),
        ));
    }
    Ok(findings)
}

/// The first cell of each row of the table, without its head.
fn lines(text: &str) -> BTreeSet<&str> {
    text.lines()
        .filter_map(|line| line.strip_prefix("| ")?.split(" | ").next())
        .map(|cell| cell.trim().trim_matches('`'))
        .filter(|cell| !cell.is_empty() && *cell != "crate")
        .collect()
}

/// Decisions of more than a page, but for the table of dependencies.
fn lengths(tree: &Tree) -> Vec<Finding> {
    let decisions = tree.iter().filter(|(path, _)| path.starts_with(FOLDER));
    let long = decisions.filter_map(|(path, text)| {
        let length = text.chars().count();
        let is_long = length > PAGE_MAX && path.as_str() != DEPENDENCIES;
        let what = format!("has {length} characters, and a decision at most {PAGE_MAX}");
        is_long.then(|| Finding::at(path, 0, what))
    });
    long.collect()
}

fn numbers(tree: &Tree) -> Vec<Finding> {
    let mut seen = BTreeSet::new();
    let mut findings = Vec::new();
    for path in tree.keys() {
        let Some(name) = path.strip_prefix(FOLDER) else {
            continue;
        };
        let number = name
            .split_once('-')
            .map(|(number, _)| number)
            .filter(|number| number.len() == 4 && number.bytes().all(|byte| byte.is_ascii_digit()));
        match number {
            None => findings.push(Finding::at(path, 0, "a decision is named NNNN-what.md")),
            Some(number) if !seen.insert(number) => {
                findings.push(Finding::at(
                    path,
                    0,
                    format!("the number {number} is taken"),
                ));
            }
            Some(_) => {}
        }
    }
    findings
}
