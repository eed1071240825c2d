//! Each rule of tidy on a tree that keeps it and one that does not.

use super::{Finding, Tree, check};

fn tree(files: &[(&str, &str)]) -> Tree {
    files
        .iter()
        .map(|(path, text)| ((*path).to_owned(), (*text).to_owned()))
        .collect()
}

fn findings(files: &[(&str, &str)]) -> Vec<String> {
    check(&tree(files))
        .unwrap()
        .iter()
        .map(Finding::to_string)
        .collect()
}

fn function(lines: usize) -> String {
    format!(
        "//! A head.\n\npub(crate) async fn long() {{\n{}}}\n",
        "    step();\n".repeat(lines - 2)
    )
}

#[test]
fn a_tree_that_keeps_the_rules_has_no_findings() {
    let files = [
        (
            "Cargo.toml",
            "[workspace.dependencies]\nblock = { path = \"crates/block\" }\nbytes = \"1\"\n",
        ),
        (
            "crates/nodes/Cargo.toml",
            "[dependencies]\nblock.workspace = true\nbytes.workspace = true\n[dev-dependencies]\ntestkit.workspace = true\n",
        ),
        ("crates/nodes/src/lib.rs", &function(70)),
        (
            "docs/adr/0001-dependencies.md",
            "# Dependencies\n\n| crate | why |\n|---|---|\n| `bytes` | shared slices |\n",
        ),
    ];
    assert_eq!(findings(&files), Vec::<String>::new());
}

#[test]
fn an_arrow_that_the_design_does_not_have_is_found() {
    let files = [(
        "crates/nbd-proto/Cargo.toml",
        "[dependencies]\nblock.workspace = true\n",
    )];
    assert_eq!(
        findings(&files),
        ["crates/nbd-proto/Cargo.toml: may not depend on block"]
    );
}

#[test]
fn testkit_is_for_tests_alone() {
    let linked = [(
        "crates/nbd/Cargo.toml",
        "[dependencies]\ntestkit.workspace = true\n",
    )];
    assert_eq!(
        findings(&linked),
        ["crates/nbd/Cargo.toml: may not depend on testkit"]
    );
    let tested = [(
        "crates/nbd/Cargo.toml",
        "[dev-dependencies]\ntestkit.workspace = true\n",
    )];
    assert!(findings(&tested).is_empty());
    let tests = [(
        "tests/Cargo.toml",
        "[dependencies]\ntestkit.workspace = true\n",
    )];
    assert!(findings(&tests).is_empty());
}

#[test]
fn a_crate_without_arrows_is_found() {
    let files = [("crates/new/Cargo.toml", "[package]\n")];
    assert_eq!(
        findings(&files),
        ["crates/new/Cargo.toml: tidy knows no arrows for this crate"]
    );
}

#[test]
fn a_map_with_other_arrows_is_found() {
    let map = |engine: &str| {
        format!(
            "# Map\n\n## Crates\n\n    outboard    ─► attach, bucket, lab, lab-drivers, nodes, nbd, engine, block\n    \
             lab-drivers ─► lab, attach, nodes, nbd, engine, block\n    attach      ─► nbd, engine, block    \
             nodes ─► engine, block\n    bucket ─► engine, block\n    nbd ─► nbd-proto, engine, block    lab ─► engine\n    \
             testkit ─► {engine}block\n\n### `crates/block`\n"
        )
    };
    let right = map("engine, ");
    assert!(findings(&[("ARCHITECTURE.md", &right)]).is_empty());
    let wrong = map("");
    assert_eq!(
        findings(&[("ARCHITECTURE.md", &wrong)]),
        ["ARCHITECTURE.md: the map's arrows of testkit are not those of tidy: engine, block"]
    );
}

#[test]
fn a_file_without_a_head_is_found() {
    assert_eq!(
        findings(&[("crates/nbd/src/a.rs", "use std::fmt;\n")]),
        ["crates/nbd/src/a.rs:1: a file begins with //! and what it is"]
    );
}

