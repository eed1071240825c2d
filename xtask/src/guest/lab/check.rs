//! A run in the lab's guest, as a user makes it: every target of the plan is there, each test has a figure,
//! the run says where it was made, and nothing stays.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::shell;

/// A guest that does not end is given up after so many seconds.
const LIMIT_S: &str = "420";

/// Builds the guest below `folder` and makes the run with `binary`.
pub(crate) fn run(folder: &Path, binary: &Path) -> Result<()> {
    let guest = super::build(folder)?;
    let place = folder.join("run/lab");
    std::fs::remove_dir_all(&place).ok();
    let base = place.join("base");
    std::fs::create_dir_all(&base)?;
    let store = place.join("lab.sqlite");
    let plan = shell::root().join("tests/guest/lab/kernel.toml");
    let mut run = Command::new("timeout");
    run.arg(LIMIT_S)
        .arg(binary)
        .args(["lab", "run", "--small", "--seed", "7"])
        .arg(&plan)
        .arg(&base)
        .arg("--in-guest")
        .arg(&guest)
        .arg("--store")
        .arg(&store);
    let table = shell::output(&mut run)?;
    ensure!(
        table.contains("the processor is emulated"),
        "the table does not say that the machine is emulated:\n{table}"
    );
    let mut export = Command::new(binary);
    export.args(["lab", "export", "--store"]).arg(&store);
    let kept = shell::output(&mut export)?;
    let kept: Value = serde_json::from_str(&kept).context("the export is no JSON")?;
    accounted_for(&kept["run"]).with_context(|| format!("the run said:\n{table}"))?;
    let left = std::fs::read_dir(&base)?.count();
    ensure!(left == 0, "{left} files stayed where the scratch disk was");
    std::fs::remove_dir_all(&place)?;
    Ok(())
}

/// Whether all that was planned was measured, and it is said where.
fn accounted_for(run: &Value) -> Result<()> {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let manifest = &run["manifest"];
    let left_out = list(&manifest["left_out"]);
    ensure!(left_out.is_empty(), "left out: {left_out:?}");
    let targets = list(&run["plan"]["target"]).len();
    let tests = list(&run["plan"]["workload"]).len();
    let cells = list(&run["cells"]);
    ensure!(
        targets > 0 && cells.len() == targets * tests,
        "{} measurements of {tests} tests on {targets} targets",
        cells.len()
    );
    for cell in &cells {
        let bytes = cell["outcome"]["fio"]["bytes"].as_u64();
        ensure!(bytes > Some(0), "a measurement moved nothing: {cell}");
    }
    let texts: Vec<String> = list(&run["findings"])
        .iter()
        .filter_map(|finding| finding["text"].as_str().map(str::to_owned))
        .collect();
    for part in ["made in a guest", "emulated machine"] {
        ensure!(
            texts.iter().any(|text| text.contains(part)),
            "no remark says {part:?}: {texts:?}"
        );
    }
    Ok(())
}
