//! Tests of the plain parts: data, memory, faults, the model, what tests need, programs.

use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use block::{BlockDevice, Errno, ExtentKind, Node, Operation, Range, WriteFlags};
use proptest::prelude::*;

use crate::proc::{Process, WaitError};
use crate::requires::{self, Missing};
use crate::{
    Effect, Fault, FaultDisk, LoopDevice, MemDisk, Model, OpSpace, TmpfsMount, TrimLeaves,
    UNMOUNT_OTHERS, WorldSeeds, block_on, check_against_model, check_in_batches, gather, ops,
    pattern, single,
};

const SIZE: u64 = 16 * 1024;
const LIMIT: Duration = Duration::from_secs(10);

fn write(disk: &dyn BlockDevice, range: Range, fill: u8) -> Result<(), block::IoError> {
    block_on(disk.write(range, single(pattern(fill, range)), WriteFlags::empty()))
}

fn read(disk: &dyn BlockDevice, range: Range) -> Vec<u8> {
    gather(&block_on(disk.read(range)).unwrap())
}

#[test]
fn the_environment_says_which_worlds_are_played() {
    let from = |set: &'static [(&str, &str)]| {
        let value = |name: &str| set.iter().find(|(one, _)| *one == name);
        WorldSeeds::parse(|name| value(name).map(|(_, value)| (*value).to_owned()))
    };
    let all = WorldSeeds {
        only: None,
        count: None,
        from: 0,
    };
    assert_eq!(from(&[]), all);
    assert_eq!(from(&[("OUTBOARD_WORLD", "7")]).only, Some(7));
    let some = from(&[("OUTBOARD_WORLDS", "100"), ("OUTBOARD_WORLDS_FROM", "9")]);
    assert_eq!((some.count, some.from), (Some(100), 9));
}

#[test]
#[should_panic(expected = "OUTBOARD_WORLDS=many is not a number")]
fn a_number_of_worlds_that_is_none_is_refused() {
    let many = |name: &str| (name == "OUTBOARD_WORLDS").then(|| "many".to_owned());
    WorldSeeds::parse(many);
}

#[test]
fn two_fills_differ_in_every_byte() {
    let range = Range::new(77, 4096);
    let pairs = pattern(1, range).into_iter().zip(pattern(2, range));
    assert!(pairs.into_iter().all(|(a, b)| a != b));
    assert_ne!(pattern(1, range), pattern(1, Range::new(78, 4096)));
}

#[test]
fn garbage_after_a_trim_is_reported_as_data() {
    let disk = MemDisk::new(SIZE).trims_leave(TrimLeaves::Garbage);
    let range = Range::new(1024, 1024);
    block_on(disk.trim(range)).unwrap();
    assert_ne!(read(&disk, range), vec![0; 1024]);
    let extents = block_on(disk.extents(Range::new(0, SIZE))).unwrap();
    let data: Vec<_> = extents
        .iter()
        .filter(|e| e.kind == ExtentKind::Data)
        .collect();
    assert_eq!(data.len(), 1);
    assert_eq!(data[0].range, range);
}

#[test]
#[should_panic(expected = "was not checked before it reached the disk")]
fn a_range_past_the_end_is_the_callers_fault() {
    let disk = MemDisk::new(SIZE);
    drop(block_on(disk.read(Range::new(SIZE, 1))));
}

#[test]
fn a_read_only_disk_refuses_changes_and_reads_on() {
    let disk = MemDisk::new(SIZE).with_geometry(|g| g.read_only = true);
    let range = Range::new(0, 512);
    assert_eq!(
        write(&disk, range, 1).unwrap_err().errno,
        Errno::NotPermitted
    );
    assert_eq!(read(&disk, range), vec![0; 512]);
}

#[test]
fn a_fault_hits_where_and_as_often_as_planned() {
    let bad = Range::new(4096, 512);
    let fault = Fault::new(Effect::Fail(Errno::Io))
        .on(Operation::Read)
        .at(bad)
        .after(1)
        .times(2);
    let disk = FaultDisk::new(Arc::new(MemDisk::new(SIZE)), 1, vec![fault]);
    let outcomes: Vec<bool> = (0..4).map(|_| block_on(disk.read(bad)).is_ok()).collect();
    assert_eq!(outcomes, [true, false, false, true]);
    assert!(block_on(disk.read(Range::new(0, 512))).is_ok());
    assert_eq!(disk.hits(), 2);
}

