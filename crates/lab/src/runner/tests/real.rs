//! Small real runs with fio in a temporary directory. Without fio they are skipped with the reason
//! printed, unless OUTBOARD_REQUIRE_ALL is set.

use std::fs;
use std::path::Path;

use crate::LabError;
use crate::checks::Level;
use crate::fio::process::Fio;
use crate::host::Role;
use crate::plan::{Direction, Plan, SIZE_MIN, builtin, source};
use crate::runner::progress::{CellProgress, Progress};
use crate::runner::{Cancel, Directories, RunRequest, Silent, TargetSpec, run};
use crate::store::{Status, Store};
use crate::tools::{Better, Unit};

/// Longer than any run of these tests takes.
pub(super) const LONG_MS: u64 = 3_600_000;

/// Whether there is fio; fails where everything is required.
pub(super) fn fio_is_here() -> bool {
    let found = Fio::find();
    assert!(
        found.is_ok() || std::env::var_os("OUTBOARD_REQUIRE_ALL").is_none(),
        "OUTBOARD_REQUIRE_ALL is set and fio is not usable: {:?}",
        found.err()
    );
    if let Err(error) = &found {
        eprintln!("skipped: {error}");
    }
    found.is_ok()
}

/// `quick`, as short as it goes; on a machine that has a lot else to do it goes on for as long as it takes.
pub(super) fn tiny(blocks: u32) -> Plan {
    let mut plan = builtin("quick").unwrap();
    plan.data.size = SIZE_MIN;
    plan.data.layout_ms = LONG_MS;
    (plan.budget.time_ms, plan.budget.limit_ms) = (LONG_MS, LONG_MS);
    plan.budget.blocks_min = blocks;
    plan.budget.blocks_max = blocks;
    for workload in &mut plan.workloads {
        let job = workload.fio_mut().unwrap();
        job.runtime_ms = 100;
        job.depth = 2;
    }
    plan
}

/// `quick` with other tests.
pub(super) fn with_tests(tests: &str) -> Plan {
    let text = source("quick").unwrap();
    let head = text.find("[[workload]]").unwrap();
    Plan::parse(&format!("{}{tests}", &text[..head])).unwrap()
}

/// Next to the test's own program, since /tmp may be memory, which has no direct I/O.
pub(super) fn directory() -> tempfile::TempDir {
    let below = std::env::current_exe().unwrap();
    tempfile::tempdir_in(below.parent().unwrap()).unwrap()
}

pub(super) fn request(dir: &Path, blocks: u32) -> RunRequest {
    let (a, b) = (dir.join("a"), dir.join("b"));
    fs::create_dir(&a).unwrap();
    fs::create_dir(&b).unwrap();
    let target = TargetSpec::new(a)
        .called("mount")
        .with(Role::Server, std::process::id());
    let mut request = RunRequest::new(tiny(blocks), dir.join("lab.sqlite"))
        .on(target)
        .against(TargetSpec::new(b));
    // What other tests have written is not waited for.
    request.small = true;
    request
}

pub(super) fn is_empty(path: &Path) -> bool {
    fs::read_dir(path).unwrap().next().is_none()
}

#[test]
fn a_short_run_measures_every_test_on_both_targets_and_leaves_nothing_behind() {
    if !fio_is_here() {
        return;
    }
    let dir = directory();
    let mut request = request(dir.path(), 2);
    request.small = false;
    let run = run(&request, &mut Directories, &mut Silent, &Cancel::default()).unwrap();
    let record = Store::open(&request.store).unwrap().load(run).unwrap();
    assert_eq!(record.cells.len(), 2 * 5 * 2);
    assert_eq!(record.status, Status::AllBlocks);
    assert_eq!(record.manifest.targets[0].label, "mount");
    for cell in &record.cells {
        let workload = record.plan.workloads[cell.workload].fio().unwrap();
        let result = cell.fio().unwrap();
        assert_eq!(result.direction, workload.direction);
        let headline = cell.headline().unwrap();
        assert!(result.bytes.0 > 0 && headline.value > 0.0);
        let is_fsync = record.plan.workloads[cell.workload].name == "fsync";
        assert_eq!(result.fsync, is_fsync);
        if is_fsync {
            // At least the time of the fsync, and better when it is less.
            assert_eq!(headline.unit, Unit::Nanoseconds);
            assert_eq!(headline.better, Better::Lower);
            assert!(result.latencies.count() > 0 && !result.direct);
            let flaws = cell.findings.iter();
            let flaws: Vec<_> = flaws.filter(|one| one.level == Level::Invalid).collect();
            assert!(flaws.is_empty(), "{flaws:?}");
        } else {
            assert!(cell.rate().0 > 0.0);
            assert_eq!(result.latencies.count(), result.ios);
        }
        assert!(!cell.evidence.cores.is_empty());
        // The server works for the first target alone.
        assert_eq!(cell.evidence.server_cpu.is_some(), cell.target == 0);
        assert_eq!(
            cell.evidence.dropped.is_some(),
            workload.direction == Direction::Read
        );
    }
    assert!(
        record
            .commands
            .iter()
            .any(|command| command.line.contains("--rw=randwrite"))
    );
    assert!(is_empty(&dir.path().join("a")) && is_empty(&dir.path().join("b")));
}

