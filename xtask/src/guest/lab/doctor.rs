//! The doctor on a share of SMB with the client of the kernel: the script `tests/guest/lab/doctor.sh` makes the systems, each
//! with a limiter that is known, and this judges the answers.
//!
//! # What it does not do
//!
//! No disk is the limiter: what Samba has read is in the page cache of its machine.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::run::script;

/// A guest that does not end is aborted after so many seconds.
pub(crate) const LIMIT_S: u32 = 600;

/// The systems by their names in the script, and what limits each.
const SYSTEMS: [(&str, &str); 2] = [("wire", "wire"), ("queue", "queue")];

/// Builds the guest below `folder` with `binary`, and has the doctor examine all systems.
pub(crate) fn run(folder: &Path, binary: &Path) -> Result<()> {
    let guest = super::build(folder, binary)?;
    let place = folder.join("run/doctor");
    script(&guest, ("doctor", ""), &place, LIMIT_S, |out| {
        SYSTEMS.iter().try_for_each(|(name, truth)| {
            let file = out.join(format!("{name}.json"));
            let answer = std::fs::read(file).with_context(|| format!("no answer on {name}"))?;
            judge(&serde_json::from_slice(&answer)?, truth).with_context(|| format!("on {name}"))
        })
    })
}

/// Whether the answer is on a share of SMB, and names the truth alone or with one other part.
fn judge(answer: &Value, truth: &str) -> Result<()> {
    let answer = match answer {
        Value::Array(answers) => answers.first().context("the doctor has no answer")?,
        one => one,
    };
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
