//! Directories of our own: locked, found, refused and removed.

use std::fs;
use std::path::Path;

use super::real::with_tests;
use crate::LabError;
use crate::host::{Role, TargetPlace};
use crate::plan::builtin;
use crate::runner::scratch::{PREFIX, Scratch, TargetLock};
use crate::runner::{Cancel, Directories, RunRequest, Silent, TargetSpec, dry_run, run};
use crate::units::{Bytes, Nanos, SECOND};

fn names(path: &Path) -> Vec<String> {
    fs::read_dir(path)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .collect()
}

#[test]
fn a_second_run_on_one_target_is_refused_until_the_first_has_ended() {
    let dir = tempfile::tempdir().unwrap();
    let first = Scratch::make(dir.path()).unwrap();
    assert!(first.locked);
    assert!(matches!(Scratch::make(dir.path()), Err(LabError::Busy(_))));
    first.remove().unwrap();
    assert_eq!(names(dir.path()), Vec::<String>::new());
    Scratch::make(dir.path()).unwrap().remove().unwrap();
}

/// A program that is being started has a copy of each descriptor until it is executed.
#[test]
fn a_lock_ends_with_the_run_although_its_descriptor_was_copied() {
    let dir = tempfile::tempdir().unwrap();
    let target = fs::File::open(dir.path()).unwrap();
    let copy = target.try_clone().unwrap();
    let lock = TargetLock::take(target, dir.path()).unwrap();
    assert!(matches!(Scratch::make(dir.path()), Err(LabError::Busy(_))));
    drop(lock);
    Scratch::make(dir.path()).unwrap().remove().unwrap();
    drop(copy);
}

#[test]
fn a_dropped_scratch_leaves_nothing_even_with_a_file_in_it() {
    let dir = tempfile::tempdir().unwrap();
    let scratch = Scratch::make(dir.path()).unwrap();
    fs::write(scratch.file(), b"x").unwrap();
    drop(scratch);
    assert_eq!(names(dir.path()), Vec::<String>::new());
}

#[test]
fn what_a_killed_run_left_is_removed_and_nothing_else() {
    let dir = tempfile::tempdir().unwrap();
    let ours = dir.path().join(format!("{PREFIX}dead"));
    let not_only_ours = dir.path().join(format!("{PREFIX}kept"));
    for path in [&ours, &not_only_ours] {
        fs::create_dir(path).unwrap();
        fs::write(path.join("data"), b"x").unwrap();
    }
    fs::write(not_only_ours.join("letter"), b"dear").unwrap();
    fs::write(dir.path().join(format!("{PREFIX}file")), b"x").unwrap();
    Scratch::make(dir.path()).unwrap().remove().unwrap();
    assert!(!ours.exists());
    assert!(not_only_ours.join("letter").exists());
    assert!(dir.path().join(format!("{PREFIX}file")).exists());
}

#[test]
fn a_target_that_is_missing_a_file_or_too_small_is_refused_by_name() {
    let dir = tempfile::tempdir().unwrap();
    let missing = Scratch::make(&dir.path().join("none"))
        .unwrap_err()
        .to_string();
    assert!(
        missing.contains("none") && missing.contains("does not exist"),
        "{missing}"
    );
    let file = dir.path().join("file");
    fs::write(&file, b"x").unwrap();
    assert!(matches!(
        Scratch::make(&file),
        Err(LabError::NotADirectory(_))
    ));
    let scratch = Scratch::make(dir.path()).unwrap();
    let full = scratch.check_space(Bytes(u64::MAX / 4), 1).unwrap_err();
    assert!(matches!(full, LabError::NoSpace { .. }), "{full}");
}

fn request(target: &Path, against: &Path, store: &Path) -> RunRequest {
    RunRequest::new(builtin("quick").unwrap(), store.join("lab.sqlite"))
        .on(TargetSpec::new(target))
        .against(TargetSpec::new(against))
}

#[test]
fn one_directory_by_two_names_is_not_compared_with_itself() {
    let dir = tempfile::tempdir().unwrap();
    let link = dir.path().join("link");
    let real = dir.path().join("real");
    fs::create_dir(&real).unwrap();
    std::os::unix::fs::symlink(&real, &link).unwrap();
    let found = run(
        &request(&real, &link, dir.path()),
        &mut Directories,
        &mut Silent,
        &Cancel::default(),
    );
    assert!(
        matches!(found, Err(LabError::SameDirectory { .. })),
        "{found:?}"
    );
    assert_eq!(names(&real), Vec::<String>::new());
}

#[test]
fn a_process_that_is_not_there_is_refused_before_anything_is_written() {
    let dir = tempfile::tempdir().unwrap();
    let mut request = request(dir.path(), Path::new("/"), dir.path());
    request.targets[0] = request.targets[0].clone().with(Role::Server, u32::MAX);
    let error = run(&request, &mut Directories, &mut Silent, &Cancel::default()).unwrap_err();
    assert!(
        matches!(error, LabError::NoProcess { role: "server", .. }),
        "{error}"
    );
    assert_eq!(names(dir.path()), Vec::<String>::new());
}

