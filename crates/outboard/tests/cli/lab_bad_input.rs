//! What goes wrong on a user's machine while `lab run` measures, and what a plan must not destroy: one clear
//! line each, what was measured is kept, and nothing is left behind. Stores are in `lab_stores`, rights in
//! `lab_permissions`.

use std::ffi::CStr;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
use testkit::{LoopDevice, TmpfsMount, requires};

use super::lab::{kept, plan, plan_of, started};
use super::{LIMIT, answer, failure, outboard, within};

const MIB: u64 = 1 << 20;
const NO_OPTIONS: Option<&CStr> = None;

fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    fs::create_dir(folder.path().join("base")).expect("a folder");
    fs::write(folder.path().join("p.toml"), plan()).expect("a plan");
    folder
}

/// The one line that a run complained in.
#[track_caller]
fn line(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let from = said.find("outboard: ");
    let from = from.unwrap_or_else(|| panic!("no message in {said:?}"));
    let line = said[from..].trim_end().to_owned();
    assert!(!line.contains('\n'), "{line}");
    line
}

fn is_empty(folder: &Path) -> bool {
    fs::read_dir(folder).expect("a folder").next().is_none()
}

/// A program in a folder of its own, which does what `script` says.
fn program(folder: &Path, name: &str, script: &str) -> PathBuf {
    let programs = folder.join("programs");
    fs::create_dir_all(&programs).expect("a folder");
    let path = programs.join(name);
    fs::write(&path, format!("#!/bin/sh\n{script}\n")).expect("a file");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("ours");
    programs
}

#[test]
fn without_fio_and_with_an_old_one_it_is_said_what_to_install() {
    let folder = folder();
    let told = |programs: &Path| {
        let words = ["lab", "run", "p.toml", "base"];
        let mut command = outboard(folder.path(), &words);
        let command = command.env("PATH", programs).stdin(Stdio::null());
        line(&command.output().expect("it runs"))
    };
    assert_eq!(
        told(&folder.path().join("base")),
        "outboard: fio is not installed; install it with: apt install fio"
    );
    let line = told(&program(folder.path(), "fio", "echo fio-2.1.11"));
    assert!(
        line.contains("fio-2.1.11 is too old: version 3.5"),
        "{line}"
    );
    assert!(is_empty(&folder.path().join("base")));
    assert!(!folder.path().join("data").exists(), "no store was made");
}

#[test]
fn a_disk_without_room_is_named_with_what_is_needed() {
    let needs = [requires::root(), requires::command("fio")];
    if !requires::all(&needs) {
        return;
    }
    let folder = folder();
    let small = TmpfsMount::of_size(8 * MIB).expect("a small disk");
    let at = small.path().to_string_lossy().into_owned();
    let (status, told) = failure(folder.path(), &["lab", "run", "p.toml", &at]);
    assert_eq!(status, Some(1));
    assert!(
        told.contains(&at) && told.contains("free and the plan needs 48 MiB"),
        "{told}"
    );
    assert!(is_empty(small.path()));
}

/// fio does not use direct I/O on the target.
#[test]
fn a_target_without_direct_io_is_measured_through_the_cache_and_that_is_said() {
    if !requires::all(&[requires::command("fio")]) {
        return;
    }
    let folder = folder();
    let script = "case \"$*\" in *--direct=1*) echo 'fio: direct I/O is not supported' >&2; exit 1;; esac\n\
                  exec \"$(PATH=$REAL_PATH command -v fio)\" \"$@\"";
    let programs = program(folder.path(), "fio", script);
    let real = std::env::var("PATH").expect("a path");
    let words = ["lab", "run", "p.toml", "base", "--small"];
    let mut command = outboard(folder.path(), &words);
    command.env("REAL_PATH", &real);
    command.env("PATH", format!("{}:{real}", programs.display()));
    let output = command.stdin(Stdio::null()).output().expect("it runs");
    assert!(output.status.success(), "{output:?}");
    let table = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        table.contains(
            "Note: a target has no direct I/O, so all of them were measured through the page cache."
        ),
        "{table}"
    );
}

