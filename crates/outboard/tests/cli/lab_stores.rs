//! `lab` on a store that is damaged, newer or on a full disk: one clear line each, and what was kept stays as
//! it is.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use serde_json::Value;
use testkit::{TmpfsMount, requires};

use super::lab::{kept, plan, plan_of, started};
use super::{answer, failure, run, within_a_minute};

const READ: &str = include_str!("../../../lab/src/fio/fixtures/random-read.json");
const STORE: &str = "lab.sqlite";
const MIB: u64 = 1 << 20;
/// SQLite's, by default.
const PAGE: usize = 4096;

/// Three runs in a store, a plan, and a directory to measure.
fn stored() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    fs::create_dir(folder.path().join("base")).expect("a folder");
    fs::write(folder.path().join("p.toml"), plan()).expect("a plan");
    fs::write(folder.path().join("r.json"), READ).expect("a file");
    for _ in 0..3 {
        answer(
            folder.path(),
            &["lab", "import", "r.json", "--store", STORE],
        );
    }
    folder
}

/// Everything that uses a store.
const COMMANDS: [&[&str]; 9] = [
    &["run", "p.toml", "base"],
    &["run", "--resume=1"],
    &["report"],
    &["report", "1", "--output", "r.html"],
    &["history"],
    &["compare", "1", "2"],
    &["list"],
    &["export", "--all", "--csv"],
    &["import", "r.json"],
];

fn names(folder: &Path) -> BTreeSet<String> {
    let entries = fs::read_dir(folder).expect("a folder").flatten();
    entries
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect()
}

/// One line about the store, which is as it was; and nothing came into being.
#[track_caller]
fn is_refused(folder: &Path, command: &[&str], words: &str) {
    let (before, there) = (fs::read(folder.join(STORE)), names(folder));
    let words_of = [&["lab"], command, &["--store", STORE]].concat();
    let (status, told) = failure(folder, &words_of);
    assert_eq!(status, Some(1), "{command:?}: {told}");
    assert!(!told.contains('\n'), "{command:?}: {told}");
    assert!(
        told.contains(STORE) && told.contains(words),
        "{command:?}: {told}"
    );
    let after = fs::read(folder.join(STORE)).expect("the store");
    assert!(before.expect("the store") == after, "{command:?} wrote");
    assert_eq!(names(folder), there, "{command:?}");
    assert_eq!(names(&folder.join("base")), BTreeSet::new(), "{command:?}");
}

/// What may have happened to a file, and the message about it.
type Damage = (&'static str, fn(&[u8]) -> Vec<u8>, &'static str);

const DAMAGES: [Damage; 6] = [
    (
        "a letter",
        |_| b"This is a letter, and no database. ".repeat(400),
        "is damaged or is no store",
    ),
    (
        "its first hundred bytes",
        |bytes| bytes[..100].to_vec(),
        "is damaged",
    ),
    (
        "its first half",
        |bytes| bytes[..bytes.len() / 2].to_vec(),
        "is damaged",
    ),
    (
        "all but its last byte",
        |bytes| bytes[..bytes.len() - 1].to_vec(),
        "is damaged",
    ),
    (
        "a letter behind its first page",
        |bytes| {
            let mut bytes = bytes.to_vec();
            bytes[PAGE..].fill(b'x');
            bytes
        },
        "is damaged",
    ),
    (
        // The header's user version: https://www.sqlite.org/fileformat.html, section 1.3.
        "one of a later version",
        |bytes| {
            let mut bytes = bytes.to_vec();
            bytes[60..64].copy_from_slice(&99u32.to_be_bytes());
            bytes
        },
        "was written by a later version (schema 99",
    ),
];

#[test]
fn a_store_that_is_none_is_named_by_every_command_and_left_as_it_is() {
    let folder = stored();
    let whole = fs::read(folder.path().join(STORE)).expect("the store");
    for (name, damage, words) in DAMAGES {
        eprintln!("the store is {name}");
        fs::write(folder.path().join(STORE), damage(&whole)).expect("ours");
        for command in COMMANDS {
            is_refused(folder.path(), command, words);
        }
    }
}