#[test]
fn a_dry_run_names_every_command_the_bytes_and_the_time_and_touches_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let mut request = request(&dir.path().join("a"), &dir.path().join("b"), dir.path());
    let said = dry_run(&request, &Directories).unwrap();
    // Two that write the files, then ten measurements, each after its caches were dropped.
    assert_eq!(said.commands.len(), 2 + 10 * 2);
    let text = said.to_string();
    for part in [
        "--rw=randwrite",
        "drop_caches",
        "256 MiB",
        "writes at most 1 GiB",
        "at most 170 s",
    ] {
        assert!(text.contains(part), "{part} is not in:\n{text}");
    }
    request.small = true;
    let said = dry_run(&request, &Directories).unwrap();
    assert_eq!(said.commands.len(), 2 + 10, "no caches are dropped");
    assert_eq!(names(dir.path()), Vec::<String>::new());
}

/// A test of each tool.
fn of_every_tool() -> String {
    let test = |name: &str, tool: &str| {
        format!("[[workload]]\nname = {name:?}\ntitle = {name:?}\n{tool}\n")
    };
    [
        test(
            "samba",
            "tool = \"dbench\"\nclients = 4\nruntime_ms = 60000",
        ),
        test("bonnie", "tool = \"bonnie++\"\nsize = \"64M\""),
        test(
            "tar",
            "tool = \"tar\"\nbytes_max = \"8M\"\ntree = \"/usr/share\"",
        ),
        test("heat", "tool = \"stress-ng\"\nruntime_ms = 7000"),
        test(
            "wire",
            "tool = \"iperf3\"\nruntime_ms = 3000\nhost = \"nas.lan\"",
        ),
        test("compile", "tool = \"compile\"\nfiles = 20\njobs = 2"),
        test(
            "hub",
            "tool = \"together\"\ndirection = \"write\"\nblock_size = \"64K\"\nbytes = \"1M\"\nruntime_ms = 4000",
        ),
        test(
            "clients",
            "tool = \"clients\"\nclients = 3\nbytes = \"8M\"\nblock_size = \"4K\"\ndepth = 2",
        ),
        test("pull", "tool = \"pull\"\ndrive = \"c\"\nbytes = \"16M\""),
        test(
            "resync",
            "tool = \"resync\"\nbytes = \"32M\"\nhalf = \"bytes=5M/s\"",
        ),
    ]
    .concat()
}

#[test]
fn a_dry_run_names_what_tools_would_run_write_and_take() {
    let dir = tempfile::tempdir().unwrap();
    let mut request = request(&dir.path().join("a"), &dir.path().join("b"), dir.path());
    request.plan = with_tests(&of_every_tool());
    let said = dry_run(&request, &Directories).unwrap();
    let text = said.to_string();
    for part in [
        "dbench -t 60",
        "bonnie++ -d",
        "-s '64:8192'",
        "cp --recursive /usr/share",
        "tar --create --file",
        "stress-ng --cpu",
        "iperf3 -c nas.lan -p 5201",
        "outboard serve",
        "--uri=nbd://127.0.0.1:PORT/data",
        "# 3 at once",
        "20 C sources are made",
        "make --silent --jobs 2",
        "--name=drive-1",
        "hub writes as much as its target takes in about 4 s",
        "c.pulled",
        "outboard array create --level 1 --assume-clean",
        "throttle(",
        "samba writes as much as its target takes in about 60 s",
        "resync writes as much as its target takes",
    ] {
        assert!(text.contains(part), "{part} is not in:\n{text}");
    }
    assert!(
        !text.contains("--rw=randread"),
        "fio has nothing to do here"
    );
    assert_eq!(said.cells, 10 * 2);
    assert_eq!(said.unbounded.len(), 3);
    assert!(said.time_typical >= Nanos(2 * 70 * SECOND));
    let bonnie = 2 * (64 << 20) * 2 * u64::from(request.plan.budget.blocks_max);
    assert!(said.written_max > Bytes(bonnie), "{}", said.written_max);
    assert_eq!(names(dir.path()), Vec::<String>::new());
}

/// A directory is needed to work in.
#[test]
fn a_dry_run_leaves_out_what_a_target_cannot_take() {
    let dir = tempfile::tempdir().unwrap();
    let mut request = request(&dir.path().join("a"), &dir.path().join("b"), dir.path());
    let device = TargetSpec::at(TargetPlace::Device("/dev/nowhere".into())).named("disk");
    request.targets = vec![device];
    request.baseline = None;
    let said = dry_run(&request, &Directories).unwrap();
    // Of four tests, two write; nothing is laid out.
    assert_eq!((said.cells, said.commands.len()), (2, 2 * 2));
}