#[test]
fn the_same_seed_fails_in_the_same_places() {
    let run = |seed| {
        let fault = Fault::new(Effect::Fail(Errno::Io)).rate(300_000);
        let disk = FaultDisk::new(Arc::new(MemDisk::new(SIZE)), seed, vec![fault]);
        let outcome = |_| block_on(disk.read(Range::new(0, 512))).is_ok();
        (0..64).map(outcome).collect::<Vec<_>>()
    };
    assert_eq!(run(7), run(7));
    assert_ne!(run(7), run(8));
    assert!(run(7).contains(&true) && run(7).contains(&false));
}

#[test]
fn a_torn_write_leaves_whole_leading_sectors() {
    let child = Arc::new(MemDisk::new(SIZE));
    let fault = Fault::new(Effect::Tear(Errno::Io)).on(Operation::Write);
    let disk = FaultDisk::new(child.clone(), 3, vec![fault]);
    let range = Range::new(0, 4096);
    let torn_at: std::collections::BTreeSet<_> = (1..40)
        .map(|fill| {
            let before = child.snapshot();
            assert_eq!(write(&*disk, range, fill).unwrap_err().errno, Errno::Io);
            let after = child.snapshot();
            let wanted = pattern(fill, range);
            let kept = (0..8).take_while(|s| after[s * 512..][..512] == wanted[s * 512..][..512]);
            let kept = kept.count();
            assert_eq!(after[kept * 512..], before[kept * 512..]);
            kept
        })
        .collect();
    assert!(torn_at.len() > 4, "tears come at many places: {torn_at:?}");
}

#[test]
fn a_failed_flush_stays_failed_even_when_healed() {
    let fault = Fault::new(Effect::Fail(Errno::NoSpace))
        .on(Operation::Flush)
        .times(1);
    let disk = FaultDisk::new(Arc::new(MemDisk::new(SIZE)), 1, vec![fault]);
    assert_eq!(block_on(disk.flush()).unwrap_err().errno, Errno::NoSpace);
    disk.heal();
    assert_eq!(block_on(disk.flush()).unwrap_err().errno, Errno::NoSpace);
}

#[test]
fn a_lying_write_reports_success_and_writes_nothing() {
    let fault = Fault::new(Effect::Lie).on(Operation::Write);
    let disk = FaultDisk::new(Arc::new(MemDisk::new(SIZE)), 1, vec![fault]);
    write(&*disk, Range::new(0, 512), 9).unwrap();
    assert_eq!(read(&*disk, Range::new(0, 512)), vec![0; 512]);
}

#[test]
fn a_failure_after_the_fact_has_written() {
    let fault = Fault::new(Effect::FailAfter(Errno::Io)).on(Operation::Write);
    let disk = FaultDisk::new(Arc::new(MemDisk::new(SIZE)), 1, vec![fault]);
    let range = Range::new(0, 512);
    assert!(write(&*disk, range, 9).is_err());
    assert_eq!(read(&*disk, range), pattern(9, range));
}

#[test]
fn the_model_takes_anything_where_it_knows_nothing() {
    let mut model = Model::new(1024);
    model.forget(Range::new(0, 512));
    let mut found = vec![7; 512];
    found.extend([0; 512]);
    assert!(model.agrees(Range::new(0, 1024), &found));
    found[512] = 1;
    assert!(!model.agrees(Range::new(0, 1024), &found));
}

#[test]
fn a_missing_program_is_named_and_a_present_one_is_found() {
    assert_eq!(requires::command("sh"), Ok(()));
    let missing = requires::command("no-such-program-anywhere").unwrap_err();
    assert!(missing.to_string().contains("no-such-program-anywhere"));
}

#[test]
fn a_need_that_is_missing_skips_or_fails() {
    assert!(requires::all(&[Ok(()), Ok(())]));
    let missing = Missing::new("the moon", "wait for night");
    let outcome = std::panic::catch_unwind(|| requires::all(&[Err(missing)]));
    let strict = std::env::var_os(requires::REQUIRE_ALL).is_some_and(|value| value == "1");
    match outcome {
        Ok(can_run) => assert!(!can_run && !strict),
        Err(_) => assert!(strict),
    }
}

#[test]
fn a_program_is_waited_for_by_line_and_by_file() {
    let folder = tempfile::tempdir().unwrap();
    let port_file = folder.path().join("port");
    let script = format!(
        "echo ready; echo 'a word' >&2; echo 10809 > {}; sleep 60",
        port_file.display()
    );
    let mut process = Process::start(Command::new("sh").args(["-c", &script])).unwrap();
    assert_eq!(process.wait_for_line("read", LIMIT).unwrap(), "ready");
    assert_eq!(process.wait_for_file(&port_file, LIMIT).unwrap(), "10809");
    assert_eq!(process.wait_for_line("word", LIMIT).unwrap(), "a word");
    assert_eq!(process.stdout(), "ready\n");
}

