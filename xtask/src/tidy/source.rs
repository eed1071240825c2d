//! Rules for Rust files: a head, a bounded length of files and functions, unsafe code in one crate.

use super::{Finding, Tree};

/// Lines of a file that need a second look.
const FILE_LINES_MAX: usize = 500;

/// Lines of a function, its signature and closing brace among them.
const FUNCTION_LINES_MAX: usize = 70;

/// Files that had the second look, and why they are as long as they are.
const LONG_FILES: &[(&str, &str)] = &[];

/// The only folder with unsafe code.
const UNSAFE_FOLDER: &str = "crates/engine/";

/// Everything wrong with one Rust file.
pub(super) fn check(path: &str, text: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    if !text.starts_with("//!") {
        findings.push(Finding::at(
            path,
            1,
            "a file begins with //! and what it is",
        ));
    }
    let count = text.lines().count();
    let excepted = LONG_FILES.iter().any(|(known, _)| *known == path);
    if count > FILE_LINES_MAX && !excepted {
        findings.push(Finding::at(
            path,
            0,
            format!("{count} lines, more than {FILE_LINES_MAX}: split it, or give tidy a reason"),
        ));
    }
    findings.extend(long_functions(path, text));
    if !path.starts_with(UNSAFE_FOLDER) {
        findings.extend(unsafe_code(path, text));
    }
    findings
}

/// Exceptions for files that are short again, or gone.
pub(super) fn stale_exceptions(tree: &Tree) -> Vec<Finding> {
    LONG_FILES
        .iter()
        .filter(|(path, _)| {
            tree.get(*path)
                .is_none_or(|text| text.lines().count() <= FILE_LINES_MAX)
        })
        .map(|(path, _)| Finding::at(path, 0, "needs no exception any more"))
        .collect()
}

/// A function ends at the first closing brace that stands as far in as its first line.
fn long_functions(path: &str, text: &str) -> Vec<Finding> {
    let lines: Vec<&str> = text.lines().collect();
    let mut findings = Vec::new();
    for (start, line) in lines.iter().enumerate() {
        let Some(name) = function_name(line) else {
            continue;
        };
        let indent = line.len() - line.trim_start().len();
        let end = lines[start..].iter().position(|later| {
            let is_closing = later.trim_start() == "}" || later.trim_end().ends_with(';');
            is_closing && later.len() - later.trim_start().len() == indent
        });
        let count = end.map_or(0, |end| end + 1);
        if count > FUNCTION_LINES_MAX {
            let what = format!("{name} has {count} lines, more than {FUNCTION_LINES_MAX}");
            findings.push(Finding::at(path, start + 1, what));
        }
    }
    findings
}

/// The name of the function that begins on this line.
fn function_name(line: &str) -> Option<&str> {
    let mut rest = line.trim_start();
    if let Some(after) = rest.strip_prefix("pub(") {
        rest = after.split_once(") ")?.1;
    }
    for word in ["pub ", "const ", "async ", "unsafe ", "extern \"C\" "] {
        rest = rest.strip_prefix(word).unwrap_or(rest);
    }
    let name = rest.strip_prefix("fn ")?;
    name.split(['(', '<']).next()
}

fn unsafe_code(path: &str, text: &str) -> Vec<Finding> {
    let marks = ["{", "fn", "impl", "extern", "trait"].map(|after| format!("{} {after}", "unsafe"));
    let allowed = ["allow", "expect"].map(|how| format!("{how}(unsafe_code"));
    text.lines()
        .enumerate()
        .filter(|(_, line)| !line.trim_start().starts_with("//"))
        .filter(|(_, line)| marks.iter().chain(&allowed).any(|mark| line.contains(mark)))
        .map(|(index, _)| Finding::at(path, index + 1, "unsafe code is for the engine"))
        .collect()
}