/// A run that ends in such a store would be measured for nothing; a reader may not be near the damage, but is
/// never given another answer than before.
#[test]
fn a_store_with_a_damaged_page_in_it_takes_no_run_and_never_reports_other_figures() {
    let folder = stored();
    let store = folder.path().join(STORE);
    let whole = fs::read(&store).expect("the store");
    let tell = |run_number: &str| {
        let words = ["lab", "export", run_number, "--store", STORE];
        run(folder.path(), &words)
    };
    let expected = tell("2").stdout;
    assert!(!expected.is_empty());
    let pages = whole.len() / PAGE;
    assert!(pages > 10, "{pages} pages");
    let mut refused = 0;
    for page in 1..pages {
        let mut bytes = whole.clone();
        bytes[page * PAGE..(page + 1) * PAGE].fill(0xa5);
        fs::write(&store, &bytes).expect("ours");
        is_refused(folder.path(), &["run", "p.toml", "base"], "is damaged");
        let told = tell("2");
        if told.status.success() {
            assert!(
                told.stdout == expected,
                "page {page} reported other figures"
            );
            continue;
        }
        is_refused(folder.path(), &["export", "2"], "is damaged");
        is_refused(folder.path(), &["history"], "is damaged");
        refused += 1;
    }
    assert!(refused > 0, "no page of {pages} was of run 2");
}

#[test]
fn an_empty_file_is_no_store_to_read_and_becomes_one_when_something_is_kept() {
    let folder = stored();
    let store = folder.path().join(STORE);
    fs::write(&store, []).expect("ours");
    let (status, told) = failure(folder.path(), &["lab", "report", "--store", STORE]);
    assert_eq!(status, Some(1));
    assert!(told.contains("no run was made yet"), "{told}");
    assert_eq!(fs::read(&store).expect("the store"), b"");
    let words = ["lab", "import", "r.json", "--store", STORE];
    answer(folder.path(), &words);
    answer(folder.path(), &["lab", "report", "--store", STORE]);
}

/// The store fills up in the middle: the run ends, says under which number it kept what it had, and goes on
/// once there is space.
#[test]
fn a_run_whose_store_has_no_space_left_says_what_it_kept_and_can_go_on() {
    let needs = [requires::root(), requires::command("fio")];
    if !requires::all(&needs) {
        return;
    }
    let folder = stored();
    fs::write(folder.path().join("p.toml"), plan_of(6)).expect("a plan");
    let small = TmpfsMount::of_size(4 * MIB).expect("a small disk");
    let store = small.path().join(STORE).to_string_lossy().into_owned();
    let in_store = ["--store", &store];
    let child = started(folder.path(), "base", &in_store);
    within_a_minute(|| kept(folder.path(), &in_store).filter(|cells| *cells > 0));
    let filler = small.path().join("filler");
    let full = fs::write(&filler, vec![7; 8 << 20]).expect_err("it is full");
    assert_eq!(full.kind(), std::io::ErrorKind::StorageFull);

    let output = child.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let line = said.lines().find(|line| line.starts_with("outboard: "));
    let line = line.unwrap_or_else(|| panic!("no message in {said:?}"));
    for part in [
        store.as_str(),
        "full",
        "whole blocks were kept as run 1",
        &format!("`outboard lab run --resume=1 --store {store}`"),
    ] {
        assert!(line.contains(part), "{part} is not in {line}");
    }
    assert_eq!(names(&folder.path().join("base")), BTreeSet::new());

    // What was kept can be read although the disk is full.
    let before = kept(folder.path(), &in_store).expect("it can be read");
    assert!((1..6).contains(&before), "{before}");
    let words = ["lab", "report", "--output", "r.html", "--store", &store];
    answer(folder.path(), &words);

    fs::remove_file(&filler).expect("ours");
    let words = ["lab", "run", "--resume=1", "--json", "--store", &store];
    let told: Value = serde_json::from_str(&answer(folder.path(), &words)).expect("JSON");
    let cells = told["run"]["cells"].as_array().expect("cells");
    let blocks: Vec<u64> = cells
        .iter()
        .filter_map(|cell| cell["block"].as_u64())
        .collect();
    assert_eq!(blocks, [0, 1, 2, 3, 4, 5]);
}
