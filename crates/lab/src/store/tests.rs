//! What is written is read back; damaged, foreign and newer files are refused by name.

use super::*;
use crate::checks::{Check, Finding};
use crate::report::place_verdicts;
use crate::synthetic;
use crate::units::Nanos;

fn written(store: &mut Store, record: &RunRecord) -> RunId {
    let run = store
        .begin(&NewRun {
            plan: record.plan.clone(),
            seed: record.seed,
            started_unix_ms: record.started_unix_ms,
            manifest: record.manifest.clone(),
        })
        .unwrap();
    for command in &record.commands {
        store.add_command(run, command).unwrap();
        store.add_command(run, command).unwrap();
    }
    for cell in &record.cells {
        store.add_cell(run, cell, "{}", &[]).unwrap();
    }
    store.add_samples(run, &record.samples).unwrap();
    for finding in &record.findings {
        store.add_finding(run, finding).unwrap();
    }
    store
        .finish(run, &record.status, record.elapsed.unwrap())
        .unwrap();
    run
}

#[test]
fn a_run_is_read_back_as_it_was_written() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = Store::open(&dir.path().join("deep/er/lab.sqlite")).unwrap();
    let mut record = synthetic::run(2);
    record.cells[3]
        .findings
        .push(Finding::invalid(Check::Ceiling, "it's \"too\" fast"));
    record
        .findings
        .push(Finding::remark(Check::Run, "about the run"));
    record.id = written(&mut store, &record);
    assert!(
        store.load(record.id).unwrap() == record,
        "the run changed on the way"
    );
    assert_eq!(store.raw(record.id).unwrap().len(), record.cells.len());
}

#[test]
fn a_store_is_opened_again_and_lists_its_runs_latest_first() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("lab.sqlite");
    let record = synthetic::run(1);
    let first = written(&mut Store::open(&path).unwrap(), &record);
    let mut store = Store::open(&path).unwrap();
    let second = written(&mut store, &record);
    let lines = store.runs().unwrap();
    assert_eq!(
        lines.iter().map(|line| line.id).collect::<Vec<_>>(),
        [second, first]
    );
    assert_eq!((lines[0].cells, lines[0].plan.as_str()), (8, "quick"));
    assert_eq!(store.latest().unwrap(), second);
}

#[test]
fn the_last_run_at_a_place_has_its_verdict() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = Store::open(&dir.path().join("lab.sqlite")).unwrap();
    assert_eq!(place_verdicts(&store, 50).unwrap(), []);
    let record = synthetic::run(8);
    written(&mut store, &record);
    let last = written(&mut store, &record);
    let verdicts = place_verdicts(&store, 50).unwrap();
    assert_eq!(verdicts.len(), record.manifest.targets.len());
    assert!(verdicts.iter().all(|one| one.run == last));
    assert_eq!(verdicts[0].place, record.manifest.targets[0].place);
    assert!(
        verdicts[0].text.contains(" than ") || verdicts[0].text.contains("same"),
        "{verdicts:?}"
    );
}

#[test]
fn a_run_whose_process_died_keeps_its_measurements() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("lab.sqlite");
    let record = synthetic::run(1);
    let run = {
        let mut store = Store::open(&path).unwrap();
        let new = NewRun {
            plan: record.plan.clone(),
            seed: 1,
            started_unix_ms: 1,
            manifest: record.manifest.clone(),
        };
        let run = store.begin(&new).unwrap();
        store
            .add_cell(run, &record.cells[0], "{}", &record.samples[..5])
            .unwrap();
        run
    };
    let found = Store::open(&path).unwrap().load(run).unwrap();
    assert_eq!((found.status, found.elapsed), (Status::Running, None));
    assert_eq!((found.cells.len(), found.samples.len()), (1, 5));
}

#[test]
fn an_empty_store_and_an_unknown_run_say_what_to_do() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(&dir.path().join("lab.sqlite")).unwrap();
    assert!(
        store
            .latest()
            .unwrap_err()
            .to_string()
            .contains("lab run quick")
    );
    assert!(
        store
            .load(RunId(5))
            .unwrap_err()
            .to_string()
            .contains("lab list")
    );
}

#[test]
fn a_file_that_is_no_database_is_refused_and_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("lab.sqlite");
    let text = "this is a letter, not a database. ".repeat(100);
    std::fs::write(&path, &text).unwrap();
    let error = Store::open(&path).unwrap_err();
    assert!(matches!(error, LabError::DamagedStore { .. }), "{error}");
    assert!(!error.to_string().contains('\n'));
    assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
}

#[test]
fn a_store_overwritten_in_the_middle_is_refused_by_name() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("lab.sqlite");
    let run = written(&mut Store::open(&path).unwrap(), &synthetic::run(2));
    let mut bytes = std::fs::read(&path).unwrap();
    let half = bytes.len() / 2;
    bytes[4096..half].fill(0xA5);
    std::fs::write(&path, bytes).unwrap();
    let error = Store::open(&path)
        .and_then(|store| store.load(run))
        .unwrap_err();
    assert!(matches!(error, LabError::DamagedStore { .. }), "{error:?}");
}

