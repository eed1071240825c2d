//! Remarks that repeat are one line, and what targets share is in the line on noise.

use crate::checks::identity::Identity;
use crate::checks::{Check, Finding};
use crate::report::sentences::verdict;
use crate::report::{Summary, html, markdown, table};
use crate::runner::SAME_FILESYSTEM;
use crate::synthetic;

/// A report of the plan `layers` had 98 footnotes of this kind.
#[test]
fn remarks_of_other_numbers_tests_and_targets_are_one_footnote_with_ranges() {
    let mut run = synthetic::run(6);
    let mut tenth = 2;
    for cell in run.cells.iter_mut().filter(|cell| cell.block < 3) {
        tenth += 1;
        let text = format!(
            "the machine was under load: other programs took {}.{} cores",
            tenth / 10,
            tenth % 10
        );
        cell.findings.push(Finding::remark(Check::Noise, text));
    }
    let titles: Vec<String> = run
        .plan
        .workloads
        .iter()
        .map(|test| test.title.clone())
        .collect();
    for (index, title) in titles.iter().enumerate() {
        let text = format!(
            "{title} on /home/me failed in {} of 6 blocks: no space",
            index + 1
        );
        run.findings.push(Finding::of_run(text));
    }
    let note = "the machine was under load: other programs took 0.3 to 1.0 cores (8 results)";
    let failed = "Sequential read, Sequential write, Random read and 1 more on /home/me failed in 1 to 4 of 6 blocks: no space \
                  (4 remarks)";
    let text = table(&run);
    assert!(
        text.contains(&format!("[1] {note}.")) && !text.contains("[2]"),
        "{text}"
    );
    assert_eq!(text.matches("good [1]").count(), 8, "{text}");
    assert!(text.contains(&format!("Note: {failed}.")), "{text}");
    let page = html(&run);
    assert!(page.contains(note) && page.contains(failed));
    assert_eq!(page.matches("id=\"note-").count(), 1);
    let text = markdown(&run);
    // Among the remarks, and as the example of its check.
    assert_eq!(text.matches("other programs took").count(), 2, "{text}");
    assert!(text.contains(failed));
}

#[test]
fn what_targets_share_is_in_the_line_on_noise() {
    let noise = |run: &crate::store::RunRecord| {
        let said = verdict(run, &Summary::of(run), None);
        said.into_iter()
            .find(|sentence| sentence.starts_with("Noise: "))
    };
    let mut run = synthetic::run(6);
    run.manifest.targets[1].device = Some("vdb".into());
    assert_eq!(noise(&run), None);
    for facts in &mut run.manifest.targets {
        facts.identity = Some(Identity {
            name: "sda".into(),
            ..Identity::default()
        });
    }
    assert_eq!(noise(&run).unwrap(), "Noise: targets share the device sda.");
    run.manifest.targets[1].device = run.manifest.targets[0].device.clone();
    let text = format!("/mnt/<media> and /home/me {SAME_FILESYSTEM}");
    run.findings.push(Finding::of_run(text.clone()));
    assert_eq!(noise(&run).unwrap(), format!("Noise: {text}."));
}
