//! Tools that fail: by themselves, which ends nothing but their own measurement, or because their target
//! did, which ends the run as it does with fio.

use std::fs;
use std::path::Path;

use super::bad_input::Mounted;
use super::real::{directory, is_empty, with_tests};
use crate::LabError;
use crate::checks::{Check, Finding};
use crate::plan::Plan;
use crate::report::{Summary, table};
use crate::runner::progress::{CellProgress, Progress};
use crate::runner::{Cancel, Directories, RunRequest, Silent, TargetSpec, run};
use crate::store::{RunRecord, Status, Store};

/// Archives of a tree in `dir`; the second test has none.
fn plan(dir: &Path, blocks: u32) -> Plan {
    let tree = dir.join("source");
    fs::create_dir(&tree).unwrap();
    fs::write(tree.join("file"), vec![7; 1 << 20]).unwrap();
    let test = |name: &str, tree: &Path| {
        format!(
            "[[workload]]\nname = {name:?}\ntitle = {name:?}\ntool = \"tar\"\nbytes_max = \"2M\"\ntree = {tree:?}\n"
        )
    };
    let text = test("tree", &tree) + &test("nothing", &dir.join("nowhere"));
    let mut plan = with_tests(&text);
    plan.data.size = crate::plan::SIZE_MIN;
    plan.budget.blocks_min = blocks.min(2);
    plan.budget.blocks_max = blocks;
    plan
}

fn load(request: &RunRequest, number: crate::RunId) -> RunRecord {
    Store::open(&request.store).unwrap().load(number).unwrap()
}

#[test]
fn a_tool_that_fails_is_said_in_its_own_words_and_the_run_goes_on() {
    let dir = directory();
    let target = dir.path().join("target");
    fs::create_dir(&target).unwrap();
    let request = RunRequest::new(plan(dir.path(), 2), dir.path().join("lab.sqlite"))
        .on(TargetSpec::new(&target));
    let number = run(&request, &mut Directories, &mut Silent, &Cancel::default()).unwrap();
    let record = load(&request, number);
    assert_eq!(record.status, Status::AllBlocks);
    assert_eq!(record.cells.len(), 4);
    for cell in &record.cells {
        assert_eq!(cell.has_failed(), cell.workload == 1, "{cell:?}");
        assert_eq!(cell.is_usable(), cell.workload == 0, "{cell:?}");
    }
    let failed = record.cells.iter().find(|cell| cell.has_failed()).unwrap();
    let [Finding { check, text, .. }, ..] = &failed.findings[..] else {
        panic!("{failed:?}");
    };
    assert_eq!(*check, Check::Run);
    assert!(text.contains("/nowhere") && !text.contains('\n'), "{text}");
    let raw = Store::open(&request.store).unwrap().raw(number).unwrap();
    assert!(raw.contains(text), "what it said is kept: {raw:?}");
    let summary = Summary::of(&record);
    assert!(summary.row(0, 0).unwrap().validity.is_usable());
    assert!(!summary.row(1, 0).unwrap().validity.is_usable());
    let said = table(&record);
    assert!(
        said.contains("failed in 2 of 2 blocks: cannot copy"),
        "{said}"
    );
    assert!(is_empty(&target));
}

/// Does something to the target before a measurement.
struct EarlierBlocks<F: FnMut()>(u32, F);

impl<F: FnMut()> Progress for EarlierBlocks<F> {
    fn phase(&mut self, _: &str) {}
    fn cell_started(&mut self, _: &CellProgress<'_>) {
        self.0 = self.0.wrapping_sub(1);
        if self.0 == 0 {
            (self.1)();
        }
    }
    fn cell_finished(&mut self, _: &CellProgress<'_>, _: &str) {}
}

/// How a run of archives ends when something is done to its mount before the fourth measurement.
fn ended(then: impl Fn(&Path)) -> Option<(Mounted, String, RunRecord)> {
    let mounted = Mounted::new()?;
    let dir = mounted.path.parent().unwrap();
    let request =
        RunRequest::new(plan(dir, 4), dir.join("lab.sqlite")).on(TargetSpec::new(&mounted.path));
    let mut before = EarlierBlocks(4, || then(&mounted.path));
    let found = run(&request, &mut Directories, &mut before, &Cancel::default());
    let Err(LabError::Stopped { run, reason, .. }) = found else {
        panic!("{found:?}");
    };
    let record = load(&request, run);
    assert!(!reason.contains('\n'), "{reason}");
    assert!(matches!(record.status, Status::Failed { .. }));
    Some((mounted, reason, record))
}

#[test]
fn a_mount_that_goes_away_under_a_tool_ends_the_run_and_keeps_what_was_measured() {
    let Some((mounted, reason, record)) = ended(Mounted::go_away) else {
        return;
    };
    assert!(reason.contains("was it unmounted?"), "{reason}");
    assert_eq!(record.cells.len(), 3);
    assert!(
        is_empty(&mounted.path),
        "nothing is made below where it was mounted"
    );
}

#[test]
fn a_target_that_is_full_ends_the_run_of_a_tool_and_its_message_is_reported() {
    let fill = |mount: &Path| {
        // It takes what it can get.
        fs::write(mount.join("filler"), vec![7u8; 64 << 20]).unwrap_or_default();
    };
    let Some((_mounted, reason, record)) = ended(fill) else {
        return;
    };
    assert!(reason.contains("has no space left"), "{reason}");
    assert!(record.cells.len() >= 3, "{}", record.cells.len());
}
