//! What goes wrong at a user's: one clear line each, what was measured is kept, nothing is left behind.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use super::real::{directory, fio_is_here, is_empty, request, tiny};
use crate::LabError;
use crate::runner::progress::{CellProgress, Progress};
use crate::runner::scratch::Scratch;
use crate::runner::{Cancel, Directories, RunRequest, Silent, TargetSpec, run};
use crate::store::{Status, Store};

/// The error of a run as one line.
fn refused(request: &RunRequest, progress: &mut dyn Progress) -> String {
    let found = run(request, &mut Directories, progress, &Cancel::default());
    let line = found.unwrap_err().to_string();
    assert!(!line.contains('\n'), "{line}");
    line
}

/// A program that does what `script` says.
fn program(dir: &Path, script: &str) -> PathBuf {
    let path = dir.join("fio");
    fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path
}

#[test]
fn without_fio_and_with_an_old_one_the_line_says_what_to_install() {
    let dir = directory();
    let mut request = request(dir.path(), 1);
    request.fio = dir.path().join("none");
    assert_eq!(
        refused(&request, &mut Silent),
        "fio is not installed; install it with: apt install fio"
    );
    request.fio = program(dir.path(), "echo fio-2.1.11");
    let line = refused(&request, &mut Silent);
    assert!(
        line.starts_with("fio-2.1.11 is too old: version 3.5"),
        "{line}"
    );
    assert!(is_empty(&dir.path().join("a")) && is_empty(&dir.path().join("b")));
    assert!(!request.store.exists());
}

#[test]
fn a_target_without_direct_io_is_measured_through_the_cache_and_the_run_says_so() {
    if !fio_is_here() {
        return;
    }
    let dir = directory();
    let mut request = request(dir.path(), 1);
    let script = "case \"$*\" in *--direct=1*) echo 'fio: direct I/O is not supported' >&2; exit 1;; esac; exec fio \"$@\"";
    request.fio = program(dir.path(), script);
    let number = run(&request, &mut Directories, &mut Silent, &Cancel::default()).unwrap();
    let record = Store::open(&request.store).unwrap().load(number).unwrap();
    assert!(!record.manifest.direct);
    assert!(
        record
            .findings
            .iter()
            .any(|f| f.text.contains("has no direct I/O"))
    );
    assert!(record.cells.iter().all(|cell| !cell.fio().unwrap().direct));
}

#[test]
fn a_second_run_on_a_target_is_refused_and_the_first_goes_on() {
    let dir = directory();
    let request = request(dir.path(), 1);
    let held = Scratch::make(&dir.path().join("b")).unwrap();
    if fio_is_here() {
        let line = refused(&request, &mut Silent);
        assert!(
            line.starts_with("another run is measuring") && line.contains("/b;"),
            "{line}"
        );
    }
    assert!(held.own().exists());
    assert!(is_empty(&dir.path().join("a")));
    held.remove().unwrap();
}

/// A memory filesystem, where it may be mounted; unmounted when dropped.
pub(super) struct Mounted {
    pub(super) path: PathBuf,
    /// What it is in, removed after it.
    _directory: TempDir,
}

impl Mounted {
    pub(super) fn new() -> Option<Self> {
        let directory = directory();
        let path = directory.path().join("mount");
        fs::create_dir_all(&path).unwrap();
        let mount = Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=64M", "none"])
            .arg(&path)
            .output();
        let mounted = mount.is_ok_and(|output| output.status.success());
        assert!(
            mounted || std::env::var_os("OUTBOARD_REQUIRE_ALL").is_none(),
            "OUTBOARD_REQUIRE_ALL is set and nothing can be mounted"
        );
        if !mounted {
            eprintln!("skipped: nothing can be mounted here");
        }
        mounted.then_some(Self {
            path,
            _directory: directory,
        })
    }

    pub(super) fn go_away(path: &Path) {
        // Lazily: a mount that goes away under a program that has files open on it.
        Command::new("umount").arg("-l").arg(path).status().ok();
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        Self::go_away(&self.path);
    }
}

/// A run of one target on a mount, where there can be one.
fn on_mount() -> Option<(Mounted, RunRequest)> {
    if !fio_is_here() {
        return None;
    }
    let mounted = Mounted::new()?;
    let store = mounted.path.with_file_name("lab.sqlite");
    let request = RunRequest::new(tiny(2), store).on(TargetSpec::new(&mounted.path));
    Some((mounted, request))
}

/// Fills a filesystem as soon as the test file is being written to it.
struct FillUp<'a>(&'a Path);