/// A run that shows that a plan can be made does not slow down what else is done on the machine.
#[test]
fn a_run_of_a_small_plan_drops_no_caches_and_waits_for_no_idle_machine() {
    if !fio_is_here() {
        return;
    }
    let dir = directory();
    let request = request(dir.path(), 1);
    let run = run(&request, &mut Directories, &mut Silent, &Cancel::default()).unwrap();
    let record = Store::open(&request.store).unwrap().load(run).unwrap();
    assert_eq!(record.cells.len(), 5 * 2);
    for cell in &record.cells {
        assert!(cell.evidence.dropped.is_none() && cell.evidence.resident_before.is_none());
    }
    let mut findings = record.findings.iter();
    assert!(!findings.any(|finding| finding.text.contains("before the first block")));
}

/// Asks to stop in the middle of the third measurement.
pub(super) struct StopAtThird(pub(super) Cancel, pub(super) u32);

impl Progress for StopAtThird {
    fn phase(&mut self, _: &str) {}
    fn cell_started(&mut self, _: &CellProgress<'_>) {
        self.1 += 1;
        if self.1 == 3 {
            self.0.cancel();
        }
    }
    fn cell_finished(&mut self, _: &CellProgress<'_>, _: &str) {}
}

#[test]
fn a_stopped_run_keeps_what_was_measured_and_removes_its_files() {
    if !fio_is_here() {
        return;
    }
    let dir = directory();
    let request = request(dir.path(), 2);
    let cancel = Cancel::default();
    let error = run(
        &request,
        &mut Directories,
        &mut StopAtThird(cancel.clone(), 0),
        &cancel,
    )
    .unwrap_err();
    let kept = error.kept_run().unwrap();
    assert!(
        matches!(error, LabError::Cancelled { blocks: 0, .. }),
        "{error}"
    );
    let record = Store::open(&request.store).unwrap().load(kept).unwrap();
    assert_eq!((record.cells.len(), record.status), (2, Status::Cancelled));
    assert!(is_empty(&dir.path().join("a")) && is_empty(&dir.path().join("b")));
}

/// Takes the test file away before the second measurement, as a mount that goes away would.
struct TakeAway<'a>(&'a Path, u32);

impl Progress for TakeAway<'_> {
    fn phase(&mut self, _: &str) {}
    fn cell_started(&mut self, _: &CellProgress<'_>) {
        self.1 += 1;
        if self.1 == 2 {
            for side in ["a", "b"] {
                for entry in fs::read_dir(self.0.join(side)).unwrap() {
                    fs::remove_file(entry.unwrap().path().join("data")).unwrap();
                }
            }
        }
    }
    fn cell_finished(&mut self, _: &CellProgress<'_>, _: &str) {}
}

#[test]
fn a_target_that_fails_in_the_middle_is_named_and_what_was_measured_is_kept() {
    if !fio_is_here() {
        return;
    }
    let dir = directory();
    let request = request(dir.path(), 2);
    let error = run(
        &request,
        &mut Directories,
        &mut TakeAway(dir.path(), 0),
        &Cancel::default(),
    )
    .unwrap_err();
    let LabError::Stopped {
        run, ref reason, ..
    } = error
    else {
        panic!("{error}");
    };
    assert!(
        !reason.contains('\n') && reason.contains("test file is gone"),
        "{reason}"
    );
    let record = Store::open(&request.store).unwrap().load(run).unwrap();
    assert_eq!(record.cells.len(), 1);
    assert!(matches!(record.status, Status::Failed { .. }));
}