#[test]
fn another_programs_database_and_a_later_schema_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let foreign = dir.path().join("foreign.sqlite");
    Connection::open(&foreign)
        .unwrap()
        .execute_batch("CREATE TABLE t (x)")
        .unwrap();
    assert!(matches!(
        Store::open(&foreign),
        Err(LabError::DamagedStore { .. })
    ));
    let later = dir.path().join("later.sqlite");
    drop(Store::open(&later).unwrap());
    Connection::open(&later)
        .unwrap()
        .pragma_update(None, "user_version", 99)
        .unwrap();
    assert!(matches!(
        Store::open(&later),
        Err(LabError::NewerStore { found: 99, .. })
    ));
}

#[test]
fn the_largest_times_and_seeds_survive() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = Store::open(&dir.path().join("lab.sqlite")).unwrap();
    let mut record = synthetic::run(1);
    record.elapsed = Some(Nanos(i64::MAX as u64));
    record.id = written(&mut store, &record);
    assert!(
        store.load(record.id).unwrap() == record,
        "the run changed on the way"
    );
}

/// Every byte of the fixture was written by the program that knew the first schema alone.
#[test]
fn a_store_of_the_first_schema_is_brought_up_to_this_one_and_loses_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("lab.sqlite");
    Connection::open(&path)
        .unwrap()
        .execute_batch(include_str!("fixtures/schema-1.sql"))
        .unwrap();
    let record = Store::open(&path).unwrap().load(RunId(1)).unwrap();
    assert_eq!(record.status, Status::AllBlocks);
    assert_eq!(record.plan.name, "old");
    let manifest = &record.manifest;
    assert_eq!(manifest.baseline, Some(1));
    let names: Vec<&str> = manifest.targets.iter().map(|t| t.name.as_str()).collect();
    assert_eq!(names, ["target", "against"]);
    assert_eq!(
        manifest.targets[1].place,
        crate::host::TargetPlace::Directory("/mnt/b".into())
    );
    assert!(
        manifest.targets[0]
            .pids(crate::host::Role::Server)
            .next()
            .is_some()
    );
    assert!(manifest.targets[1].processes.is_empty());
    assert_eq!((record.cells.len(), record.samples.len()), (4, 13));
    for cell in &record.cells {
        assert_eq!(cell.fio().unwrap().bytes.0, 16 << 20);
        assert_eq!(cell.fio().unwrap().latencies.count(), 16);
    }
    // The second time there is nothing left to do.
    let again = Store::open(&path).unwrap().load(RunId(1)).unwrap();
    assert!(again == record, "the run changed on the way");
    let headline: f64 = Connection::open(&path)
        .unwrap()
        .query_row("SELECT headline FROM cell WHERE id = 1", [], |row| {
            row.get(0)
        })
        .unwrap();
    assert!((headline / record.cells[0].rate().0 - 1.0).abs() < 1e-9);
}

#[test]
fn a_peek_changes_nothing_of_a_store_and_makes_none() {
    let folder = tempfile::tempdir().unwrap();
    let [empty, absent, old] = ["empty", "absent", "old"].map(|name| folder.path().join(name));
    std::fs::write(&empty, "").unwrap();
    let store = Store::open(&old).unwrap();
    store
        .connection
        .pragma_update(None, "user_version", 1)
        .unwrap();
    drop(store);
    let before = std::fs::read(&old).unwrap();
    for path in [&empty, &absent, &old] {
        assert!(Store::peek(path).is_err(), "{}", path.display());
    }
    assert!(std::fs::read(&old).unwrap() == before);
    assert_eq!(std::fs::read(&empty).unwrap(), b"");
    assert!(!absent.exists());
}

#[test]
fn what_a_tool_measured_is_read_back_with_every_figure() {
    use crate::tools::{ToolFigure, ToolResult, Unit};
    let dir = tempfile::tempdir().unwrap();
    let mut store = Store::open(&dir.path().join("lab.sqlite")).unwrap();
    let mut record = synthetic::run(1);
    record.cells[0].outcome = Outcome::Tool(ToolResult {
        tool: "dbench".into(),
        version: "4.00".into(),
        figures: vec![
            ToolFigure::higher("throughput", 1.5e8, Unit::BytesPerSecond),
            ToolFigure::lower("largest latency", 3e6, Unit::Nanoseconds),
        ],
        elapsed: Nanos(5_000_000_000),
        bytes: None,
        subject: None,
    });
    record.id = written(&mut store, &record);
    assert!(
        store.load(record.id).unwrap() == record,
        "the run changed on the way"
    );
}
