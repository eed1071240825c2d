//! `lab`: the way of a run from the plan to its report. What the figures mean is tested in the crate.

use testkit::requires;

use super::{answer, failure};

/// A plan that takes no time.
const PLAN: &str = r#"
name = "tiny"
summary = "One read."

[data]
size = "16M"
layout_ms = 5000

[budget]
blocks_min = 1
blocks_max = 1
time_ms = 20000
precision = 0.5

[[workload]]
name = "seq-read"
title = "Sequential read"
pattern = "sequential"
direction = "read"
block_size = "64K"
depth = 1
jobs = 1
runtime_ms = 300
"#;

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a folder")
}

#[test]
fn a_list_without_runs_makes_no_store() {
    let folder = folder();
    let listed = answer(folder.path(), &["lab", "list", "--json"]);
    let listed: serde_json::Value = serde_json::from_str(&listed).expect("JSON");
    assert_eq!(listed["plans"][0]["name"], "quick");
    assert_eq!(listed["runs"].as_array().map(Vec::len), Some(0));
    for command in ["report", "export"] {
        let (status, told) = failure(folder.path(), &["lab", command]);
        assert_eq!(status, Some(1));
        assert!(told.contains("no run was made yet"), "{told}");
    }
    assert!(!folder.path().join("data").exists());
}

#[test]
fn a_dry_run_says_what_it_would_do_and_does_nothing() {
    let folder = folder();
    let told = answer(folder.path(), &["lab", "run", "quick", ".", "--dry-run"]);
    assert!(told.contains("--rw=randread"), "{told}");
    assert!(told.contains("writes at most"), "{told}");
    let left = std::fs::read_dir(folder.path())
        .expect("the folder")
        .count();
    assert_eq!(left, 0);
}

#[test]
fn a_plan_with_an_unknown_key_is_named_with_its_line() {
    let folder = folder();
    std::fs::write(folder.path().join("p.toml"), PLAN.replace("depth", "deep")).expect("a plan");
    let (status, told) = failure(folder.path(), &["lab", "run", "p.toml", "."]);
    assert_eq!(status, Some(1));
    assert!(told.starts_with("outboard: p.toml: "), "{told}");
    assert!(told.contains("deep"), "{told}");
}

#[test]
fn a_run_is_kept_shown_and_exported() {
    if !requires::all(&[requires::command("fio")]) {
        return;
    }
    let folder = folder();
    std::fs::write(folder.path().join("p.toml"), PLAN).expect("a plan");
    let table = answer(folder.path(), &["lab", "run", "p.toml", "."]);
    assert!(table.contains("Sequential read"), "{table}");
    let path = answer(folder.path(), &["lab", "report", "--open-path"]);
    let page = std::fs::read_to_string(path.trim_end()).expect("the report");
    assert!(page.starts_with("<!DOCTYPE html>"));
    let shown = answer(folder.path(), &["lab", "report", "1", "--output", "r.html"]);
    assert!(shown.starts_with(&table), "{shown}");
    assert!(folder.path().join("r.html").exists());
    let json = answer(folder.path(), &["lab", "export"]);
    let json: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    assert!(json.is_object());
    let csv = answer(folder.path(), &["lab", "export", "--format", "csv"]);
    assert_eq!(csv.lines().count(), 2, "a head and one measurement: {csv}");
    let (status, told) = failure(folder.path(), &["lab", "report", "7"]);
    assert_eq!(status, Some(1));
    assert!(told.contains("there is no run 7"), "{told}");
}