#[test]
fn a_program_that_ends_or_hangs_is_reported_with_its_output() {
    let mut ends =
        Process::start(Command::new("sh").args(["-c", "echo broken >&2; exit 3"])).unwrap();
    let error = ends.wait_for_line("never", LIMIT).unwrap_err();
    assert!(matches!(&error, WaitError::Ended { status, printed, .. }
        if status.code() == Some(3) && printed == "broken\n"));
    let mut hangs = Process::start(Command::new("sleep").arg("60")).unwrap();
    let error = hangs.wait(Duration::from_millis(50)).unwrap_err();
    assert!(matches!(error, WaitError::Late { .. }));
    hangs.signal(rustix::process::Signal::TERM).unwrap();
    assert!(!hangs.wait(LIMIT).unwrap().success());
}

#[test]
fn a_dropped_program_is_gone() {
    let process = Process::start(Command::new("sleep").arg("60")).unwrap();
    let entry = format!("/proc/{}", process.id());
    assert!(std::path::Path::new(&entry).exists());
    drop(process);
    assert!(!std::path::Path::new(&entry).exists());
}

#[test]
fn a_loop_device_over_a_small_tmpfs_comes_and_goes() {
    if !requires::all(&[requires::root(), requires::loop_device()]) {
        return;
    }
    let mount = TmpfsMount::of_size(1 << 20).unwrap();
    let image = mount.path().join("image");
    std::fs::write(&image, vec![0; 65536]).unwrap();
    let device = LoopDevice::over(&image).unwrap();
    let number = device.path().file_name().unwrap().to_owned();
    let backing = std::path::Path::new("/sys/block")
        .join(number)
        .join("loop/backing_file");
    let over = std::fs::read_to_string(&backing).unwrap();
    assert_eq!(over.trim_end(), image.to_str().unwrap());
    drop(device);
    assert_ne!(std::fs::read_to_string(&backing).unwrap_or_default(), over);
}

fn space() -> OpSpace {
    OpSpace {
        size: SIZE,
        block_size: 1,
        len_max: 3000,
    }
}

proptest! {
    #[test]
    fn a_plain_disk_passes_the_model(list in ops(space(), 0..60), width in 1_usize..9) {
        let disk = MemDisk::new(SIZE).trims_leave(TrimLeaves::Garbage);
        block_on(check_in_batches(&disk, &list, width)).unwrap();
    }

    #[test]
    fn a_disk_that_cannot_trim_or_zero_says_so_and_passes(list in ops(space(), 0..60)) {
        let disk = MemDisk::new(SIZE).with_geometry(|g| {
            g.trim = block::Support::None;
            g.write_zeroes = block::Support::None;
        });
        block_on(check_against_model(&disk, &list)).unwrap();
    }

    #[test]
    fn random_ops_lie_on_the_disk_and_on_blocks(list in ops(OpSpace {
        size: SIZE, block_size: 512, len_max: 2048,
    }, 0..60)) {
        for range in list.iter().filter_map(crate::Op::range) {
            prop_assert!(range.check(SIZE, 512).is_ok());
            prop_assert!(!range.is_empty() && range.len <= 2048);
        }
    }
}

#[test]
fn nodes_are_shared_as_nodes() {
    let disk: Node = Arc::new(MemDisk::new(SIZE));
    let faulty: Node = FaultDisk::new(disk, 0, Vec::new());
    assert_eq!(faulty.geometry().size, SIZE);
}

/// In each shell that scripts of tests have: bash reads ahead of what it has used.
#[test]
fn a_namespace_of_its_own_keeps_no_mount_of_others() {
    let shells = ["bash", "sh", "unshare", "mount"].map(requires::command);
    if !requires::all(&[&[requires::root()][..], &shells].concat()) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let mount = "for n in 1 2 3 4; do mkdir -p \"$0/$n\"; mount -t tmpfs /dev/none \"$0/$n\"; done";
    let count = "grep -c \" $0/\" /proc/self/mountinfo || :";
    let script = format!("{mount}\n{count}\n{UNMOUNT_OTHERS}{count}");
    for shell in ["bash", "sh"] {
        let mut command = Command::new("unshare");
        command.args(["--mount", shell, "-c", &script]);
        let output = command.arg(folder.path()).output().unwrap();
        let printed = String::from_utf8_lossy(&output.stdout);
        assert_eq!(printed, "4\n0\n", "{shell}");
    }
}
