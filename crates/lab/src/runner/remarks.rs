//! Remarks on a run's targets before anything is measured.

use super::prepare::{PreparedFile, ReadyTarget};
use crate::checks::cache::Dropped;
use crate::checks::{self, Finding, TargetCheck};
use crate::host::machine;
use crate::sensors;
use crate::units::Bytes;

/// How the text on two targets ends that share a filesystem or a device.
pub(crate) const SAME_FILESYSTEM: &str = "are on the same filesystem";

/// Findings on a run before its first block.
pub(super) fn of(targets: &[ReadyTarget], readied: &PreparedFile, wanted: Bytes) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut say = |text: String| findings.push(Finding::of_run(text));
    let size = readied.size;
    if readied.engine.is_some() && size < wanted {
        say(format!(
            "the test file has {size} instead of {wanted}: more could not be written in time"
        ));
    }
    if readied.engine.is_some() && !readied.direct {
        say(
            "a target has no direct I/O, so all of them were measured through the page cache"
                .into(),
        );
    }
    for (index, target) in targets.iter().enumerate() {
        let label = &target.facts.label;
        if !target.ground.locked {
            say(format!(
                "{label} cannot be locked: another run may have measured it at the same time"
            ));
        }
        if !target.ground.is_laid_out() {
            say(format!(
                "{label} is only read: what is on it was not written by the lab, and may be zeros or holes"
            ));
        }
        if ["tmpfs", "ramfs"].contains(&target.facts.filesystem.as_str()) {
            say(format!("{label} is memory, not storage"));
        }
        for other in &targets[..index] {
            if other.ground.shares(&target.ground) {
                let other = &other.facts.label;
                say(format!("{other} and {label} {SAME_FILESYSTEM}"));
            }
        }
    }
    for text in not_permitted(targets) {
        say(text);
    }
    for target in targets {
        // Alignment and identity of its disk.
        findings.extend(checks::target(&TargetCheck {
            facts: &target.facts,
            segments: &target.segments,
        }));
    }
    findings.extend(checks::host(&machine()));
    findings
}

/// What this user may not do, of which measurements alone would only show that it is missing.
fn not_permitted(targets: &[ReadyTarget]) -> Vec<String> {
    let mut texts = Vec::new();
    if targets
        .iter()
        .any(|target| target.drops == Some(Dropped::FileOnly))
    {
        texts.push(
            "this machine's page cache cannot be dropped, which needs root: only the pages of the test files \
             are, and what a server here keeps in memory stays there"
                .into(),
        );
    }
    let refused = sensors::refused();
    if !refused.is_empty() {
        let names = refused.join(", ");
        texts.push(format!(
            "these sensors may not be read by this user: {names}"
        ));
    }
    texts
}
