//! What is found, what is not, and the ratchet.

use super::scan::{Kind, pieces};
use super::*;

fn found(path: &str, text: &str) -> Vec<String> {
    let tree = Tree::from([(path.to_owned(), text.to_owned())]);
    list(&tree, "").iter().map(Finding::to_string).collect()
}

#[test]
fn a_comment_with_a_word_of_the_list_is_found_with_the_term() {
    assert_eq!(
        found(
            "crates/nbd/src/a.rs",
            "//! A head.\n// Whoever waits is told.\n"
        ),
        ["crates/nbd/src/a.rs:2: whoever: name the subject: the caller, the client"]
    );
    assert_eq!(
        found(
            "tests/guest/a.sh",
            "#!/bin/sh\n# The rate is reckoned.\ntold=1\n"
        ),
        ["tests/guest/a.sh:2: reckon*: compute"]
    );
}

#[test]
fn a_message_is_found_and_protocol_text_is_not() {
    let text = r##"
    let wrong = "the server told us so"; let right = "a disk whose size was asked for";
    let user = "nobody";
    let key = ("asked", "who asks");
    let raw = r#"he said "who is that""#;
    let quote = '"'; let path = "nbd://host/who/told/them"; // trailing
    let long = "one line and \
        nobody waits for another one";
"##;
    assert_eq!(
        found("crates/nbd/src/a.rs", text),
        [
            "crates/nbd/src/a.rs:2: told: reported, configured, notified",
            "crates/nbd/src/a.rs:8: nobody: name the subject: no client, no process",
        ]
    );
}

#[test]
fn a_name_is_found_where_it_is_defined() {
    let text = "pub(crate) struct ReckonedRate;\nasync fn who_is_moody() {}\nconst ANEW: u8 = 0;\nlet told = 1;\npub(crate) const fn tell_all() {}\n";
    assert_eq!(
        found("crates/nbd/src/a.rs", text),
        [
            "crates/nbd/src/a.rs:1: reckon*: compute",
            "crates/nbd/src/a.rs:2: moody: name what varies",
            "crates/nbd/src/a.rs:3: anew: again, rebuild",
            "crates/nbd/src/a.rs:5: tell: report, distinguish",
        ]
    );
}

#[test]
fn consoles_of_documents_and_names_in_backticks_are_not_prose() {
    let text = "The option `told` is there.\n\n    $ echo who said that\n\nHe said so.\n";
    assert_eq!(
        found("docs/guide/a.md", text),
        ["docs/guide/a.md:5: said: reported, stated, configured"]
    );
}

#[test]
fn documents_have_words_and_phrases_of_their_own() {
    let text = "A member that was away\nComes *back*, or `comes back`.\nIt is absent.\n";
    assert_eq!(
        found("docs/guide/a.md", text),
        [
            "docs/guide/a.md:1: away: unreachable, absent, missing",
            "docs/guide/a.md:2: comes: rejoins, reconnects, returns",
        ]
    );
    let code = "// A member that was away comes back.\n";
    assert_eq!(found("crates/nbd/src/a.rs", code), Vec::<String>::new());
}

#[test]
fn each_folder_of_documents_is_counted_by_itself() {
    let paths = [
        "docs/guide/a.md",
        "docs/adr/b.md",
        "README.md",
        "crates/nbd/src/a.rs",
        "tests/a.rs",
    ];
    assert_eq!(
        paths.map(folder),
        ["docs/guide", "docs/adr", ".", "crates/nbd", "tests"]
    );
}

#[test]
fn comments_are_counted_line_by_line() {
    let text = "//! One.\n\nfn a() {\n    // Two.\n    let a = \"// none\";\n}\n";
    let comments = pieces("a.rs", text)
        .iter()
        .filter(|piece| piece.kind == Kind::Comment)
        .count();
    assert_eq!(comments, 2);
}

fn used(comment_lines: usize, comments: usize) -> Usage {
    let finding = Finding::at("a", 1, "who: the caller");
    Usage {
        comment_lines,
        comments: vec![finding; comments],
        ..Usage::default()
    }
}

#[test]
fn a_folder_without_a_row_has_at_most_eight_in_a_thousand() {
    assert_eq!(against("tests", &used(1000, 8), None), None);
    assert!(against("tests", &used(1000, 9), None).is_some());
}

#[test]
fn a_row_only_falls() {
    let row = Allowance {
        folder: "tests",
        limits: [20, 0, 0],
    };
    let what =
        |comments| against("tests", &used(1000, comments), Some(&row)).map(|found| found.what);
    assert_eq!(what(20), None);
    let above = what(21).unwrap();
    assert!(above.contains("at most [20, 0, 0] may"), "{above}");
    let below = what(19).unwrap();
    assert!(below.contains("row(\"tests\", [19, 0, 0])"), "{below}");
    assert_eq!(what(8).unwrap(), "needs no row in ratchet.rs any more");
}

#[test]
fn names_of_types_and_files_are_counted() {
    let mut tree = Tree::new();
    for file in ["a", "b", "c", "taking"] {
        let text = "//! A head.\npub(crate) struct State;\nstruct Args;\n";
        tree.insert(format!("crates/nbd/src/{file}.rs"), text.to_owned());
    }
    tree.insert("crates/nbd/src/tests.rs".into(), "struct State;\n".into());
    tree.insert("crates/nbd/src/ring.rs".into(), "//! A head.\n".into());
    let found: Vec<String> = names::list(&tree);
    assert_eq!(found, ["State 4", "crates/nbd/src/taking"]);
}
