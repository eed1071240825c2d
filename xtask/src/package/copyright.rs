//! `/usr/share/doc/outboard/copyright`: our own part, and a paragraph for each crate that the binary links with.
//!
//! Our own part with the texts of all licences is `packaging/debian/copyright`, in the machine-readable form of Debian
//! (DEP-5). The crates are those of cargo's resolved graph for the target; the holders of their rights are read from the
//! licences in their sources.
//!
//! # Invariants
//!
//! * A crate under a licence of which `packaging/debian/copyright` has no text fails the build.
//!
//! # What it does not do
//!
//! Crates that run while building (procedural macros, build scripts) are not in the binary, and are not listed.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde::Deserialize;

use super::binary::Volumes;
use super::target::Target;
use crate::shell;

/// Our own part.
const OWN: &str = "packaging/debian/copyright";
/// The crate that is the binary.
const ROOT: &str = "outboard";
/// Beginnings of the names of files with licences.
const LICENSE_FILES: [&str; 4] = ["licen", "copying", "copyright", "notice"];

/// What `cargo metadata` prints, as far as it is used.
#[derive(Debug, Deserialize)]
struct Metadata {
    packages: Vec<Crate>,
    resolve: Graph,
}

#[derive(Debug, Deserialize)]
struct Crate {
    id: String,
    name: String,
    version: String,
    license: Option<String>,
    /// None for a crate of this tree.
    source: Option<String>,
    authors: Vec<String>,
    manifest_path: String,
    targets: Vec<CrateTarget>,
}

#[derive(Debug, Deserialize)]
struct CrateTarget {
    kind: Vec<String>,
}

#[derive(Debug, Deserialize)]
struct Graph {
    nodes: Vec<GraphNode>,
}

#[derive(Debug, Deserialize)]
struct GraphNode {
    id: String,
    deps: Vec<Dependency>,
}

#[derive(Debug, Deserialize)]
struct Dependency {
    pkg: String,
    dep_kinds: Vec<DependencyKind>,
}

#[derive(Debug, Deserialize)]
struct DependencyKind {
    /// None for what is linked; else `dev` or `build`.
    kind: Option<String>,
}

/// The whole text for a binary of this target, with volumes on object stores or without.
pub(super) fn text(target: Target, volumes: Volumes) -> Result<String> {
    let own = fs::read_to_string(shell::root().join(OWN))?;
    let known = licenses(&own);
    let mut metadata = shell::cargo(["metadata", "--format-version", "1", "--locked"]);
    metadata.args(["--filter-platform", target.triple()]);
    let printed = shell::output(metadata.args(volumes.features()))?;
    let metadata: Metadata = serde_json::from_str(&printed).context("in what cargo printed")?;
    let mut text = own.clone();
    for linked in linked(&metadata)? {
        let folder = Path::new(&linked.manifest_path).with_file_name("");
        text.push('\n');
        text.push_str(&paragraph(linked, &license_texts(&folder)?, &known)?);
    }
    Ok(text)
}

/// The crates that the binary is linked from, by name, without those of this tree.
fn linked(metadata: &Metadata) -> Result<Vec<&Crate>> {
    let crates: BTreeMap<&str, &Crate> = metadata
        .packages
        .iter()
        .map(|one| (&*one.id, one))
        .collect();
    let nodes = metadata.resolve.nodes.iter();
    let nodes: BTreeMap<&str, &GraphNode> = nodes.map(|node| (&*node.id, node)).collect();
    let mut roots = metadata.packages.iter();
    let root = roots.find(|one| one.source.is_none() && one.name == ROOT);
    let mut pending = vec![&*root.context("cargo knows no crate outboard")?.id];
    let mut found = BTreeMap::new();
    while let Some(id) = pending.pop() {
        let one = crates.get(id).context("a crate without a description")?;
        let mut kinds = one.targets.iter().flat_map(|target| &target.kind);
        let is_macro = kinds.any(|kind| kind == "proc-macro");
        if is_macro || found.insert((&one.name, id), *one).is_some() {
            continue;
        }
        let dependencies = nodes.get(id).map_or(&[][..], |node| &node.deps);
        let links = |one: &&Dependency| one.dep_kinds.iter().any(|kind| kind.kind.is_none());
        pending.extend(dependencies.iter().filter(links).map(|one| &*one.pkg));
    }
    let found = found.into_values();
    Ok(found.filter(|one| one.source.is_some()).collect())
}

/// The texts of the licences in a crate's folder, by the names of their files.
fn license_texts(folder: &Path) -> Result<Vec<String>> {
    let mut texts = BTreeMap::new();
    for entry in fs::read_dir(folder).with_context(|| format!("no {}", folder.display()))? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let name = name.to_lowercase();
        let is_license = LICENSE_FILES.iter().any(|begin| name.starts_with(begin));
        if is_license && path.is_file() {
            texts.insert(
                name,
                String::from_utf8_lossy(&fs::read(&path)?).into_owned(),
            );
        }
    }
    Ok(texts.into_values().collect())
}

