//! Runs that go on: the blocks left in the same order, and nothing else.

use std::collections::BTreeSet;

use super::real::{StopAtThird, directory, fio_is_here, is_empty, request};
use super::scheduling::{Mock, cell, course, pairs};
use crate::LabError;
use crate::checks::identity::Identity;
use crate::plan::builtin;
use crate::runner::blocks::{BlockPlan, run_blocks};
use crate::runner::resume::{check, check_agents, standing};
use crate::runner::schedule::{CellSlot, block_order};
use crate::runner::{Cancel, Directories, RunRequest, Silent, resume, run};
use crate::store::{AgentRecord, Cell, RunId, RunRecord, Status, Store};
use crate::synthetic;
use crate::units::{Bytes, MIB, Nanos, SECOND};

#[test]
fn a_run_that_goes_on_makes_what_is_left_of_its_block_and_the_blocks_after_it_in_the_same_order() {
    let mut plan = builtin("quick").unwrap();
    plan.workloads.truncate(4);
    plan.budget.blocks_max = 6;
    plan.budget.blocks_min = 6;
    let pairs = pairs(&plan, 2);
    let whole: Vec<CellSlot> = (0..6)
        .flat_map(|block| block_order(&pairs, 9, block))
        .collect();
    // Stopped after two blocks and three measurements.
    let made: Vec<Cell> = whole[..19].iter().copied().map(cell).collect();
    let course = BlockPlan {
        seed: 9,
        laid_out: Bytes(0),
        made: &made,
        ..course(&plan, &pairs)
    };
    let mut asked = Vec::new();
    let mut mock = Mock {
        now: Nanos(5 * SECOND),
        takes: Nanos(SECOND / 10),
        figure: |slot| {
            asked.push(slot);
            Ok(MIB)
        },
    };
    let ended = run_blocks(&course, &mut mock, &mut Silent, &mut |_| Ok(()));
    assert_eq!(asked, whole[19..]);
    assert_eq!((ended.status, ended.blocks), (Status::AllBlocks, 6));
}

#[test]
fn blocks_are_whole_only_if_every_test_was_made_on_every_target() {
    let synthetic = synthetic::run(3);
    let (plan, cells) = (synthetic.plan, synthetic.cells);
    let pairs = pairs(&plan, 2);
    let blocks = |cells: &[Cell]| standing(cells, &pairs, Nanos(7)).blocks;
    assert_eq!(
        (blocks(&cells), blocks(&cells[..23]), blocks(&[])),
        (3, 2, 0)
    );
    assert!(standing(&cells, &pairs, Nanos(7)).longest.0 > 0);
}

#[test]
fn a_stopped_run_goes_on_and_ends_with_every_block_under_its_own_number() {
    if !fio_is_here() {
        return;
    }
    let dir = directory();
    let first = request(dir.path(), 2);
    let cancel = Cancel::default();
    let stopped = run(
        &first,
        &mut Directories,
        &mut StopAtThird(cancel.clone(), 0),
        &cancel,
    );
    let number = stopped.unwrap_err().kept_run().unwrap();
    let stopped = Store::open(&first.store).unwrap().load(number).unwrap();
    let again = RunRequest::again(&stopped, first.store.clone()).unwrap();
    let same = resume(
        &again,
        number,
        &mut Directories,
        &mut Silent,
        &Cancel::default(),
    )
    .unwrap();
    let record = Store::open(&first.store).unwrap().load(same).unwrap();
    assert_eq!((same, record.status.clone()), (number, Status::AllBlocks));
    assert_eq!(record.cells[..2], stopped.cells[..2]);
    let slots: BTreeSet<(u32, usize, usize)> = record
        .cells
        .iter()
        .map(|cell| (cell.block, cell.workload, cell.target))
        .collect();
    assert_eq!((record.cells.len(), slots.len()), (20, 20));
    // Test files are written again, which wears as much as the first time.
    let purposes = record
        .commands
        .iter()
        .map(|command| command.purpose.as_str());
    assert_eq!(purposes.filter(|one| *one == "lay-out").count(), 4);
    // Time goes on where it stopped.
    let started: Vec<u64> = record.cells.iter().map(|cell| cell.started.0).collect();
    assert!(started.is_sorted(), "{started:?}");
    assert!(
        record
            .findings
            .iter()
            .any(|f| f.text.contains("went on later"))
    );
    assert!(is_empty(&dir.path().join("a")) && is_empty(&dir.path().join("b")));
    // And now there is nothing left.
    let ended = resume(
        &again,
        number,
        &mut Directories,
        &mut Silent,
        &Cancel::default(),
    );
    assert!(
        matches!(ended, Err(LabError::CannotResume { .. })),
        "{ended:?}"
    );
}