#[test]
fn a_second_run_on_a_target_is_refused_and_a_mount_that_goes_away_ends_the_first_with_what_it_has()
{
    let needs = [requires::root(), requires::command("fio")];
    if !requires::all(&needs) {
        return;
    }
    let folder = folder();
    fs::write(folder.path().join("p.toml"), plan_of(100)).expect("a plan");
    let disk = TmpfsMount::of_size(64 * MIB).expect("a disk");
    let at = disk.path().to_string_lossy().into_owned();
    let first = started(folder.path(), &at, &[]);
    // Before each measurement the run waits until the machine is idle, for a while.
    within(5 * LIMIT, || {
        kept(folder.path(), &[]).filter(|cells| *cells > 1)
    });
    let (status, told) = failure(folder.path(), &["lab", "run", "p.toml", &at]);
    assert_eq!(status, Some(1));
    assert!(
        told.contains(&format!("another run is measuring {at}; wait")),
        "{told}"
    );
    unmount(disk.path(), UnmountFlags::DETACH).expect("it was mounted");
    let output = first.wait_with_output().expect("it ends");
    let line = line(&output);
    for part in [
        at.as_str(),
        "was it unmounted?",
        "whole blocks were kept as run 1",
        "`outboard lab run --resume=1` goes on with it",
    ] {
        assert!(line.contains(part), "{part} is not in {line}");
    }
    assert!(kept(folder.path(), &[]) > Some(1));
    let table = answer(folder.path(), &["lab", "report"]);
    assert!(table.contains("was it unmounted?"), "{table}");
    // For the guard, which unmounts.
    mount(
        "none",
        disk.path(),
        "tmpfs",
        MountFlags::empty(),
        NO_OPTIONS,
    )
    .expect("as it was");
}

/// A plan that writes to a disk without a filesystem.
fn raw(folder: &Path, target: &str) {
    let text = plan().replace("direction = \"read\"", "direction = \"write\"");
    let target = format!(
        "\n[[target]]\nname = \"disk\"\ntitle = \"The disk\"\nkind = \"raw\"\n{target}\nwrites = true\n"
    );
    fs::write(folder.join("p.toml"), text + &target).expect("a plan");
}

/// What has data on it is not written by a plan, with any serial.
#[test]
fn a_disk_with_something_on_it_is_never_written() {
    let needs = [
        requires::root(),
        requires::loop_device(),
        requires::command("fio"),
        requires::command("mkfs.ext4"),
        requires::command("blkid"),
    ];
    if !requires::all(&needs) {
        return;
    }
    let folder = folder();
    let image = folder.path().join("disk.img");
    let file = fs::File::create_new(&image).expect("a file");
    file.set_len(64 * MIB).expect("there is space");
    let device = LoopDevice::over(&image).expect("a device");
    let made = Command::new("mkfs.ext4")
        .arg("-q")
        .arg(device.path())
        .status();
    assert!(made.expect("it runs").success());
    let link = folder.path().join("link");
    symlink(device.path(), &link).expect("a link");
    let path = |path: &Path| path.to_string_lossy().into_owned();
    let refused = |target: &str, words: &str| {
        let before = fs::read(&image).expect("the disk");
        raw(folder.path(), target);
        for typed in [&[][..], &["--write-serial", "1"]] {
            let run = [&["lab", "run", "p.toml", "base"], typed].concat();
            let (status, told) = failure(folder.path(), &run);
            assert_eq!(status, Some(1), "{told}");
            assert!(!told.contains('\n') && told.contains(words), "{told}");
        }
        assert!(fs::read(&image).expect("the disk") == before, "{target}");
    };
    let of = |path: &str| format!("device = \"{path}\"");
    refused(&of(&path(device.path())), "holds ext4");
    refused(&of(&path(&link)), "holds ext4");
    refused(&of(&path(&image)), "is not written");
    refused(&format!("disk = \"{}\"", path(&image)), "is not written");
    let at = folder.path().join("mnt");
    fs::create_dir(&at).expect("a folder");
    mount(
        device.path(),
        at.as_path(),
        "ext4",
        MountFlags::RDONLY,
        NO_OPTIONS,
    )
    .expect("a mount");
    let refusing = std::panic::AssertUnwindSafe(|| {
        refused(&of(&path(device.path())), "is mounted on");
        refused(&of(&path(&link)), "is mounted on");
    });
    let ended = std::panic::catch_unwind(refusing);
    unmount(at.as_path(), UnmountFlags::empty()).expect("nothing uses it");
    ended.expect("each was refused");
}
