//! The doctor on a share of SMB with the client of the kernel: the script `tests/guest/lab/doctor.sh` makes the systems, each
//! with a limiter that is known, and this judges the answers.
//!
//! # What it does not do
//!
//! No disk is the limiter: what Samba has read is in the page cache of its machine.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::run::{LabScript, script};
use super::{Guest, LabTest};

pub(super) const TEST: LabTest = LabTest {
    name: "doctor",
    limit_s: 600,
    is_brief: false,
    run,
};

/// The systems by their names in the script: what limits each.
const SYSTEMS: [&str; 2] = ["wire", "queue"];

/// Has the doctor examine all systems.
fn run(guest: &Guest, folder: &Path) -> Result<()> {
    let place = folder.join("run/doctor");
    let doctors = LabScript {
        name: "doctor",
        settings: "",
        programs: &[],
    };
    script(guest, doctors, &place, TEST.limit_s, |out| {
        SYSTEMS.iter().try_for_each(|truth| {
            let file = out.join(format!("{truth}.json"));
            let answer = std::fs::read(file).with_context(|| format!("no answer on {truth}"))?;
            judge(&serde_json::from_slice(&answer)?, truth)
        })
    })
}

/// Whether the first answer is on a share of SMB, and names the truth alone or with one other part.
fn judge(answers: &Value, truth: &str) -> Result<()> {
    let answer = answers.get(0).context("the doctor has no answer")?;
    let about = answer["examination"]["about"].to_string();
    ensure!(about.contains("cifs"), "it is not on SMB: {about}");
    let named = answer["verdict"]["limiter"].as_array();
    let named = named.context("the answer has no verdict")?;
    ensure!(
        named.len() <= 2 && named.iter().any(|part| part == truth),
        "the {truth} is the limiter: {:#}",
        answer["verdict"]
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_names_the_truth_alone_or_with_one_other_part() {
        let answer = |named: &[&str]| {
            serde_json::json!([{
                "examination": {"about": "cifs of nas"},
                "verdict": {"limiter": named}
            }])
        };
        let is_right = |named: &[&str]| judge(&answer(named), "wire").is_ok();
        assert!(is_right(&["wire"]) && is_right(&["wire", "server"]));
        assert!(!is_right(&["server"]) && !is_right(&["client", "wire", "server"]));
        let other = serde_json::json!([{"examination": {"about": "nfs"}, "verdict": {"limiter": ["wire"]}}]);
        assert!(judge(&other, "wire").is_err());
    }
}