#[test]
fn a_function_of_71_lines_is_found_where_it_begins() {
    assert_eq!(
        findings(&[("crates/nbd/src/a.rs", &function(71))]),
        ["crates/nbd/src/a.rs:3: long has 71 lines, more than 70"]
    );
}

#[test]
fn a_declaration_without_a_body_does_not_run_into_what_follows() {
    let text = format!(
        "//! A head.\ntrait T {{\n    fn short(&self);\n{}}}\n",
        "    const A: u8 = 1;\n".repeat(80)
    );
    assert!(findings(&[("crates/nbd/src/a.rs", &text)]).is_empty());
}

#[test]
fn a_file_of_501_lines_is_found() {
    let text = "//! A head.\n".repeat(501);
    let found = findings(&[("crates/nbd/src/a.rs", &text)]);
    assert_eq!(found.len(), 1);
    assert!(found[0].contains("501 lines"), "{found:?}");
}

#[test]
fn unsafe_code_is_found_outside_the_engine_only() {
    let text = concat!(
        "//! A head.\n// uns",
        "afe { said in a comment }\nlet a = uns",
        "afe { b() };\n"
    );
    assert_eq!(
        findings(&[("crates/nbd/src/a.rs", text)]),
        ["crates/nbd/src/a.rs:3: unsafe code is for the engine"]
    );
    assert!(findings(&[("crates/engine/src/a.rs", text)]).is_empty());
}

#[test]
fn work_not_done_and_paths_of_one_machine_are_found() {
    let text = concat!("a TO", "DO\n/ro", "ot/x\n");
    let found = findings(&[("README.md", text)]);
    assert_eq!(found.len(), 2);
    assert!(found[0].starts_with("README.md:1: "), "{found:?}");
    assert!(found[1].starts_with("README.md:2: "), "{found:?}");
}

#[test]
fn a_negated_command_of_a_script_is_found_where_it_cannot_fail() {
    let text = "set -e\nif ! a; then b; fi\ntest ! -e c\n    ! grep d\n";
    let found = findings(&[("tests/a.sh", text)]);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].starts_with("tests/a.sh:4: "), "{found:?}");
    assert!(findings(&[("docs/a.md", text)]).is_empty());
}

#[test]
fn white_space_at_the_end_of_a_line_tabs_and_a_missing_end_are_found() {
    let found = findings(&[("README.md", "one \n\ttwo\nthree")]);
    assert_eq!(
        found,
        [
            "README.md:1: the line ends with white space",
            "README.md:2: a tab",
            "README.md: a file ends with one end of line"
        ]
    );
}

#[test]
fn a_dependency_needs_a_line_and_a_line_needs_a_dependency() {
    let files = [
        ("Cargo.toml", "[workspace.dependencies]\nbytes = \"1\"\n"),
        (
            "docs/adr/0001-dependencies.md",
            "| crate | why |\n|---|---|\n| slab | indexes |\n",
        ),
    ];
    assert_eq!(
        findings(&files),
        [
            "docs/adr/0001-dependencies.md: has no line for bytes",
            "docs/adr/0001-dependencies.md: slab is no dependency"
        ]
    );
}

#[test]
fn a_decision_fits_a_page_and_the_table_of_dependencies_may_be_longer() {
    let long = "a line of text\n".repeat(300);
    let files = [
        ("docs/adr/0001-dependencies.md", long.as_str()),
        ("docs/adr/0002-short.md", "a line of text\n"),
        ("docs/adr/0003-long.md", long.as_str()),
    ];
    assert_eq!(
        findings(&files),
        ["docs/adr/0003-long.md: has 4500 characters, and a decision at most 4000"]
    );
}

#[test]
fn decisions_have_numbers_of_their_own() {
    let files = [
        ("docs/adr/0001-dependencies.md", "a\n"),
        ("docs/adr/0001-other.md", "a\n"),
        ("docs/adr/notes.md", "a\n"),
    ];
    assert_eq!(
        findings(&files),
        [
            "docs/adr/0001-other.md: the number 0001 is taken",
            "docs/adr/notes.md: a decision is named NNNN-what.md"
        ]
    );
}
