//! Rules for every file of text: how lines end, and what no line says.

use super::Finding;

/// Words that stand for work not done, and for places on one machine. Put together here so that this
/// file does not say them.
const FORBIDDEN: &[(&str, &str)] = &[
    (
        concat!("TO", "DO"),
        "work that is not done belongs to an issue",
    ),
    (
        concat!("FIX", "ME"),
        "work that is not done belongs to an issue",
    ),
    (
        concat!("todo", "!("),
        "work that is not done belongs to an issue",
    ),
    (
        concat!("unimplemented", "!("),
        "work that is not done belongs to an issue",
    ),
    (
        concat!("#[ig", "nore"),
        "a test that does not run is no test",
    ),
    (concat!("/ro", "ot/"), "a path of one machine"),
    (concat!("/wo", "rk/"), "a path of one machine"),
];

/// Endings of files with lines of ours.
const CHECKED: &[&str] = &[".rs", ".toml", ".md", ".sh", ".py", ".css", ".js", ".html"];

/// sh(1), of `set -e`: the status of a command is not looked at where `!` comes before it.
const NEGATED: &str =
    "`set -e` does not see the status of a command behind `!`: write `refuse COMMAND` or an `if`";

/// Everything wrong with the lines of one file.
pub(super) fn check(path: &str, text: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    if !CHECKED.iter().any(|ending| path.ends_with(ending)) && path != ".ci/run" {
        return findings;
    }
    for (index, line) in text.lines().enumerate() {
        let number = index + 1;
        if line.contains('\t') {
            findings.push(Finding::at(path, number, "a tab"));
        }
        if line.ends_with(' ') || line.ends_with('\r') {
            findings.push(Finding::at(path, number, "the line ends with white space"));
        }
        if path.ends_with(".sh") && line.trim_start().starts_with("! ") {
            findings.push(Finding::at(path, number, NEGATED));
        }
        for (word, why) in FORBIDDEN {
            if line.contains(word) {
                findings.push(Finding::at(path, number, format!("{word}: {why}")));
            }
        }
    }
    if !text.is_empty() && (!text.ends_with('\n') || text.ends_with("\n\n")) {
        findings.push(Finding::at(path, 0, "a file ends with one end of line"));
    }
    findings
}