/// The licences of which the text has a paragraph: one that begins with `License:` and has no files.
fn licenses(own: &str) -> BTreeSet<&str> {
    let paragraphs = own.split("\n\n");
    paragraphs
        .filter_map(|one| one.trim_start().strip_prefix("License: ")?.lines().next())
        .collect()
}

/// A crate's paragraph.
fn paragraph(one: &Crate, texts: &[String], known: &BTreeSet<&str>) -> Result<String> {
    let Crate { name, version, .. } = one;
    let expression = one.license.as_deref().unwrap_or_default();
    let license = license(expression, known)
        .with_context(|| format!("{name} is under {expression:?}, of which {OWN} has no text"))?;
    let mut holders: Vec<&str> = texts.iter().flat_map(|text| holders(text)).collect();
    let mut seen = BTreeSet::new();
    holders.retain(|holder| seen.insert(*holder));
    if holders.is_empty() {
        holders.extend(one.authors.iter().map(String::as_str));
    }
    let others = format!("the authors of {name}");
    if holders.is_empty() {
        holders.push(&others);
    }
    let holders = holders.join("\n           ");
    Ok(format!(
        "Files: {name}-{version}/*\nCopyright: {holders}\nLicense: {license}\n\
         Comment: https://crates.io/crates/{name}/{version}\n"
    ))
}

/// An SPDX expression as DEP-5 has it. Of alternatives those that are known are left; `None` if there is none.
fn license(expression: &str, known: &BTreeSet<&str>) -> Option<String> {
    let expression = expression.replace('/', " OR ");
    if expression.contains('(') {
        return license_of_factors(&expression, known);
    }
    let alternatives = expression.split(" OR ").filter_map(|alternative| {
        let all: Vec<&str> = alternative.split(" AND ").map(str::trim).collect();
        let is_known = all.iter().all(|one| known.contains(one));
        is_known.then(|| all.join(" and "))
    });
    let alternatives: Vec<String> = alternatives.collect();
    (!alternatives.is_empty()).then(|| alternatives.join(" or "))
}

/// An expression such as `(MIT OR Apache-2.0) AND Apache-2.0`: all of its factors apply, and of the alternatives in brackets the one that applies
/// anyway, or the first that is known.
fn license_of_factors(expression: &str, known: &BTreeSet<&str>) -> Option<String> {
    let factors = expression.split(" AND ").map(|factor| {
        let alternatives = factor.trim().trim_start_matches('(').trim_end_matches(')');
        alternatives
            .split(" OR ")
            .map(str::trim)
            .collect::<Vec<_>>()
    });
    let mut factors: Vec<Vec<&str>> = factors.collect();
    factors.sort_by_key(Vec::len);
    let mut chosen = BTreeSet::new();
    for alternatives in factors {
        if !alternatives.iter().any(|one| chosen.contains(one)) {
            let found = alternatives.into_iter().find(|one| known.contains(one))?;
            chosen.insert(found);
        }
    }
    Some(chosen.into_iter().collect::<Vec<_>>().join(" and "))
}

