//! Links between documents lead somewhere: the file is in the tree, and has the heading that the link names. And every
//! guide is in the contents of the book.
//!
//! Headings are named as GitHub and mdBook do: in lower case, without punctuation, with `-` for blanks.
//!
//! # What it does not do
//!
//! Links to other sites are not followed, and reference links (`[text][name]`) are not known: ours are inline.

use std::path::{Component, Path, PathBuf};

use super::{Finding, Tree};

/// The contents of the book, and the folder of its pages.
const CONTENTS: &str = "docs/SUMMARY.md";
const BOOK: &str = "docs/";
const GUIDES: &str = "guide/";

/// Links that lead nowhere, and guides that the contents lack.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in tree.iter().filter(|(path, _)| path.ends_with(".md")) {
        for (line, link) in links(text) {
            if let Some(what) = fault(tree, path, link) {
                findings.push(Finding::at(path, line, what));
            }
        }
    }
    findings.extend(missing_guides(tree));
    findings
}

fn missing_guides(tree: &Tree) -> Vec<Finding> {
    let Some(contents) = tree.get(CONTENTS) else {
        return Vec::new();
    };
    let listed: Vec<&str> = links(contents).into_iter().map(|(_, link)| link).collect();
    let pages = tree.keys().filter_map(|path| path.strip_prefix(BOOK));
    let guides = pages.filter(|page| page.starts_with(GUIDES) && page.ends_with(".md"));
    guides
        .filter(|page| !listed.contains(page))
        .map(|name| Finding::at(CONTENTS, 0, format!("has no link to {name}")))
        .collect()
}

/// Why a link of the document at `path` leads nowhere.
fn fault(tree: &Tree, path: &str, link: &str) -> Option<String> {
    if link.contains("://") || link.starts_with("mailto:") {
        return None;
    }
    let (file, heading) = match link.split_once('#') {
        Some((file, heading)) => (file, Some(heading)),
        None => (link, None),
    };
    let to = match file {
        "" => path.to_owned(),
        _ => joined(path, file),
    };
    let folder = format!("{to}/");
    let Some(text) = tree.get(&to) else {
        let is_folder = to.is_empty() || tree.keys().any(|path| path.starts_with(&folder));
        return (!is_folder).then(|| format!("{link} leads to no file"));
    };
    let heading = heading?;
    let has_it = headings(text).iter().any(|name| name == heading);
    (!has_it).then(|| format!("{link} leads to no heading"))
}

/// The path of a link that stands in the document at `from`.
fn joined(from: &str, link: &str) -> String {
    let mut path = PathBuf::from(from);
    path.pop();
    for part in Path::new(link).components() {
        match part {
            Component::ParentDir => drop(path.pop()),
            Component::Normal(name) => path.push(name),
            _ => {}
        }
    }
    path.to_string_lossy().into_owned()
}

/// The targets of inline links, with their lines; those in code are text.
fn links(text: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    let mut is_fenced = false;
    for (number, line) in (1..).zip(text.lines()) {
        if line.trim_start().starts_with("```") {
            is_fenced = !is_fenced;
        }
        if is_fenced || line.starts_with("    ") {
            continue;
        }
        // Every second piece stands between backticks; a link may have code as its text.
        let mut is_code = false;
        let mut rest = line;
        while let Some(at) = rest.find(['`', ']']) {
            let behind = &rest[at + 1..];
            match rest.as_bytes()[at] {
                b'`' => is_code = !is_code,
                _ if !is_code => {
                    let target = behind
                        .strip_prefix('(')
                        .and_then(|text| text.split_once(')'));
                    found.extend(target.map(|(target, _)| (number, target)));
                }
                _ => {}
            }
            rest = behind;
        }
    }
    found
}

/// The names of the headings of a document.
fn headings(text: &str) -> Vec<String> {
    let lines = text.lines().filter(|line| line.starts_with('#'));
    let titles = lines.map(|line| line.trim_start_matches('#').trim());
    titles
        .map(|title| {
            let title = title.to_lowercase();
            let kept = title
                .chars()
                .filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
            kept.map(|c| if c == ' ' { '-' } else { c }).collect()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(files: &[(&str, &str)]) -> Tree {
        let files = files.iter();
        files
            .map(|(path, text)| ((*path).to_owned(), (*text).to_owned()))
            .collect()
    }

    fn found(files: &[(&str, &str)]) -> Vec<String> {
        check(&tree(files))
            .iter()
            .map(ToString::to_string)
            .collect()
    }

    #[test]
    fn links_to_files_folders_and_headings_are_followed() {
        let page = "[a](b.md#at-boot) [c](../adr) [d](#a-page-of-ours) [e](https://example.org/x#y)\n# A page, of `ours`\n";
        let files = [
            ("docs/guide/a.md", page),
            ("docs/guide/b.md", "## At boot\n"),
            ("docs/adr/0001-a.md", ""),
        ];
        assert_eq!(found(&files), [""; 0]);
    }

    #[test]
    fn what_leads_nowhere_is_named_with_its_line() {
        let page = "\n[`x`](no.md) [y](b.md#no)\n";
        let files = [("docs/guide/a.md", page), ("docs/guide/b.md", "# B\n")];
        assert_eq!(
            found(&files),
            [
                "docs/guide/a.md:2: no.md leads to no file",
                "docs/guide/a.md:2: b.md#no leads to no heading"
            ]
        );
    }

    #[test]
    fn code_has_no_links() {
        let page = "`array[0](no.md)`\n\n    [a](no.md)\n\n```text\n[a](no.md)\n```\n";
        assert_eq!(found(&[("a.md", page)]), [""; 0]);
    }

    #[test]
    fn each_guide_is_in_the_contents() {
        let files = [
            ("docs/SUMMARY.md", "[A](guide/a.md)\n"),
            ("docs/guide/a.md", ""),
            ("docs/guide/b.md", ""),
        ];
        assert_eq!(
            found(&files),
            ["docs/SUMMARY.md: has no link to guide/b.md"]
        );
    }
}