#[test]
fn a_run_does_not_go_on_with_another_plan_or_seed_and_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("lab.sqlite");
    let mut record = synthetic::run(1);
    record.id = RunId(1);
    record.status = Status::Cancelled;
    let store = Store::open(&path).unwrap();
    store
        .begin(&crate::store::NewRun {
            plan: record.plan.clone(),
            seed: record.seed,
            started_unix_ms: 1,
            manifest: record.manifest.clone(),
        })
        .unwrap();
    let refused = |change: fn(&mut RunRequest)| {
        let mut request = RunRequest::again(&record, path.clone()).unwrap();
        // Processes of the first time are not looked for.
        assert!(
            request
                .targets
                .iter()
                .all(|target| target.processes.is_empty())
        );
        change(&mut request);
        let found = resume(
            &request,
            RunId(1),
            &mut Directories,
            &mut Silent,
            &Cancel::default(),
        );
        found.unwrap_err().to_string()
    };
    let plan = refused(|request| request.plan.budget.blocks_max += 1);
    assert!(
        plan.contains("run 1 cannot go on: the plan has changed"),
        "{plan}"
    );
    let seed = refused(|request| request.seed = Some(4));
    assert!(seed.contains("its seed is 18446744073709551615"), "{seed}");
}

#[test]
fn a_run_does_not_go_on_on_another_machine_or_target_and_names_what_differs() {
    let run = synthetic::run(1);
    assert!(check(&run, &run.manifest).is_ok());
    type Change = fn(&mut crate::store::Manifest);
    let changes: [(&str, Change); 7] = [
        (
            "/home/me differs: the disk's serial was unknown and is D254",
            |m| {
                m.targets[1].identity = Some(Identity {
                    name: "sda".into(),
                    serial: Some("D254".into()),
                    ..Identity::default()
                });
            },
        ),
        (
            "another machine: the kernel was Linux 6.1 and is Linux 7",
            |m| {
                m.machine.kernel = "Linux 7".into();
            },
        ),
        (
            "/mnt/<media> differs: the filesystem was ext4 and is xfs",
            |m| {
                m.targets[0].filesystem = "xfs".into();
            },
        ),
        ("/home/me differs: the place", |m| {
            m.targets[1].place = crate::host::TargetPlace::Directory("/elsewhere".into());
        }),
        ("it had 2 targets, there are 1 now", |m| {
            m.targets.truncate(1)
        }),
        ("the test file's size was 512 MiB", |m| m.size.0 = 1 << 20),
        ("fio was fio-3.33 and is fio-3.1", |m| {
            m.fio = Some("fio-3.1".into())
        }),
    ];
    for (said, change) in changes {
        let mut now = run.manifest.clone();
        change(&mut now);
        let error = check(&run, &now).unwrap_err().to_string();
        assert!(error.contains(said), "{said}: {error}");
        assert!(!error.contains('\n'), "{error}");
    }
}

#[test]
fn a_run_goes_on_on_the_same_disk_under_another_letter() {
    let mut run = synthetic::run(1);
    let disk = |name: &str| {
        Some(Identity {
            name: name.into(),
            serial: Some("D254".into()),
            ..Identity::default()
        })
    };
    run.manifest.targets[0].identity = disk("sda");
    let mut now = run.manifest.clone();
    now.targets[0].identity = disk("sdb");
    assert!(check(&run, &now).is_ok());
}

#[test]
fn a_run_does_not_go_on_without_its_agents_or_with_one_of_another_machine() {
    let mut run = synthetic::run(1);
    let agent = |address: &str, hostname: &str| {
        let mut machine = run.manifest.machine.clone();
        machine.hostname = hostname.into();
        AgentRecord {
            address: address.into(),
            machine,
            outboard: "0.1.0".into(),
            clock_offset_ns: 5,
            clock_error: Nanos(7),
        }
    };
    let (nas, other) = (agent("nas.lan:9", "nas"), agent("nas.lan:9", "box"));
    let by_address = agent("10.0.0.7:9", "nas");
    assert!(check_agents(&run, &[]).is_ok());
    let said = |run: &RunRecord, now: &[AgentRecord]| match check_agents(run, now) {
        Ok(()) => String::new(),
        Err(error) => error.to_string(),
    };
    let more = said(&run, std::slice::from_ref(&nas));
    assert!(
        more.contains("its agents were none and are nas.lan:9"),
        "{more}"
    );
    run.manifest.agents = vec![nas];
    let none = said(&run, &[]);
    assert!(
        none.contains("its agents were nas.lan:9 and are none (--agent names them)"),
        "{none}"
    );
    let moved = said(&run, &[other]);
    assert!(
        moved.contains("nas.lan:9 is on another machine: the name was nas and is box"),
        "{moved}"
    );
    assert_eq!(said(&run, &[by_address]), "");
}
