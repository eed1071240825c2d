//! `lab`: the way of a run from the plan to its report. What the figures mean is tested in the crate.

use std::path::Path;
use std::process::{Child, Stdio};

use serde_json::Value;
use testkit::requires;

use super::{answer, failure, outboard, run};

/// The quick plan, cut down to one short measurement of its first test.
pub(super) fn plan() -> String {
    let quick = include_str!("../../../lab/src/plan/quick.toml");
    let first = quick
        .match_indices("[[workload]]")
        .nth(1)
        .expect("several")
        .0;
    let lines = quick[..first]
        .lines()
        .map(|line| match line.split(' ').next() {
            Some("size") => "size = \"16M\"",
            Some("blocks_min") => "blocks_min = 1",
            Some("blocks_max") => "blocks_max = 1",
            Some("runtime_ms") => "runtime_ms = 300",
            _ => line,
        });
    lines.collect::<Vec<_>>().join("\n")
}

/// The same with so many blocks.
pub(super) fn plan_of(blocks: u32) -> String {
    plan()
        .replace("blocks_min = 1", &format!("blocks_min = {blocks}"))
        .replace("blocks_max = 1", &format!("blocks_max = {blocks}"))
}

/// `lab run` of the plan `p.toml` on `target`, under way.
pub(super) fn started(folder: &Path, target: &str, more: &[&str]) -> Child {
    let run = ["lab", "run", "p.toml", target];
    let mut command = outboard(folder, &[&run[..], more].concat());
    command.stdin(Stdio::null()).stdout(Stdio::null());
    command.stderr(Stdio::piped()).spawn().expect("it starts")
}

/// The measurements of the latest run, as far as they are known now; `more` may name a store.
pub(super) fn kept(folder: &Path, more: &[&str]) -> Option<u64> {
    let list = ["lab", "list", "--json"];
    let output = run(folder, &[&list[..], more].concat());
    let told: Value = serde_json::from_slice(&output.stdout).ok()?;
    told["runs"][0]["cells"].as_u64()
}

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a folder")
}

#[test]
fn a_list_without_runs_makes_no_store() {
    let folder = folder();
    let listed = answer(folder.path(), &["lab", "list", "--json"]);
    let listed: Value = serde_json::from_str(&listed).expect("JSON");
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
    std::fs::write(
        folder.path().join("p.toml"),
        plan().replace("depth", "deep"),
    )
    .expect("a plan");
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
    std::fs::write(folder.path().join("p.toml"), plan()).expect("a plan");
    let table = answer(folder.path(), &["lab", "run", "p.toml", "."]);
    assert!(table.contains("Sequential read"), "{table}");
    let path = answer(folder.path(), &["lab", "report", "--open-path"]);
    let page = std::fs::read_to_string(path.trim_end()).expect("the report");
    assert!(page.starts_with("<!DOCTYPE html>"));
    let shown = answer(folder.path(), &["lab", "report", "1", "--output", "r.html"]);
    assert!(shown.starts_with(&table), "{shown}");
    for name in ["r.html", "r.md", "r.json"] {
        assert!(folder.path().join(name).exists(), "{name}");
    }
    let (status, told) = failure(folder.path(), &["lab", "report", "-o", "r.json"]);
    assert_eq!(status, Some(2));
    assert!(told.contains("r.json cannot be the page"), "{told}");
    let json = answer(folder.path(), &["lab", "export"]);
    let json: Value = serde_json::from_str(&json).expect("JSON");
    assert!(json.is_object());
    let csv = answer(folder.path(), &["lab", "export", "--csv"]);
    assert_eq!(csv.lines().count(), 2, "a head and one measurement: {csv}");
    let (status, told) = failure(folder.path(), &["lab", "report", "7"]);
    assert_eq!(status, Some(1));
    assert!(told.contains("there is no run 7"), "{told}");
}
