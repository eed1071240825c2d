//! A run in the lab's guest, as a developer makes it: every target of the plan is there, each test has a figure,
//! the run says that the machine is emulated, and nothing but its store stays.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::run::{Console, STORE};
use super::{Guest, LabTest};
use crate::shell;

pub(super) const TEST: LabTest = LabTest {
    name: "lab",
    limit_s: 420,
    is_brief: true,
    run,
};

/// Makes the run.
fn run(guest: &Guest, folder: &Path) -> Result<()> {
    let place = folder.join("run/lab");
    std::fs::remove_dir_all(&place).ok();
    std::fs::create_dir_all(&place)?;
    let plan = shell::root().join("tests/guest/lab/kernel.toml");
    let [plan, directory] = [&plan, &place].map(|path| path.to_string_lossy().into_owned());
    let words = [&plan, &directory, "--small", "--seed", "7"].map(str::to_owned);
    let table = super::run(guest, &words, TEST.limit_s, Console::OfFailure)?;
    ensure!(
        table.contains("the processor is emulated"),
        "the table does not say that the machine is emulated:\n{table}"
    );
    let mut export = Command::new(&guest.binary);
    export
        .args(["lab", "export", "--store"])
        .arg(place.join(STORE));
    let kept = shell::output(&mut export)?;
    let kept: Value = serde_json::from_str(&kept).context("the export is no JSON")?;
    accounted_for(&kept["run"]).with_context(|| format!("the run printed:\n{table}"))?;
    let left = std::fs::read_dir(&place)?.count();
    ensure!(
        left == 1,
        "{left} files are where the store alone should be"
    );
    std::fs::remove_dir_all(&place)?;
    Ok(())
}

/// Whether all that was planned was measured, and a remark says where.
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
    ensure!(
        texts.iter().any(|text| text.contains("emulated machine")),
        "no remark says that the machine is emulated: {texts:?}"
    );
    Ok(())
}
