//! What went wrong: what failed, what is left out, what the machine did against it.

use super::machines::throttled;
use super::{ReportBlock, Section};
use crate::checks::Validity;
use crate::report::remark_group::{RunNames, grouped};
use crate::report::short;
use crate::report::summary::Summary;
use crate::store::{RunRecord, Status};

pub(super) fn faults(run: &RunRecord, summary: &Summary) -> Option<Section> {
    let mut lines: Vec<String> = Vec::new();
    match &run.status {
        Status::Failed { reason } => lines.push(format!("The run failed: {reason}.")),
        Status::Running => lines.push("The run did not end; what was kept is shown.".into()),
        Status::Cancelled => lines.push("The user stopped the run; what was kept is shown.".into()),
        Status::Imported => lines.push("The figures were read from files of fio.".into()),
        Status::Precise | Status::AllBlocks | Status::OutOfTime | Status::OutOfBytes => {}
    }
    for row in &summary.rows {
        if let Validity::Invalid { reason } = &row.validity {
            let name = short(&row.label, 40);
            lines.push(format!(
                "{} on {name} is invalid because {reason}.",
                row.title
            ));
        }
    }
    let left_out = run.manifest.left_out.iter();
    lines.extend(left_out.map(|target| {
        let named = if target.title.is_empty() {
            &target.name
        } else {
            &target.title
        };
        format!("{named} was left out: {}.", target.reason)
    }));
    lines.extend(run.manifest.skipped.iter().filter_map(|skipped| {
        let reason = skipped.reason.as_ref()?;
        let test = &run.plan.workloads.get(skipped.workload)?.title;
        let target = short(&run.manifest.targets.get(skipped.target)?.label, 40);
        Some(format!("{test} was not made on {target}: {reason}."))
    }));
    let of_run = run.findings.iter().chain(&summary.findings);
    let of_run = of_run.map(|finding| finding.text.as_str());
    let of_run = grouped(of_run, &RunNames::of(run)).into_iter();
    lines.extend(of_run.map(|text| sentence(&text)));
    lines.extend(throttled(&run.samples).iter().map(|flag| {
        format!(
            "The machine slowed itself down: {}.",
            flag.text.trim_start_matches("⚠ ")
        )
    }));
    let parts = match lines.is_empty() {
        true => vec![ReportBlock::Text(
            "Nothing failed, nothing was left out, and the machine did not slow itself down as far as its sensors report.".into(),
        )],
        false => vec![ReportBlock::List(lines)],
    };
    Some(Section::new("faults", "Faults", parts))
}

/// A finding's text as a sentence of its own.
fn sentence(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters
        .next()
        .map(|letter| letter.to_uppercase().to_string());
    format!("{}{}.", first.unwrap_or_default(), letters.as_str())
}