impl Progress for FillUp<'_> {
    fn phase(&mut self, what: &str) {
        if what.starts_with("writing") {
            let filler = vec![7u8; 60 << 20];
            // It takes what it can get.
            fs::write(self.0.join("filler"), filler).unwrap_or_default();
        }
    }
    fn cell_started(&mut self, _: &CellProgress<'_>) {}
    fn cell_finished(&mut self, _: &CellProgress<'_>, _: &str) {}
}

#[test]
fn a_disk_that_is_full_or_fills_up_is_named_and_nothing_stays_on_it() {
    let Some((mounted, mut request)) = on_mount() else {
        return;
    };
    let line = refused(&request, &mut FillUp(&mounted.path));
    assert!(
        line.contains("No space left") && line.contains("/mount"),
        "{line}"
    );
    fs::remove_file(mounted.path.join("filler")).unwrap();
    assert!(is_empty(&mounted.path));
    request.plan.data.size.0 = 128 << 20;
    let line = refused(&request, &mut Silent);
    assert!(line.contains("free and the plan needs"), "{line}");
    assert!(is_empty(&mounted.path));
}

/// Takes the mount away before the third measurement.
struct GoAway<'a>(&'a Path, u32);

impl Progress for GoAway<'_> {
    fn phase(&mut self, _: &str) {}
    fn cell_started(&mut self, _: &CellProgress<'_>) {
        self.1 += 1;
        if self.1 == 3 {
            Mounted::go_away(self.0);
        }
    }
    fn cell_finished(&mut self, _: &CellProgress<'_>, _: &str) {}
}

#[test]
fn a_mount_that_goes_away_in_the_middle_ends_the_run_and_keeps_what_was_measured() {
    let Some((mounted, request)) = on_mount() else {
        return;
    };
    let found = run(
        &request,
        &mut Directories,
        &mut GoAway(&mounted.path, 0),
        &Cancel::default(),
    );
    let Err(LabError::Stopped { run, reason, .. }) = found else {
        panic!("{found:?}");
    };
    assert!(
        reason.contains("was it unmounted?") && !reason.contains('\n'),
        "{reason}"
    );
    let record = Store::open(&request.store).unwrap().load(run).unwrap();
    assert_eq!(record.cells.len(), 2);
    assert!(matches!(record.status, Status::Failed { .. }));
}

/// Fills the target before a measurement: the test files become sparse, as those of a thin disk are, and a file
/// takes all that is free.
struct LoseSpace<'a>(&'a Path, u32);

impl Progress for LoseSpace<'_> {
    fn phase(&mut self, _: &str) {}
    fn cell_started(&mut self, _: &CellProgress<'_>) {
        self.1 = self.1.wrapping_sub(1);
        if self.1 != 0 {
            return;
        }
        for folder in fs::read_dir(self.0).unwrap().flatten() {
            for entry in fs::read_dir(folder.path()).unwrap().flatten() {
                let file = fs::OpenOptions::new().write(true).open(entry.path());
                let file = file.unwrap();
                let len = file.metadata().unwrap().len();
                file.set_len(0).and_then(|()| file.set_len(len)).unwrap();
            }
        }
        // It takes what it can get.
        fs::write(self.0.join("filler"), vec![7u8; 64 << 20]).unwrap_or_default();
    }
    fn cell_finished(&mut self, _: &CellProgress<'_>, _: &str) {}
}

#[test]
fn a_target_that_fills_in_the_third_block_of_fio_ends_the_run_with_what_was_measured() {
    let Some((mounted, mut request)) = on_mount() else {
        return;
    };
    request.plan = tiny(5);
    let tests = u32::try_from(request.plan.workloads.len()).unwrap();
    let mut progress = LoseSpace(&mounted.path, 2 * tests + 1);
    let found = run(
        &request,
        &mut Directories,
        &mut progress,
        &Cancel::default(),
    );
    let Err(LabError::Stopped { run, reason, .. }) = found else {
        panic!("{found:?}");
    };
    assert!(
        reason.contains("No space left on device") && reason.contains("/mount"),
        "{reason}"
    );
    let record = Store::open(&request.store).unwrap().load(run).unwrap();
    assert!(matches!(record.status, Status::Failed { .. }));
    // Two whole blocks, and of the third what only reads.
    let whole = 2 * tests as usize;
    let made = record.cells.len();
    assert!((whole..whole + tests as usize).contains(&made), "{made}");
    assert!(record.cells.iter().all(|cell| !cell.has_failed()));
    let summary = crate::report::Summary::of(&record);
    assert!(summary.rows.iter().all(|row| row.usable >= 2));
    fs::remove_file(mounted.path.join("filler")).unwrap();
    assert!(is_empty(&mounted.path));
}