/// Lines of a licence that name who has the rights; not those of the licences themselves, nor of their templates.
fn holders(text: &str) -> Vec<&str> {
    let lines = text
        .lines()
        .map(|line| line.trim_matches(|c| " \t/*#".contains(c)));
    lines
        .filter_map(|line| {
            let lower = line.to_lowercase();
            let rest = lower.strip_prefix("copyright ")?;
            let has_year = rest.chars().take(12).any(|c| c.is_ascii_digit());
            let is_holder = has_year || rest.starts_with("(c)") || rest.starts_with('©');
            let is_template = line.contains('[')
                || line.contains('{')
                || line.contains('<') && !line.contains('@');
            (is_holder && !is_template).then(|| line[10..].trim())
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::target::{Architecture, Libc};
    use super::*;

    fn of(name: &str, license: &str) -> Crate {
        Crate {
            id: name.to_owned(),
            name: name.to_owned(),
            version: "1.2.3".to_owned(),
            license: Some(license.to_owned()),
            source: Some("registry".to_owned()),
            authors: vec!["An Author".to_owned()],
            manifest_path: String::new(),
            targets: Vec::new(),
        }
    }

    #[test]
    fn what_is_linked_is_followed_and_macros_and_tools_of_the_build_are_not() {
        let metadata = r#"{"packages": [
            {"id": "o", "name": "outboard", "version": "1", "license": null, "source": null, "authors": [], "manifest_path": "", "targets": [{"kind": ["bin"]}]},
            {"id": "a", "name": "a", "version": "1", "license": "MIT", "source": "r", "authors": [], "manifest_path": "", "targets": [{"kind": ["lib"]}]},
            {"id": "b", "name": "b", "version": "1", "license": "MIT", "source": "r", "authors": [], "manifest_path": "", "targets": [{"kind": ["lib"]}]},
            {"id": "m", "name": "m", "version": "1", "license": "MIT", "source": "r", "authors": [], "manifest_path": "", "targets": [{"kind": ["proc-macro"]}]},
            {"id": "t", "name": "t", "version": "1", "license": "MIT", "source": "r", "authors": [], "manifest_path": "", "targets": [{"kind": ["lib"]}]}
        ], "resolve": {"nodes": [
            {"id": "o", "deps": [{"pkg": "b", "dep_kinds": [{"kind": null}]}, {"pkg": "m", "dep_kinds": [{"kind": null}]},
                {"pkg": "t", "dep_kinds": [{"kind": "dev"}, {"kind": "build"}]}]},
            {"id": "b", "deps": [{"pkg": "a", "dep_kinds": [{"kind": "build"}, {"kind": null}]}]},
            {"id": "m", "deps": [{"pkg": "t", "dep_kinds": [{"kind": null}]}]}
        ]}}"#;
        let metadata: Metadata = serde_json::from_str(metadata).unwrap();
        let names: Vec<&str> = linked(&metadata)
            .unwrap()
            .iter()
            .map(|one| &*one.name)
            .collect();
        assert_eq!(names, ["a", "b"]);
    }

    #[test]
    fn of_alternatives_the_known_ones_are_left_and_an_unknown_licence_fails() {
        let known = BTreeSet::from(["MIT", "Apache-2.0", "ISC"]);
        let left = |expression| license(expression, &known);
        assert_eq!(left("MIT/Apache-2.0").as_deref(), Some("MIT or Apache-2.0"));
        assert_eq!(left("Unlicense OR MIT").as_deref(), Some("MIT"));
        assert_eq!(
            left("Apache-2.0 AND ISC").as_deref(),
            Some("Apache-2.0 and ISC")
        );
        assert_eq!(left("Apache-2.0 AND OpenSSL"), None);
        let error = paragraph(&of("a", "GPL-3.0"), &[], &known).unwrap_err();
        assert!(
            error.to_string().contains("a is under \"GPL-3.0\""),
            "{error}"
        );
    }

    #[test]
    fn holders_are_those_of_the_licences_or_else_the_authors() {
        let apache = "Apache License\nCopyright [yyyy] [name of copyright owner]\ncopyright notice that is included\n".to_owned();
        let mit =
            "MIT\n\n// Copyright 2015-2016 Brian Smith.\nCopyright (c) 2020 B <b@example.org>\n"
                .to_owned();
        let known = BTreeSet::from(["MIT"]);
        let text = paragraph(&of("a", "MIT"), &[apache.clone(), mit.clone(), mit], &known).unwrap();
        assert_eq!(
            text,
            "Files: a-1.2.3/*\nCopyright: 2015-2016 Brian Smith.\n           (c) 2020 B <b@example.org>\nLicense: MIT\n\
             Comment: https://crates.io/crates/a/1.2.3\n"
        );
        let text = paragraph(&of("a", "MIT"), &[apache], &known).unwrap();
        assert!(text.contains("\nCopyright: An Author\n"), "{text}");
    }

    #[test]
    fn of_alternatives_in_brackets_one_applies_with_the_rest() {
        let known = BTreeSet::from(["Apache-2.0", "MIT", "Unicode-3.0"]);
        let of = |expression| license(expression, &known);
        let both = "(MIT OR Apache-2.0) AND Apache-2.0";
        assert_eq!(of(both).as_deref(), Some("Apache-2.0"));
        let three = of("(MIT OR Apache-2.0) AND Unicode-3.0");
        assert_eq!(three.as_deref(), Some("MIT and Unicode-3.0"));
        assert_eq!(of("(MIT OR Apache-2.0) AND GPL-3.0"), None);
    }

    #[test]
    fn every_crate_that_is_linked_here_is_under_a_licence_with_a_text() {
        let Ok(architecture) = Architecture::of_this_machine() else {
            return;
        };
        for (libc, volumes) in [
            (Libc::Gnu, Volumes::With),
            (Libc::Gnu, Volumes::Without),
            (Libc::Musl, Volumes::Without),
        ] {
            let text = text(Target { architecture, libc }, volumes).unwrap();
            let has_slatedb = text.contains("Files: slatedb-");
            assert_eq!(has_slatedb, volumes == Volumes::With);
            for linked in ["Files: libsqlite3-sys-", "Files: ring-", "Files: tokio-"] {
                assert!(text.contains(linked), "{linked}");
            }
            assert!(!text.contains("Files: proptest-"), "of tests alone");
            let own: BTreeSet<&str> = licenses(&text);
            let used = text
                .lines()
                .filter_map(|line| line.strip_prefix("License: "));
            let used = used.flat_map(|line| line.split(" or ").flat_map(|one| one.split(" and ")));
            for license in used.filter(|license| *license != "public-domain") {
                assert!(own.contains(license), "{license}");
            }
        }
    }

    #[test]
    fn our_own_part_has_the_texts_of_licences() {
        let own = fs::read_to_string(shell::root().join(OWN)).unwrap();
        let known = licenses(&own);
        for license in [
            "MIT",
            "Apache-2.0",
            "ISC",
            "BSD-3-Clause",
            "Zlib",
            "MPL-2.0",
        ] {
            assert!(known.contains(license), "{license}");
        }
    }
}
